"""Prints measurements as a table and writes it into a page, with machine, versions and date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One measurement, the same of a peer in the same run, and what it must reach."""

    what: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    most: float | None = None
    most_ratio: float | None = None
    unit: str = "s"

    @property
    def met(self) -> bool:
        """Tell whether the row reaches what it must."""
        fast = self.most is None or self.ours <= self.most
        ahead = self.most_ratio is None or (
            self.theirs is not None and self.ours <= self.most_ratio * self.theirs
        )
        return fast and ahead

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        ratio = "" if self.theirs is None else _ratio(self.ours / self.theirs)
        limits = [
            *([] if self.most is None else [_shown(self.most, self.unit)]),
            *([] if self.most_ratio is None else [_ratio(self.most_ratio)]),
        ]
        verdict = ("yes" if self.met else "**no**") if limits else ""
        theirs = "" if self.theirs is None else _shown(self.theirs, self.unit)
        ours = _shown(self.ours, self.unit)
        return (self.what, ours, self.peer, theirs, ratio, " and ".join(limits), verdict)


HEAD = ("what", "tikgen", "peer", "the peer", "ratio", "must reach", "met")


def write_page(page: Path, section: str, rows: list[Row]) -> None:
    """Print the table of ``rows`` and put it between the markers of ``section`` in ``page``."""
    table = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in rows)]
    lines = [_circumstances(), "", *("| " + " | ".join(cells) + " |" for cells in table)]
    print("\n".join(lines))
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} lacks the markers {begin} and {end}")
    text = before + "\n".join([begin, *lines, end]) + after
    page.write_text(text, encoding="utf-8")


def _ratio(value: float) -> str:
    if value >= 1:
        return f"{value:.3g}"
    return f"1/{1 / value:.0f}" if value < 0.01 else f"1/{1 / value:.3g}"


def _shown(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:.3g} {unit}"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def _circumstances() -> str:
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("tikgen", "taichi", "numpy", "jinja2", "pydantic")
    )
    date = datetime.datetime.now(tz=datetime.timezone.utc).date()
    return (
        f"{date}, {_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, {versions}. Medians; tikgen and its peer take turns "
        "in one process."
    )


def _processor() -> str:
    """Return the name of the processor, where the system tells it."""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
