"""Reports mistakes in the methods of a template as such, with the line of the template."""

from __future__ import annotations

import ast
import contextlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from tikgen.errors import DeclarationError, TemplateError, TikgenError, near, one_line

_LONGEST = 60  # Letters of a value in a message.


class Declaring(Protocol):
    """A template: what has a name, and methods in the files of a folder."""

    name: str
    folder: Path


@contextlib.contextmanager
def blamed(
    template: Declaring, method: str, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn any exception inside into a :class:`TemplateError` that names ``method``.

    Those in ``passing`` stay as they are.
    """
    try:
        yield
    except passing:
        raise
    except DeclarationError as error:
        problem = f"{method} declares {error}{place_in(template.folder, error)}"
        raise TemplateError(template.name, problem) from error
    except TikgenError:
        raise
    except Exception as error:
        problem = f"{method} fails: {one_line(error)}{place_in(template.folder, error)}"
        raise TemplateError(template.name, problem) from error


def place_in(folder: Path, error: BaseException) -> str:
    """Return `` (in template.py:12)``, the last line in a folder on the way to an error, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if Path(frame.filename).parent == folder]
    return f" (in {Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""


def place_of(template: Declaring, method: str) -> str:
    """Return `` (in template.py:12)``, where the template defines a method such as ``"sizes()"``.

    That of a base class which is not the template's own has no place.
    """
    function = getattr(type(template), method.removesuffix("()"), None)
    code = getattr(function, "__code__", None)
    if code is None or Path(code.co_filename).parent != template.folder:
        return ""
    return f" (in {Path(code.co_filename).name}:{code.co_firstlineno})"


def place_within(text: bytes, file: str, name: str) -> str:
    """Return `` (in template.py:12)`` for a class of a text, or for what a class annotates.

    Args:
        text: a Python module.
        file: its name.
        name: name of the class or the annotation.
    """
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    lines = {node.name: node.lineno for node in classes}
    for each in (line for node in classes for line in node.body):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            lines[each.target.id] = each.lineno
    return f" (in {file}:{lines[name]})" if name in lines else ""


def misreturned(template: Declaring, method: str, found: Any, takes: str) -> TemplateError:
    """Return the error for a method that returned something else than it must."""
    problem = f"{method} returned {shown(found)}; it must return {takes}"
    return TemplateError(template.name, problem + place_of(template, method))


def answered(
    template: Declaring, method: str, *given: Any, passing: tuple[type[Exception], ...] = ()
) -> Any:
    """Return what a method such as ``"steps()"`` returns, whatever it is; see :func:`blamed`."""
    with blamed(template, method, passing):
        return getattr(template, method.removesuffix("()"))(*given)


def asked(
    template: Declaring,
    method: str,
    kind: Any,
    takes: str,
    *given: Any,
    passing: tuple[type[Exception], ...] = (),
) -> Any:
    """Return what a method of a template returns.

    Args:
        template: the template.
        method: the method, as messages name it, such as ``"steps()"``.
        kind: the type, or the types, of what it must return.
        takes: the same in words.
        given: arguments of the method.
        passing: exceptions that stay as they are.

    Raises:
        TemplateError: if it fails, or returns something else.
    """
    found = answered(template, method, *given, passing=passing)
    if not isinstance(found, kind):
        raise misreturned(template, method, found, takes)
    return found


def asked_dict(
    template: Declaring,
    method: str,
    *given: Any,
    kind: str = "",
    known: Iterable[str] | None = None,
) -> dict[Any, Any]:
    """Return the dict that a method of a template returns; see :func:`as_dict`."""
    return as_dict(template, method, answered(template, method, *given), kind, known)


def as_dict(
    template: Declaring, method: str, found: Any, kind: str = "", known: Iterable[str] | None = None
) -> dict[Any, Any]:
    """Return what a method returned as a dict.

    Args:
        template: the template.
        method: the method, as messages name it.
        found: what it returned.
        kind: what its keys name.
        known: the names that it may have; None where they may be any.

    Raises:
        TemplateError: if it is no dict, or names something else.
    """
    if not isinstance(found, Mapping):
        raise misreturned(template, method, found, "a dict")
    names = found if known is None else list(known)
    for name in found:
        if name not in names:
            has = f"It has {', '.join(names)}" if names else "It has none"
            hint = near(name, names) if isinstance(name, str) else ""
            problem = f"{method} names {name!r}, which is no {kind} of the template.{hint} {has}"
            problem += place_of(template, method)
            raise TemplateError(template.name, problem)
    return dict(found)


def shown(value: object) -> str:
    """Return a value as one line for a message, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
