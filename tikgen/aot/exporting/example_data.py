"""Inputs that prove artefacts: made up, or given by the user and kept in the bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tikgen.aot import manifest as m
from tikgen.aot.exporting.export_plan import KernelPlan
from tikgen.dtypes import DType
from tikgen.errors import ExportError
from tikgen.template.arguments import split_extent

# Extents of axes of any size: small ones, of which the first is no power of two.
EXTENTS = (7, 16, 12)
# What rounding may cost, in units in the last place of the largest value, and of 1.
_UNITS, _UNITS_OF_F16, _UNITS_OF_1 = 256, 16, 4


def sizes_for(arguments: Sequence[m.Argument], number: int) -> dict[str, int]:
    """Return the same size for all symbols, so that all arrays fit together."""
    extent = EXTENTS[number % len(EXTENTS)]
    found = [split_extent(e)[0] for a in arguments for e in a.shape]
    return {symbol: extent for symbol in found if symbol is not None}


def sizes_of(argument: m.Argument, shape: Sequence[int]) -> dict[str, int]:
    """Return the value of each size symbol of an array of a given shape."""
    found = {}
    for extent, given in zip(argument.shape, shape, strict=False):
        symbol, more = split_extent(extent)
        if symbol is not None:
            found[symbol] = given - more
    return found


def shape_of(argument: m.Argument, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape of an array in NumPy, with the axes of its elements behind its own."""
    shape = []
    for extent in argument.shape:
        symbol, more = split_extent(extent)
        shape.append(more if symbol is None else sizes[symbol] + more)
    return (*shape, *argument.element)


def made_up(
    arguments: Sequence[m.Argument],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a random value for each argument that is not ``given``, by name.

    Floats are in [-1, 1), integers in [0, 4). ``sizes`` has the value of each size symbol.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        dtype = DType(argument.dtype)
        shape = shape_of(argument, sizes)
        if given is not None and argument.name in given:
            values[argument.name] = np.array(given[argument.name], dtype.numpy, order="C")
        elif dtype.is_float:
            values[argument.name] = rng.uniform(-1, 1, shape).astype(dtype.numpy)
        else:
            values[argument.name] = rng.integers(0, 4, shape).astype(dtype.numpy)
        if argument.kind == "scalar":
            values[argument.name] = values[argument.name].item()
    return values


def data_file(name: str) -> str:
    """Return the file in the bundle that holds the examples of a user's own kernel."""
    return f"proofs/{name}.npz"


def checked_examples(
    kernel: str, arguments: Sequence[m.Argument], examples: Sequence[Sequence[Any]]
) -> tuple[tuple[Any, ...], ...]:
    """Return copies of examples as a launch takes them; raise ExportError if one does not fit."""
    names = ", ".join(a.name for a in arguments)
    found = []
    for example in examples:
        if not isinstance(example, list | tuple) or len(example) != len(arguments):
            count = len(example) if isinstance(example, list | tuple) else repr(example)[:40]
            raise ExportError(
                kernel, f"an example has {count} values; it takes {names or 'none'}, as a tuple"
            )
        pairs = zip(arguments, example, strict=True)
        found.append(tuple(_checked(kernel, argument, value) for argument, value in pairs))
    return tuple(found)


def _checked(kernel: str, argument: m.Argument, value: Any) -> Any:
    dtype = np.dtype(DType(argument.dtype).numpy)
    array = np.array(value, dtype if isinstance(value, list | tuple) else None, order="C")
    ndim = len(argument.shape) + len(argument.element)
    if argument.kind == "scalar" and array.ndim == 0 and array.dtype.kind in "biuf":
        return array.item()
    trailing = array.shape[len(argument.shape) :]
    if array.ndim != ndim or array.dtype != dtype or trailing != argument.element:
        wanted = "a number" if argument.kind == "scalar" else f"{argument.dtype} of {ndim} axes"
        raise ExportError(
            kernel,
            f"an example gives {argument.name!r} {array.dtype}{list(array.shape)}; it is {wanted}",
        )
    return array


def write_data(kernel: KernelPlan, count: int, seed: int, file: Path) -> None:
    """Write the examples of a user's own kernel, if any, and the results of its reference."""
    if not (kernel.check.reference or kernel.check.examples):
        return
    arguments = kernel.entry.arguments
    rng = np.random.default_rng(seed)
    given = _given(kernel) or [
        made_up(arguments, sizes_for(arguments, n), rng) for n in range(count)
    ]
    arrays: dict[str, Any] = dict(_arrays(kernel, given))
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, **arrays)


