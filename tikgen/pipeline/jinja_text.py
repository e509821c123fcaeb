"""The language of templates: Jinja2 with indentation and line marks.

Lines that begin with ``#%`` are Jinja2 statements. They are rewritten to blocks here, since
Jinja2's own line statements remove the blank lines after them. Two rules let templates nest like
Python:

* a line that consists of ``{{ expression }}`` alone is replaced by the lines of its value, each
  at the indentation of that line, and removed if the value is empty;
* the common indentation of the body of ``#% call`` and ``#% macro`` is removed, and the output of
  a ``#% call`` gets the indentation of its statement.

Every text line also gets a mark with its file and line number, which survives macros and
indentation. So each rendered line can be traced to its template line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment, StrictUndefined
from jinja2.ext import Extension
from jinja2.loaders import BaseLoader

STATEMENT = "#%"
_MARK = re.compile("\x02([^\x02\x03]*)\x03")
_VALUE_LINE = re.compile(r"(?P<indent>\s*)\{\{-?(?P<value>.*?)-?\}\}\s*")
_OPENING = re.compile(r"\{[{%#]")
_ENDS = {
    "endcall": "{% endcall %}{% endfilter %}",
    "endmacro": "{% endfilter %}{% endmacro %}",
}
# Two whole numbers that are added or subtracted in succession.
_CONSTANTS = re.compile(r" ([+-]) (\d+) ([+-]) (\d+)(?![\w.]| [*/%])")
_HEAD = re.compile(r"\s*#%-?\s*(?P<word>\w+)")


def make_environment(loader: BaseLoader) -> Environment:
    """Return the Jinja2 environment in which every template is rendered."""
    environment = Environment(
        loader=loader,
        extensions=[Indentation],
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=True,
    )
    environment.filters["reindent"] = reindent
    environment.filters["lines_at"] = _lines_at
    environment.filters["folded"] = folded
    return environment


class Indentation(Extension):
    """Rewrites a template so that calls, macros and values keep their indentation."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Return ``source`` with marks and indentation filters; line numbers do not change."""
        if "\x02" in source or "\x03" in source:
            raise ValueError("a template cannot hold the control characters 2 and 3")
        rewritten = []
        awaited = ""  # The end of a tag that began on an earlier line.
        for number, line, text in _statements(source.split("\n")):
            began_above, awaited = awaited, _open_tag(line, awaited) if text is None else ""
            if text is None:
                whole = not began_above and not awaited
                text = _rewrite_text(line, f"{name}:{number}") if whole else line
            rewritten.append(text)
        return "\n".join(rewritten)


def _statements(lines: list[str]) -> Iterator[tuple[int, str, str | None]]:
    """Yield (number, line, rewritten statement), the last None for a line of text."""
    depth = 0
    closing = ""
    for number, line in enumerate(lines, 1):
        if depth:  # A statement continues until its brackets close.
            depth += _open_brackets(line)
            yield number, line, line + (closing if not depth else "")
            continue
        head = _HEAD.match(line)
        if head is None:
            yield number, line, None
            continue
        indent = len(line) - len(line.lstrip())
        body = line.lstrip()[len(STATEMENT) :].strip().removesuffix(":")
        depth = _open_brackets(body)
        closing = " %}"
        if head["word"] == "call":
            text = f"{{% filter reindent({indent}) %}}{{% {body}"
        elif head["word"] == "macro":
            closing = " %}{% filter reindent(0) %}"
            text = f"{{% {body}"
        elif head["word"] in _ENDS:
            text = _ENDS[head["word"]]
        else:
            text = f"{{% {body}"
        yield number, line, text if depth or head["word"] in _ENDS else text + closing


def _open_tag(line: str, awaited: str) -> str:
    """Return the end of a Jinja2 tag that is still open after ``line``, or an empty string."""
    position = 0
    while True:
        if awaited:
            position = line.find(awaited, position)
            if position < 0:
                return awaited
            position += 2
        opening = _OPENING.search(line, position)
        if opening is None:
            return ""
        awaited = {"{{": "}}", "{%": "%}", "{#": "#}"}[opening[0]]
        position = opening.end()


def _open_brackets(text: str) -> int:
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    return sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))


def _rewrite_text(line: str, place: str) -> str:
    """Return a text line with its mark, and with a filter if it is a value alone."""
    if not line.strip() or line.lstrip().startswith(("{%", "{#")) or line.rstrip().endswith("%}"):
        return line
    value = _VALUE_LINE.fullmatch(line)
    if value is not None and "}}" not in value["value"]:
        indent = len(value["indent"])
        return f"{{{{ ({value['value'].strip()}) | lines_at({indent}, '{place}') }}}}"
    return f"{line}\x02{place}\x03"


def reindent(text: str, indent: int) -> str:
    """Return ``text`` with ``indent`` spaces instead of its common indentation."""
    lines = _reindented(text, indent)
    return "\n".join([*lines, ""])


def _reindented(text: str, indent: int) -> list[str]:
    lines = text.splitlines()
    while lines and not _MARK.sub("", lines[0]).strip():
        lines.pop(0)
    while lines and not _MARK.sub("", lines[-1]).strip():
        lines.pop()
    if not lines:
        return lines
    margin = 0
    if lines[0][0].isspace():
        margin = min(len(li) - len(li.lstrip()) for li in lines if li and not li.isspace())
    if margin == indent:
        return lines
    pad = " " * indent
    return [pad + li[margin:] if li else "" for li in lines]


def folded(text: str) -> str:
    """Return the code of an index with its constants added up: ``n - 2`` for ``n - 1 - 1``."""
    while found := _CONSTANTS.search(text):
        total = int(found[1] + found[2]) + int(found[3] + found[4])
        sum_of_both = f" {'+' if total > 0 else '-'} {abs(total)}" if total else ""
        text = text[: found.start()] + sum_of_both + text[found.end() :]
    return text


def _lines_at(value: object, indent: int, place: str) -> str:
    """Return the lines of ``value`` at ``indent``, with a mark on those that have none."""
    # A line with nothing but a mark is removed later: an empty value leaves no line.
    lines = _reindented(str(value), indent) or [" " * indent]
    # A blank line between others gets no mark, and so stays.
    marked = [
        li if "\x02" in li or (len(lines) > 1 and not li.strip()) else f"{li}\x02{place}\x03"
        for li in lines
    ]
    return "\n".join(marked)


def split_marks(rendered: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without marks, and the template line of each of its lines.

    Runs of blank lines are cut to two, and removed at the beginning.
    """
    lines: list[str] = []
    places: list[str] = []
    place = ""
    for line in rendered.split("\n"):
        pieces = _MARK.split(line)  # Text and marks in turn.
        text = "".join(pieces[::2]).rstrip()
        if len(pieces) > 1:
            place = pieces[-2]
        if not text and (len(pieces) > 1 or not any(lines[-2:])):
            continue
        lines.append(text)
        places.append(place)
    while lines and not lines[-1]:
        lines.pop()
        places.pop()
    return "\n".join(lines) + "\n", tuple(places)
