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
        least: rounds to time however long they take; None for the few that any job gets.
        data: folder with a user's own data; empty for data that the template calls typical.
        same: the name of an output, and of the input that is the very same array.
        is_verified: whether the kernel was verified before, in another process.
    """

    rounds: int = 5
    least: int | None = None
    data: str = ""
    same: Mapping[str, str] = field(default_factory=dict)
    is_verified: bool = False

    @classmethod
    def of(cls, variant: Variant, arch: str, sizes: Mapping[str, int], **more: Any) -> Job:
        """Return the job that measures ``variant``; ``more`` are further attributes."""
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
        kind: ``"timed"``; ``"refused"`` where the parameters do not go together, or the arch or
            its memory cannot take them; ``"error"`` where the kernel does not build;
            ``"mismatch"`` where it disagrees with the reference; ``"crash"`` or ``"timeout"``
            where its process died or did not answer.
        seconds: median time of a launch, device synchronisation included; where there are several
            kinds of data, the geometric mean over them.
        spread: interquartile range of the rounds over their median, the greatest of all kinds.
        rounds: how many rounds were timed.
        compile_seconds: time that Taichi took to compile the kernel.
        verify_seconds: time that verifying took, next to none where equal code was verified before.
        worst: greatest error as a fraction of what is allowed.
        baseline_seconds: median time of a launch of the baseline in the same, interleaved run;
            0 without a baseline.
        ratio: median over the rounds of the seconds over those of the baseline, in which drift of
            the machine cancels; 1 without a baseline.
        ratios: that of each round, the geometric mean over the kinds of data.
        worst_ratio: the median ratio on that kind of data where it is greatest.
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
        """Tell whether the kernel agrees with the reference and has a time."""
        return self.kind == "timed"
