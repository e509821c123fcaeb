"""What a Slurm job asks for, checked before a script is written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tikgen.errors import SubmissionError

SWEEP = "sweep"
# No spaces, quotes or signs that bash or sbatch would read: the line needs no quoting.
_WORD = re.compile(r"[\w.,:@%+/=\[\]-]+", re.ASCII)
_DIRECTIVE = re.compile(rf"--[a-z][a-z0-9-]*(={_WORD.pattern})?", re.ASCII)
_TIME = re.compile(
    r"(?:(?P<days>\d+)-(?P<h>[01]?\d|2[0-3])(?::(?P<m>[0-5]?\d)(?::(?P<s>[0-5]?\d))?)?"
    r"|(?:(?P<hours>\d+):(?=\d+:))?(?P<minutes>(?(hours)[0-5]?\d|\d+))(?::(?P<seconds>[0-5]?\d))?)",
    re.ASCII,
)
_WITHOUT_LIMIT = ("unlimited", "infinite")
_MOST_WARNED = 0xFFFF  # Seconds, says sbatch.


@dataclass(frozen=True)
class Job:
    """A program on some ranks, or a sweep with a worker each or whose kernels run on ranks.

    Attributes:
        words: the script and its arguments, or those of ``tikgen sweep``.
        is_sweep: whether it is a sweep.
        ranks: how many processes.
        ranks_per_node: how many of them on a node at most; None for Slurm's choice.
        nodes: how many nodes; None for as many as needed.
        time: how long at most, as Slurm writes it: ``"90"`` minutes, ``"12:00:00"``, ``"2-12"``,
            ``"UNLIMITED"``.
        partition: the partition, or several with commas between.
        account: who pays.
        gpus_per_rank: how many GPUs each rank has.
        cpus_per_rank: how many cores each rank has.
        stop_before: how many minutes before the end SIGTERM is sent; 0 for not at all.
        requeue: whether a job that was stopped goes back into the queue.
        name: name of the job; None for that of the script.
        log: file for what it prints, with Slurm's ``%x`` and ``%j``.
        mpi: what ``srun --mpi`` takes, such as ``"pmix"``; None for Slurm's default.
        python: the Python that runs it.
        setup: commands for bash before it starts, such as ``"module load mpich"``.
        further: further options of sbatch, such as ``"--exclusive"``.

    Raises:
        SubmissionError: if something does not fit.
    """

    words: tuple[str, ...]
    is_sweep: bool = False
    ranks: int = 1
    ranks_per_node: int | None = None
    nodes: int | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    gpus_per_rank: int = 0
    cpus_per_rank: int = 1
    stop_before: float = 5
    requeue: bool = True
    name: str | None = None
    log: str = "%x-%j.log"
    mpi: str | None = None
    python: str = "python"
    setup: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_words()
        for name, least in (
            ("ranks", 1),
            ("ranks_per_node", 1),
            ("nodes", 1),
            ("gpus_per_rank", 0),
            ("cpus_per_rank", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SubmissionError(f"{_option(name)} takes {least} or more; got {value}")
        self._check_nodes()
        for name in ("partition", "account", "name", "log", "mpi"):
            value = getattr(self, name)
            if value is not None and not _WORD.fullmatch(value):
                raise SubmissionError(
                    f"{_option(name)} takes letters, digits and . , : @ % + / = _ -; got {value!r}"
                )
        for line in self.setup:
            if not line.strip() or "\n" in line or "\r" in line:
                raise SubmissionError(f"--setup takes a command on one line; got {line!r}")
        for option in self.further:
            if not _DIRECTIVE.fullmatch(option):
                raise SubmissionError(
                    "--sbatch takes an option as --name or --name=value, without spaces and "
                    f"quotes; got {option!r}"
                )
        self._check_time()

    @property
    def given(self) -> Mapping[str, list[str]]:
        """Return the values of each option among its words, each as the word behind it."""
        found: dict[str, list[str]] = {}
        for word, behind in zip(self.words, (*self.words[1:], ""), strict=True):
            name, equals, value = word.partition("=")
            found.setdefault(name, []).append(value if equals else behind)
        return found

    @property
    def on_ranks(self) -> bool:
        """Return whether it is a sweep whose kernels run on ranks, and not on workers of Dask."""
        return self.is_sweep and "--ranks" in self.given

    def _check_words(self) -> None:
        if not self.words:
            what = "a template, as tikgen sweep does" if self.is_sweep else "a script"
            raise SubmissionError(f"the job takes {what}")
        if self.is_sweep and "--scheduler" in self.given:
            raise SubmissionError("the job starts a scheduler of its own; leave out --scheduler")
        most = max(map(int, filter(str.isdecimal, self.given.get("--ranks", []))), default=0)
        if self.is_sweep and most > self.ranks:
            raise SubmissionError(
                f"the sweep measures on {most} ranks, and the job has {self.ranks}; say --ranks "
                f"{most} before sweep, too"
            )
        if self.is_sweep and self.requeue and "--results" not in self.given:
            raise SubmissionError(
                "a sweep that was stopped goes on with what --results FILE holds; say it, or "
                "--no-requeue"
            )

    def _check_nodes(self) -> None:
        nodes, most = self.nodes, self.ranks_per_node
        if nodes is None:
            return
        if nodes > self.ranks:
            raise SubmissionError(f"{self.ranks} ranks do not need {nodes} nodes")
        if most is not None and nodes * most < self.ranks:
            raise SubmissionError(
                f"{nodes} nodes with {most} ranks each have room for {nodes * most} ranks, not for "
                f"{self.ranks}"
            )

    def _check_time(self) -> None:
        most = _MOST_WARNED // 60
        if not 0 <= self.stop_before <= most:
            raise SubmissionError(
                f"--stop-before takes minutes from 0 to {most}; got {self.stop_before:g}"
            )
        if self.time is None:
            return
        seconds = seconds_of(self.time)
        if seconds <= 60 * self.stop_before:
            raise SubmissionError(
                f"a job of {self.time} cannot be stopped {self.stop_before:g} minutes before its "
                "end; give it more --time, or a shorter --stop-before"
            )

    @property
    def title(self) -> str:
        """Return the name of the job."""
        if self.name is not None:
            return self.name
        what = f"{SWEEP}-{self.words[0]}" if self.is_sweep else self.words[0]
        return re.sub(r"[^\w.-]+", "-", Path(what).stem, flags=re.ASCII).strip("-") or "tikgen"

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options of sbatch that have a value."""
        most, nodes = self.ranks_per_node, self.nodes
        if nodes is None and most is not None:
            nodes = -(-self.ranks // most)
        found: dict[str, Any] = {"nodes": nodes, "ntasks": self.ranks, "ntasks-per-node": most}
        found |= {"cpus-per-task": self.cpus_per_rank, "gpus-per-task": self.gpus_per_rank}
        found |= {"time": self.time, "partition": self.partition, "account": self.account}
        if self.stop_before:  # SIGTERM goes to ranks, or to the script that stops a sweep.
            to = "B:" if self.is_sweep else ""
            found["signal"] = f"{to}TERM@{max(1, round(60 * self.stop_before))}"
        return {name: value for name, value in found.items() if value}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def seconds_of(time: str) -> float:
    """Return how many seconds a time of Slurm's has, infinity where it is without limit.

    Raises:
        SubmissionError: if it is none.
    """
    if time.lower() in _WITHOUT_LIMIT:
        return math.inf
    found = _TIME.fullmatch(time)
    parts = {} if found is None else {k: int(v) for k, v in found.groupdict("0").items()}
    total = 86400 * parts.get("days", 0)
    total += 3600 * (parts.get("h", 0) + parts.get("hours", 0))
    total += 60 * (parts.get("m", 0) + parts.get("minutes", 0))
    total += parts.get("s", 0) + parts.get("seconds", 0)
    if not total:
        raise SubmissionError(
            "--time takes minutes, as 90, 12:30:00 or days-hours, as 2-12:00:00, with hours up "
            "to 23 after days, and minutes and seconds up to 59 after a colon, or UNLIMITED; got "
            f"{time!r}"
        )
    return total
