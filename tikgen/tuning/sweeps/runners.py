"""Runs the tasks of a sweep on this machine, one after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tikgen.machine.devices import device_name
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.ranks.launching import process_for
from tikgen.tuning.sweeps.results_file import Done


@dataclass(frozen=True, eq=False)
class Task:
    """A job to measure.

    Attributes:
        work: equal for equal work.
        job: what to measure.
        problem: equal for jobs that take the same arrays.
        device: where it must run; empty where any device will do.
        baseline: what to time in turn with it, if anything.
    """

    work: str
    job: Job
    problem: str = ""
    device: str = ""
    baseline: Job | None = None

    def seconds(self, timeout: float) -> float:
        """Return how long the task may take where a kernel by itself may take ``timeout``."""
        return timeout if self.baseline is None else 2 * timeout


class LocalRunner:
    """Measures on this machine, each arch in a process of its own, or in one for each rank.

    Args:
        timeout: seconds that a job may take to compile, to be verified and to be timed.
    """

    # How many tasks are measured at once.
    width = 1

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def devices(self, archs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the device behind each arch."""
        return {arch: (device_name(arch),) for arch in archs}

    def run(self, tasks: deque[Task]) -> Iterator[tuple[Task, Done, bool]]:
        """Take each task off the queue; yield it with its outcome, and whether to keep that.

        An outcome that says nothing of the kernel, such as of an arch that does not work, is not
        kept. The caller may add to the queue meanwhile.
        """
        while tasks:
            first = tasks[0].job
            with process_for(first, self._timeout) as process:
                absent = process.start()
                while tasks and tasks[0].job.group == first.group:
                    task = tasks.popleft()
                    began = time.perf_counter()
                    process.timeout = task.seconds(self._timeout)
                    found = (
                        absence(first.place, absent)
                        if absent
                        else process.run(task.job, task.baseline)
                    )
                    busy = time.perf_counter() - began
                    yield task, Done(task.work, found, device_name(first.arch), busy), not absent


def in_order(tasks: Iterable[Task]) -> deque[Task]:
    """Return tasks with those of one group and one problem in a row, which share their data."""
    listed = tuple(tasks)
    first: dict[Any, int] = {}
    for task in listed:
        first.setdefault(task.job.group, len(first))
        first.setdefault(task.problem, len(first))
    return deque(sorted(listed, key=lambda t: (first[t.job.group], first[t.problem])))


def absence(place: str, reason: str) -> Measurement:
    """Return the outcome of a task for an arch, or for ranks on it, that does not work."""
    return Measurement("refused", f"{place} does not work here: {reason}")
