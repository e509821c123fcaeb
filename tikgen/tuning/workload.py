"""The arguments on which candidates are timed, and the expected results."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import taichi as ti

from tikgen.pipeline.comparison import errors, fractions
from tikgen.taichi import arrays as taichi_arrays
from tikgen.taichi import runtime
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Cost, NDArray, Template
from tikgen.template.blame import asked, blamed
from tikgen.template.outputs import allowed_errors, in_order
from tikgen.template.shapes import array_bytes
from tikgen.tuning.given_data import Values, load, typical_values
from tikgen.tuning.job import Job
from tikgen.tuning.memory import check_room, free_host_bytes, no_room

# A slower reference is not run at the sizes that are timed.
MOST_REFERENCE_SECONDS = 10.0
_CHUNK = 2**20


class Workload:
    """Arguments at the sizes that are timed, and the expected results.

    There may be several kinds of data: the arrays hold one at a time.

    Attributes:
        problem: what is computed.
        kinds: names of the kinds of data.
        has_reference: whether the reference gives the expected results, else the first kernel.

    Raises:
        ParameterError: if the arrays do not fit the memory.
        TemplateError: if ``workload``, ``reference`` or ``tolerance`` of the template fails.
    """

    def __init__(self, template: Template, problem: Any, job: Job) -> None:
        self.problem = problem
        self._template, self._arch, self._sizes = template, job.arch, job.sizes
        self._same = dict(job.same)
        self.arguments = template.arguments(problem)
        check_room(template.name, job.arch, self.arguments, job.sizes)
        self._starts: Mapping[str, Values] = (
            load(job.data, self.arguments)
            if job.data
            else typical_values(template, problem, job.sizes, job.seed)
        )
        self.kinds = tuple(self._starts)
        self._kind = self.kinds[0]
        self._outputs = [a for a in self.arguments if isinstance(a, Array) and a.written]
        # Arrays that launches read and change, which have to be restored.
        self._updated = {
            name
            for a in self._outputs
            for name in (a.name, self._same.get(a.name, a.name))
            if a.role == "inout" or a.name in self._same
        }
        # By kind: the outputs and the tolerance of each element.
        self._expected: dict[str, dict[str, tuple[NDArray, NDArray]]] = {}
        # The worst error of outputs that were judged before, by kind and SHA-256.
        self._judged: dict[tuple[str, bytes], float] = {}
        self._arrays: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}
        self._epoch: Any = None
        self.has_reference = not job.is_verified and self._reference_is_affordable(job.seed)
        if self.has_reference:
            for kind in self.kinds:
                self._take_reference(kind)

    @property
    def is_updated(self) -> bool:
        """Return whether launches change what they read."""
        return bool(self._updated)

    @property
    def is_judge(self) -> bool:
        """Return whether the outputs for the data in the arrays are known."""
        return self._kind in self._expected

    def use(self, kind: str) -> list[Any]:
        """Fill the arrays with a kind of data and outputs with poison; return the arguments."""
        self._allocate()
        self._kind, start = kind, self._starts[kind]
        for name, array in self._arrays.items():
            if name not in self._same:
                _fill(array, start[name])
        for name, spare in self._spare.items():
            _fill(spare, start[name])
        holders = [self._same.get(a.name, a.name) for a in self.arguments]
        return [self._arrays.get(name, start[name]) for name in holders]

    def restore(self) -> None:
        """Restore the first values of arrays that are read and written."""
        for name, spare in self._spare.items():
            array = self._arrays[name]
            if isinstance(array, np.ndarray):
                array[...] = spare
            else:
                array.copy_from(spare)

    def take(self, outputs: Mapping[str, NDArray]) -> None:
        """Take outputs that were computed elsewhere, to be judged."""
        for name, values in outputs.items():
            _fill(self._arrays[self._same.get(name, name)], values)

    def judge(self) -> tuple[float, str]:
        """Return the largest error of the outputs as a fraction, and what is wrong with them.

        Without a reference the first outputs are the expected ones.
        """
        found = {
            a.name: taichi_arrays.to_host(self._arrays[self._same.get(a.name, a.name)])
            for a in self._outputs
        }
        digest = hashlib.sha256()
        for output in found.values():
            digest.update(np.ascontiguousarray(output).data)
        known = self._kind, digest.digest()
        if known not in self._judged:
            if not self.is_judge:
                self._expected[self._kind] = {n: self._as_expected(v) for n, v in found.items()}
            worst = 0.0
            for name, output in found.items():
                fraction, message = worst_of(name, output, *self._expected[self._kind][name])
                worst = max(worst, fraction)
                if message:
                    return worst, message
            self._judged[known] = worst
        return self._judged[known], ""

    def _allocate(self) -> None:
        """Make the arrays, once for each epoch."""
        if self._epoch is runtime.epoch():
            return
        arrays = [a for a in self.arguments if isinstance(a, Array) and a.name not in self._same]
        try:
            self._arrays = {a.name: self._held(a) for a in arrays}
            self._spare = {a.name: self._held(a) for a in arrays if a.name in self._updated}
        except RuntimeError as error:
            self._epoch = None
            needs = f"needs {array_bytes(self.arguments, self._sizes) / 1e9:.3g} GB"
            problem = f"{needs}, and {self._arch} says: {' '.join(str(error).split())}"
            raise no_room(self._template.name, self._sizes, problem) from None
        self._epoch = runtime.epoch()

    def _held(self, argument: Any) -> Any:
        """Return an array that kernels of the arch take without a copy."""
        dtype, shape = argument.dtype.value, concrete_shape(argument, self._sizes)
        if argument.storage == "field":
            return ti.field(getattr(ti, dtype), shape)
        if self._arch == "cpu":
            return np.empty(shape, argument.dtype.numpy)
        return taichi_arrays.make_ndarray(dtype, shape)

    def _reference_is_affordable(self, seed: int) -> bool:
        """Return whether the reference takes a few seconds at most, extrapolated from less."""
        wide = 8 * sum(
            math.prod(concrete_shape(a, self._sizes))
            for a in self.arguments
            if isinstance(a, Array)
        )
        # Results, tolerances and temporaries in f64, and the arrays of kernels.
        held = array_bytes(self.arguments, self._sizes) if self._arch == "cpu" else 0
        if 4 * wide + held > free_host_bytes():
            return False
        work = _work(self._template, self.problem, self._sizes)
        for part in (64, 16, 4):
            sizes = {name: max(1, size // part) for name, size in self._sizes.items()}
            start = next(iter(typical_values(self._template, self.problem, sizes, seed).values()))
            began = time.perf_counter()
            self._reference(start)
            seconds = time.perf_counter() - began
            share = work / _work(self._template, self.problem, sizes)
            if share * seconds <= MOST_REFERENCE_SECONDS:
                return True
            if seconds > 0.05:  # Overhead does not matter.
                return False
        return False

    def _take_reference(self, kind: str) -> None:
        given = dict(self._starts[kind])
        expected = self._reference(given)
        with blamed(self._template, "tolerance()"), np.errstate(all="ignore"):
            found = self._template.tolerance(self.problem, given, dict(expected))
        allowed = allowed_errors(self._template, found, expected)
        self._expected[kind] = {name: (expected[name], allowed[name]) for name in expected}

    def _reference(self, start: Values) -> dict[str, NDArray]:
        with blamed(self._template, "reference()"), np.errstate(all="ignore"):
            found = self._template.reference(self.problem, *(start[a.name] for a in self.arguments))
            outputs = [a.name for a in self._outputs]
            results = map(np.asarray, in_order(self._template.name, outputs, found))
        return dict(zip(outputs, results, strict=True))

    def _as_expected(self, output: NDArray) -> tuple[NDArray, NDArray]:
        """Return an output of a kernel that was verified on small sizes, and a tolerance.

        The error of a sum of m terms is at most m eps of its terms, of at most one a flop.
        """
        expected = np.array(output)
        if expected.dtype.kind != "f":
            return expected, np.zeros(())
        work = _work(self._template, self.problem, self._sizes)
        terms = max(16.0, work / max(1, expected.size))
        scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
        limit = terms * float(np.finfo(expected.dtype).eps) * scale
        return expected, np.broadcast_to(np.asarray(limit), expected.shape)


def _fill(array: Any, values: NDArray) -> None:
    if isinstance(array, np.ndarray):
        array[...] = values
    else:
        array.from_numpy(values)


def worst_of(name: str, actual: NDArray, expected: NDArray, allowed: NDArray) -> tuple[float, str]:
    """Return the largest error as a fraction of the tolerance, and what is wrong, if anything.

    Compares pieces, which takes little memory, and in detail only those that do not agree in f64.
    """
    flat = actual.reshape(-1), expected.reshape(-1)
    limits = np.broadcast_to(allowed, actual.shape).reshape(-1) if allowed.ndim else allowed
    worst = 0.0
    for low in range(0, actual.size, _CHUNK):
        piece = slice(low, low + _CHUNK)
        got, want = (values[piece] for values in flat)
        limit = limits[piece] if limits.ndim else limits
        fraction = _quick_worst(got, want, limit)
        if fraction is None:
            each = fractions(*errors(got, want, limit))
            fraction = float(each.max(initial=0))
            if fraction > 1:
                place = int(np.argmax(each))
                where = ", ".join(map(str, np.unravel_index(low + place, actual.shape)))
                return fraction, (
                    f"{name}[{where}] is {got[place]!s}, expected {want[place]!s}, at the sizes "
                    "that are timed"
                )
        worst = max(worst, fraction)
    return worst, ""


def _quick_worst(got: NDArray, want: NDArray, limit: NDArray) -> float | None:
    """Return the worst fraction where all elements agree in f64, else None."""
    if got.dtype.kind == "f" and got.dtype.itemsize < 8:
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(got.astype(np.float64) - want)
            well = (error <= limit) | (np.isnan(got) & np.isnan(want))
            if not well.all():
                return None
            counts = error > 0
            return float(
                np.max(error[counts] / np.broadcast_to(limit, got.shape)[counts], initial=0)
            )
    return 0.0 if np.array_equal(got, want) else None


def _work(template: Template, problem: Any, sizes: Mapping[str, int]) -> float:
    given, none = (problem, sizes), (NotImplementedError,)
    try:
        cost = asked(template, "cost()", Cost, "a Cost", *given, passing=none)
    except NotImplementedError:
        return float(array_bytes(template.arguments(problem), sizes)) or 1.0
    return float(max(cost.flops, cost.bytes, 1))
