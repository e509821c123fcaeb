"""Reads untrusted JSON, TOML, YAML and literals within limits, and escapes untrusted text.

Nothing is executed. The result is data of plain types, at most :data:`MOST_DEPTH` levels deep, so
that recursion over it is safe.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

MOST_DEPTH = 40
MOST_BYTES = 1 << 26
MOST_LITERAL = 1 << 18
MOST_DIGITS = 1000

_T = TypeVar("_T")

_LEAST_INTEGER, _MOST_INTEGER = -(1 << 63), (1 << 64) - 1
_MOST_DIGITS_OF_64_BITS = 20
_OPENING, _CLOSING = "([{", ")]}"
_TEXT = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
# The characters of literals without their strings: words, numbers, brackets, and signs. Operators
# between numbers are refused, since they could be repeated without end.
_PLAIN = re.compile(r"[\w\s.,:()\[\]{}+-]*", re.ASCII)
_OPERATOR = re.compile(r"(?<![eE])(?<=[\w.)\]}'+-])\s*[+-]|[+-]\s*[+-]", re.ASCII)
_LONG_NUMBER = re.compile(rf"[0-9][0-9a-zA-Z_]{{{MOST_DIGITS},}}")
# Control characters except tab and line feed, and those that change the direction of a text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Unusable(ValueError):
    """A text has the wrong format or exceeds a limit."""


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the contents of a file in UTF-8.

    Args:
        path: the file.
        most: the greatest size in bytes.

    Raises:
        Unusable: if the file is larger, or is not UTF-8.
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Unusable(f"has more than {most:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unusable(f"is not UTF-8: {error}") from None


def from_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        Unusable: if the text is not JSON, or exceeds a limit.
    """
    with _as_unusable():
        return checked(json.loads(text, parse_int=_integer))


def from_toml(text: str) -> dict[str, Any]:
    """Return the contents of a TOML text.

    Raises:
        Unusable: if the text is not TOML, or exceeds a limit.
    """
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    with _as_unusable():
        _check_numbers(text)
        return cast("dict[str, Any]", checked(tomllib.loads(text)))


def from_yaml(text: str) -> Any:
    """Return the value of a YAML text without aliases.

    Raises:
        Unusable: if the text is not YAML, has an alias, or exceeds a limit.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    try:
        # The loader would kill the process at a deep text. Parsing its events does not.
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MOST_DEPTH:
                _too_deep()
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                _check_numbers(event.value.replace(":", "0"))  # 1:30 is a number in base 60.
            if isinstance(event, yaml.AliasEvent):
                raise Unusable(f"refers to a part of itself (*{event.anchor})")
        return checked(yaml.load(text, loader))
    except yaml.MarkedYAMLError as error:
        # Newer versions of libyaml have a limit of their own, met while they read ahead.
        if "nesting depth" in str(error.problem):
            _too_deep()
        raise Unusable(", ".join(filter(None, (error.context, error.problem)))) from None
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise Unusable(str(error).partition("\n")[0]) from None


def from_literal(text: str) -> Any:
    """Return the value of a Python literal: numbers, strings, None, tuples, lists, dicts, sets.

    Raises:
        Unusable: if the text is not a literal, or exceeds a limit.
    """
    if len(text) > MOST_LITERAL:
        raise Unusable(f"has more than {MOST_LITERAL:,} characters")
    rest = _TEXT.sub("''", text)
    plain = rest.replace("''", "")
    if not _PLAIN.fullmatch(plain):
        raise Unusable("is not a literal")
    _check_numbers(plain)
    depth = deepest = 0
    for character in plain:
        depth += (character in _OPENING) - (character in _CLOSING)
        deepest = max(deepest, depth)
    if deepest > MOST_DEPTH:
        _too_deep()
    if _OPERATOR.search(rest):
        raise Unusable("has an operator")
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise Unusable(f"is not a literal: {error}") from None


def checked(value: _T) -> _T:
    """Return plain data unchanged.

    Raises:
        Unusable: if it is nested too deeply, or has an integer of more than 64 bits.
    """
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, int) and not _LEAST_INTEGER <= each <= _MOST_INTEGER:
            raise Unusable("has an integer of more than 64 bits")
        if isinstance(each, dict | list | tuple | set):
            if depth == MOST_DEPTH:
                _too_deep()
            waiting += [(inner, depth + 1) for inner in each if type(inner) is not str]
            if isinstance(each, dict):
                waiting += [(inner, depth + 1) for inner in each.values()]
    return value


def as_type(value: Any, kind: type[_T]) -> _T:
    """Return plain data as a dataclass or a ``msgspec.Struct``, each field of its declared type.

    Raises:
        Unusable: if a field is missing or has another type.
    """
    import msgspec

    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Unusable(str(error)) from None


def as_known(value: Any, kind: type[_T]) -> _T | None:
    """Return plain data as a dataclass, or None if its fields or their types differ."""
    if not isinstance(value, dict) or value.keys() != {f.name for f in fields(kind)}:  # type: ignore[arg-type]
        return None
    try:
        return as_type(checked(value), kind)
    except Unusable:
        return None


def printable(text: str) -> str:
    """Return a text with an escape such as ``\\x1b`` for each control character."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def is_printable(text: str) -> bool:
    """Return whether a text is a single line without control characters."""
    return "\n" not in text and "\t" not in text and not _UNPRINTABLE.search(text)


@contextlib.contextmanager
def _as_unusable() -> Iterator[None]:
    """Turn the errors of a parser into :class:`Unusable`."""
    try:
        yield
    except RecursionError:
        _too_deep()
    except ValueError as error:
        raise Unusable(str(error)) from None


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS_OF_64_BITS:
        raise Unusable("has an integer of more than 64 bits")
    return int(digits)


def _check_numbers(text: str) -> None:
    if _LONG_NUMBER.search(text):
        raise Unusable(f"has a number of more than {MOST_DIGITS:,} digits")


def _too_deep() -> NoReturn:
    raise Unusable(f"is nested more than {MOST_DEPTH} deep")
