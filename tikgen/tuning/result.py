"""The result of a tuning."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from tikgen.lifecycle import html
from tikgen.pipeline.records import OWN, TIMED, TYPICAL, Record
from tikgen.template.parameters import canonical
from tikgen.template.shapes import shown
from tikgen.text_layout import fit
from tikgen.tuning import pictures
from tikgen.units import duration

if TYPE_CHECKING:
    from rich.console import Group

_SHOWN, _HTML_ROWS = 10, 20


@dataclass(frozen=True)
class TuneResult:
    """The fastest schedule found, the default one, and the record of every candidate.

    Attributes:
        template: name of the template.
        problem: each problem parameter as text.
        arch: where it ran.
        device: name of the device.
        sizes: value of each size symbol.
        strategy: the strategy that chose what to try.
        seed: seed of all that was drawn.
        best: record of the schedule that was faster than the default beyond doubt, in fresh
            processes, else of the default.
        default: record of the default schedule.
        records: record of each candidate, in the order in which they were first tried, including
            those of earlier tunings.
        points: number of schedules in the space.
        measured: number of measurements of this tuning.
        seconds: time taken.
        stopped: whether all was tried, or the budget or an interruption ended the search.
        workload: what it was timed on: ``"typical"`` data of the template, or your ``"own"``.
    """

    template: str
    problem: Mapping[str, str]
    arch: str
    device: str
    sizes: Mapping[str, int]
    strategy: str
    seed: int
    best: Record
    default: Record
    records: tuple[Record, ...]
    points: int
    measured: int
    seconds: float
    stopped: Literal["complete", "budget", "interrupted"]
    workload: str = TYPICAL

    @property
    def schedule(self) -> dict[str, Any]:
        """Return the schedule parameters of the best record, as ``build`` takes them."""
        return dict(self.best.schedule)

    @property
    def speedup(self) -> float | None:
        """Return how many times as fast as the default the best is; None if that has no time."""
        return 1 / self.best.ratio if self.default.kind == TIMED and self.best.ratio else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the speedup; None if it has none."""
        if self.speedup is None or not self.best.is_proven:
            return None
        return 1 / self.best.ratio_high, 1 / self.best.ratio_low

    @property
    def kinds(self) -> dict[str, int]:
        """Return the number of candidates by outcome."""
        return dict(Counter(record.kind for record in self.records))

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each candidate, with its schedule and its outcome.

        The best comes first, then the others by their ratios, which were measured briefly.
        """
        ranked = sorted(
            self.records,
            key=lambda r: (r.kind != TIMED, r != self.best, r.ratio or math.inf, r.seconds),
        )
        return [
            {
                **record.schedule,
                "kind": record.kind,
                "seconds": record.seconds or None,
                "spread": record.spread,
                "ratio": record.ratio or None,
                "interval": (record.ratio_low, record.ratio_high) if record.is_proven else None,
                "message": record.message,
            }
            for record in ranked
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        more = {"speedup": self.speedup, "interval": self.interval, "kinds": self.kinds}
        return asdict(self) | more

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the time of each candidate in order, and what was proven in the end.

        Args:
            path: picture to write; its suffix names the format.

        Raises:
            TikgenError: if matplotlib is not installed, or the picture cannot be written.
        """
        times = [self._shown_seconds(record) for record in self.records]
        given = (self.title, times, self.best, self.speedup, self.interval)
        pictures.saved(pictures.drawing().draw_search(*given), path)

    def _shown_seconds(self, record: Record) -> float:
        """Return the seconds of a record, by its ratio to the best one where it has one."""
        if record.kind != TIMED:
            return math.nan
        if not (record.ratio and self.best.ratio):
            return record.seconds
        return record.ratio / self.best.ratio * self.best.seconds

    @property
    def title(self) -> str:
        """Return what was tuned, in a line."""
        return f"{self.template} on {self.arch}, {shown(self.sizes) or 'fixed shapes'}"

    @property
    def summary(self) -> list[str]:
        """Return what was found, in a few lines."""
        gain = f", {self.best.gain}" if self.speedup is not None else ""
        lines = [f"best: {1e3 * self.best.seconds:.4g} ms{gain}", f"  {_changes(self)}"]
        if self.workload == OWN:
            lines.append("timed on your own data")
        if self.best.sizes != self.sizes:
            measured = f"measured at {shown(self.best.sizes)} (shapes that round alike)"
            lines.append(f"  {measured}; --fresh, or fresh=True, measures this one")
        others = {kind: n for kind, n in self.kinds.items() if kind != TIMED}
        failed = "".join(f", {n} {kind}" for kind, n in others.items())
        lines.append(
            f"{self.kinds.get(TIMED, 0)} of {self.points} schedules timed{failed}; "
            f"{self.measured} measurements in {self.seconds:.1f} s, {self.strategy}, "
            f"{_ENDS[self.stopped]}"
        )
        return lines

    def text(self, width: int | None = 80) -> str:
        """Return what was tuned and found, in lines of at most ``width`` columns, or of any."""
        return fit("\n  ".join([f"{self.title}: {self.device}", *self.summary]), width)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = [row for row in self.table() if row["kind"] == TIMED][:_HTML_ROWS]
        names = [n for n in self.best.schedule if len({canonical(r[n]) for r in rows}) > 1]
        worst = max((row["ratio"] or 0.0 for row in rows), default=0.0) or 1.0
        default = self.default.schedule
        lines = []
        for row in rows:
            ratio = html.bar(f"{row['ratio']:.3f}", row["ratio"] / worst) if row["ratio"] else ""
            values = [
                html.tag(
                    "span", canonical(row[n]), class_="pale" if row[n] == default.get(n) else ""
                )
                for n in names
            ]
            lines.append((duration(row["seconds"]), f"{row['spread']:.0%}", ratio, *values))
        header = ("time of a launch", "spread", "of default", *names)
        return html.card(
            self.title,
            html.tag("p", self.device, class_="pale"),
            *(html.tag("p", line) for line in self.summary),
            html.table(header, lines, numbers=range(len(header))),
            html.more(self.kinds.get(TIMED, 0) - _HTML_ROWS),
        )

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        rows = self.table()[:_SHOWN]
        names = [n for n in self.best.schedule if len({canonical(r[n]) for r in rows}) > 1]
        for column in ("ms", "spread", "of default"):
            table.add_column(column, justify="right", header_style="bold cyan")
        table.add_column("schedule", header_style="bold cyan")
        for row in rows:
            if row["seconds"] is not None:
                times = [f"{1e3 * row['seconds']:.4g}", f"{row['spread']:.0%}"]
                times.append(f"{row['ratio']:.3f}" if row["ratio"] else "")
                table.add_row(*times, Text(", ".join(f"{n}={row[n]!r}" for n in names)))
        return Group(table, Text(str(self)))


_ENDS = {
    "complete": "nothing left to try",
    "budget": "ended by the budget; tune again to continue",
    "interrupted": "interrupted; tune again to continue",
}


def _changes(result: TuneResult) -> str:
    """Return how the best schedule differs from the default."""
    default = result.default.schedule
    changed = {k: v for k, v in result.best.schedule.items() if v != default.get(k)}
    if not changed:
        return "the default schedule"
    return ", ".join(f"{name}={value!r}" for name, value in changed.items())
