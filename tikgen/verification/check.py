"""Runs a variant once on random data, and compares it with its reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import taichi as ti

from tikgen import engines
from tikgen.engines import direct_cpu
from tikgen.errors import TemplateError
from tikgen.pipeline.builder import build, resolve
from tikgen.pipeline.direct import direct_for
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi import arrays, runtime
from tikgen.template.arguments import Argument, Array, Scalar, concrete_shape
from tikgen.template.base import NDArray, Template
from tikgen.template.blame import as_dict, blamed
from tikgen.template.declared import as_numbers
from tikgen.template.outputs import allowed_errors, in_order
from tikgen.verification.case import Container, Data, Outcome
from tikgen.verification.compare import compare
from tikgen.verification.data import (
    Fence,
    Guarded,
    OnDevice,
    differs,
    is_near_the_ends,
    output_poison,
    poison,
    random_values,
    scratch_poison,
)
from tikgen.verification.device_fences import FencedOnDevice
from tikgen.verification.diagnosis import check_unchanged
from tikgen.verification.sharing import shared_arrays

Box = Guarded | OnDevice | FencedOnDevice
# A launch is repeated for no longer than that.
_REPEATED_SECONDS = 0.002


class Trial:
    """One launch of a variant on random data.

    Outputs and workspaces hold poison before the launch. What the reference leaves alone must keep
    its poison bit for bit, and so must the memory around NumPy arrays. Inputs must not change.

    Args:
        template: the template.
        params: its parameters.
        sizes: value of each size symbol.
        seed: seed of the random data.
        data: kind of numbers, see :class:`Case`.
        container: what holds arrays that are no fields.
        inplace: for each output the input whose array it shares, where the kernel allows it; True
            for the first one that fits.
        baked: whether the kernel is built for these very sizes.
        engine: what launches the kernel, see :meth:`Kernel.with_engine`.
        repeats: how often NumPy arrays are launched again on cpu, as far as that is quick: threads
            that race give another result now and then.
        launch: launches with the arguments; None launches the kernel.
        arch: arch of the schedule; None for the current one.
        kernel: the kernel; None for that of the variant.

    Raises:
        TikgenError: if the variant cannot be built, or ``inputs`` of the template fails.
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
        inplace: bool | Mapping[str, str] = False,
        baked: bool = False,
        engine: str = engines.TAICHI,
        repeats: int = 0,
        launch: Callable[[Sequence[Any]], object] | None = None,
        arch: str | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self._launch = launch or self._launch_kernel
        shape = dict(sizes) if baked else None
        made = kernel or build(template, shape=shape, arch=arch, **params)
        self.kernel = made.with_engine(engine)
        self._engine = self.launched_by = engine
        self._repeats, self._data = repeats, data
        # The kernel may be that of another variant with the same code, and another reference.
        self._template = template
        variant = resolve(template, arch=arch, **params)
        self._problem = variant.problem
        self._steps = [n for _, n in variant.schedule if type(n) is int and n > 1]
        self.arguments = template.arguments(self._problem)
        self._container = container
        self._scratch: dict[str, Box] = {}
        self._seed = seed
        # Not the last digit: full launches of two sizes have even and odd seeds.
        self._guards_are_low = seed // 2 % 2 == 1
        side: Fence = "before" if seed // 4 % 2 else "behind"
        self._fence = side if container == "fenced" else None
        self._owner = shared_arrays(self.arguments, sizes, inplace)
        rng = np.random.default_rng(seed)
        began = time.perf_counter()
        special = self._inputs(sizes, rng)
        self._seconds = time.perf_counter() - began
        self._poisoned = [
            a
            for a in self._arrays()
            if a.role == "out" and a.name not in self._owner and a.name not in special
        ]
        self._start = {
            a.name: self._value(a, sizes, data, rng, special)
            for a in self.arguments
            if a.name not in self._owner
        }
        for name, owner in self._owner.items():
            self._start[name] = self._start[owner]

    def run(self) -> Outcome:
        """Launch the kernel and return how its results compare with the reference.

        Raises:
            KernelCompileError: if Taichi refuses the kernel.
            TemplateError: if the reference or the tolerance of the template fails.
        """
        boxes: dict[str, Box] = {}
        for number, array in enumerate(self._arrays()):
            if array.name not in self._owner:
                boxes[array.name] = self._box(array, self._start[array.name], number)
        for name, owner in self._owner.items():
            boxes[name] = boxes[owner]
        # A device may return another NaN than it was given.
        before = {name: box.read() for name, box in boxes.items()}
        began = time.perf_counter()
        with np.errstate(all="ignore"):
            expected, kept = self._expected(before)
            tolerance = self._tolerance(before, expected, kept)
            if self._data == "wide":
                tolerance = self._with_ends(tolerance, expected)
        self._seconds += time.perf_counter() - began
        values = [
            boxes[a.name].value if isinstance(a, Array) else self._start[a.name]
            for a in self.arguments
        ]
        self._launch(values)
        after = {name: box.read() for name, box in boxes.items()}
        for name, box in (boxes | self._scratch).items():
            outside = box.writes_outside()
            if outside:
                return self._wrong(f"the kernel writes outside {name}, {outside}")
        outcome = self._judged(before, after, expected, kept, tolerance)
        if outcome.ok and runtime.current_arch() == "cpu":
            for how, again in self._repeated(boxes, before, values):
                if any(differs(again[name], after[name]).any() for name in after):
                    # Not wrong in itself: atomic sums take another order.
                    outcome = self._judged(before, again, expected, kept, tolerance)
                if not outcome.ok:
                    message = f"{outcome.message}; {how}the same launch was right before"
                    return replace(outcome, message=message)
        return outcome

    def _repeated(
        self, boxes: Mapping[str, Box], before: Mapping[str, NDArray], values: Sequence[Any]
    ) -> Iterator[tuple[str, dict[str, NDArray]]]:
        """Yield how, and what arrays hold after further launches with the same data.

        Those that are like the first one take little time.
        """
        if not self._repeats or any(isinstance(box, OnDevice) for box in boxes.values()):
            return

        def launch() -> dict[str, NDArray]:
            for name, box in boxes.items():
                if not (isinstance(box, Guarded) and box.is_fixed):
                    box.value[...] = before[name]
            self._launch(values)
            return {name: box.read() for name, box in boxes.items()}

        if self.launched_by == direct_cpu.NAME:
            with direct_cpu.backward():
                found = launch()
            yield "parallel loops ran backwards in one thread, and ", found
        until = time.perf_counter() + _REPEATED_SECONDS
        for _ in range(self._repeats):
            yield "", launch()
            if time.perf_counter() > until:
                return

    def _judged(
        self,
        before: Mapping[str, NDArray],
        after: Mapping[str, NDArray],
        expected: Mapping[str, NDArray],
        kept: Mapping[str, NDArray],
        tolerance: Mapping[str, NDArray],
    ) -> Outcome:
        worst, error, compared = 0.0, 0.0, {}
        nonzero, loose = {}, {}
        for array in self._arrays():
            name, changed = array.name, differs(before[array.name], after[array.name])
            if name in expected:
                touched = changed & kept[name]
                if touched.any():
                    place, value = _first(touched, after[name])
                    return self._wrong(
                        f"{name}[{place}] must stay untouched, and holds {value} now"
                    )
                verdict = compare(name, after[name], expected[name], tolerance[name])
                compared[name] = int((verdict.compared & ~kept[name]).sum())
                must = ~kept[name] & (expected[name] != 0) & np.isfinite(expected[name])
                nonzero[name] = int(must.sum())
                loose[name] = int((must & (np.abs(expected[name]) <= tolerance[name])).sum())
                worst, error = max(worst, verdict.worst), max(error, verdict.error)
                if verdict.message:
                    return self._wrong(verdict.message, worst, error)
            elif changed.any() and name not in self._owner.values():
                place, value = _first(changed, after[name])
                return self._wrong(f"the input {name} was changed: {name}[{place}] is {value} now")
        return Outcome(
            "passed", "", self.kernel.digest, worst, error, compared, nonzero, loose,
            self.launched_by,
            elements=max((value.size for value in before.values()), default=0),
            seconds=self._seconds,
        )  # fmt: skip

    def _wrong(self, message: str, worst: float = float("inf"), error: float = 0.0) -> Outcome:
        return Outcome(
            "mismatch", message, self.kernel.digest, worst, error, engine=self.launched_by
        )

    def _arrays(self) -> list[Array]:
        return [a for a in self.arguments if isinstance(a, Array)]

    def _launch_kernel(self, values: Sequence[Any]) -> None:
        """Launch the kernel, with poison in its workspace."""
        loaded = self.kernel.loaded
        direct = direct_for(loaded, self._engine)
        self.launched_by = engines.TAICHI if direct is None else direct.engine
        sizes = dict(zip(loaded.signature.symbols, loaded.check(tuple(values)), strict=True))
        contents = [
            np.full(
                concrete_shape(array, sizes),
                scratch_poison(array.dtype, self._seed),
                array.dtype.numpy,
            )
            for array in self.kernel.workspace
        ]
        on_host = self._container != "ndarray" or direct is not None
        if contents and (self._fence or (on_host and runtime.current_arch() == "cpu")):
            # In place of those that tikgen allocates, to find writes outside.
            for number, (array, content) in enumerate(
                zip(self.kernel.workspace, contents, strict=True), len(self.arguments)
            ):
                self._scratch[array.name] = self._guarded(array, content, number)
            guarded = tuple(box.value for box in self._scratch.values())
            if direct is None:
                loaded.run((*values, *guarded))
            else:
                direct.launch(loaded, (*values, *guarded))
        else:
            scratch = loaded.prepare(tuple(values))[len(values) :]
            for held, content in zip(scratch, contents, strict=True):
                held.from_numpy(content)
            if direct is None:
                self.kernel(*values)
            else:
                self.kernel.bind(*values)()
        ti.sync()

    def _inputs(self, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        """Return what ``inputs`` of the template returns, in dtypes and shapes of the arguments."""
        found = {}
        with blamed(self._template, "inputs()"):
            names = [argument.name for argument in self.arguments]
            returned = self._template.inputs(self._problem, sizes, rng)
            given = as_dict(self._template, "inputs()", returned, "argument", names)
            for argument in self.arguments:
                if argument.name in given and isinstance(argument, Array | Scalar):
                    value = given[argument.name]
                    found[argument.name] = as_numbers(self._template, "inputs()", argument, value)
        for argument in self.arguments:
            if argument.name in found:
                given_shape = found[argument.name].shape
                shape = concrete_shape(argument, sizes) if isinstance(argument, Array) else ()
                if given_shape != shape:
                    self._refuse(
                        f"inputs() gives {argument.name} the shape {given_shape}, not {shape}"
                    )
        return found

    def _value(
        self,
        argument: Argument,
        sizes: Mapping[str, int],
        data: Data,
        rng: np.random.Generator,
        special: Mapping[str, Any],
    ) -> Any:
        if not isinstance(argument, Array | Scalar):
            raise TypeError(f"verification cannot make the argument {argument.name}")
        dtype = argument.dtype
        if data == "wide" and argument.values != "any":
            data = "uniform"
        if isinstance(argument, Scalar):
            return special.get(argument.name, random_values(dtype, (1,), data, rng)).item()
        shape = concrete_shape(argument, sizes)
        if argument.name in special:
            return special[argument.name]
        if argument.role == "out":
            return output_poison(dtype, shape, self._seed)
        return random_values(dtype, shape, data, rng, self._steps)

    def _box(self, array: Array, values: NDArray, number: int) -> Box:
        if array.storage == "field":
            return OnDevice(values, ti.field(getattr(ti, array.dtype.value), values.shape))
        if self._container == "ndarray":
            return OnDevice(values, arrays.make_ndarray(array.dtype.value, values.shape))
        return self._guarded(array, values, number)

    def _guarded(self, array: Array, values: NDArray, number: int) -> Guarded | FencedOnDevice:
        given = values, array.dtype, number, self._guards_are_low
        if self._fence and runtime.current_arch() == "cuda":
            return FencedOnDevice(*given, self._fence)
        is_fixed = array.role == "in" and array.name not in self._owner.values()
        return Guarded(*given, self._fence, is_fixed)

    def _expected(
        self, before: Mapping[str, NDArray]
    ) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Return the expected outputs, and where the kernel must not write to them.

        The reference leaves elements alone that depend on the values in the output before.
        """
        expected = self._reference(before)
        other = self._copies(before)
        for array in self._arrays():
            if array.role == "out" and array.name not in self._owner:
                held = other[array.name]
                one, two = (
                    output_poison(array.dtype, held.shape, self._seed + turn) for turn in (0, 1)
                )
                held[...] = np.where(_unlike(held, two), two, one)
        kept = {}
        for name, again in self._reference(other).items():
            kept[name] = _unlike(again, expected[name])
        return expected, kept

    def _reference(self, before: Mapping[str, NDArray]) -> dict[str, NDArray]:
        given = self._copies(before)
        outputs = [array.name for array in self._arrays() if array.written]
        with blamed(self._template, "reference()"):
            found = self._template.reference(self._problem, *given.values())
            results = [np.asarray(r) for r in in_order(self._template.name, outputs, found)]
        check_unchanged(self._template, "reference()", given, self._copies(before))
        for name, result in zip(outputs, results, strict=True):
            if result.dtype.kind not in "fiub":
                self._refuse(f"reference() gives {name} the dtype {result.dtype}")
            if result.shape != before[name].shape:
                self._refuse(
                    f"reference() gives {name} the shape {result.shape}, not {before[name].shape}"
                )
        return dict(zip(outputs, results, strict=True))

    def _tolerance(
        self,
        before: Mapping[str, NDArray],
        expected: Mapping[str, NDArray],
        kept: Mapping[str, NDArray],
    ) -> dict[str, NDArray]:
        """Return the tolerance of each element of each output.

        What must stay is no result: a tolerance may not grow with the highest number that is there.
        """
        before, wanted = dict(before), {k: v.copy() for k, v in expected.items()}
        for array in self._poisoned:
            before[array.name] = np.full_like(before[array.name], poison(array.dtype))
            wanted[array.name][kept[array.name]] = poison(array.dtype)
        given, expected = self._copies(before), {k: v.copy() for k, v in wanted.items()}
        with blamed(self._template, "tolerance()"):
            found = self._template.tolerance(self._problem, given, wanted)
        allowed = allowed_errors(self._template, found, expected)
        check_unchanged(self._template, "tolerance()", given, self._copies(before))
        check_unchanged(self._template, "tolerance()", wanted, expected)
        return allowed

    def _with_ends(
        self, tolerance: Mapping[str, NDArray], expected: Mapping[str, NDArray]
    ) -> dict[str, NDArray]:
        """Return a tolerance that allows floats near the ends of their range to be anything."""
        dtypes = {array.name: array.dtype for array in self._arrays()}
        return {
            name: np.where(is_near_the_ends(expected[name], dtypes[name]), np.inf, allowed)
            if dtypes[name].is_float
            else allowed
            for name, allowed in tolerance.items()
        }

    def _refuse(self, problem: str) -> NoReturn:
        raise TemplateError(self._template.name, problem)

    def _copies(self, before: Mapping[str, NDArray]) -> dict[str, Any]:
        return {
            a.name: before[a.name].copy() if isinstance(a, Array) else self._start[a.name]
            for a in self.arguments
        }


def _unlike(one: NDArray, other: NDArray) -> NDArray:
    """Return where two arrays differ; one NaN is like another."""
    found: NDArray = (one != other) & ~(np.isnan(one) & np.isnan(other))
    return found


def _first(where: NDArray, values: NDArray) -> tuple[str, str]:
    """Return the first place that is marked, and its value."""
    place = tuple(int(i[0]) for i in np.nonzero(where))
    return ", ".join(map(str, place)), str(values[place])
