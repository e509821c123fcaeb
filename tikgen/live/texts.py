"""What a loader takes as text: plain Python or Jinja2, checked before anything is executed."""

from __future__ import annotations
import __future__

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from tikgen.errors import InvalidText
from tikgen.pipeline.one_off import OneOff, source_of
from tikgen.pipeline.rendering import Source, Variant, code_of, digest_of
from tikgen.template.parameters import ProblemModel, ScheduleModel

MOST_CHARACTERS = 1_000_000
# Taichi wraps the lines of a kernel at this length, be it within a word.
_LONGEST_LINE = 9_999
# Python's parser does not end lines here; other readers of the text do, and count differently.
_OTHER_LINE_ENDS = re.compile("[\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_WORDS = "block|call|do|extends|filter|for|from|if|import|include|macro|raw|set|with"
_STATEMENT = re.compile(rf"(\{{%[-+]?|^[ \t]*#%-?)\s*({_WORDS})\b", re.MULTILINE)


def prepare(text: object, params: Mapping[str, Any], id: str, filename: str) -> Source:
    """Return ``text`` as the source of a module, rendered where it is Jinja2.

    It is taken as Jinja2 where parameters are given or it holds Jinja2 statements. Lines keep
    their numbers; their common indentation goes.

    Args:
        text: what a user wrote.
        params: values for the names of a Jinja2 text.
        id: what it is called in messages.
        filename: what it will be loaded under.

    Raises:
        InvalidText: if it cannot be a module.
        ParameterError: if a parameter is unknown or unsafe.
        RenderError: if it is Jinja2 and malformed, or renders to what is not Python.
    """
    bare = textwrap.dedent(_checked(text, id))
    try:
        if params or _STATEMENT.search(bare):
            source = source_of(bare, params, id)
            code = code_of(source.text, source.filename)
        else:
            code = code_of(bare, filename)
            places = tuple(f"{id}:{n}" for n in range(1, bare.count("\n") + 2))
            variant = Variant(OneOff(bare, ProblemModel, id), ProblemModel(), ScheduleModel())
            source = Source(variant, bare, digest_of(bare), places)
    except SyntaxError as error:
        raise _not_python(error, id) from None
    except (RecursionError, MemoryError):
        problem = "nests too deeply for Python's parser; split long chains of operators"
        raise InvalidText(id, problem) from None
    if code.co_flags & __future__.annotations.compiler_flag:
        problem = (
            "holds `from __future__ import annotations`, which turns the types of a kernel's "
            "arguments into strings that Taichi cannot read; leave it out"
        )
        raise InvalidText(id, problem)
    _check_lines(source.text, id)
    return source


def _checked(text: object, id: str) -> str:
    if not isinstance(text, str):
        more = "; decode them first" if isinstance(text, bytes | bytearray) else ""
        raise InvalidText(id, f"is of type {type(text).__name__}; it takes a str{more}")
    if len(text) > MOST_CHARACTERS:
        problem = f"has {len(text):,} characters; it takes at most {MOST_CHARACTERS:,}"
        raise InvalidText(id, f"{problem}: put data into a file and load it from there")
    if not text.strip():
        raise InvalidText(id, "is empty")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    strange = _OTHER_LINE_ENDS.search(lines)
    if strange:
        number = lines.count("\n", 0, strange.start()) + 1
        problem = f"holds the character {strange[0]!r} in line {number}"
        raise InvalidText(id, f"{problem}; within a string, write it as an escape")
    try:
        lines.encode()
    except UnicodeEncodeError as error:
        problem = f"holds {lines[error.start]!r}, half of a surrogate pair, which is no character"
        raise InvalidText(id, problem) from None
    return lines


def _check_lines(text: str, id: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if len(line.expandtabs(4)) > _LONGEST_LINE:
            problem = f"has {len(line):,} characters in line {number}; break it"
            raise InvalidText(id, f"{problem}, since Taichi reads lines of {_LONGEST_LINE:,}")


def _not_python(error: SyntaxError, id: str) -> InvalidText:
    line = (error.text or "").rstrip("\n")
    caret = " " * ((error.offset or 1) - 1 - (len(line) - len(line.lstrip()))) + "^"
    shown = f"line {error.lineno}: {line.strip()}"
    indent = " " * len(f"line {error.lineno}: ")
    return InvalidText(id, f"is not Python: {error.msg}", f"{shown}\n  {indent}{caret}")
