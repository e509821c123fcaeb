"""Matched layers: where the points of a grid find what they keep, and the numbers of the layers.

The points of both layers of an axis lie one behind the other in the arrays with what they keep: a
slot for each point of the lower layer, and then one for each point of the upper one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import InvalidValue
from tikgen.expression.stretching import CHANGE, DECAY, GAIN, PLACES, ROWS, profile_of
from tikgen.template.boundaries import AXES, is_by_field, side_rules
from tikgen.template.layers import WIDEST, Part
from tikgen.template.parameters import Invalid
from tikgen.template.written_rules import is_number

# The number of points of the lower and of the upper layer, for each axis that has one.
Widths = Mapping[int, tuple[int, int]]
EXPONENT = 3


def matched_axes(boundary: Any, dim: int) -> dict[str, frozenset[int]]:
    """Return the axes with matched layers for each field; those of all fields for ""."""
    given = boundary if is_by_field(boundary) else {"": boundary}
    found = {name: frozenset(_widths(rules, dim)) for name, rules in given.items()}
    return {name: axes for name, axes in found.items() if axes}


def matched_widths(boundary: Any, dim: int) -> Widths:
    """Return the widths of matched layers; those of one field, as all have the same."""
    given = boundary.values() if is_by_field(boundary) else (boundary,)
    return {axis: pair for rules in given for axis, pair in _widths(rules, dim).items()}


def _widths(rules: Any, dim: int) -> Widths:
    found = {}
    for axis in range(dim):
        pair = tuple(
            rule[1] if isinstance(rule, tuple) and rule[0] == "cpml" else 0
            for rule in side_rules(rules, axis)
        )
        if any(pair):
            found[axis] = (pair[0], pair[1])
    return found


def check_matched(boundary: Any, dim: int, dtype: DType, stretched: Iterable[int]) -> None:
    """Raise :class:`Invalid` for matched layers that differ, or that change nothing.

    Args:
        boundary: what a user wrote.
        dim: number of axes.
        dtype: the dtype in which is computed.
        stretched: the axes along which equations take derivatives that layers change.
    """
    given = boundary if is_by_field(boundary) else {"": boundary}
    known: dict[int, tuple[str, tuple[int, int]]] = {}
    for name, rules in given.items():
        for axis in range(dim):
            for rule in side_rules(rules, axis):
                if isinstance(rule, tuple) and rule[0] == "cpml" and not 1 <= rule[1] <= WIDEST:
                    problem = f"an absorbing layer has a width from 1 to {WIDEST} points"
                    raise Invalid("boundary", f"does not fit: {problem}; got {rule[1]}")
        for axis, pair in _widths(rules, dim).items():
            other, first = known.setdefault(axis, (name, pair))
            if pair != first:
                raise Invalid(
                    "boundary",
                    f"has layers of kind 'cpml' of {first[0]} and {first[1]} points on axis "
                    f"{AXES[axis]} for {other}, and of {pair[0]} and {pair[1]} for {name}; all "
                    "fields that have them take the same",
                )
    if known and not dtype.is_float:
        raise Invalid("boundary", f"has layers of kind 'cpml', which need floats; got {dtype}")
    for axis in known:
        if axis not in stretched:
            letter = AXES[axis]
            raise Invalid(
                "boundary",
                f"has a layer of kind 'cpml' on axis {letter}, which changes derivatives such as "
                f"d{letter}(u), and the equations take none there of a field that has it; write "
                "what they take as neighbours as a derivative, or take a layer of kind 'sponge'",
            )


def within_code(width: tuple[int, int], index: str, extent: str, is_part: bool = False) -> str:
    """Return code that says whether a point lies in a layer of an axis.

    Args:
        width: number of points of the lower and of the upper layer.
        index: code for the index of the point.
        extent: code for the extent of the grid.
        is_part: whether arrays hold a part of the grid, so that their points may lie outside of it.
    """
    low, high = width
    lower = f"0 <= {index} < {low}" if is_part else f"{index} < {low}"
    upper = (
        f"{extent} - {high} <= {index} < {extent}" if is_part else f"{index} >= {extent} - {high}"
    )
    return " or ".join([*([lower] if low else []), *([upper] if high else [])])


def slot_code(width: tuple[int, int], index: str, extent: str) -> str:
    """Return code for the slot of a point that lies in a layer of an axis."""
    low, high = width
    from_end = f"{index} - {extent} + {low + high}"
    if not (low and high):
        return index if low else from_end
    return f"ti.select({index} < {low}, {index}, {from_end})"


def slots(
    width: tuple[int, int], extent: int, part: tuple[int, int] | None
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the indices of the points in layers of an axis, and the slot of each of them.

    Args:
        width: number of points of the lower and of the upper layer.
        extent: number of points of the array.
        part: where they lie on a larger grid: the index of the first one, and its extent.
    """
    first, whole = part or (0, extent)
    low, high = width
    index = np.arange(extent)
    place = index + first
    is_low = place < low
    slot = np.where(is_low, place, place - whole + low + high)
    found = (is_low | (place >= whole - high)) & (place >= 0) & (place < whole)
    return index[found], slot[found]


