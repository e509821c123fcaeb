"""Runs the jobs of a sweep on this machine, one after the other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tikgen.machine.devices import device_name
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.sweeps.results_file import Done


@dataclass(frozen=True, eq=False)
class Task:
    """A job to measure.

    Attributes:
        work: equal for equal work.
        job: what to measure.
        problem: equal for jobs that take the same arrays.
        device: where it must run; empty where any device will do.
    """

    work: str
    job: Job
    problem: str = ""
    device: str = ""


class Runner(Protocol):
    """Measures tasks somewhere."""

    # How many tasks are measured at once.
    width: int

    def devices(self, archs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the devices behind each arch."""

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Done, bool]]:
        """Yield each task with what came of it, and whether that is worth keeping.

        What says nothing of the kernel, such as an arch that does not work, is not.
        """


class LocalRunner:
    """Measures on this machine, each arch in a process of its own.

    Args:
        timeout: seconds that a job may take to compile, to be verified and to be timed.
    """

    width = 1

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def devices(self, archs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the device behind each arch."""
        return {arch: (device_name(arch),) for arch in archs}

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Done, bool]]:
        """Yield each task with what came of it, and whether that is worth keeping."""
        for arch, group in itertools.groupby(in_order(tasks), key=lambda task: task.job.arch):
            with MeasuringProcess(arch, self._timeout) as process:
                absent = process.start()
                for task in group:
                    began = time.perf_counter()
                    found = absence(arch, absent) if absent else process.run(task.job)
                    busy = time.perf_counter() - began
                    yield task, Done(task.work, found, device_name(arch), busy), not absent


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks with those of one arch and one problem in a row, which share their data."""
    first: dict[str, int] = {}
    for task in tasks:
        first.setdefault(task.job.arch, len(first))
        first.setdefault(task.problem, len(first))
    return sorted(tasks, key=lambda task: (first[task.job.arch], first[task.problem]))


def absence(arch: str, reason: str) -> Measurement:
    """Return the outcome of whatever was to run on an arch that does not work."""
    return Measurement("refused", f"{arch} does not work here: {reason}")
