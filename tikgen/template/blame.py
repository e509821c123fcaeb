"""Reports mistakes in the methods of a template as such, with the line of the template."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tikgen.errors import DeclarationError, TemplateError, TikgenError, near, one_line
from tikgen.template.base import Template

_LONGEST = 60  # Letters of a value in a message.


@contextlib.contextmanager
def blamed(template: Template, method: str) -> Iterator[None]:
    """Turn any exception inside into a :class:`TemplateError` that names ``method``."""
    try:
        yield
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


def as_dict(
    template: Template, method: str, found: Any, kind: str = "", known: Iterable[str] | None = None
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
        problem = f"{method} returned {shown(found)}; it must return a dict"
        raise TemplateError(template.name, problem)
    names = found if known is None else list(known)
    for name in found:
        if name not in names:
            has = f"It has {', '.join(names)}" if names else "It has none"
            hint = near(name, names) if isinstance(name, str) else ""
            problem = f"{method} names {name!r}, which is no {kind} of the template.{hint} {has}"
            raise TemplateError(template.name, problem)
    return dict(found)


def shown(value: object) -> str:
    """Return a value as one line for a message, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
