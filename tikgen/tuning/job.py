"""One schedule to measure, and its measurement; both travel as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tikgen.children.job import KernelJob, KernelOutcome
from tikgen.pipeline.rendering import Variant
from tikgen.verification.case import literal

Kind = Literal["timed", "refused", "error", "mismatch", "crash", "timeout", "changed"]
AnyJob = TypeVar("AnyJob", bound="Job")


@dataclass(frozen=True, eq=False)
class Job(KernelJob):
    """A variant to verify and time on arrays of some sizes.

    Attributes:
        rounds: how often a batch of launches is timed.
        least: rounds to time however long they take; None for the usual few.
        data: folder with a user's own data; empty for data that the template calls typical.
        same: for each output that shares the array of an input, the name of that input.
        is_verified: whether the kernel was verified before, in another process.
    """

    rounds: int = 5
    least: int | None = None
    data: str = ""
    same: Mapping[str, str] = field(default_factory=dict)
    is_verified: bool = False

    @classmethod
    def of(
        cls: type[AnyJob], variant: Variant, arch: str, sizes: Mapping[str, int], **more: Any
    ) -> AnyJob:
        """Return the job that measures a variant; ``more`` are further attributes."""
        return cls(
            template=variant.template.name,
            folder=str(variant.template.folder),
            fingerprint=variant.template.fingerprint,
            arch=arch,
            params={name: literal(value) for name, value in variant.params.items()},
            sizes=dict(sizes),
            baked=bool(variant.sizes),
            **more,
        )

    @property
    def group(self) -> tuple[str, ...]:
        """Return what jobs have in common that one process can measure."""
        return (self.arch,)

    @property
    def place(self) -> str:
        """Return where it runs, for people."""
        return self.arch


@dataclass(frozen=True, eq=False)
class RanksJob(Job):
    """A variant to verify and time on a grid that several processes share.

    Attributes:
        ranks: how many processes.
        launcher: what starts them, to which ``-n`` and their number are added; empty for mpiexec.
    """

    ranks: int = 1
    launcher: str = ""

    @property
    def group(self) -> tuple[str, ...]:
        """Return what jobs have in common that the same processes can measure."""
        return (self.arch, str(self.ranks), self.launcher)

    @property
    def place(self) -> str:
        """Return where it runs, for people."""
        return f"{self.arch} with {self.ranks} rank{'s' * (self.ranks > 1)}"


def job_of(line: str) -> Job:
    """Return the job, on ranks or not, that :attr:`Job.line` wrote."""
    return (RanksJob if "ranks" in json.loads(line) else Job).from_line(line)


@dataclass(frozen=True)
class Measurement(KernelOutcome):
    """The outcome of a job.

    Attributes:
        kind: ``"timed"``; ``"refused"`` where the parameters conflict, or the arch or its memory
            cannot take them; ``"error"`` where the kernel does not build;
            ``"mismatch"`` where it disagrees with the reference; ``"crash"`` or ``"timeout"``
            where its process died or did not answer.
        seconds: median time of a launch, device synchronisation included; where there are several
            kinds of data, the geometric mean over them.
        spread: interquartile range of the rounds over their median, the largest of all kinds.
        rounds: how many rounds were timed.
        compile_seconds: time that Taichi took to compile the kernel.
        verify_seconds: time that the verification took, almost none where equal code was verified.
        worst: largest error as a fraction of the tolerance.
        baseline_seconds: median time of a launch of the baseline beside it; 0 without one.
        ratio: median over the rounds of the seconds over those of the baseline; 1 without one.
        ratios: the ratio of each round, the geometric mean over the kinds of data.
        worst_ratio: the median ratio on the kind of data where it is largest.
    """

    kind: Kind
    seconds: float = 0.0
    spread: float = 0.0
    rounds: int = 0
    compile_seconds: float = 0.0
    verify_seconds: float = 0.0
    worst: float = 0.0
    baseline_seconds: float = 0.0
    ratio: float = 1.0
    ratios: Sequence[float] = ()
    worst_ratio: float = 1.0

    @property
    def ok(self) -> bool:
        """Return whether the kernel agrees with the reference and has a time."""
        return self.kind == "timed"
