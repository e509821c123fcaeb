"""Completes names of templates, parameters and their choices in IPython and Jupyter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from tikgen.live.cells import parameters_of
from tikgen.template.catalogue import find_template, list_templates
from tikgen.template.parameters import ParameterInfo

# Functions of tikgen whose first argument is the name of a template.
_FUNCTIONS = ("build", "describe", "render", "sweep", "tune", "verify", "why")
_MAGIC = re.compile(r"%%?tikgen(?P<describe>_describe)?\s+(?P<rest>.*)$")
_TOKEN = re.compile(
    r"""(?P<string>(?P<triple>\"{3}|'{3})(?:\\.|(?!(?P=triple)).)*(?P<end>(?P=triple)|$)
        | (?P<quote>["'])(?:\\.|(?!(?P=quote))[^\\\n])*(?P<close>(?P=quote)|$|(?=\n)))
      | \#[^\n]* | (?P<name>[A-Za-z_][\w.]*) | (?P<open>[(\[{]) | (?P<shut>[)\]}]) | (?P<comma>,)
      | [^"'\#A-Za-z_()\[\]{},]+""",
    re.VERBOSE | re.DOTALL,
)


class Call(NamedTuple):
    """An unfinished call: the function as it is written, and each argument so far."""

    function: str
    arguments: list[str]


class Found(NamedTuple):
    """Completions, and whether there can be no others."""

    texts: list[str]
    is_all: bool


def complete(text: str, line: int, column: int, namespace: Mapping[str, Any]) -> Found:
    """Return tikgen's completions at the cursor, whose line and column are counted from 0."""
    lines = text.split("\n")
    before = lines[line][:column]
    try:
        magic = _MAGIC.search(before)
        if magic and (line == 0 or not before.lstrip().startswith("%%")):
            return Found(list(_in_magic(magic, lines, before.lstrip().startswith("%%"))), True)
        call = call_at("\n".join([*lines[:line], before]))
        if call is None or not _is_ours(call.function, namespace):
            return Found([], False)
        return Found(list(_in_call(call)), is_quoted(call.arguments[-1]))
    except Exception:  # Unfinished text may be anything, and must not raise.
        return Found([], False)


def call_at(text: str) -> Call | None:
    """Return the innermost call that is unfinished at the end of ``text``."""
    stack: list[tuple[str, str, list[int]]] = []
    last = ""
    for match in _TOKEN.finditer(text):
        if match["open"]:
            stack.append((match["open"], last if match["open"] == "(" else "", [match.end()]))
        elif match["shut"] and stack:
            stack.pop()
        elif match["comma"] and stack:
            stack[-1][2].append(match.end())
        if match["name"] or not match[0].isspace():
            last = match["name"] or ""
    for bracket, function, starts in reversed(stack):
        if bracket == "(" and function:
            ends = [start - 1 for start in starts[1:]] + [len(text)]
            pieces = zip(starts, ends, strict=True)
            return Call(function, [text[start:end].strip() for start, end in pieces])
    return None


def is_quoted(text: str) -> bool:
    """Return whether ``text`` ends within a string."""
    matches = [match for match in _TOKEN.finditer(text) if match["string"]]
    last = matches[-1] if matches else None
    return last is not None and last.end() == len(text) and not (last["close"] or last["end"])


def _is_ours(function: str, namespace: Mapping[str, Any]) -> bool:
    """Return whether a name in the cell refers to one of tikgen's functions."""
    package, _, name = function.rpartition(".")
    if package:
        owner = namespace.get(package)
        package = owner.__name__ if isinstance(owner, ModuleType) else package
        return package == "tikgen" and name in _FUNCTIONS
    value = namespace.get(name)
    return (
        isinstance(value, FunctionType)
        and value.__module__.startswith("tikgen.")
        and value.__name__ in _FUNCTIONS
    )


def _in_magic(magic: re.Match[str], lines: list[str], is_cell: bool) -> Iterator[str]:
    *given, last = magic["rest"].split(" ")
    given = [word for word in given if word]
    if not given:
        yield from list_templates()
    elif is_cell and not magic["describe"] and (body := "\n".join(lines[1:])).strip():
        taken = {word.partition("=")[0] for word in given[1:]}
        yield from (f"{name}=" for name in sorted(parameters_of(body) - taken))
    elif not magic["describe"]:
        yield from _parameters(find_template(given[0]).parameters, given[1:], last, str)


def _in_call(call: Call) -> Iterator[str]:
    *given, last = call.arguments
    quoted = is_quoted(last)
    if not given and "=" not in last:
        yield from list_templates() if quoted else map(_literal, list_templates())
    elif given:
        template = find_template(given[0].removeprefix("name=").strip("\"'"))
        yield from _parameters(template.parameters, given[1:], last, str if quoted else _literal)


def _parameters(
    infos: Iterable[ParameterInfo], given: list[str], last: str, shown: Callable[[str], str]
) -> Iterator[str]:
    """Yield the choices of the parameter that ``last`` sets, or else the other parameters."""
    name, equals, _ = last.partition("=")
    if equals:
        yield from (shown(c) for i in infos if i.name == name.strip() for c in i.choices)
    else:
        taken = {text.partition("=")[0].strip() for text in given}
        yield from (f"{info.name}=" for info in infos if info.name not in taken)


def _literal(choice: str) -> str:
    """Return a choice as Python code."""
    is_literal = choice in ("True", "False") or choice.lstrip("-").replace(".", "", 1).isdigit()
    return choice if is_literal else f'"{choice}"'
