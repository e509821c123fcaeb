"""How many faults in a kernel's text a verification noticed, and which it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Survivor:
    """A mutant that agreed with the reference in every launch.

    Attributes:
        kind: what was changed, such as ``"operator"``.
        template_line: ``file:line`` of the template from which the line was rendered.
        diff: the line as it was and as it was changed.
        params: the variant, each parameter as a Python literal.
        reason: why no launch shows it, as the template says above its line, if it does.
    """

    kind: str
    template_line: str
    diff: str
    params: Mapping[str, Any]
    reason: str = ""

    def __str__(self) -> str:
        params = ", ".join(f"{k}={v!r}" for k, v in self.params.items())
        head = f"survived: {self.kind}, {self.template_line or 'a line of no template'}"
        tail = [f"  in {params}"] + ([f"  because {self.reason}"] if self.reason else [])
        return "\n".join([head, *(f"  {li}" for li in self.diff.split("\n")), *tail])


@dataclass(frozen=True)
class Mutation:
    """The outcome of a kernel's mutants on one arch.

    Attributes:
        seed: seed of what was drawn.
        killed: how many mutants were noticed, by what showed it: ``"mismatch"``, ``"crash"``,
            ``"timeout"`` or ``"error"``.
        survivors: those that were not, whether or not the template gives a reason.
        invalid: mutants that Taichi does not compile; they count neither way.
        equal: changes that left the code as it was, or as the compiler makes it.
        variants: how many variants were mutated.
        kinds: for each kind of change, how many were noticed and how many counted.
        seconds: time taken.
    """

    seed: int
    killed: Mapping[str, int] = field(default_factory=dict)
    survivors: tuple[Survivor, ...] = ()
    invalid: int = 0
    equal: int = 0
    variants: int = 0
    kinds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def counted(self) -> int:
        """Return how many mutants were noticed or survived."""
        return sum(self.killed.values()) + len(self.survivors)

    @property
    def explained(self) -> tuple[Survivor, ...]:
        """Return the survivors for which the template gives a reason; they count all the same."""
        return tuple(survivor for survivor in self.survivors if survivor.reason)

    @property
    def noticed(self) -> tuple[int, int]:
        """Return how many mutants were noticed, of how many."""
        return sum(self.killed.values()), self.counted

    @property
    def score(self) -> float | None:
        """Return the part of the mutants that was noticed, or None where there were none."""
        return sum(self.killed.values()) / self.counted if self.counted else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        survivors = [
            asdict(s) | {"params": {k: repr(v) for k, v in s.params.items()}}
            for s in self.survivors
        ]
        kinds = {kind: list(counts) for kind, counts in self.kinds.items()}
        found = {"score": self.score, **vars(self), "killed": dict(self.killed)}
        return found | {"kinds": kinds, "survivors": survivors}

    def __str__(self) -> str:
        if self.score is None:
            return "mutants: none that Taichi compiles"
        noticed = ", ".join(f"{n} by {kind}" for kind, n in sorted(self.killed.items())) or "none"
        explained = len(self.explained)
        lines = [
            f"mutants: {sum(self.killed.values())} of {self.counted} killed, score "
            f"{self.score:.0%} ({noticed}), of {self.variants} variants in {self.seconds:.1f} s; "
            f"not counted: {self.invalid} that do not compile, {self.equal} of equal code"
            + (f"; the template gives a reason for {explained} of the survivors" * (explained > 0))
        ]
        for survivor in self.survivors:
            lines += str(survivor).split("\n")
        return "\n".join(lines)
