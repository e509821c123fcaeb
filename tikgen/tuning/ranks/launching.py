"""Starts the ranks that measure a kernel: the command, and why there is none."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path

from tikgen.tuning.job import Job, RanksJob
from tikgen.tuning.process import MeasuringProcess

_MPIEXEC = "mpiexec"


def is_command(launcher: str) -> bool:
    """Return whether a text is a command."""
    try:
        return bool(shlex.split(launcher))
    except ValueError:  # A quote is missing.
        return False


def problem_of(launcher: str) -> str:
    """Return why a launcher cannot start ranks here, or an empty string.

    Args:
        launcher: the command; empty for mpiexec.
    """
    if not importlib.util.find_spec("mpi4py"):
        return "ranks need mpi4py: pip install 'tikgen[mpi]'"
    first, *_ = shlex.split(launcher or _MPIEXEC)
    if not _found(first):
        hint = "" if launcher else ": pip install mpich, or name what starts ranks as launcher"
        return f"there is no {first}{hint}"
    return ""


def command_of(launcher: str, ranks: int) -> list[str]:
    """Return the command that starts ranks, in front of that of each."""
    first, *others = shlex.split(launcher or _MPIEXEC)
    return [_found(first) or first, *others, "-n", str(ranks)]


def _found(name: str) -> str | None:
    """Return the path of a command: beside this Python, or on the PATH."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


class RanksProcess(MeasuringProcess):
    """Measures on a grid that several processes share, of which rank 0 answers.

    Args:
        arch: the arch.
        ranks: how many processes.
        launcher: what starts them; empty for mpiexec.
        timeout: seconds that a candidate may take to compile, to be verified and to be timed.
    """

    def __init__(self, arch: str, ranks: int, launcher: str, timeout: float) -> None:
        super().__init__(
            arch,
            timeout,
            module="tikgen.tuning.ranks.worker",
            arguments=[str(ranks)],
            launcher=command_of(launcher, ranks),
        )
        self._named = launcher

    def start(self) -> str:
        """Start the processes; return why they cannot work, or an empty string."""
        return problem_of(self._named) or super().start()


def process_for(job: Job, timeout: float) -> MeasuringProcess:
    """Return what measures the jobs of the group of a job."""
    if isinstance(job, RanksJob):
        return RanksProcess(job.arch, job.ranks, job.launcher, timeout)
    return MeasuringProcess(job.arch, timeout)
