"""Runs Jinja2 on the text of a template, and says where it went wrong."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta

from tikgen.errors import RenderError
from tikgen.jinja_text import make_environment, split_marks
from tikgen.template import TEXT_NAME, Template


def run(
    template: Template, names: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """Return what the text of ``template`` renders to, and where each line came from.

    Args:
        template: whose text it is.
        names: what the text may use.
        params: the parameters, for the message of an error.

    Raises:
        RenderError: if the text is malformed or uses an unknown name.
    """
    name, text = template.name, template.text
    try:
        return split_marks(_compiled(name, text, template.search_path).render(names))
    except jinja2.TemplateSyntaxError as error:
        place = f"{error.name or name}:{error.lineno}"
        problem = f"syntax error: {error.message}"
    except jinja2.TemplateNotFound as error:
        place, problem = _place_of(error, name), f"cannot find the file {error.name!r} it imports"
    except jinja2.UndefinedError as error:
        place, problem = _place_of(error, name), f"undefined name: {error.message}"
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        place, problem = _place_of(error, name), f"{type(error).__name__}: {error}"
        if "StrictUndefined" in problem:  # As in range(n): Jinja2 then does not say which.
            missing = sorted(names_used(template) - set(names))
            problem = f"undefined name among {', '.join(missing)}"
    raise RenderError(name, problem, template_line=_with_text(place, text), params=params) from None


@functools.lru_cache(maxsize=64)
def _environment(search_path: tuple[Path, ...]) -> jinja2.Environment:
    return make_environment(jinja2.FileSystemLoader([str(p) for p in search_path]))


@functools.lru_cache(maxsize=256)
def _compiled(name: str, text: str, search_path: tuple[Path, ...]) -> jinja2.Template:
    environment = _environment(search_path)
    code = environment.compile(text, name=f"{name}/{TEXT_NAME}", filename=f"{name}/{TEXT_NAME}")
    return jinja2.Template.from_code(environment, code, environment.make_globals(None), None)


def names_used(template: Template) -> set[str]:
    """Return the names that the text of ``template`` expects, or ``p`` where it is malformed."""
    environment = _environment(template.search_path)
    try:
        used = jinja2.meta.find_undeclared_variables(environment.parse(template.text))
    except (jinja2.TemplateSyntaxError, ValueError):
        return {"p"}
    return used - set(environment.globals)


def _place_of(error: BaseException, name: str) -> str:
    """Return the innermost template line that stands in the traceback of ``error``."""
    place, frame = "", error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if file.endswith(".j2"):
            place = f"{'/'.join(Path(file).parts[-2:])}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place or f"{name}/{TEXT_NAME}"


def _with_text(place: str, text: str) -> str:
    """Return ``place`` followed by the line of ``text``, where it lies in it."""
    file, _, number = place.rpartition(":")
    lines = text.splitlines()
    if file.endswith(TEXT_NAME) and number.isdigit() and 0 < int(number) <= len(lines):
        return f"{place}: {lines[int(number) - 1].strip()}"
    return place
