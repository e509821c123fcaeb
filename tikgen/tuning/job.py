"""One schedule to measure, and its measurement; both travel as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tikgen.children.job import KernelJob, KernelOutcome
from tikgen.pipeline.rendering import Variant
from tikgen.verification.case import literal

Kind = Literal["timed", "refused", "error", "mismatch", "crash", "timeout"]


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
    def of(cls, variant: Variant, arch: str, sizes: Mapping[str, int], **more: Any) -> Job:
        """Return the job that measures a variant; ``more`` are further attributes."""
        return cls(
            template=variant.template.name,
            folder=str(variant.template.folder),
            arch=arch,
            params={name: literal(value) for name, value in variant.params.items()},
            sizes=dict(sizes),
            baked=bool(variant.sizes),
            **more,
        )


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
