"""Turns a variant into source: text, digest and line map."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta

from tikgen.arguments import Argument, Array
from tikgen.errors import RenderError
from tikgen.jinja_text import make_environment, split_marks
from tikgen.parameters import ParameterModel, canonical
from tikgen.template import TEXT_NAME, Template

VERSION = importlib.metadata.version("tikgen")


@dataclass(frozen=True)
class Variant:
    """A template with every parameter fixed."""

    template: Template
    problem: ParameterModel
    schedule: ParameterModel

    @property
    def params(self) -> dict[str, Any]:
        """Return every parameter, problem parameters first."""
        return {**dict(self.problem), **dict(self.schedule)}

    @functools.cached_property
    def key(self) -> str:
        """Return one text for equal variants of equal templates."""
        return f"{self.template.name}@{self.template.fingerprint[:16]}({canonical(self.params)})"

    @functools.cached_property
    def label(self) -> str:
        """Return a readable name such as ``stencil_dim3_f32_order2_interior``."""
        parts = [self.template.name]
        for name, value in self.problem:
            if value is None or value is False:
                continue
            is_number = isinstance(value, int | float) and value is not True
            text = f"{name}{value}" if is_number else name if value is True else str(value)
            parts.append("".join(c if c.isalnum() else "_" for c in text).strip("_"))
        return "_".join(parts)

    @functools.cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Return what a caller passes."""
        return self.template.arguments(self.problem)

    @functools.cached_property
    def workspace(self) -> tuple[Array, ...]:
        """Return the scratch arrays that follow the arguments."""
        return self.template.workspace(self.problem, self.schedule)


@dataclass(frozen=True)
class Source:
    """The rendered text of a variant.

    Attributes:
        variant: what was rendered.
        text: a Python module that defines one Taichi kernel.
        digest: SHA-256 of the text less comments and blank lines, in hexadecimal.
        line_map: for each line of the text, the ``file:line`` of the template it came from.
    """

    variant: Variant = field(repr=False)
    text: str = field(repr=False)
    digest: str
    line_map: tuple[str, ...] = field(repr=False)

    @property
    def filename(self) -> str:
        """Return the name under which tracebacks show the text."""
        return f"tikgen:{self.variant.template.name}:{self.digest[:16]}"

    def line(self, number: int) -> str:
        """Return line ``number`` of the text, counted from 1, or an empty string."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def template_line(self, number: int) -> str:
        """Return ``file:line`` of the template from which line ``number`` was rendered.

        Raises:
            IndexError: if the text has no such line.
        """
        if not 0 < number <= len(self.line_map):
            raise IndexError(f"the text has lines 1 to {len(self.line_map)}, not {number}")
        return self.line_map[number - 1]

    def __str__(self) -> str:
        return self.text


def render_variant(variant: Variant) -> Source:
    """Return the source of ``variant``.

    Raises:
        RenderError: if the template is malformed, uses an unknown name, or renders to text that
            is not Python; names the template line and the parameters.
    """
    template = variant.template
    names = {
        "p": variant.problem,
        "s": variant.schedule,
        "name": template.name,
        "arguments": variant.arguments,
        "workspace": variant.workspace,
        **template.context(variant.problem, variant.schedule),
    }
    body = _render(template.name, template.text, template.search_path, names, variant.params)
    text, places = split_marks(body)
    header = _header(variant)
    text = header + text
    places = ("",) * header.count("\n") + places
    _check_syntax(template.name, text, places, variant.params)
    return Source(variant, text, digest_of(text), places)


def digest_of(text: str) -> str:
    """Return the SHA-256 of ``text`` less its comments and blank lines."""
    return hashlib.sha256(strip_comments(text).encode()).hexdigest()


def strip_comments(text: str) -> str:
    """Return ``text`` less its comments, blank lines and trailing space."""
    kept = []
    for line in _without_inline_comments(text).splitlines():
        bare = line.rstrip()
        if bare and not bare.lstrip().startswith("#"):
            kept.append(bare)
    return "\n".join(kept) + "\n"


def _without_inline_comments(text: str) -> str:
    """Return ``text`` with comments behind code cut off; a ``#`` inside a string stays."""
    if not any("#" in li and not li.lstrip().startswith("#") for li in text.splitlines()):
        return text
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(lines)


def _header(variant: Variant) -> str:
    lines = [f"# {variant.template.name}: {variant.template.summary or 'one-off kernel'}"]
    for kind, model in (("problem", variant.problem), ("schedule", variant.schedule)):
        values = ", ".join(f"{k}={canonical(v)}" for k, v in model)
        if values:
            lines.append(f"# {kind}: {values}")
    return "\n".join([*lines, f"# Rendered by tikgen {VERSION}.", ""])


@functools.lru_cache(maxsize=64)
def _environment(search_path: tuple[Path, ...]) -> jinja2.Environment:
    return make_environment(jinja2.FileSystemLoader([str(p) for p in search_path]))


@functools.lru_cache(maxsize=256)
def _compiled(name: str, text: str, search_path: tuple[Path, ...]) -> jinja2.Template:
    environment = _environment(search_path)
    code = environment.compile(text, name=f"{name}/{TEXT_NAME}", filename=f"{name}/{TEXT_NAME}")
    return jinja2.Template.from_code(environment, code, environment.make_globals(None), None)


def _render(
    name: str,
    text: str,
    search_path: tuple[Path, ...],
    names: Mapping[str, Any],
    params: Mapping[str, Any],
) -> str:
    try:
        return _compiled(name, text, search_path).render(names)
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
            problem = f"undefined name among {', '.join(_unknown(text, names))}"
    raise RenderError(name, problem, template_line=_with_text(place, text), params=params) from None


def _unknown(text: str, names: Mapping[str, Any]) -> list[str]:
    """Return the names that ``text`` uses and nobody defines."""
    environment = make_environment(jinja2.DictLoader({}))
    used = jinja2.meta.find_undeclared_variables(environment.parse(text))
    return sorted(used - set(names) - set(environment.globals))


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


def _check_syntax(name: str, text: str, places: tuple[str, ...], params: Mapping[str, Any]) -> None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        number = error.lineno or 1
        line = text.splitlines()[min(number, len(places)) - 1]
        raise RenderError(
            name,
            f"the rendered text is not Python: {error.msg}",
            template_line=places[min(number, len(places)) - 1],
            rendered_line=f"{number}: {line.strip()}",
            params=params,
        ) from None
