"""Renders the text of a template with Jinja2, and locates errors in it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2
import jinja2.meta
from jinja2 import nodes

from tikgen.errors import RenderError, near
from tikgen.pipeline.jinja_text import make_environment, split_marks
from tikgen.template.base import TEXT_NAME, Template
from tikgen.template.dependencies import Macro

_MODEL = re.compile(r"'[\w.]*\b(Problem|Schedule)(?:Model)? object' has no attribute")


def run(
    template: Template, names: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """Return the rendered text of ``template``, and the template line of each of its lines.

    Raises :class:`RenderError` if the text is malformed or uses a name that is not in ``names``.
    """
    name, text = template.name, template.text
    try:
        return split_marks(_compiled(name, text, template.macros).render(names))
    except jinja2.TemplateSyntaxError as error:
        place = f"{error.name or name}:{error.lineno}"
        problem = f"syntax error: {error.message}"
    except jinja2.TemplateNotFound as error:
        place, problem = _place_of(error, name), f"cannot find the file {error.name!r} it imports"
    except jinja2.UndefinedError as error:
        place, problem = _place_of(error, name), f"undefined name: {_told(error)}"
        if missing_import := _missing_import(template):
            place, problem = missing_import
    except RecursionError as error:
        place = _place_of(error, name)
        problem = (
            "a macro calls or imports itself without an end, or an expression nests too deeply"
        )
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        place, problem = _place_of(error, name), f"{type(error).__name__}: {error}"
        if "StrictUndefined" in problem:  # As in range(n): Jinja2 does not name it.
            missing = sorted(names_used(template) - set(names))
            problem = f"undefined name among {', '.join(missing)}"
    raise RenderError(name, problem, template_line=_with_text(place, text), params=params) from None


class _AsRead(jinja2.BaseLoader):
    """Provides the macro files of a template as they were read together with its text."""

    def __init__(self, macros: tuple[Macro, ...]) -> None:
        self._macros = {macro.name: macro for macro in macros}

    def load(
        self,
        environment: jinja2.Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,
    ) -> jinja2.Template:
        if name not in self._macros:
            raise jinja2.TemplateNotFound(name)
        names = environment.make_globals(globals)
        return jinja2.Template.from_code(environment, _code_of(self._macros[name]), names)


@functools.lru_cache(maxsize=256)
def _code_of(macro: Macro) -> CodeType:
    """Return the code of a macro file, which templates share."""
    return _environment(()).compile(macro.data.decode(), macro.name, str(macro.path))


@functools.lru_cache(maxsize=64)
def _environment(macros: tuple[Macro, ...]) -> jinja2.Environment:
    return make_environment(_AsRead(macros))


@functools.lru_cache(maxsize=256)
def _compiled(name: str, text: str, macros: tuple[Macro, ...]) -> jinja2.Template:
    environment = _environment(macros)
    code = environment.compile(text, name=f"{name}/{TEXT_NAME}", filename=f"{name}/{TEXT_NAME}")
    return jinja2.Template.from_code(environment, code, environment.make_globals(None), None)


def names_used(template: Template) -> set[str]:
    """Return the names that the text of ``template`` uses, or ``p`` if it is malformed."""
    environment = _environment(template.macros)
    try:
        used = jinja2.meta.find_undeclared_variables(environment.parse(template.text))
    except (jinja2.TemplateSyntaxError, ValueError):
        return {"p"}
    return used - set(environment.globals)


def _told(error: jinja2.UndefinedError) -> str:
    """Return what an error says, with the classes of p and s by their plain names."""
    return _MODEL.sub(r"\1 has no parameter", str(error.message))


def _missing_import(template: Template) -> tuple[str, str] | None:
    """Return where a text imports a macro that its file lacks, and what is wrong, or None."""
    environment = _environment(template.macros)
    files = {macro.name: macro for macro in template.macros}
    for found in environment.parse(template.text).find_all(nodes.FromImport):
        file = files.get(found.template.value) if isinstance(found.template, nodes.Const) else None
        wanted = [each[0] if isinstance(each, tuple) else each for each in found.names]
        if file is None:
            continue
        has = _macros_in(environment.parse(file.data.decode()))
        for name in wanted:
            if name not in has:
                problem = f"{file.name} has no macro {name!r}.{near(name, has)}"
                problem += f" It has {', '.join(has) or 'none'}"
                return f"{template.name}/{TEXT_NAME}:{found.lineno}", problem
    return None


def _macros_in(tree: nodes.Template) -> list[str]:
    """Return the macros and the values that other files can import from a text."""
    found = [node.name for node in tree.body if isinstance(node, nodes.Macro)]
    targets = (node.target for node in tree.body if isinstance(node, nodes.Assign))
    found += [target.name for target in targets if isinstance(target, nodes.Name)]
    return [name for name in found if not name.startswith("_")]


def _place_of(error: BaseException, name: str) -> str:
    """Return the innermost template line in the traceback of ``error``.

    Where that is a line of a macro file, the line of the template that led there follows.
    """
    place, own, frame = "", "", error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if file.endswith(".j2"):
            place = f"{'/'.join(Path(file).parts[-2:])}:{frame.tb_lineno}"
            own = place if file == f"{name}/{TEXT_NAME}" else own
        frame = frame.tb_next
    if own not in ("", place):
        return f"{place}, from {own}"
    return place or f"{name}/{TEXT_NAME}"


def _with_text(place: str, text: str) -> str:
    """Return ``place``, followed by the line of ``text`` if it is one."""
    file, _, number = place.rpartition(":")
    lines = text.splitlines()
    if file.endswith(TEXT_NAME) and number.isdigit() and 0 < int(number) <= len(lines):
        return f"{place}: {lines[int(number) - 1].strip()}"
    return place
