"""Measures a candidate on a grid: all ranks build, verify and time it together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tikgen.errors import GridError
from tikgen.grid.binding import GridStep
from tikgen.grid.processes import Processes
from tikgen.pipeline.builder import build, resolve
from tikgen.program.program import Program
from tikgen.template.base import Template
from tikgen.template.catalogue import load_unchanged
from tikgen.template.parameters import canonical
from tikgen.tuning.job import Measurement, RanksJob
from tikgen.tuning.measuring import Stage, timed
from tikgen.tuning.ranks.agreement import Ends, agreed, outcome_of
from tikgen.tuning.ranks.stand import Stand
from tikgen.tuning.timing import Timing, time_batches

# A single one: its arrays may fill the memory.
_stand: tuple[Any, Stand] | None = None


def measure(
    processes: Processes,
    job: RanksJob,
    baseline: RanksJob | None = None,
    *,
    on_stage: Stage = lambda name, note: None,
) -> Measurement:
    """Build, verify and time a candidate on a grid; all ranks must, and have the same outcome.

    What is timed is a step of a program: the exchange of ghost layers, the launch, and the join of
    reductions; the rank that takes longest counts. Its result, gathered, is compared with the
    reference, or where that takes long with what one process computes.

    Args:
        processes: the ranks.
        job: what to measure.
        baseline: what to time in turn with it, on the same fields; it was measured before.
        on_stage: called as by :func:`tikgen.tuning.measuring.measure`.
    """
    digest, worst, compiling, verifying = "", 0.0, 0.0, 0.0
    timings: list[list[Timing]] = []
    try:
        template, *kernels = agreed(processes, lambda: _built(job, baseline))
        on_stage("built", "")
        stand = _stand_of(processes, template, job)
        for kind in stand.kinds:
            stand.use(kind)
            steps = [stand.bound(kernel) for kernel in kernels]
            began = time.perf_counter()
            if not timings:
                on_stage("prepared", "")
                digest = processes.shared(agreed(processes, partial(_compiled, steps)))
            programs = [Program([step], temporal_blocking=False) for step in steps]
            compiling += time.perf_counter() - began
            if not timings:
                on_stage("compiled", "")
            began = time.perf_counter()
            programs[0].run(1)
            key = (canonical(dict(job.params)), kind)
            if key not in stand.verified:
                stand.verified[key] = stand.judge(kernels[0], kind)
            worst = max(worst, stand.verified[key])
            verifying += time.perf_counter() - began
            found = time_batches(
                [program.run for program in programs],
                job.rounds,
                least=job.least,
                seed=job.seed,
                prepare=stand.restore if stand.is_updated else None,
                slowest=lambda seconds: processes.greatest([seconds])[0],
            )
            timings.append(found)
    except (Ends, GridError) as error:
        outcome = replace(outcome_of(error), digest=digest)
        is_wrong = outcome.kind == "mismatch"
        return replace(outcome, compile_seconds=compiling) if is_wrong else outcome
    done = Measurement(
        "timed",
        digest=digest,
        compile_seconds=compiling,
        verify_seconds=verifying,
        worst=worst,
    )
    return timed(done, timings)


def forget() -> None:
    """Discard the fields that are kept for further jobs."""
    global _stand
    _stand = None


def _built(*jobs: RanksJob | None) -> tuple[Any, ...]:
    """Return the template of jobs, and the kernel of the whole grid of each."""
    given = [job for job in jobs if job is not None]
    template, *_ = (load_unchanged(job.folder, job.fingerprint) for job in given)
    return template, *(build(template, **job.params) for job in given)


def _stand_of(processes: Processes, template: Template, job: RanksJob) -> Stand:
    """Return the fields for a job: those of the last job if they fit."""
    global _stand
    # Not the kernel's: one kernel serves every problem that renders the same code.
    problem = resolve(template, **job.params).problem
    key = (template.fingerprint, canonical(dict(problem)), tuple(job.sizes.items()), job.seed)
    if _stand is None or _stand[0] != key:
        forget()  # Free the memory first.
        _stand = (key, Stand(processes, template, problem, job))
    return _stand[1]


def _compiled(steps: Sequence[GridStep]) -> str:
    """Compile the kernels of this rank; return the digest of the first."""
    kernels = [step.bound.loaded for step in steps]
    for loaded, step in zip(kernels, steps, strict=True):
        loaded.compile_for(loaded.prepare(tuple(step.bound.arguments.values())))
    return kernels[0].source.digest
