"""The arguments on which candidates are timed, and what they must compute from them.

Made once for a problem and its sizes, and kept while jobs of the same kind follow.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import taichi as ti

from tikgen import taichi_bridge as bridge
from tikgen.arguments import Array, Scalar, concrete_shape
from tikgen.comparison import errors, fractions
from tikgen.template import NDArray, Template
from tikgen.tuning.memory import array_bytes, check_room, free_host_bytes, no_room
from tikgen.verification.blame import blamed
from tikgen.verification.data import poison, random_values

# A reference that would take longer is not run at the sizes that are timed.
MOST_REFERENCE_SECONDS = 10.0
_CHUNK = 2**20


class Workload:
    """Arguments at the sizes that are timed, and the results expected of them.

    Attributes:
        problem: what is computed.
        has_reference: whether the reference says what is expected; else the first kernel does.

    Args:
        template: the template.
        problem: what is computed.
        arch: arch on which kernels run.
        sizes: value of each size symbol.
        seed: seed of the random data.
        scalars: values of scalar arguments, in place of random ones.

    Raises:
        ParameterError: if the arrays do not fit the memory.
        TemplateError: if ``inputs``, ``reference`` or ``tolerance`` of the template fails.
    """

    def __init__(
        self,
        template: Template,
        problem: Any,
        arch: str,
        sizes: Mapping[str, int],
        seed: int,
        scalars: Mapping[str, float],
    ) -> None:
        self.problem = problem
        self._template, self._arch, self._sizes = template, arch, sizes
        self.arguments = template.arguments(problem)
        check_room(template.name, arch, self.arguments, sizes)
        self._start = starting_values(template, problem, sizes, seed) | dict(scalars)
        self._outputs = [a for a in self.arguments if isinstance(a, Array) and a.written]
        # What the outputs must hold, and how far off each element may be.
        self._expected: dict[str, tuple[NDArray, NDArray]] = {}
        # The worst error of outputs that were judged before, by their SHA-256.
        self._judged: dict[bytes, float] = {}
        self._values: list[Any] = []
        self._epoch: Any = None
        self.has_reference = self._reference_is_affordable(seed)
        if self.has_reference:
            self._take_reference()

    def values(self) -> list[Any]:
        """Return the arguments for a launch; the arrays are the same in each call."""
        if self._epoch is not bridge.epoch():
            self._epoch = bridge.epoch()
            try:
                self._values = [self._held(a) for a in self.arguments]
            except RuntimeError as error:
                self._epoch = None
                needs = f"needs {array_bytes(self.arguments, self._sizes) / 1e9:.3g} GB"
                problem = f"{needs}, and {self._arch} says: {' '.join(str(error).split())}"
                raise no_room(self._template.name, self._sizes, problem) from None
        return self._values

    def reset(self) -> None:
        """Let inputs hold their first values again, and outputs poison."""
        for argument, value in zip(self.arguments, self.values(), strict=True):
            if isinstance(argument, Array):
                start = self._start[argument.name]
                if isinstance(value, np.ndarray):
                    value[...] = start
                else:
                    value.from_numpy(start)

    def judge(self) -> tuple[float, str]:
        """Return the greatest error of the outputs as a fraction, and what is wrong with them.

        Without a reference the outputs that come first are what later ones have to agree with.
        """
        found = {}
        for argument, value in zip(self.arguments, self.values(), strict=True):
            if argument in self._outputs:
                found[argument.name] = bridge.to_host(value)
        digest = hashlib.sha256()
        for output in found.values():
            digest.update(np.ascontiguousarray(output).data)
        known = digest.digest()
        if known not in self._judged:
            if not self._expected:
                self._expected = {name: self._as_expected(v) for name, v in found.items()}
            worst = 0.0
            for name, output in found.items():
                fraction, message = worst_of(name, output, *self._expected[name])
                worst = max(worst, fraction)
                if message:
                    return worst, message
            self._judged[known] = worst
        return self._judged[known], ""

    def _held(self, argument: Any) -> Any:
        """Return what holds an argument where kernels of the arch find it at once."""
        if isinstance(argument, Scalar):
            return self._start[argument.name]
        dtype, shape = argument.dtype.value, concrete_shape(argument, self._sizes)
        if argument.storage == "field":
            return ti.field(getattr(ti, dtype), shape)
        if self._arch == "cpu":
            return np.empty(shape, argument.dtype.numpy)
        return bridge.make_ndarray(dtype, shape)

    def _reference_is_affordable(self, seed: int) -> bool:
        """Tell whether the reference takes some seconds at most, judged by smaller sizes."""
        wide = 8 * sum(
            math.prod(concrete_shape(a, self._sizes))
            for a in self.arguments
            if isinstance(a, Array)
        )
        # Results, tolerances and temporaries in f64; and the arrays of kernels, yet to be made.
        held = array_bytes(self.arguments, self._sizes) if self._arch == "cpu" else 0
        if 4 * wide + held > free_host_bytes():
            return False
        work = _work(self._template, self.problem, self._sizes)
        for part in (64, 16, 4):
            sizes = {name: max(1, size // part) for name, size in self._sizes.items()}
            start = starting_values(self._template, self.problem, sizes, seed)
            began = time.perf_counter()
            self._reference(start)
            seconds = time.perf_counter() - began
            share = work / _work(self._template, self.problem, sizes)
            if share * seconds <= MOST_REFERENCE_SECONDS:
                return True
            if seconds > 0.05:  # Too long for its overhead to count.
                return False
        return False

    def _take_reference(self) -> None:
        expected = self._reference(self._start)
        given = {a.name: self._start[a.name] for a in self.arguments}
        with blamed(self._template, "tolerance()"), np.errstate(all="ignore"):
            allowed = dict(self._template.tolerance(self.problem, given, dict(expected)))
        for name, value in expected.items():
            limit = np.broadcast_to(np.asarray(allowed.get(name, 0)), value.shape)
            self._expected[name] = (value, limit)

    def _reference(self, start: Mapping[str, Any]) -> dict[str, NDArray]:
        with blamed(self._template, "reference()"), np.errstate(all="ignore"):
            found = self._template.reference(self.problem, *(start[a.name] for a in self.arguments))
            results = [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]
        return dict(zip((a.name for a in self._outputs), results, strict=True))

    def _as_expected(self, output: NDArray) -> tuple[NDArray, NDArray]:
        """Return the output of a kernel that was verified on small sizes as what others must give.

        A sum of m terms is off by at most m eps of its terms; there is a term a flop at most.
        """
        expected = np.array(output)
        if expected.dtype.kind != "f":
            return expected, np.zeros(())
        work = _work(self._template, self.problem, self._sizes)
        terms = max(16.0, work / max(1, expected.size))
        scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
        limit = terms * float(np.finfo(expected.dtype).eps) * scale
        return expected, np.broadcast_to(np.asarray(limit), expected.shape)


def starting_values(
    template: Template, problem: Any, sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """Return what each argument holds before a launch; what is only written holds poison."""
    rng = np.random.default_rng(seed)
    with blamed(template, "inputs()"):
        special = dict(template.inputs(problem, sizes, rng))
    values = {}
    for argument in template.arguments(problem):
        assert isinstance(argument, Array | Scalar)
        dtype = argument.dtype
        if isinstance(argument, Scalar):
            made = special.get(argument.name)
            values[argument.name] = (
                random_values(dtype, (1,), "uniform", rng).item()
                if made is None
                else np.asarray(made, dtype.numpy).item()
            )
        elif argument.name in special:
            values[argument.name] = np.ascontiguousarray(special[argument.name], dtype.numpy)
        elif argument.role == "out":
            shape = concrete_shape(argument, sizes)
            values[argument.name] = np.full(shape, poison(dtype), dtype.numpy)
        else:
            shape = concrete_shape(argument, sizes)
            values[argument.name] = random_values(dtype, shape, "uniform", rng)
    return values


def worst_of(name: str, actual: NDArray, expected: NDArray, allowed: NDArray) -> tuple[float, str]:
    """Return the greatest error as a fraction of what is allowed, and what is wrong, if anything.

    Goes through the arrays in pieces, which takes little memory, and looks closely only at those
    that do not agree at first sight.
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
    """Return the worst fraction where f64 can tell that all is well, else None."""
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
    try:
        cost = template.cost(problem, sizes)
    except NotImplementedError:
        return float(array_bytes(template.arguments(problem), sizes)) or 1.0
    return float(max(cost.flops, cost.bytes, 1))
