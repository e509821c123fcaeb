"""The report of a verification."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from tikgen import engines
from tikgen.errors import VerificationError
from tikgen.lifecycle import html
from tikgen.template import shapes
from tikgen.units import duration
from tikgen.verification.case import Case, Outcome
from tikgen.verification.mutation import Mutation

if TYPE_CHECKING:
    from rich.table import Table

Status = Literal["passed", "failed", "skipped", "absent"]

_KINDS = {"passed": "good", "failed": "bad", "skipped": "fair", "absent": "fair"}
_STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow", "absent": "yellow"}


@dataclass(frozen=True)
class Failure:
    """The smallest failing case, its outcome, and a script that repeats it."""

    case: Case
    outcome: Outcome
    script: Path | None = None

    def __str__(self) -> str:
        lines = [f"{self.outcome.kind}: {self.outcome.message}", f"  {self.case}"]
        if self.script is not None:
            lines.append(f"  reproduce it with: python {self.script}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ArchReport:
    """The report of one arch.

    Attributes:
        arch: the arch.
        examples: launches that agreed with the reference.
        variants: distinct variants among them.
        skipped: reasons why variants cannot run on the arch, and how many.
        worst: largest error as a fraction of the tolerance.
        error: largest absolute error.
        seconds: time taken.
        failure: the smallest failure, if any.
        absent: why the arch does not work here, or an empty string.
        never_varied: parameters that were not fixed, and had a single value in all launches.
        pinned: parameters of which the template allowed a single value in every variant.
        mutation: how many mutants were noticed, if any were asked for.
        launched: how often each engine launched a kernel.
        largest: the largest size of each symbol among the examples, not of one launch.
        elements: elements of the largest array among them.
        loose: outputs of which most elements could as well be zero within the tolerance.
    """

    arch: str
    examples: int = 0
    variants: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    worst: float = 0.0
    error: float = 0.0
    seconds: float = 0.0
    failure: Failure | None = None
    absent: str = ""
    never_varied: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    mutation: Mutation | None = None
    launched: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, int] = field(default_factory=dict)
    elements: int = 0
    loose: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """Return ``"passed"`` only where examples ran and all agreed."""
        if self.failure is not None:
            return "failed"
        if self.absent:
            return "absent"
        return "passed" if self.examples else "skipped"

    @property
    def summary(self) -> str:
        """Return the report in a line."""
        if self.absent:
            return self.absent
        ran = f"{self.examples} examples of {self.variants} variants in {self.seconds:.1f} s"
        if self.examples:
            ran += f", worst error {self.worst:.2g} of the tolerance ({self.error:.2g})"
        return ran

    @property
    def notes(self) -> list[str]:
        """Return in a line each the sizes, what launched, was not varied, was skipped and why."""
        notes = []
        if self.examples and self.largest:
            notes.append(
                f"sizes up to {shapes.shown(self.largest)}; arrays up to {self.elements:,} elements"
            )
        if self.launched.keys() - {engines.TAICHI}:
            shown = [f"{count} by {engine}" for engine, count in sorted(self.launched.items())]
            notes.append(f"launches: {', '.join(shown)}")
        if self.examples and self.pinned:
            notes.append(f"one value only on {self.arch}: {', '.join(self.pinned)}")
        return [*notes, *(f"{n} skipped: {reason}" for reason, n in self.skipped.items())]

    @property
    def warning(self) -> str:
        """Return in a line what was not verified although nothing failed; empty where all was."""
        found = []
        if self.examples and self.never_varied:
            found.append(f"NEVER VARIED: {', '.join(self.never_varied)}")
        if self.examples and self.loose:
            loose = ", ".join(self.loose)
            found.append(f"LOOSE TOLERANCE: most elements of {loose} could as well be 0")
        return "; ".join(found)


@dataclass(frozen=True)
class Report:
    """The report of a verification of a template, arch by arch; printing it shows the text.

    Attributes:
        template: name of the template.
        seed: seed that repeats all that was drawn.
        archs: one report for each arch, with ``arch``, ``status``, ``examples``, ``variants``,
            ``worst`` (the largest error as a fraction of the tolerance), ``failure`` and others.
    """

    template: str
    seed: int
    archs: tuple[ArchReport, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing failed, and at least one arch passed."""
        found = [arch.status for arch in self.archs]
        return "failed" not in found and "passed" in found

    @property
    def score(self) -> float | None:
        """Return the lowest mutation score of all archs, or None where none was measured."""
        scores = [arch.mutation.score for arch in self.archs if arch.mutation is not None]
        return min((s for s in scores if s is not None), default=None)

    def raise_for_failure(self) -> None:
        """Raise :class:`VerificationError` unless the report is ok."""
        if self.ok:
            return
        for arch in self.archs:
            if arch.failure is not None:
                outcome = arch.failure.outcome
                raise VerificationError(
                    self.template,
                    f"{outcome.kind}: {outcome.message}\n{arch.failure.case}",
                    str(arch.failure.script or ""),
                )
        reasons = "; ".join(f"{a.arch}: {a.summary}" for a in self.archs)
        raise VerificationError(self.template, f"Nothing was verified ({reasons}).")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON document; an infinite error is None."""
        archs = []
        for arch in self.archs:
            found = asdict(arch) | {"status": arch.status, "skipped": dict(arch.skipped)}
            if arch.failure is not None:
                found["failure"] = {
                    "kind": arch.failure.outcome.kind,
                    "message": arch.failure.outcome.message,
                    "case": str(arch.failure.case),
                    "params": {k: repr(v) for k, v in arch.failure.case.params.items()},
                    "script": str(arch.failure.script) if arch.failure.script else None,
                }
            lists = {
                name: list(getattr(arch, name)) for name in ("never_varied", "pinned", "loose")
            }
            found |= lists
            found["mutation"] = arch.mutation.to_dict() if arch.mutation else None
            for name in ("worst", "error"):
                found[name] = found[name] if math.isfinite(found[name]) else None
            archs.append(found)
        return {"template": self.template, "seed": self.seed, "ok": self.ok, "archs": archs}

    def __str__(self) -> str:
        lines = [f"{self.template}: {'ok' if self.ok else 'NOT ok'} (seed {self.seed})"]
        for arch in self.archs:
            lines.append(f"  {arch.arch:8}{arch.status:9}{arch.summary}")
            lines += [f"    {arch.warning}"] if arch.warning else []
            lines += [f"    {note}" for note in arch.notes]
            if arch.mutation is not None:
                lines += [f"    {line}" for line in str(arch.mutation).splitlines()]
            if arch.failure is not None:
                lines += [f"    {line}" for line in str(arch.failure).splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html_of(self)

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=f"{self.template}, seed {self.seed}", title_justify="left")
        table.add_column("arch")
        table.add_column("status")
        table.add_column("found", overflow="fold")
        for arch in self.archs:
            notes = list(arch.notes)
            notes += [str(part) for part in (arch.mutation, arch.failure) if part is not None]
            found = Text("\n".join([arch.summary, *notes]))
            if arch.warning:
                found = Text.assemble((arch.warning, "bold yellow"), "\n", found)
            table.add_row(arch.arch, Text(arch.status, style=_STYLES[arch.status]), found)
        return table


def _html_of(report: Report) -> str:
    verdict = html.status("ok", "good") if report.ok else html.status("NOT ok", "bad")
    rows = [_row(arch) for arch in report.archs]
    header = ("arch", "status", "examples", "variants", "worst error", "time", "")
    return html.card(
        html.join((f"{report.template}: ", verdict)),
        html.tag("p", f"seed {report.seed}", class_="pale"),
        html.table(header, rows, numbers=(2, 3, 4, 5)),
        *(_section("mutants", a.arch, a.mutation) for a in report.archs if a.mutation is not None),
        *(_section("smallest failure", a.arch, a.failure) for a in report.archs if a.failure),
    )


def _row(arch: ArchReport) -> tuple[object, ...]:
    notes = [html.tag("div", note) for note in arch.notes]
    if arch.warning:
        notes.insert(0, html.tag("div", html.status(arch.warning, "fair")))
    ran = bool(arch.examples)
    return (
        html.tag("span", arch.arch, class_="whole"),
        html.status(arch.status, _KINDS[arch.status]),
        arch.examples if ran else "",
        arch.variants if ran else "",
        f"{arch.worst:.2g} of the tolerance" if ran else "",
        duration(arch.seconds) if ran else "",
        html.join((arch.absent, *notes)),
    )


def _section(what: str, arch: str, found: object) -> Markup:
    return html.section(f"{what} on {arch}", html.tag("pre", str(found)))