def along(values: npt.NDArray[Any], axis: int, dim: int) -> npt.NDArray[Any]:
    """Return numbers along an axis in the shape in which they apply to a grid."""
    return values.reshape([-1 if a == axis else 1 for a in range(dim)])


def spread(
    kept: npt.NDArray[Any],
    axis: int,
    width: tuple[int, int],
    shape: tuple[int, ...],
    part: Part | None,
) -> npt.NDArray[Any]:
    """Return what is kept in layers of an axis as an array over the grid, 0 outside of layers."""
    found = np.zeros(shape, kept.dtype)
    index, slot = slots(width, shape[axis], part[axis] if part else None)
    np.moveaxis(found, axis, 0)[index] = np.moveaxis(kept, axis, 0)[slot]
    return found


def gather(
    kept: npt.NDArray[Any],
    new: npt.NDArray[Any],
    axis: int,
    width: tuple[int, int],
    computed: tuple[slice, ...],
    part: Part | None,
) -> None:
    """Set what is kept in layers of an axis to new values, at the points that are computed."""
    index, slot = slots(width, new.shape[axis], part[axis] if part else None)
    is_computed = np.isin(index, np.arange(new.shape[axis])[computed[axis]])
    index, slot = index[is_computed], slot[is_computed]
    whole = (slice(None), *(own for other, own in enumerate(computed) if other != axis))
    inner = np.moveaxis(kept, axis, 0)[whole]
    inner[slot] = np.moveaxis(new, axis, 0)[index][whole]


