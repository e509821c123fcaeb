"""Runs a variant once on made-up data and compares it with its reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import taichi as ti

from tikgen import taichi_bridge as bridge
from tikgen.arguments import Argument, Array, Scalar, concrete_shape
from tikgen.builder import build, resolve
from tikgen.template import NDArray, Template
from tikgen.verification.case import Container, Data, Outcome
from tikgen.verification.compare import compare
from tikgen.verification.data import (
    Guarded,
    OnDevice,
    differs,
    other_poison,
    poison,
    random_values,
)


class Trial:
    """One launch of a variant on made-up data.

    Outputs are poisoned before the launch: what the reference leaves alone must keep the poison
    bit for bit, and so must the memory around NumPy arrays. Inputs must stay as they were.

    Args:
        template: the template.
        params: its parameters.
        sizes: value of each size symbol.
        seed: seed of the random data.
        data: what kind of numbers, see :class:`Case`.
        container: what holds arrays that are no fields.
        inplace: whether outputs share the array of an input, where the kernel allows it.

    Raises:
        TikgenError: if the variant cannot be built.
    """

    def __init__(
        self,
        template: Template,
        params: Mapping[str, Any],
        *,
        sizes: Mapping[str, int],
        seed: int = 0,
        data: Data = "whole",
        container: Container = "numpy",
        inplace: bool = False,
    ) -> None:
        self.kernel = build(template, **params)
        # The kernel may have come from another variant with the same code, and with another
        # reference if the template is wrong.
        self._template = template
        self._problem = resolve(template, **params).problem
        self.arguments = template.arguments(self._problem)
        self._container = container
        self._owner = self._shared_arrays(sizes) if inplace else {}
        rng = np.random.default_rng(seed)
        special = template.inputs(self._problem, sizes, rng)
        self._start = {
            a.name: self._value(a, sizes, data, rng, special)
            for a in self.arguments
            if a.name not in self._owner
        }
        for name, owner in self._owner.items():
            self._start[name] = self._start[owner]

    def run(self) -> Outcome:
        """Launch the kernel and return how its results compare with the reference."""
        boxes: dict[str, Guarded | OnDevice] = {}
        for array in self._arrays():
            if array.name not in self._owner:
                boxes[array.name] = self._box(array, self._start[array.name])
        for name, owner in self._owner.items():
            boxes[name] = boxes[owner]
        # A device may hand back another NaN than it was given, so that what it holds counts.
        before = {name: box.read() for name, box in boxes.items()}
        with np.errstate(all="ignore"):
            expected, kept = self._expected(before)
            tolerance = self._template.tolerance(self._problem, self._copies(before), expected)
        values = [
            boxes[a.name].value if isinstance(a, Array) else self._start[a.name]
            for a in self.arguments
        ]
        self.kernel(*values)
        ti.sync()
        after = {name: box.read() for name, box in boxes.items()}
        for name, box in boxes.items():
            outside = box.writes_outside()
            if outside:
                return self._wrong(f"the kernel writes outside {name}, {outside}")
        return self._judged(before, after, expected, kept, tolerance)

    def _judged(
        self,
        before: Mapping[str, NDArray],
        after: Mapping[str, NDArray],
        expected: Mapping[str, NDArray],
        kept: Mapping[str, NDArray],
        tolerance: Mapping[str, Any],
    ) -> Outcome:
        worst, error = 0.0, 0.0
        for array in self._arrays():
            name, changed = array.name, differs(before[array.name], after[array.name])
            if name in expected:
                touched = changed & kept[name]
                if touched.any():
                    place, value = _first(touched, after[name])
                    return self._wrong(
                        f"{name}[{place}] must stay untouched, and holds {value} now"
                    )
                verdict = compare(name, after[name], expected[name], tolerance.get(name, 0))
                worst, error = max(worst, verdict.worst), max(error, verdict.error)
                if verdict.message:
                    return self._wrong(verdict.message, worst, error)
            elif changed.any() and name not in self._owner.values():
                place, value = _first(changed, after[name])
                return self._wrong(f"the input {name} was changed: {name}[{place}] is {value} now")
        return Outcome("passed", "", self.kernel.digest, worst, error)

    def _wrong(self, message: str, worst: float = float("inf"), error: float = 0.0) -> Outcome:
        return Outcome("mismatch", message, self.kernel.digest, worst, error)

    def _arrays(self) -> list[Array]:
        return [a for a in self.arguments if isinstance(a, Array)]

    def _shared_arrays(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return for each output that may be done in place the input whose array it shares."""
        free = [a for a in self._arrays() if not a.written]
        shared = {}
        for output in self._arrays():
            for array in free if output.written and output.inplace else ():
                like = (array.dtype, array.storage, concrete_shape(array, sizes))
                if like == (output.dtype, output.storage, concrete_shape(output, sizes)):
                    shared[output.name] = array.name
                    free.remove(array)
                    break
        return shared

    def _value(
        self,
        argument: Argument,
        sizes: Mapping[str, int],
        data: Data,
        rng: np.random.Generator,
        special: Mapping[str, Any],
    ) -> Any:
        if not isinstance(argument, Array | Scalar):
            raise TypeError(f"verification cannot make up the argument {argument.name}")
        dtype = argument.dtype
        if isinstance(argument, Scalar):
            given = special.get(argument.name, random_values(dtype, (1,), data, rng)[0])
            return dtype.numpy.type(given).item()
        shape = concrete_shape(argument, sizes)
        if argument.name in special:
            values = np.asarray(special[argument.name], dtype.numpy)
            if values.shape != shape:
                raise ValueError(f"inputs() gives {argument.name} the shape {values.shape}")
            return values
        if argument.role == "out":
            return np.full(shape, poison(dtype), dtype.numpy)
        return random_values(dtype, shape, data, rng)

    def _box(self, array: Array, values: NDArray) -> Guarded | OnDevice:
        if array.storage == "field":
            return OnDevice(values, ti.field(getattr(ti, array.dtype.value), values.shape))
        if self._container == "ndarray":
            return OnDevice(values, bridge.make_ndarray(array.dtype.value, values.shape))
        return Guarded(values, array.dtype)

    def _expected(
        self, before: Mapping[str, NDArray]
    ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return what each output must hold, and where the kernel must not write to it.

        Where another value in the output beforehand changes what is expected, the reference
        leaves the output alone.
        """
        expected = self._reference(self._copies(before))
        other = self._copies(before)
        for array in self._arrays():
            if array.role == "out" and array.name not in self._owner:
                other[array.name].fill(other_poison(array.dtype))
        kept = {}
        for name, again in self._reference(other).items():
            kept[name] = (again != expected[name]) & ~(np.isnan(again) & np.isnan(expected[name]))
        return expected, kept

    def _reference(self, values: dict[str, Any]) -> dict[str, NDArray]:
        found = self._template.reference(self._problem, *values.values())
        outputs = [array for array in self._arrays() if array.written]
        results = found if isinstance(found, tuple) else (found,)
        if len(results) != len(outputs):
            raise ValueError(f"reference() returns {len(results)} arrays, not {len(outputs)}")
        expected = {a.name: np.asarray(r) for a, r in zip(outputs, results, strict=True)}
        for name, result in expected.items():
            if result.shape != values[name].shape:
                raise ValueError(
                    f"reference() gives {name} the shape {result.shape}, not {values[name].shape}"
                )
        return expected

    def _copies(self, before: Mapping[str, NDArray]) -> dict[str, Any]:
        return {
            a.name: before[a.name].copy() if isinstance(a, Array) else self._start[a.name]
            for a in self.arguments
        }


def _first(where: NDArray, values: NDArray) -> tuple[str, str]:
    """Return the first place that is marked, and the value there."""
    place = tuple(int(i[0]) for i in np.nonzero(where))
    return ", ".join(map(str, place)), str(values[place])
