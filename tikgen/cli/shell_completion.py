"""Completions in a shell: templates, their parameters and the values of these."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

from tikgen.dtypes import DType
from tikgen.errors import TikgenError
from tikgen.template import catalogue
from tikgen.template.base import Template
from tikgen.template.parameters import ParameterInfo

_MOST_VALUES = 16
_VARIABLE = "_TIKGEN_COMPLETE"

Offer = tuple[str, str]


def templates(incomplete: str) -> list[str]:
    """Return the names of templates; the shell completes paths."""
    return [name for name in catalogue.list_templates() if name.startswith(incomplete)]


def parameters(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return parameters of the named template, or the values of one."""
    # The parser stops at an option without its value, and does not move arguments.
    named = [ctx.params.get("name"), *_arguments(ctx)]
    return list(_offers(next(filter(None, named), ""), incomplete))


def words(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return templates, and parameters of the template before the cursor."""
    given = ctx.params.get("words") or _arguments(ctx)
    named = [word for word in given if "=" not in word]
    offers = [] if "=" in incomplete else [(name, "template") for name in templates(incomplete)]
    return offers + (list(_offers(named[-1], incomplete)) if named else [])


def _arguments(ctx: typer.Context) -> list[str]:
    return [word for word in ctx.args if not word.startswith("-")]


def _offers(template: str, incomplete: str) -> Iterator[Offer]:
    # The code of a typed folder is not run.
    if template not in catalogue.list_templates():
        return
    with contextlib.suppress(TikgenError):
        known = catalogue.find_template(template)
        name, equals, _ = incomplete.partition("=")
        found = [
            info
            for info in known.parameters
            if (info.name == name if equals else info.name.startswith(name))
        ]
        if len(found) == 1:
            yield from ((f"{found[0].name}={value}", "") for value in _values(known, found[0]))
        else:
            yield from ((f"{info.name}=", info.meaning) for info in found)


def _values(template: Template, info: ParameterInfo) -> tuple[str, ...]:
    """Return the values of a parameter, or its default if there are too many."""
    if info.choices:
        return info.choices
    model = template.Problem if info.kind == "problem" else template.Schedule
    field = model.model_fields[info.name]
    if field.annotation is DType:
        return tuple(map(str, DType))
    bounds = {
        end: getattr(limit, end)
        for limit in field.metadata
        for end in ("ge", "le")
        if hasattr(limit, end)
    }
    if field.annotation is int and len(bounds) == 2:
        values = range(bounds["ge"], bounds["le"] + 1)
        if len(values) <= _MOST_VALUES:
            return tuple(map(str, values))
    return ("",) if info.default in ("required", "None") else (info.default,)


def run_app(app: Callable[[], Any]) -> None:
    """Run the command line; for bash, which splits words at ``=``, with whole words."""
    if os.environ.get(_VARIABLE) != "complete_bash":
        sys.exit(app())
    given, cursor = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
    whole: list[str] = []
    for word in (*given, "")[: cursor + 1]:
        if whole and (word == "=" or whole[-1].endswith("=")):
            whole[-1] += word
        else:
            whole.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(whole), str(len(whole) - 1)
    # Bash replaces only what follows the last "=".
    before = whole[-1].rpartition("=")[0]
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            app()
    finally:
        for line in shown.getvalue().splitlines():
            print(line.removeprefix(f"{before}=") if before else line)
