"""Measures every combination of a template's parameters, here or on a cluster."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikgen.disk import path_problem
from tikgen.errors import GridError, ParameterError
from tikgen.pipeline.records import taichi_version
from tikgen.progress import bar
from tikgen.template.base import Template
from tikgen.template.catalogue import current_template
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.ranks.launching import is_command, problem_of
from tikgen.tuning.sweeps.combinations import (
    Combination,
    SweepSpace,
    none_runs,
    space_of,
)
from tikgen.tuning.sweeps.limits import COPY, PEAK, Limits, limit_jobs
from tikgen.tuning.sweeps.playoff import ROUNDS, Pair, standings, text_of
from tikgen.tuning.sweeps.results_file import Done, ResultsFile
from tikgen.tuning.sweeps.rows import (
    Metric,
    Row,
    check_axes,
    check_metrics,
    row_of,
    with_own_metrics,
)
from tikgen.tuning.sweeps.runners import LocalRunner, Task, in_order
from tikgen.tuning.sweeps.table import SweepResult
from tikgen.verification.diagnosis import check_has_reference
from tikgen.verification.options import problems_of
from tikgen.version import __version__

if TYPE_CHECKING:
    from distributed import Client

    from tikgen.tuning.sweeps.cluster import ClusterRunner

_OPTIONS = (
    *("shape", "archs", "metrics", "results", "client", "scheduler", "seed", "rounds"),
    *("ranks", "launcher"),
)

Measured = dict[tuple[str, str], Done]


def sweep(
    name: str | Template,
    *,
    shape: Any = None,
    archs: Sequence[str] = ("cpu",),
    baked: bool | list[bool] = False,
    metrics: Sequence[str | Metric] | None = None,
    results: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    scheduler: str | None = None,
    seed: int | None = None,
    rounds: int = 5,
    timeout: float = 60.0,
    ranks: int | list[int] | None = None,
    launcher: str | None = None,
    **params: Any,
) -> SweepResult:
    """Measure a template for every combination of the values given, and return a table.

    A parameter given as a list is an axis; anything else, a tuple included, is one value. A
    combination that the template refuses is a row with the reason. Combinations that give the same
    code on the same arrays are measured once. Each kernel is verified before it is timed, in a
    process that is replaced when a kernel ends it. The fastest kernels of each problem are
    measured again, in turn.

    Ctrl-C ends the sweep early: the result has rows of the kind ``"missing"`` for what was not
    measured.

    Args:
        name: name of a template, or the template itself.
        shape: size for each size symbol of the template, as a tuple in order, as a dict, or as
            one number for all; or a list of these.
        archs: archs to run on.
        baked: whether sizes are baked into the kernels, or a list of both.
        metrics: measured columns to keep, and functions from a row to a value; None keeps all.
        results: file of JSON lines to which each measurement is appended; what it holds is not
            measured again.
        client: a ``distributed.Client`` on whose workers to measure.
        scheduler: address of a Dask scheduler, in place of ``client``.
        seed: seed of the random data; None takes a new one.
        rounds: how often a batch of launches is timed.
        timeout: seconds that a kernel may take to compile, to be verified and to be timed.
        ranks: number of MPI processes that share a grid of the given shape, or a list of these:
            each kernel is measured on them together, as a step of a program over
            :class:`tikgen.Grid`. None measures a launch in one process.
        launcher: command that starts ranks, such as ``"srun --mpi=pmix"``, to which ``-n`` and
            their number are added; None for ``mpiexec``.
        params: problem and schedule parameters; ``build`` chooses those that are left out.

    Raises:
        UnknownTemplate: if no template has that name.
        ParameterError: if a parameter or an arch is unknown, an axis is empty, or an option is
            invalid.
        TikgenError: if no combination can be built or run here, the results file cannot be used,
            ranks cannot be started, or the cluster does not answer.
    """
    began = time.perf_counter()
    template = current_template(name)
    check_has_reference(template)
    _check_options(template.name, client, scheduler, rounds, timeout, seed, results)
    _check_launcher(template.name, launcher, ranks, is_here=client is None and scheduler is None)
    check_metrics(metrics, template)
    space = space_of(
        template,
        shape=shape,
        archs=archs,
        baked=baked,
        rounds=rounds,
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        params=params,
        ranks=ranks,
        launcher=launcher or "",
        options=_OPTIONS,
    )
    check_axes(template.name, space.params)
    fingerprints = {folder: _fingerprint(folder) for folder in (str(COPY), str(PEAK))}
    file = ResultsFile(results, fingerprints | {str(template.folder): template.fingerprint})
    combinations = tuple(space.combinations())
    if all(combination.job is None for combination in combinations):
        raise none_runs(template.name, [combination.message for combination in combinations])
    planned = time.perf_counter()
    with _runner(client, scheduler, timeout) as runner:
        run = _Run(space, combinations, file, runner)
        complete = run.measure()
    found = run.rows()
    if complete and all(row["kind"] == "refused" for row in found):
        raise none_runs(template.name, [row["message"] for row in found])
    rows = with_own_metrics(found, metrics)
    total = time.perf_counter() - began
    return SweepResult(
        rows,
        {
            "template": template.name,
            "fingerprint": template.fingerprint,
            "tikgen": __version__,
            "taichi": taichi_version(),
            "devices": {arch: list(names) for arch, names in run.devices.items()},
            "seed": space.seed,
            "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "axes": space.axes,
            "complete": complete,
            "counts": run.counts,
            "seconds": {
                "total": total,
                "planning": planned - began,
                "measuring": run.busy,
                "compiling": run.compiling,
                "verifying": run.verifying,
                "running": run.busy - run.compiling - run.verifying,
                "overhead": total - run.busy,
            },
        },
    )


class _Run:
    """One run of a sweep: what was measured before and now, and the rows."""

    def __init__(
        self,
        space: SweepSpace,
        combinations: Sequence[Combination],
        file: ResultsFile,
        runner: LocalRunner | ClusterRunner,
    ) -> None:
        self._space, self._combinations = space, combinations
        self._file, self._runner = file, runner
        self.devices = dict(runner.devices(space.archs))
        buildable = [c for c in combinations if c.job is not None]
        # The kernels of each problem, by work.
        self._problems: dict[str, dict[str, Job]] = {}
        for c in buildable:
            assert c.job is not None
            self._problems.setdefault(c.problem, {}).setdefault(c.work, c.job)
        self._limits = limit_jobs((c.cells["arch"], c.dtype, c.cost) for c in buildable)
        works = {c.work for c in buildable}
        present = {device for names in self.devices.values() for device in names}
        self._done: Measured = file.known({*works, *self._limits}, present)
        self._asked = {(work, device) for work, device in self._done}
        self.counts = {
            "combinations": len(combinations),
            "refused": len(combinations) - len(buildable),
            "same": len(buildable) - len(works),
            "earlier": sum(work in works for work, _ in self._done),
            "measured": 0,
            "failed": 0,
        }
        self.busy = self.compiling = self.verifying = 0.0

    def measure(self) -> bool:
        """Measure what is missing; return False if that was interrupted."""
        first = [*self._limit_tasks(), *self._tasks()]
        left = Counter(task.problem for task in first)
        known = [problem for problem in self._problems if problem not in left]
        waiting = in_order([*first, *(task for each in known for task in self._playoff(each))])
        left = Counter(task.problem for task in waiting)
        finished, total = 0, len(waiting)
        name = self._space.template.name
        with bar(self._described(name), total) as show:
            try:
                for task, done, worth_keeping in self._runner.run(waiting):
                    self._take(task, done)
                    if worth_keeping:
                        self._file.add(task.job, done)
                    left[task.problem] -= 1
                    if not left[task.problem]:  # While the process has its arrays.
                        more = list(self._playoff(task.problem))
                        waiting.extendleft(more)
                        left[task.problem] = len(more)
                        total += len(more)
                    finished += 1
                    show(description=self._described(name), completed=finished, total=total)
            except KeyboardInterrupt:
                return False
        return True

    def rows(self) -> list[Row]:
        """Return a row for each combination."""
        limits = Limits(self._done)
        standings = functools.cache(self._standings)
        found = [(c, self._found(c)) for c in self._combinations]
        return [
            row_of(c, done, limits, standings(c.problem, done.device)[0] if done else {})
            for c, done in found
        ]

    def _take(self, task: Task, done: Done) -> None:
        self._done[task.work, done.device] = done
        arch, width, found = task.job.arch, self._runner.width, done.measurement
        if done.device not in self.devices[arch]:  # Of a worker that joined later.
            self.devices[arch] = (*self.devices[arch], done.device)
        self.busy += done.busy / width
        self.compiling += found.compile_seconds / width
        self.verifying += found.verify_seconds / width
        if task.work in self._problems.get(task.problem, ()):
            self.counts["measured"] += 1
            self.counts["failed"] += not found.ok

    def _described(self, name: str) -> str:
        counts = [(n, what) for what, n in self.counts.items() if what != "combinations" and n]
        return f"{name}: {', '.join(f'{n} {what}' for n, what in counts)}"

    def _found(self, combination: Combination) -> Done | None:
        devices = self.devices[combination.cells["arch"]]
        keys = ((combination.work, device) for device in devices)
        return next((self._done[key] for key in keys if key in self._done), None)

    def _tasks(self) -> Iterator[Task]:
        """Yield what has to be measured for the combinations, each kernel once."""
        for problem, jobs in self._problems.items():
            for work, job in jobs.items():
                if not any((work, device) in self._done for device in self.devices[job.arch]):
                    yield Task(work, job, problem)

    def _limit_tasks(self) -> Iterator[Task]:
        """Yield what has to be measured of the machine, on each device."""
        for work, limit in self._limits.items():
            for device in self.devices[limit.job.arch]:
                if (work, device) not in self._done:
                    yield Task(work, limit.job, work, device)

    def _playoff(self, problem: str) -> Iterator[Task]:
        """Yield the next measurements in turn of the fastest kernels of a problem."""
        jobs = self._problems.get(problem, {})
        arch = next((job.arch for job in jobs.values()), "")
        for device in self.devices.get(arch, ()):
            _, pair = self._standings(problem, device)
            # A cluster may run it on another device; it is not asked for again.
            if pair is not None and (key := (text_of(pair), device)) not in self._asked:
                self._asked.add(key)
                job, baseline = (jobs[work] for work in pair)
                job = replace(job, rounds=max(job.rounds, ROUNDS))
                yield Task(text_of(pair), job, problem, device, baseline)

    def _standings(self, problem: str, device: str) -> tuple[dict[str, float], Pair | None]:
        """Return what is known of the fastest kernels of a problem on a device."""
        done = ((work, self._done.get((work, device))) for work in self._problems.get(problem, ()))
        times = {w: d.measurement.seconds for w, d in done if d is not None and d.measurement.ok}

        def found(pair: Pair) -> Measurement | None:
            known = self._done.get((text_of(pair), device))
            return None if known is None else known.measurement

        return standings(times, found)


@contextlib.contextmanager
def _runner(
    client: Client | None, scheduler: str | None, timeout: float
) -> Iterator[LocalRunner | ClusterRunner]:
    if client is None and scheduler is None:
        yield LocalRunner(timeout)
        return
    from tikgen.tuning.sweeps.cluster import ClusterRunner, connected

    with connected(scheduler) if scheduler else contextlib.nullcontext(client) as connection:
        yield ClusterRunner(connection, timeout)


def _fingerprint(folder: str) -> str:
    """Return the fingerprint of a template without registering its name."""
    return Template(Path(folder)).fingerprint


def _check_launcher(template: str, launcher: Any, ranks: Any, is_here: bool) -> None:
    """Raise where ranks cannot be started, as far as that is known before."""
    problem = ""
    if launcher is not None and ranks is None:
        problem = "starts ranks; say how many by ranks"
    elif launcher is not None and not (isinstance(launcher, str) and is_command(launcher)):
        problem = f"takes a command such as 'srun --mpi=pmix'; got {launcher!r}"
    if problem:
        raise ParameterError(template, {"launcher": problem})
    if ranks is not None and is_here and (why := problem_of(launcher or "")):
        raise GridError(f"{template}: {why}")


def _check_options(
    template: str,
    client: Any,
    scheduler: Any,
    rounds: Any,
    timeout: Any,
    seed: Any,
    results: Any,
) -> None:
    problems = problems_of(seed=seed, timeout=timeout)
    if results is not None and (problem := path_problem(results)):
        problems["results"] = problem
    if client is not None and scheduler is not None:
        problems["scheduler"] = "is given along with client; give one of them"
    elif scheduler is not None and not (isinstance(scheduler, str) and scheduler):
        problems["scheduler"] = f"takes an address such as tcp://host:8786; got {scheduler!r}"
    if type(rounds) is not int or rounds < 1:
        problems["rounds"] = f"takes a positive integer; got {rounds!r}"
    if timeout is None:
        problems["timeout"] = "takes a positive number of seconds; got None"
    if problems:
        raise ParameterError(template, problems)
