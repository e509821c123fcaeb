"""HTML for notebooks: the parts that every repr is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tikgen.pipeline.evidence import Evidence
from tikgen.pipeline.rendering import Source
from tikgen.template.parameters import ParameterInfo, canonical

if TYPE_CHECKING:
    pass

# Longer texts are folded until someone asks for them.
_MOST_OPEN_LINES = 40

# Notebooks do not tell whether they are dark. So text has their own colour, rules and grounds are
# transparent grey, and all other colours are of a lightness that reads on white and on black.
# `!important` is for what JupyterLab's own style says about every table.
STYLE = """
.tikgen { font-size: 13px; line-height: 1.45; max-width: 62em; }
.tikgen h4 { margin: 0.2em 0 0; font-size: 15px; font-weight: 600; line-height: 1.6; }
.tikgen h5 { margin: 1em 0 0.2em !important; font-size: 11px; font-weight: 600; opacity: 0.7;
  text-transform: uppercase; letter-spacing: 0.06em; font-style: normal; }
.tikgen p { margin: 0.1em 0 0.3em !important; }
.tikgen .side { display: flex; flex-wrap: wrap; gap: 0 3em; align-items: flex-start; }
.tikgen table { margin: 0 !important; border-collapse: collapse; font-size: inherit; border: 0;
  table-layout: auto; }
.tikgen tr { background: none !important; }
.tikgen th, .tikgen td { text-align: left !important; vertical-align: top; padding: 1px 14px 1px 0;
  border: 0; max-width: none; font-weight: inherit; overflow-wrap: break-word; }
.tikgen thead th { opacity: 0.7; border-bottom: 1px solid rgb(128 128 128 / 45%); }
.tikgen tbody tr:hover { background: rgb(128 128 128 / 12%) !important; }
.tikgen .number { text-align: right !important; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.tikgen .bar { background: linear-gradient(rgb(47 129 200 / 38%) 0 0) no-repeat 0 1px
  / var(--w) 1.3em; min-width: 8em; }
.tikgen .mono, .tikgen code, .tikgen pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas,
  "DejaVu Sans Mono", monospace; font-size: 12px; background: none; }
.tikgen code { padding: 0 3px; border-radius: 3px; background: rgb(128 128 128 / 18%); }
.tikgen .pale { opacity: 0.65; }
.tikgen .whole, .tikgen thead th { white-space: nowrap; }
.tikgen .strong { font-weight: 600; }
.tikgen .good { color: #23863a; } .tikgen .bad { color: #dc4040; } .tikgen .fair { color: #a87000; }
.tikgen summary { cursor: pointer; margin: 0.9em 0 0.2em; font-size: 12px; }
.tikgen .code { max-height: 32em; overflow: auto; border: 1px solid rgb(128 128 128 / 30%);
  border-radius: 4px; background: rgb(128 128 128 / 7%); }
.tikgen .code td { padding: 0 12px 0 0; line-height: 1.4; white-space: nowrap; }
.tikgen .code pre { margin: 0; padding: 0; line-height: 1.4; white-space: pre !important; }
.tikgen .code td:not(:last-child) { opacity: 0.55; user-select: none; padding-left: 10px;
  text-align: right !important; }
.tikgen .code td:last-child { width: 100%; border-left: 1px solid rgb(128 128 128 / 30%);
  padding-left: 12px; }
.tikgen .k, .tikgen .kn, .tikgen .kc, .tikgen .ow { color: #a050c8; }
.tikgen .nf, .tikgen .nc { color: #2879d0; } .tikgen .nd { color: #a87000; }
.tikgen .nb, .tikgen .bp { color: #178080; }
.tikgen .mi, .tikgen .mf { color: #c0601a; }
.tikgen .s1, .tikgen .s2, .tikgen .sd { color: #23863a; }
.tikgen .c1 { opacity: 0.6; font-style: italic; }
"""


# The parts.


def tag(name: str, *inner: object, **attributes: str) -> Markup:
    """Return an element; whatever stands in it and is no ``Markup`` is escaped.

    Args:
        name: name of the element.
        inner: what it holds.
        attributes: its attributes; ``class_`` stands for ``class``; empty ones are left out.
    """
    head = join(
        Markup(' {}="{}"').format(key.rstrip("_"), value)
        for key, value in attributes.items()
        if value
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, head, join(inner))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts one after the other, each escaped unless it is ``Markup``."""
    return Markup("").join(parts)  # type: ignore[arg-type]


def card(title: object, *sections: object) -> str:
    """Return the whole repr of an object: the stylesheet, a title and what follows it."""
    style = tag("style", Markup(STYLE))
    return str(tag("div", style, tag("h4", title), *sections, class_="tikgen"))


def section(title: str, *inner: object) -> Markup:
    """Return a part with a small heading."""
    return tag("div", tag("h5", title), *inner)


def folded(title: object, inner: object, is_open: bool = False) -> Markup:
    """Return a part that unfolds at a click."""
    return tag("details", tag("summary", title), inner, open="open" if is_open else "")


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[int] = ()
) -> Markup:
    """Return a table.

    Args:
        header: a title for each column; none at all leaves out the line.
        rows: the cells of each row; a cell that is a ``td`` already is taken as it is.
        numbers: which columns hold numbers, that are aligned at the right.
    """
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
    """Return a line that says how many rows were left out; nothing where none were."""
    return tag("p", f"... and {count} more", class_="pale") if count > 0 else ""


def code(text: str, places: Sequence[str] = ()) -> Markup:
    """Return highlighted Python with line numbers.

    Args:
        text: the code.
        places: for each line the ``file:line`` that it came from, shown at its left.
    """
    # Comes with rich; takes a while to import.
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    # Blank lines in front would be stripped, and the numbers were off.
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


# What more than one repr shows.


def of_source(source: Source, is_open: bool | None = None) -> Markup:
    """Return a rendered text, each line with the line of the template that it came from.

    Args:
        source: the text.
        is_open: whether it is unfolded; None unfolds texts of up to 40 lines.
    """
    count = len(source.line_map)
    title = f"source: {count} lines, digest {source.digest[:16]}"
    body = code(source.text, source.line_map)
    return folded(title, body, count <= _MOST_OPEN_LINES if is_open is None else is_open)


def parameter_values(infos: Iterable[ParameterInfo], params: Mapping[str, Any]) -> Markup:
    """Return a table for each kind of parameter; what differs from its default is bold."""
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
    """Return what verifications showed, one row for each arch."""
    rows = [
        (
            e.arch,
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
    """Return what a verification left open."""
    said = [f"never varied: {', '.join(evidence.never_varied)}"] if evidence.never_varied else []
    if evidence.mutants:
        noticed, counted = evidence.mutants
        said.append(f"{noticed} of {counted} mutants killed")
    return "; ".join(said)


def prose(text: str) -> Iterator[object]:
    """Yield the parts of a text, those between backticks as code."""
    for number, part in enumerate(text.split("`")):
        yield tag("code", part) if number % 2 else part