def matched_layers(
    kernel: Any,
    shape: tuple[int, ...],
    courant: float,
    *,
    reflection: float = 1e-6,
    shift: float = 0.02,
    stretch: float = 1.0,
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that a kernel of `tikgen.update` takes for its layers of kind "cpml".

    At a depth s in a layer of L points, from 0 at its inner edge to 1 at the wall, a derivative
    along the axis is divided by ``k + d / (a + i w)`` for a wave that turns by w an update. Here
    ``d = -2 courant log(reflection) / L s**3``, ``k = 1 + (stretch - 1) s**3``, and
    ``a = shift (1 - s)`` (Roden and Gedney, Microw. Opt. Technol. Lett. 27, 2000; Komatitsch and
    Martin, Geophysics 72, 2007). NumPy arrays are made; arrays of Taichi or torch may hold the
    same.

    Args:
        kernel: the kernel.
        shape: shape of its fields, without components.
        courant: how many points the fastest wave runs in an update, ``speed * dt / spacing``.
        reflection: what the layer sends back of the amplitude of a wave that meets it at a right
            angle, by the continuous equations.
        shift: how much waves are damped that are so slow that they hardly turn, as an angle an
            update. Without it, what is left of a pulse stays in thin layers.
        stretch: the greatest number by which real coordinates are stretched, which damps waves
            that run along the layer.

    Returns:
        ``cpml_x`` and its like, the numbers of the layers along each axis, which may be passed to
        several kernels with the same layers; and, for each derivative, what layers keep of it, 0 at
        first, such as ``cpml_dx_p``. These belong to one kernel and its fields.

    Raises:
        InvalidValue: if the kernel has no such layers, the shape has another number of axes, or a
            number is out of range.
    """
    problem = getattr(kernel, "problem", None)
    boundary, dim = getattr(problem, "boundary", None), getattr(problem, "dim", 0)
    widths = matched_widths(boundary, dim) if boundary is not None else {}
    numbers = {"courant": courant, "reflection": reflection, "shift": shift, "stretch": stretch}
    wrong = {}
    if not widths:
        wrong["kernel"] = (
            f"takes a kernel with layers; {getattr(kernel, 'name', kernel)!s} has no layers of "
            "kind 'cpml'; make them by boundary=tikgen.absorbing(10, kind='cpml')"
        )
    elif not hasattr(shape, "__len__") or isinstance(shape, str) or len(shape) != dim:
        wrong["shape"] = f"takes {dim} extents, for the fields of {kernel.name} have {dim} axes; "
        wrong["shape"] += f"got the shape {shape!r:.60}"
    elif not all(isinstance(n, Integral) for n in shape):
        wrong["shape"] = f"takes whole numbers; got {shape!r:.60}"
    elif words := [n for n, v in numbers.items() if not is_number(v)]:
        wrong = {name: f"takes a number; got {numbers[name]!r}" for name in words}
    elif not 0 < courant <= 10:
        wrong["courant"] = f"takes points an update above 0 and at most 10; got {courant!r}"
    elif not 0 < reflection < 1:
        wrong["reflection"] = f"takes a number between 0 and 1; got {reflection!r}"
    elif not 0 <= shift <= 1:
        wrong["shift"] = f"takes a number from 0 to 1; got {shift!r}"
    elif not 1 <= stretch <= 100:
        wrong["stretch"] = f"takes a number from 1 to 100; got {stretch!r}"
    if wrong:
        raise InvalidValue("matched_layers", wrong)
    extents = {f"n{axis}": int(n) for axis, n in enumerate(shape)}
    profiles = {
        profile_of(axis): _numbers(pair, courant, reflection, shift, stretch)
        for axis, pair in widths.items()
    }
    found = {}
    for argument in kernel.signature.arguments:
        if argument.name.startswith("cpml_"):
            wanted, kind = [extents.get(n, n) for n in argument.shape], argument.dtype.numpy
            values = profiles.get(argument.name)
            # A grid keeps a part of the zeros: nothing touches them here.
            found[argument.name] = np.zeros(wanted, kind) if values is None else values.astype(kind)
    return found


def _numbers(
    width: tuple[int, int], courant: float, reflection: float, shift: float, stretch: float
) -> npt.NDArray[np.float64]:
    """Return the numbers of the layers along an axis, by place, row and slot."""
    low, high = width
    found = np.zeros((PLACES, len(ROWS), low + high))
    for place in range(PLACES):
        # How far places lie from the lower wall, and from the upper one.
        offset = (place - 1) / 2
        from_wall = np.arange(low) + offset, high - np.arange(high) - offset
        depth = [np.clip(1 - d / w, 0, 1) for d, w in zip(from_wall, width, strict=True) if w]
        size = np.repeat(width, width)
        s = np.concatenate(depth)
        damping = -(EXPONENT + 1) / 2 * courant * np.log(reflection) / size * s**EXPONENT
        factor = 1 + (stretch - 1) * s**EXPONENT
        shifted = shift * (1 - s)
        rate = damping / factor + shifted
        decay = np.exp(-rate)
        whole = factor * (damping + factor * shifted)
        gain = damping * (decay - 1) / np.where(whole > 0, whole, 1)
        found[place, DECAY], found[place, GAIN] = decay, gain
        found[place, CHANGE] = 1 / factor - 1
    return found
