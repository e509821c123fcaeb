"""Shows in notebooks what sweeps and tunings measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tikgen import html
from tikgen.parameters import canonical
from tikgen.records import TIMED
from tikgen.units import duration

if TYPE_CHECKING:
    from tikgen.tuning.result import TuneResult
    from tikgen.tuning.sweep_result import SweepResult

_ROWS = 20


def of_sweep(result: SweepResult) -> str:
    """Return the rows with a time, the fastest first, with bars; then why others have none."""
    header, cells = result.cells(rows=_ROWS)
    rows: list[list[object]] = [list(line) for line in cells]
    if rows and "seconds" in header:
        place = header.index("seconds")
        seconds = [row["seconds"] for row in result.ranked[:_ROWS]]
        for row, taken in zip(rows, seconds, strict=True):
            row[place] = html.bar(str(row[place]), taken / max(seconds))
    return html.card(
        result.summary,
        html.table(header, rows, numbers=range(len(header))) if rows else "",
        _more(len(result.timed)),
        *(html.tag("p", line, class_="fair") for line in result.reasons),
    )


def of_tuning(result: TuneResult) -> str:
    """Return what was found and the fastest schedules, in the columns in which they differ."""
    rows = [row for row in result.table() if row["kind"] == TIMED][:_ROWS]
    names = [n for n in result.best.schedule if len({canonical(r[n]) for r in rows}) > 1]
    worst = max((row["ratio"] or 0.0 for row in rows), default=0.0) or 1.0
    lines = [_tuned_row(row, names, worst, result.default.schedule) for row in rows]
    return html.card(
        result.title,
        html.tag("p", result.device, class_="pale"),
        *(html.tag("p", line) for line in result.summary),
        html.table(
            ("time of a launch", "spread", "of default", *names),
            lines,
            numbers=range(3 + len(names)),
        ),
        _more(result.kinds.get(TIMED, 0)),
    )


def _more(count: int) -> object:
    return html.tag("p", f"... and {count - _ROWS} more", class_="pale") if count > _ROWS else ""


def _tuned_row(
    row: Mapping[str, Any], names: Sequence[str], worst: float, default: Mapping[str, Any]
) -> tuple[object, ...]:
    return (
        duration(row["seconds"]),
        f"{row['spread']:.0%}",
        html.bar(f"{row['ratio']:.3f}", row["ratio"] / worst) if row["ratio"] else "",
        *(
            html.tag("span", canonical(row[n]), class_="pale" if row[n] == default.get(n) else "")
            for n in names
        ),
    )
