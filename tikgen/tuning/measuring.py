"""Measures a candidate in this process: builds, verifies and times it beside a baseline."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tikgen import engines
from tikgen.children.job import described
from tikgen.errors import CompileBudgetExceeded, ParameterError, TemplateChanged, UnsupportedOnArch
from tikgen.pipeline.builder import build, resolve
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi import runtime
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Template
from tikgen.template.catalogue import load_unchanged
from tikgen.template.declared import tried_sizes
from tikgen.template.parameters import canonical
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.timing import Launch, Timing, time_in_turn
from tikgen.tuning.workload import Workload
from tikgen.verification.case import Data
from tikgen.verification.check import Trial
from tikgen.verification.large import MOST_ELEMENTS
from tikgen.verification.sharing import ways_to_share
from tikgen.verification.strategies import PLAIN_SIZES

_DATA: tuple[Data, ...] = ("whole", "uniform", "sparse")
_TRIALS = 4

Stage = Callable[[str, str], None]

# A single one: its arrays may fill the memory.
_workload: tuple[Any, Workload] | None = None
# The worst error of each digest that agreed with the reference.
_verified: dict[Any, float] = {}


class Disagrees(Exception):
    """A kernel disagrees with its reference."""

    def __init__(self, message: str, worst: float) -> None:
        super().__init__(message)
        self.worst = worst


def measure(
    job: Job, baseline: Job | None = None, *, on_stage: Stage = lambda name, note: None
) -> Measurement:
    """Build, verify and time a candidate; a failure is an outcome and not raised.

    Taichi must have been initialised on the arch of the job. The kernel is compared with its
    reference on several small sizes and at the sizes that are timed, with poison in outputs and
    workspaces. It is timed on each kind of data.

    Args:
        job: what to measure.
        baseline: what to time in turn with it, on the same arrays; it was measured before.
        on_stage: called with ``("built", digest)``, ``("prepared", "")`` and ``("compiled", "")``
            as they are reached.
    """
    digest, compile_seconds, verify_seconds, worst = "", 0.0, 0.0, 0.0
    timings: list[list[Timing]] = []
    try:
        template = load_unchanged(job.folder, job.fingerprint)
        kernel = _built(template, job)
        digest = kernel.digest
        on_stage("built", digest)
        # Not the kernel's: one kernel serves every problem that renders the same code.
        problem = resolve(template, **job.params).problem
        workload = _workload_of(template, problem, job)
        values = workload.use(workload.kinds[0])
        on_stage("prepared", "")
        began = time.perf_counter()
        kernel.compile(*values)
        compile_seconds = time.perf_counter() - began
        on_stage("compiled", "")
        other = None
        if baseline is not None:
            same = load_unchanged(baseline.folder, baseline.fingerprint)
            other = _built(same, baseline)
        began = time.perf_counter()
        if not job.is_verified:
            worst = _verify(template, kernel, other, job, workload)
        verify_seconds = time.perf_counter() - began
        for kind in workload.kinds:
            values = workload.use(kind)
            launches: list[Launch] = [k.bind(*values) for k in (kernel, other) if k is not None]
            timing = time_in_turn(
                launches,
                job.rounds,
                least=job.least,
                seed=job.seed,
                prepare=workload.restore if workload.is_updated else None,
            )
            timings.append(timing)
    except Disagrees as disagreement:
        found = failure(disagreement)
        return replace(found, digest=digest, compile_seconds=compile_seconds)
    except Exception as error:
        return replace(failure(error), digest=digest)
    done = Measurement(
        "timed",
        digest=digest,
        compile_seconds=compile_seconds,
        verify_seconds=verify_seconds,
        worst=worst,
    )
    return timed(done, timings)


def failure(error: Exception) -> Measurement:
    """Return the outcome of a job that ends with an error."""
    if isinstance(error, ParameterError | UnsupportedOnArch | CompileBudgetExceeded):
        return Measurement("refused", str(error))
    if isinstance(error, TemplateChanged):
        return Measurement("changed", str(error))
    if isinstance(error, Disagrees):
        return Measurement("mismatch", str(error), worst=error.worst)
    return Measurement("error", described(error))


def timed(found: Measurement, timings: list[list[Timing]]) -> Measurement:
    """Add the times on each kind of data, of a kernel, and of a baseline in turn with it if any."""
    done = replace(
        found,
        seconds=statistics.geometric_mean([each[0].seconds for each in timings]),
        spread=max(each[0].spread for each in timings),
        rounds=min(len(each[0].rounds) for each in timings),
    )
    return done if len(timings[0]) == 1 else _beside_baseline(done, timings)


def _beside_baseline(found: Measurement, timings: list[list[Timing]]) -> Measurement:
    """Add the comparison with a baseline that was timed in turn."""
    by_kind = [one.ratios_to(other) for one, other in timings]
    ratios = [statistics.geometric_mean(each) for each in zip(*by_kind, strict=False)]
    return replace(
        found,
        baseline_seconds=statistics.geometric_mean([other.seconds for _, other in timings]),
        ratio=statistics.median(ratios),
        ratios=tuple(ratios),
        worst_ratio=max(map(statistics.median, by_kind)),
    )


def forget() -> None:
    """Discard the arrays that are kept for further jobs, and what was verified."""
    global _workload
    _workload = None
    _verified.clear()


def _built(template: Template, job: Job) -> Kernel:
    """Return the kernel of a job, launched by one engine from the first launch to the last."""
    return build(template, shape=job.shape, engine=engines.steady(job.arch), **job.params)


def _workload_of(template: Template, problem: Any, job: Job) -> Workload:
    """Return the arguments for a job: those of the last job if they fit."""
    global _workload
    key = (
        template.fingerprint,
        canonical(dict(problem)),
        job.arch,
        tuple(job.sizes.items()),
        job.seed,
        job.data,
        job.is_verified,
    )
    if _workload is None or _workload[0] != key:
        forget()  # Free the memory first.
        _workload = (key, Workload(template, problem, job))
    return _workload[1]


def _verify(
    template: Template, kernel: Kernel, other: Kernel | None, job: Job, workload: Workload
) -> float:
    """Return the worst error, as a fraction of what is allowed, or raise :class:`Disagrees`."""
    if kernel.digest in _verified:
        return _verified[kernel.digest]
    worst = 0.0
    # Baked kernels for small sizes are others, each to be compiled: only where no reference is
    # affordable at the timed sizes.
    skip = job.baked and workload.has_reference
    if not skip:
        worst = verify_small(template, kernel, workload.problem, job)
    for kind in workload.kinds:
        values = workload.use(kind)
        if other is not None and not workload.is_judge:
            # It is the default schedule, or has agreed with it.
            other(*values)
            runtime.sync()
            workload.judge()
            values = workload.use(kind)
        kernel(*values)
        runtime.sync()
        large, message = workload.judge()
        worst = max(worst, large)
        if message:
            raise Disagrees(message, worst)
    _verified[kernel.digest] = worst
    return worst


def verify_small(template: Template, kernel: Kernel, problem: Any, job: Job) -> float:
    """Return the worst error on small sizes, or raise :class:`Disagrees`."""
    worst = 0.0
    for settings in _small_trials(template, kernel, problem, job):
        engine = engines.steady(job.arch)
        outcome = Trial(template, job.params, **settings, baked=job.baked, engine=engine).run()
        worst = max(worst, outcome.worst)
        if not outcome.ok:
            sizes = ", ".join(f"{name}={n}" for name, n in settings["sizes"].items())
            raise Disagrees(f"{outcome.message} (with {sizes or 'fixed shapes'})", outcome.worst)
    return worst


def _small_trials(
    template: Template, kernel: Kernel, problem: Any, job: Job
) -> list[dict[str, Any]]:
    """Return the settings of some trials: largest, middle and random sizes."""
    given = tried_sizes(template, problem)
    options = {symbol: given.get(symbol, PLAIN_SIZES) for symbol in template.size_symbols(problem)}
    rng = np.random.default_rng(job.seed)
    drawn = [{name: int(rng.choice(tried)) for name, tried in options.items()} for _ in range(32)]
    wanted = [
        {name: tried[-1] for name, tried in options.items()},
        {name: tried[len(tried) // 2] for name, tried in options.items()},
        *drawn,
    ]
    arguments = (*template.arguments(problem), *kernel.workspace)
    arrays = [a for a in arguments if isinstance(a, Array)]
    fitting = [sizes for sizes in wanted if _fits(arrays, sizes)][:_TRIALS]
    ways = [ways_to_share(arrays, sizes) for sizes in fitting]
    return [
        {
            "sizes": sizes,
            "seed": job.seed + number,
            "data": _DATA[number % len(_DATA)],
            # Writes outside NumPy arrays can be found, on cpu without a copy.
            "container": "numpy" if job.arch == "cpu" else "ndarray",
            "inplace": own[number // 2 % len(own)] if own and number % 2 else False,
        }
        for number, (sizes, own) in enumerate(zip(fitting, ways, strict=True))
    ]


def _fits(arrays: list[Array], sizes: Mapping[str, int]) -> bool:
    return all(math.prod(concrete_shape(array, sizes)) <= MOST_ELEMENTS for array in arrays)