def is_current(kernel: KernelPlan, file: Path | None) -> bool:
    """Return whether a file holds the current examples of a kernel and their results."""
    if not (kernel.check.reference or kernel.check.examples):
        return True
    if file is None:
        return False
    with np.load(file) as data:
        held = {name: data[name] for name in data.files}
    try:
        now = _arrays(kernel, _given(kernel) or _values(held))
    except ExportError:
        return False
    return held.keys() == now.keys() and all(
        held[n].dtype == now[n].dtype and held[n].tobytes() == now[n].tobytes() for n in held
    )


def count_of(file: Path) -> int:
    """Return the number of examples in a file."""
    with np.load(file) as data:
        return len({name.partition("/")[0] for name in data.files})


def has_wanted(file: Path) -> bool:
    """Return whether a file holds results of a reference."""
    with np.load(file) as data:
        return any("/wanted/" in name for name in data.files)


def _given(kernel: KernelPlan) -> list[dict[str, Any]]:
    names = [a.name for a in kernel.entry.arguments]
    return [dict(zip(names, example, strict=True)) for example in kernel.check.examples]


def _values(held: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
    """Return the arguments of each example in a file."""
    found: dict[int, dict[str, Any]] = {}
    for place, array in held.items():
        number, what, name = place.split("/")
        if what == "values":
            found.setdefault(int(number), {})[name] = array if array.ndim else array.item()
    return [found[number] for number in sorted(found)]


def _arrays(
    kernel: KernelPlan, given: Sequence[Mapping[str, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for number, values in enumerate(given):
        arrays |= {f"{number}/values/{n}": np.asarray(v) for n, v in values.items()}
        wanted = _wanted(kernel, values)
        arrays |= {f"{number}/wanted/{n}": v for n, v in wanted.items()}
    return arrays


def _wanted(kernel: KernelPlan, values: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return what the reference, if any, computes for written arrays and fields."""
    if kernel.check.reference is None:
        return {}
    name, arguments = kernel.entry.name, kernel.entry.arguments
    copies = [np.array(v) if isinstance(v, np.ndarray) else v for v in values.values()]
    try:
        wanted = kernel.check.reference(*copies)
    except Exception as error:
        raise ExportError(name, f"its reference fails: {type(error).__name__}: {error}") from None
    shapes = {a.name: np.shape(values[a.name]) for a in arguments if a.kind == "array"}
    shapes |= {n: (*f.shape, *f.element) for n, f in kernel.fields.items()}
    if not isinstance(wanted, Mapping) or not wanted or wanted.keys() - shapes.keys():
        raise ExportError(
            name,
            f"its reference returns {wanted!r:.80}; it must return a dict from names of arrays "
            f"({', '.join(sorted(shapes))}) to their values after a launch",
        )
    found = {n: np.asarray(held) for n, held in wanted.items()}
    for array, held in found.items():
        if held.shape != shapes[array] or held.dtype.kind not in "biuf":
            raise ExportError(
                name,
                f"its reference returns {array!r} as {held.dtype}{list(held.shape)}; the shape is "
                f"{list(shapes[array])}",
            )
    return found


def worst_error(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Return the greatest error of an array as a fraction of what rounding may cost.

    Two compilers may contract and reorder: floats may differ by some units in the last place of
    the largest value, and of 1, the size of the inputs, which may cancel. Integers, infinities and
    NaN must be equal.
    """
    if got.shape != wanted.shape:
        return float("inf")
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    one, other = got[finite].astype(np.longdouble), wanted[finite].astype(np.longdouble)
    if not one.size:
        return 0.0
    if not np.isfinite(one).all():
        return float("inf")
    units = _UNITS_OF_F16 if got.dtype.itemsize == 2 else _UNITS
    allowed = float(np.finfo(got.dtype).eps) * (units * float(np.abs(other).max()) + _UNITS_OF_1)
    return float(np.abs(one - other).max() / allowed)
