"""The table of a sweep: search it, show it, draw it and save it."""

from __future__ import annotations

import numbers
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikgen.disk import path_of
from tikgen.errors import ParameterError, TikgenError
from tikgen.lifecycle import html
from tikgen.text_layout import fit
from tikgen.tuning import pictures
from tikgen.tuning.sweeps import formats
from tikgen.tuning.sweeps.combinations import SIZE
from tikgen.tuning.sweeps.rows import GREATEST, METRICS, OUTCOME, Row
from tikgen.units import counted, duration
from tikgen.untrusted import printable
from tikgen.verification.case import literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from rich.table import Table

_SHOWN = ("seconds", "spread", "gb_per_s", "gflop_per_s", "share")
_ROWS_SHOWN = 10
_HTML_ROWS = 20
# Left out first where a text would be too wide.
_SPARE = ("gflop_per_s", "spread", "gb_per_s")
_FAILURES = ("error", "mismatch", "crash", "timeout")


class SweepResult:
    """The rows of a sweep, one for each combination, in the order of the product.

    A row is a dict. It begins with the columns that distinguish it: template, arch, shape, baked,
    every parameter, each size. Then come ``digest``, ``kind`` (``"timed"``, ``"refused"``,
    ``"error"``, ``"mismatch"``, ``"crash"``, ``"timeout"`` or ``"missing"``) and ``message``, and
    what was measured. Unknown values are None.

    Attributes:
        rows: the rows.
        columns: the names of all columns.
        about: template, versions, devices, counts and times; empty where the result was loaded
            from a CSV file.
    """

    def __init__(self, rows: Sequence[Row], about: Mapping[str, Any] | None = None) -> None:
        # Refused combinations lack what could not be resolved, so that the longest row leads.
        front: dict[str, None] = {}
        back: dict[str, None] = {}
        for row in sorted(rows, key=len, reverse=True):
            names = list(row)
            start = names.index("digest")
            front |= dict.fromkeys(names[:start])
            back |= dict.fromkeys(names[start:])
        self.columns: tuple[str, ...] = (*front, *back)
        self.rows: tuple[Row, ...] = tuple({n: row.get(n) for n in self.columns} for row in rows)
        self._front = tuple(front)
        self.about: dict[str, Any] = dict(about or {})

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the parameters that vary, with ``arch``, ``shape`` and ``baked`` if they do."""
        # A refused combination was not resolved: it lacks what was not given.
        whole = [row for row in self.rows if row["digest"]] or self.rows
        named = (n for n in self._front if not n.startswith(SIZE))
        return tuple(n for n in named if len({repr(row[n]) for row in whole}) > 1)

    @property
    def seconds(self) -> dict[str, float]:
        """Return where the time went: ``total``, ``planning``, ``measuring``, ``overhead``.

        ``measuring``, in the processes that run kernels, consists of ``compiling``, ``verifying``
        and ``running``, which includes making data. ``overhead`` is all but measuring.
        """
        return dict(self.about.get("seconds", {}))

    @property
    def summary(self) -> str:
        """Return in a line what was swept, and how much of it has a time."""
        templates = dict.fromkeys(printable(row["template"]) for row in self.rows)
        kernels = len({(r["arch"], r["shape"], r["digest"]) for r in self.timed})
        line = f"{', '.join(templates) or 'nothing'}: {counted(len(self), 'combination')}"
        line += f", {len(self.timed)} timed ({counted(kernels, 'kernel')})"
        if "total" in self.seconds:
            line += f" in {self.seconds['total']:.1f} s"
        return line + ("" if self.about.get("complete", True) else ", INTERRUPTED")

    @property
    def reasons(self) -> list[str]:
        """Return why rows have no time, and how many rows each reason holds for."""
        found = Counter((r["kind"], r["message"]) for r in self.rows if r["kind"] != "timed")
        most = found.most_common(8)
        return [printable(f"{count} {kind}: {message}") for (kind, message), count in most]

    @property
    def timed(self) -> tuple[Row, ...]:
        """Return the rows that have a time."""
        return tuple(row for row in self.rows if row["kind"] == "timed")

    @property
    def failed(self) -> tuple[Row, ...]:
        """Return the rows whose kernel did not build, was wrong, crashed or did not answer."""
        return tuple(row for row in self.rows if row["kind"] in _FAILURES)

    @property
    def ranked(self) -> list[Row]:
        """Return the rows that have a time, the fastest first."""
        return sorted(self.timed, key=lambda row: row.get("seconds") or 0.0)

    def best(self, by: str = "seconds", **where: Any) -> Row:
        """Return the row with the best value of a column.

        The fastest rows of each problem were measured again, in turn; ``ratio`` is None in a row
        that was measured by itself alone.

        Args:
            by: the column; of rates and shares the greatest is best, of all others the least.
            where: values that other columns must have, such as ``dtype="f32"``.

        Raises:
            ParameterError: if there is no such column.
            TikgenError: if no row has a value there.
        """
        self._check_columns(by, *where)
        found = [
            row
            for row in self.timed
            if row[by] is not None and all(row[n] == literal(v) for n, v in where.items())
        ]
        if not found:
            asked = "".join(f" with {name}={value!r}" for name, value in where.items())
            why = "; ".join(self.reasons) or "empty"
            raise TikgenError(f"No row{asked} has a value of {by}: {why}.")
        choose = max if by in GREATEST else min
        return choose(found, key=lambda row: row[by])

    def table(self, columns: Sequence[str] | None = None, rows: int | None = None) -> str:
        """Return the rows with a time as aligned text, the fastest first.

        Args:
            columns: columns to show; None shows those that vary, and the main ones measured.
            rows: how many rows; None shows all.

        Raises:
            ParameterError: if there is no such column, or ``rows`` is no number of rows.
        """
        return _aligned(*self.cells(columns, rows))

    def cells(
        self, columns: Sequence[str] | None = None, rows: int | None = None
    ) -> tuple[list[str], list[list[str]]]:
        """Return the header and the lines of :meth:`table`, cell by cell."""
        if isinstance(columns, str) or not isinstance(columns, Iterable | None):
            problem = f"takes a list of columns; got {columns!r:.60}"
            raise ParameterError("table", {"columns": problem})
        is_count = isinstance(rows, numbers.Integral) and not isinstance(rows, bool) and rows >= 0
        if rows is not None and not is_count:
            problem = f"takes a whole number of 0 or more; got {rows!r:.60}"
            raise ParameterError("table", {"rows": problem})
        self._check_columns(*columns or ())
        if columns is None:
            back = self.columns[len(self._front) + len(OUTCOME) :]
            columns = [*self.axes, *(n for n in back if n in _SHOWN or n not in METRICS)]
        return [printable(name) for name in columns], [
            [_shown(name, row[name]) for name in columns] for row in self.ranked[:rows]
        ]

    def to_pandas(self) -> DataFrame:
        """Return the rows as a pandas DataFrame.

        Raises:
            TikgenError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise TikgenError("to_pandas needs pandas: pip install 'tikgen[pandas]'.") from None
        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as ``.csv``, ``.json`` or ``.parquet``, whichever ``path`` ends with.

        Raises:
            TikgenError: if the file cannot be written, or its kind is another one; for parquet,
                if pyarrow is not installed.
        """
        formats.save(_path(path, "save"), self.columns, self.rows, self.about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SweepResult:
        """Return the result that :meth:`save` wrote.

        Raises:
            TikgenError: if the file cannot be read, or holds something else.
        """
        return cls(*formats.load(_path(path, "load")))

    def plot(
        self,
        x: str | None = None,
        y: str | None = None,
        hue: str | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """Draw a column over an axis as lines, or over two axes as a heat map.

        Where several rows fall on one point, the best of them is drawn.

        Args:
            x: the axis; None takes the first that varies.
            y: a column that was measured, ``"seconds"`` if None; or another axis, for a heat map.
            hue: for lines, the axis that distinguishes them; for a heat map, the column that
                gives the colour, ``"seconds"`` if None.
            path: picture to write, such as ``plot.png``.

        Raises:
            ParameterError: if there is no such column.
            TikgenError: if nothing was timed, matplotlib is not installed, or the picture cannot
                be written.
        """
        self._check_columns(*(name for name in (x, y, hue) if name is not None))
        # Schedule parameters that were chosen along with others vary as well, and are no axes.
        axes = [name for name in self.axes if name in self.about.get("axes", self.axes)]
        measured = [*METRICS, *self.columns[self.columns.index("digest") :]]
        figure = pictures.drawing().draw(self.timed, axes, measured, x, y, hue)
        return pictures.saved(figure, path)

    def roofline(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw operations per second over operations per byte, below the machine's limits.

        Args:
            path: picture to write, such as ``roofline.png``.

        Raises:
            TikgenError: if no row has a time and known work, matplotlib is not installed, or the
                picture cannot be written.
        """
        return pictures.saved(pictures.drawing().draw_roofline(self.timed), path)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON document."""
        return formats.document(self.rows, self.about)

    def text(self, width: int | None = 80) -> str:
        """Return the fastest rows, in lines of at most ``width`` columns, or of any.

        A table that is too wide has fewer columns, then shorter texts.
        """
        lines = [fit(self.summary, width, hang=0)]
        if self.timed:
            lines.append(_aligned(*_narrowed(*self.cells(rows=_ROWS_SHOWN), width)))
            if len(self.timed) > _ROWS_SHOWN:
                lines.append(f"... and {len(self.timed) - _ROWS_SHOWN} more")
        return "\n".join([*lines, *(fit(reason, width) for reason in self.reasons)])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<SweepResult of {self.summary}>"

    def _repr_html_(self) -> str:
        header, cells = self.cells(rows=_HTML_ROWS)
        rows: list[list[object]] = [list(line) for line in cells]
        if rows and "seconds" in header:
            place = header.index("seconds")
            seconds = [row["seconds"] for row in self.ranked[:_HTML_ROWS]]
            for row, taken in zip(rows, seconds, strict=True):
                row[place] = html.bar(str(row[place]), taken / max(seconds))
        return html.card(
            self.summary,
            html.table(header, rows, numbers=range(len(header))) if rows else "",
            html.more(len(self.timed) - _HTML_ROWS),
            *(html.tag("p", line, class_="fair") for line in self.reasons),
        )

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        header, cells = self.cells(rows=_ROWS_SHOWN)
        more = len(self.timed) - _ROWS_SHOWN
        notes = [f"... and {more} more"] if more > 0 else []
        notes += self.reasons
        table = Table(
            title=self.summary,
            title_justify="left",
            caption=Text("\n".join(notes)) if notes else None,
            caption_justify="left",
            box=None,
            pad_edge=False,
        )
        for name in header:
            table.add_column(name, justify="right", header_style="bold cyan")
        for number, line in enumerate(cells):
            table.add_row(*map(Text, line), style="bold green" if number == 0 else None)
        return table

    def _check_columns(self, *names: str) -> None:
        for name in names:
            if name not in self.columns:
                raise ParameterError.unknown("sweep result", str(name), self.columns)


def _path(path: object, method: str) -> Path:
    where = f"SweepResult.{method}"
    return path_of(path, lambda problem: ParameterError(where, {"path": problem}))


def _aligned(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    return "\n".join(
        "  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True))
        for line in (header, *cells)
    )


def _narrowed(
    header: Sequence[str], cells: Sequence[Sequence[str]], width: int | None
) -> tuple[list[str], list[list[str]]]:
    """Return a table that fits a terminal: fewer columns, then shorter texts."""
    if width is None:
        return list(header), [list(line) for line in cells]
    columns = list(zip(header, *cells, strict=True))
    for name in _SPARE:
        if _width(columns, width) > width:
            columns = [column for column in columns if column[0] != name]
    most = next((m for m in range(width, 8, -1) if _width(columns, m) <= width), 8)
    kept, *lines = zip(*columns, strict=True)
    return list(kept), [[_cut(cell, most) for cell in line] for line in lines]


def _width(columns: Sequence[Sequence[str]], most: int) -> int:
    """Return the width of a table whose cells are cut."""
    header = [len(column[0]) for column in columns]
    widths = [max(len(_cut(cell, most)) for cell in column[1:]) for column in columns]
    return sum(max(pair) + 2 for pair in zip(header, widths, strict=True)) - 2


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else f"{cell[: most - 3]}..."


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return printable(str(value))
    if name in ("share", "spread"):
        return f"{value:.0%}" if name == "share" else f"{value:.1%}"
    if name == "seconds" or name.endswith("_seconds"):
        return duration(value)
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
