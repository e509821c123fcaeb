"""The texts and ids of a loader, checked before anything is executed, and their errors."""

from __future__ import annotations
import __future__

import functools
import importlib.machinery
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, TypeVar

from tikgen.errors import InvalidId, InvalidText, KernelCompileError, TikgenError
from tikgen.pipeline.loader import line_in
from tikgen.pipeline.one_off import OneOff, source_of
from tikgen.pipeline.rendering import Source, Variant, code_of, digest_of
from tikgen.template.parameters import ProblemModel, ScheduleModel

_Error = TypeVar("_Error", bound=TikgenError)

MOST_CHARACTERS = 1_000_000
_ID = re.compile(r"\w[\w.-]{0,99}")
# Taichi wraps the lines of a kernel at this length, even within a word.
_LONGEST_LINE = 9_999
# Characters that end a line for other readers of the text, but not for Python's parser.
_OTHER_LINE_ENDS = re.compile("[\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_WORDS = "block|call|do|extends|filter|for|from|if|import|include|macro|raw|set|with"
_STATEMENT = re.compile(rf"(\{{%[-+]?|^[ \t]*#%-?)\s*({_WORDS})\b", re.MULTILINE)


def prepare(text: object, params: Mapping[str, Any], id: str, filename: str) -> Source:
    """Return ``text`` as the source of a module, rendered if it is Jinja2.

    It is Jinja2 if parameters are given or it has Jinja2 statements. Lines keep their numbers;
    their common indentation is removed.

    Raises:
        InvalidText: if it cannot be a module.
        ParameterError: if a parameter is unknown or unsafe.
        RenderError: if it is malformed Jinja2, or does not render to Python.
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
            "has `from __future__ import annotations`, which turns the types of a kernel's "
            "arguments into strings that Taichi cannot read; remove it"
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
        problem = f"has the character {strange[0]!r} in line {number}"
        raise InvalidText(id, f"{problem}; within a string, write it as an escape")
    try:
        lines.encode()
    except UnicodeEncodeError as error:
        problem = f"has {lines[error.start]!r}, half of a surrogate pair, which is no character"
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


def compile_error(
    source: Source, filename: str, kernel: str, error: Exception
) -> KernelCompileError:
    """Return Taichi's error with line and column, and the line of the template."""
    message = str(error).strip() or type(error).__name__
    if isinstance(error, RecursionError):
        message = "an expression nests too deeply for Taichi; split long chains of operators"
    number = line_in(message, filename)
    is_rendered = source.text != source.variant.template.text
    return KernelCompileError(
        source.variant.template.name,
        f"Taichi cannot compile the kernel {kernel}:\n{textwrap.indent(message, '    ')}",
        **source.located(number if is_rendered else 0),
    )


def with_note(error: _Error, note: str) -> _Error:
    """Return ``error`` with ``note`` as a further line."""
    if note:
        error.args = (f"{error}\n{note}",)
    return error


def check_id(id: object) -> str:
    """Return ``id``, or raise InvalidId if it cannot name a module."""
    if not isinstance(id, str):
        raise InvalidId(id, f"is of type {type(id).__name__}; an id is a str")
    if not _ID.fullmatch(id):
        takes = "letters, digits, '_', '-' and '.', at most 100, the first a letter, digit or '_'"
        raise InvalidId(id if len(id) < 200 else f"{id[:40]}...", f"is no name; it takes {takes}")
    if _is_installed(id.partition(".")[0]):
        raise InvalidId(id, f"is the name of an installed module; take {id + '_kernel'!r}")
    return id


@functools.lru_cache(maxsize=256)
def _is_installed(name: str) -> bool:
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if name in sys.stdlib_module_names or loaded is not None:
        return True
    # Not all of sys.path: a folder beside the user's script is not an installed module.
    site = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    spec = importlib.machinery.PathFinder.find_spec(name, site)
    return spec is not None and spec.origin is not None
