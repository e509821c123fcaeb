"""Turns a variant into source: text, digest and line map."""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import math
import re
import tokenize
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tikgen.errors import RenderError, TemplateError, UnknownLine
from tikgen.expression.apart import restored
from tikgen.template.arguments import Argument, Array, Scalar, with_sizes
from tikgen.template.base import Template
from tikgen.template.blame import asked, asked_dict, place_of
from tikgen.template.declared import declared
from tikgen.template.here import Constant
from tikgen.template.parameters import ParameterModel, canonical
from tikgen.template.rules import idle
from tikgen.template.views import Views
from tikgen.version import __version__

# A part of a name, such as an expression, and a whole name.
_LONGEST_PART, _LONGEST = 32, 60
_DIGITS = 6


def short_name(text: str, longest: int = _LONGEST_PART) -> str:
    """Return letters, digits and underscores for a text; of a long one its beginning and a digest.

    Args:
        text: what to name.
        longest: how many characters the name may have.
    """
    name = re.sub(r"[\W_]+", "_", text).strip("_")
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{name[: longest - _DIGITS - 1].rstrip('_')}_{digest}"


@dataclass(frozen=True)
class Variant(Constant):
    """A template with every parameter fixed.

    Attributes:
        template: the template.
        problem: the problem parameters, an instance of the template's ``Problem``.
        schedule: the schedule parameters, an instance of the template's ``Schedule``.
        sizes: pairs of a size symbol and the size that is baked into the text.
        views: the arrays that may be views; None where all must be contiguous.
    """

    template: Template
    problem: ParameterModel
    schedule: ParameterModel
    sizes: tuple[tuple[str, int], ...] = ()
    views: Views | None = None

    @property
    def params(self) -> dict[str, Any]:
        """Return every parameter, problem parameters first."""
        return dict(self._params)

    @functools.cached_property
    def _params(self) -> dict[str, Any]:
        return {**dict(self.problem), **dict(self.schedule)}

    @functools.cached_property
    def texts(self) -> Mapping[str, str]:
        """Return each parameter as text, one for equal values."""
        return {name: canonical(value) for name, value in self._params.items()}

    @functools.cached_property
    def key(self) -> str:
        """Return one text for equal variants of equal templates."""
        views = f" {self.views}" if self.views else ""
        params = ", ".join(f"{name!r}: {text}" for name, text in sorted(self.texts.items()))
        return f"{self.template.key}({{{params}}}){self.sizes or ''}{views}"

    @functools.cached_property
    def label(self) -> str:
        """Return a readable name such as ``stencil_dim3_f32_order2_interior``."""
        parts = []
        for name, value in self.problem:
            if value is None or value is False:
                continue
            is_number = isinstance(value, int | float) and value is not True
            text = f"{name}{value}" if is_number else name if value is True else str(value)
            parts.append(short_name(text))
        if self.sizes:
            parts.append("x".join(str(size) for _, size in self.sizes))
        if self.views:
            parts.append("views")
        # The name of a template stays as it is.
        return "_".join(filter(None, [self.template.name, short_name("_".join(parts), _LONGEST)]))

    @functools.cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Return what a caller passes.

        Raises:
            TemplateError: if the template's ``arguments`` fails, or names an unusable extent.
        """
        found = self._declared("arguments()", self.problem)
        return self.views.arguments(found) if self.views else found

    @functools.cached_property
    def numbers(self) -> tuple[Scalar, ...]:
        """Return the integers that follow the arguments in the code, and say how views lie."""
        arguments = self.template.arguments(self.problem)  # With sizes that are not baked in.
        return self.views.numbers(arguments) if self.views else ()

    @functools.cached_property
    def workspace(self) -> tuple[Array, ...]:
        """Return the scratch arrays that follow the arguments.

        Raises:
            TemplateError: if the template's ``workspace`` fails, or names an unusable extent.
        """
        beside = declared(self.template, "arguments()", self.problem)
        return self._declared("workspace()", self.problem, self.schedule, beside=beside)

    def _declared(
        self, method: str, *models: ParameterModel, beside: tuple[Argument, ...] = ()
    ) -> tuple[Any, ...]:
        found = declared(self.template, method, *models, beside=beside)
        return tuple(with_sizes(a, dict(self.sizes)) if self.sizes else a for a in found)


@dataclass(frozen=True)
class Source(Constant):
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
        return f"tikgen:{self.variant.template.name}:{self._text_digest[:16]}"

    @functools.cached_property
    def _text_digest(self) -> str:
        # Not that of the code: texts that differ in comments need names of their own.
        return hashlib.sha256(self.text.encode()).hexdigest()

    def line(self, number: int) -> str:
        """Return line ``number`` of the text, counted from 1, or an empty string."""
        lines = self.text.split("\n")  # As Python's parser does, unlike str.splitlines.
        is_there = isinstance(number, int) and 0 < number <= len(lines)
        return lines[number - 1] if is_there else ""

    def template_line(self, number: int) -> str:
        """Return ``file:line`` of the template from which line ``number`` was rendered.

        Raises:
            UnknownLine: if the text has no such line.
        """
        if not isinstance(number, int) or not 0 < number <= len(self.line_map):
            raise UnknownLine(number, len(self.line_map))
        return self.line_map[number - 1]

    def located(self, number: int) -> dict[str, Any]:
        """Return what an error tells of line ``number``, 0 where it is not known, by keyword."""
        places = {}
        if number:
            places["template_line"] = self.template_line(number)
            places["rendered_line"] = f"{number}: {self.line(number).strip()}"
        return {**places, "params": self.variant.params}

    def __str__(self) -> str:
        return self.text


def render_variant(variant: Variant) -> Source:
    """Return the source of ``variant``.

    Raises:
        RenderError: if the template is malformed, uses an unknown name, or renders to text that
            is not Python; names the template line and the parameters.
    """
    return hashed(variant, *render_text(variant))


def render_text(variant: Variant) -> tuple[str, tuple[str, ...]]:
    """Return the text of ``variant``, and for each line the template's line it came from.

    Raises:
        RenderError: if the template is malformed or uses an unknown name.
    """
    takes = "a problem and a tuple of names"
    problem, apart = asked(variant.template, "set_apart()", tuple, takes, variant.problem)
    if apart:
        body, places = _rendered(_set_apart(variant, problem, apart), variant.params)
        body = restored(body, apart)
    else:
        body, places = _rendered(variant, variant.params)
    header = _header(variant)
    if variant.sizes:
        body = _with_extents(body, variant.arguments + variant.workspace)
    return header + body, ("",) * header.count("\n") + places


def _rendered(variant: Variant, params: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    template, models = variant.template, (variant.problem, variant.schedule)
    names = {
        "p": variant.problem,
        "s": variant.schedule,
        "name": template.name,
        "arguments": variant.arguments + variant.numbers,
        "workspace": variant.workspace,
    }
    method = "context_of_views()" if variant.views else "context()"
    further = asked_dict(template, method, *models, *((variant.views,) if variant.views else ()))
    for name, value in further.items():
        # A template may fill in its own p or s.
        if name in names and not isinstance(value, ParameterModel):
            problem = f"{method} names {name!r}, which the text has already, as {', '.join(names)}"
            place = place_of(template, method)
            raise TemplateError(template.name, f"{problem}; take another name{place}")
    from tikgen.pipeline.jinja_run import run  # Jinja2 takes a while to import.

    return run(template, names | further, params)


def _set_apart(variant: Variant, problem: ParameterModel, apart: Iterable[str]) -> Variant:
    """Return a variant of a problem that spells some names otherwise."""
    views = variant.views
    if views:
        arguments = variant.template.arguments(problem)
        spelled = {restored(argument.name, apart): argument.name for argument in arguments}
        views = replace(views, groups=tuple((spelled[name], group) for name, group in views.groups))
    return replace(variant, problem=problem, views=views)


def hashed(variant: Variant, text: str, line_map: tuple[str, ...]) -> Source:
    """Return a rendered text as the source of ``variant``, with its digest.

    Raises:
        RenderError: if the text is not Python, or defines two kernels or functions of one name.
    """
    source = Source(variant, text, digest_of(text), line_map)
    _check_syntax(source)
    _check_names(source)
    return source


def _with_extents(text: str, arguments: tuple[Argument, ...]) -> str:
    """Return ``text`` with the extents that are known, such as ``x.shape[0]``, as numbers.

    An extent of 1 stays: Taichi would know the index along such an axis as well, and it rounds
    quotients of negative constants towards 0. So do those of parallel loops with few turns: where
    Taichi knows that there are 1024 or fewer, LLVM 15 reads ``x[i - 1]`` under ``if i >= 1`` at an
    index that is too large by 2**32, and the process ends with SIGSEGV.
    """
    known = {a.name: a.shape for a in arguments if isinstance(a, Array)}

    def extent(match: re.Match[str]) -> int | None:
        shape, axis = known.get(match[1], ()), int(match[2])
        found = shape[axis] if axis < len(shape) else None
        return found if isinstance(found, int) else None

    def number(match: re.Match[str]) -> str:
        found = extent(match)
        return match[0] if found in (None, 1) else str(found)

    def head_or_number(match: re.Match[str]) -> str:
        if match[1]:
            return number(match)
        turns = math.prod(extent(each) or 1 for each in _EXTENT.finditer(match[0]))
        return match[0] if turns <= _FEW_TURNS else _EXTENT.sub(number, match[0])

    return _EXTENT_OR_HEAD.sub(head_or_number, text)


_EXTENT = re.compile(r"\b(\w+)\.shape\[(\d)\]")
# Heads of parallel loops, and of some others.
_EXTENT_OR_HEAD = re.compile(rf"{_EXTENT.pattern}|^    for .*?:$", re.MULTILINE | re.DOTALL)
_FEW_TURNS = 1024
# A kernel or a function of Taichi, whose decorator is right above it.
_DEFINITION = re.compile(r"@(?:\w+\.)?(?:kernel|func|real_func)\b.*\ndef (\w+)")
_DOCSTRING = re.compile(r'^ *"""[^"\\\n]*"""$', re.MULTILINE)


def digest_of(text: str) -> str:
    """Return the SHA-256 of ``text`` less its comments and blank lines."""
    return hashlib.sha256(strip_comments(text).encode()).hexdigest()


def strip_comments(text: str) -> str:
    """Return ``text`` less its comments, blank lines and trailing space."""
    # What looks like a comment may be part of a string of several lines.
    if "'''" in text or text.count('"""') > 2 * len(_DOCSTRING.findall(text)):
        return ast.unparse(ast.parse(text)) + "\n"
    lines = map(str.rstrip, _without_inline_comments(text))
    return "\n".join(line for line in lines if line and line.lstrip()[0] != "#") + "\n"


def _without_inline_comments(text: str) -> list[str]:
    """Return lines with comments behind code cut off; a ``#`` inside a string stays."""
    lines = text.splitlines()
    if all(line.lstrip()[0] == "#" for line in lines if "#" in line):
        return lines
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return lines


def _header(variant: Variant) -> str:
    lines = [f"# {variant.template.name}: {variant.template.summary or 'one-off kernel'}"]
    for kind, model in (("problem", variant.problem), ("schedule", variant.schedule)):
        unused = idle(type(model), variant.params)
        known = (name for name in type(model).model_fields if name not in unused)
        values = ", ".join(f"{name}={variant.texts[name]}" for name in known)
        if values:
            lines.append(f"# {kind}: {values}")
    if variant.sizes:
        lines.append("# shape: " + ", ".join(f"{name}={n}" for name, n in variant.sizes))
    if variant.views:
        groups = ", ".join(f"{name} {number}" for name, number in variant.views.groups)
        last = "".join(f", {n} {step}" for n, step in enumerate(variant.views.last) if step != 1)
        apart = f"; last strides{last[1:]}" if last else ""
        lines.append(f"# views, in groups of equal strides: {groups}{apart}")
    return "\n".join([*lines, f"# Rendered by tikgen {__version__}.", ""])


@functools.lru_cache(maxsize=16)
def code_of(text: str, filename: str) -> types.CodeType:
    """Return the compiled text; checking its syntax and loading it share the work."""
    return compile(text, filename, "exec", dont_inherit=True)


def _check_syntax(source: Source) -> None:
    try:
        code_of(source.text, source.filename)
    except SyntaxError as error:
        number = min(error.lineno or 1, len(source.line_map))
        raise RenderError(
            source.variant.template.name,
            f"the rendered text is not Python: {error.msg}",
            **source.located(number),
        ) from None
    except (RecursionError, MemoryError):
        problem = "the rendered text nests too deeply for Python; split long chains of operators"
        name, params = source.variant.template.name, source.variant.params
        raise RenderError(name, problem, params=params) from None


def _check_names(source: Source) -> None:
    """Refuse functions of Taichi of one name: Python would take the last one silently."""
    names = _DEFINITION.findall(source.text)
    if len(names) == len({*names}):
        return
    first: dict[str, int] = {}
    for node in ast.parse(source.text).body:  # A string may have such lines as well.
        if isinstance(node, ast.FunctionDef) and any(map(_is_taichis, node.decorator_list)):
            earlier = first.setdefault(node.name, node.lineno)
            if earlier == node.lineno:
                continue
            lines = (source.template_line(n) or f"line {n}" for n in (earlier, node.lineno))
            raise RenderError(
                source.variant.template.name,
                f"the text defines {node.name!r} twice, in {' and '.join(lines)}; each kernel and "
                "each function takes a name of its own",
                **source.located(node.lineno),
            )


def _is_taichis(decorator: ast.expr) -> bool:
    """Tell whether a decorator makes a kernel or a function of Taichi."""
    name = getattr(decorator, "attr", getattr(decorator, "id", ""))
    return name in ("kernel", "func", "real_func")
