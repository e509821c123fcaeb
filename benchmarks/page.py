"""Prints measurements as a table and writes it into a page, with machine, versions and date."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import random
import textwrap
from collections.abc import Iterable, Sequence
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
    most_more: float | None = None
    unit: str = "s"

    @property
    def met(self) -> bool:
        """Tell whether the row reaches what it must."""
        fast = self.most is None or self.ours <= self.most
        ahead = self.most_ratio is None or (
            self.theirs is not None and self.ours <= self.most_ratio * self.theirs
        )
        near = self.most_more is None or (
            self.theirs is not None and self.ours <= self.theirs + self.most_more
        )
        return fast and ahead and near

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        ratio = "" if self.theirs is None else _ratio(self.ours / self.theirs)
        limits = [
            *([] if self.most is None else [shown(self.most, self.unit)]),
            *([] if self.most_ratio is None else [_ratio(self.most_ratio)]),
            *(
                []
                if self.most_more is None
                else [f"the peer and {shown(self.most_more, self.unit)}"]
            ),
        ]
        verdict = ("yes" if self.met else "**no**") if limits else ""
        theirs = "" if self.theirs is None else shown(self.theirs, self.unit)
        ours = shown(self.ours, self.unit)
        return (self.what, ours, self.peer, theirs, ratio, " and ".join(limits), verdict)


HEAD = ("what", "tikgen", "peer", "the peer", "ratio", "must reach", "met")


def write_page(page: Path, section: str, rows: list[Row]) -> None:
    """Print the table of ``rows`` and put it between the markers of ``section`` in ``page``."""
    lines = [_circumstances(), "", *table(HEAD, [row.cells() for row in rows])]
    print("\n".join(lines))
    write_section(page, section, lines)


def write_works(
    page: Path,
    arch: str,
    method: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *more: str,
    section: str = "",
) -> None:
    """Print works that were timed, and put them between the markers of ``section`` in ``page``.

    Args:
        page: the page.
        arch: what they ran on.
        method: sizes and rounds, the beginning of a sentence that ends with the device.
        head: what the columns show.
        rows: a work each.
        more: paragraphs below the table.
        section: the name in the markers, ``arch`` if none is given.
    """
    from machine import description

    machine = description(arch)
    device = machine.get("device") or f"{machine['processor']}, {machine['cores']} cores"
    lines = [f"{method}, on {device}.", f"{machine['date']}, {machine['versions']}."]
    lines += ["", *table(head, rows)]
    lines += [line for paragraph in more for line in ("", paragraph)]
    print("\n".join(lines))
    write_section(page, section or arch, lines)


def drawn_seed(description: str) -> int:
    """Return the seed that the command line gives, or a new one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return int(parser.parse_args().seed)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]


def write_section(page: Path, section: str, lines: list[str]) -> None:
    """Put ``lines`` between the markers of ``section`` in ``page``."""
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{page} lacks the markers {begin} and {end}")
    text = before + "\n".join([begin, *map(_wrapped, lines), end]) + after
    page.write_text(text, encoding="utf-8")


def _wrapped(line: str) -> str:
    """Return a line of prose on lines of at most 100 columns; tables stay as they are."""
    if line.startswith(("|", "#", "![")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(
        line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _ratio(value: float) -> str:
    if value >= 1:
        return f"{value:.3g}"
    return f"1/{1 / value:.0f}" if value < 0.01 else f"1/{1 / value:.3g}"


def shown(value: float, unit: str) -> str:
    """Return a number with its unit, for people."""
    if unit != "s":
        return f"{value:.3g} {unit}"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def _circumstances() -> str:
    # Late, since core.py measures how long importing Taichi and tikgen takes.
    from machine import versions
    from tikgen.machine.devices import cpu_name, device_name

    gpu = f"{device_name('cuda')}, " if os.environ.get("TIKGEN_TEST_ARCH") == "cuda" else ""
    date = datetime.datetime.now(tz=datetime.timezone.utc).date()
    libraries = versions(("tikgen", "taichi", "numpy", "jinja2", "pydantic"))
    return (
        f"{date}, {gpu}{cpu_name()}, {os.cpu_count()} cores, {platform.system()}, {libraries}. "
        "Medians; tikgen and its peer take turns in one process."
    )
