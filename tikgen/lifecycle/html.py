"""HTML for notebooks: the building blocks of every repr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tikgen import engines
from tikgen.pipeline.evidence import Evidence
from tikgen.pipeline.rendering import Source
from tikgen.template.parameters import ParameterInfo, canonical

# Longer texts are folded.
_MOST_OPEN_LINES = 40

STYLE = (Path(__file__).parent / "notebook.css").read_text(encoding="utf-8")


def tag(name: str, *inner: object, **attributes: str) -> Markup:
    """Return an element; contents that are not ``Markup`` are escaped.

    In ``attributes``, ``class_`` means ``class``; empty ones are omitted.
    """
    head = join(
        Markup(' {}="{}"').format(key.rstrip("_"), value)
        for key, value in attributes.items()
        if value
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, head, join(inner))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts joined, each escaped unless it is ``Markup``."""
    return Markup("").join(parts)  # type: ignore[arg-type]


def card(title: object, *sections: object) -> str:
    """Return the whole repr of an object: the stylesheet, a title and sections."""
    style = tag("style", Markup(STYLE))
    return str(tag("div", style, tag("h4", title), *sections, class_="tikgen"))


def section(title: str, *inner: object) -> Markup:
    """Return a part with a small heading."""
    return tag("div", tag("h5", title), *inner)


def folded(title: object, inner: object, is_open: bool = False) -> Markup:
    """Return a section that unfolds at a click."""
    return tag("details", tag("summary", title), inner, open="open" if is_open else "")


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Markup:
    """Return a table; ``numbers`` are the indices of columns that are aligned right."""
    right = frozenset(numbers)
    kinds = ["number" if column in right else "" for column in range(len(header) or 64)]
    titles = [tag("th", text, class_=kind) for text, kind in zip(header, kinds, strict=False)]
    head = tag("thead", tag("tr", *titles)) if header else ""
    lines = [
        tag("tr", *(_cell(value, kind) for value, kind in zip(row, kinds, strict=False)))
        for row in rows
    ]
    return tag("table", head, tag("tbody", *lines))


def bar(text: str, share: float) -> Markup:
    """Return a cell with a bar behind its text, as long as ``share`` of the cell."""
    width = 100 * min(max(share, 0.0), 1.0)
    return tag("td", text, class_="number bar", style=f"--w: {width:.1f}%")


def _cell(value: object, kind: str) -> Markup:
    if isinstance(value, Markup) and value.startswith("<td"):
        return value
    return tag("td", value, class_=kind)


def status(text: str, kind: str) -> Markup:
    """Return a word in the colour of its ``kind``: good, fair or bad."""
    return tag("span", text, class_=f"{kind} strong whole")


def more(count: int) -> object:
    """Return a line with the number of omitted rows, or an empty string if there are none."""
    return tag("p", f"... and {count} more", class_="pale") if count > 0 else ""


def code(text: str, places: Sequence[str] = ()) -> Markup:
    """Return highlighted Python with line numbers and the origin of each line, ``file:line``."""
    # Slow to import.
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    # With stripnl, leading blank lines would be removed and the numbers be wrong.
    marked = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    shown: list[tuple[object, ...]] = []
    last_file = ""
    for number, line in enumerate(marked.splitlines()):
        place = places[number] if number < len(places) else ""
        file, _, template_line = place.rpartition(":")
        origin = place if file != last_file else template_line
        shown.append((*((origin,) if places else ()), number + 1, tag("pre", Markup(line))))
        last_file = file
    return tag("div", table((), shown), class_="code mono")


def of_source(source: Source, is_open: bool | None = None) -> Markup:
    """Return a rendered text, each line with its template line; by default long ones are folded."""
    count = len(source.line_map)
    title = f"source: {count} lines, digest {source.digest[:16]}"
    body = code(source.text, source.line_map)
    return folded(title, body, count <= _MOST_OPEN_LINES if is_open is None else is_open)


def parameter_values(infos: Iterable[ParameterInfo], params: Mapping[str, Any]) -> Markup:
    """Return a table for each kind of parameter; values that are not the default are bold."""
    known = list(infos)
    parts = []
    for kind in ("problem", "schedule"):
        rows = []
        for info in known:
            if info.kind == kind:
                shown = canonical(params[info.name])
                name = tag("span", info.name, title=info.meaning)
                changed = "" if shown == info.default else "strong"
                rows.append((name, tag("span", shown, class_=f"mono {changed}".strip())))
        if rows:
            parts.append(section(kind, table((), rows)))
    return tag("div", *parts, class_="side")


def evidence_table(evidence: Iterable[Evidence]) -> Markup:
    """Return a table of evidence with a row for each arch and engine."""
    rows = [
        (
            e.arch if e.engine == engines.TAICHI else f"{e.arch}, {e.engine}",
            status("passed", "good") if e.passed else status("failed", "bad"),
            e.examples,
            f"{e.worst:.2g} of the tolerance",
            e.when.replace("T", " ").partition("+")[0] + " UTC",
            _limits_of(e),
        )
        for e in evidence
    ]
    return table(("arch", "result", "examples", "worst error", "when", ""), rows, numbers=(2,))


def _limits_of(evidence: Evidence) -> str:
    """Return what a verification did not vary, its mutation score, and whether it was strict."""
    parts = [f"never varied: {', '.join(evidence.never_varied)}"] if evidence.never_varied else []
    if evidence.mutants:
        killed, counted = evidence.mutants
        parts.append(f"{killed} of {counted} mutants killed")
    if set(evidence.fast_math) == {False}:
        parts.append("without fast math")
    return "; ".join(parts)


def prose(text: str) -> Iterator[object]:
    """Yield the parts of a text; those between backticks are code."""
    for number, part in enumerate(text.split("`")):
        yield tag("code", part) if number % 2 else part
