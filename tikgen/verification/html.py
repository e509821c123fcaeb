"""Shows in notebooks what a verification found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tikgen import html
from tikgen.units import duration

if TYPE_CHECKING:
    from markupsafe import Markup

    from tikgen.verification.report import ArchReport, Report

_KINDS = {"passed": "good", "failed": "bad", "skipped": "fair", "absent": "fair"}


def of_report(report: Report) -> str:
    """Return a row for each arch, what was skipped, and each failure with how to repeat it."""
    verdict = html.status("ok", "good") if report.ok else html.status("NOT ok", "bad")
    rows = [_row(arch) for arch in report.archs]
    header = ("arch", "status", "examples", "variants", "worst error", "time", "")
    return html.card(
        html.join((f"{report.template}: ", verdict)),
        html.tag("p", f"seed {report.seed}", class_="pale"),
        html.table(header, rows, numbers=(2, 3, 4, 5)),
        *(_mutation(arch) for arch in report.archs if arch.mutation is not None),
        *(_failure(arch) for arch in report.archs if arch.failure is not None),
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


def _failure(arch: ArchReport) -> Markup:
    return html.section(f"smallest failure on {arch.arch}", html.tag("pre", str(arch.failure)))


def _mutation(arch: ArchReport) -> Markup:
    return html.section(f"mutants on {arch.arch}", html.tag("pre", str(arch.mutation)))
