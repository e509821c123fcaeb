"""Reads parameters that a person typed, on a command line or above a notebook's cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tikgen import untrusted
from tikgen.errors import ParameterError
from tikgen.template.reserved import EVERY


def parse_params(
    template: str, given: Sequence[str] | None, reserved: Collection[str] = EVERY
) -> dict[str, Any]:
    """Return parameters from texts such as ``dim=3``: Python literals, else plain text.

    Args:
        template: whose parameters they are, for messages.
        given: the texts.
        reserved: names that are refused.

    Raises:
        ParameterError: if one is given twice, has no value, or has another option.
    """
    params: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            example = name if name.isidentifier() else "NAME"
            raise ParameterError(template, {name: f"has no value; write {example}=VALUE"})
        if name in reserved:
            raise ParameterError(template, {name: "is not a parameter of a template"})
        if name in params:
            raise ParameterError(template, {name: "is given twice"})
        params[name] = parse_literal(value.strip())
    return params


def parse_literal(text: str) -> Any:
    """Return the Python literal that ``text`` is, else the text."""
    try:
        return untrusted.from_literal(text)
    except untrusted.Unusable:
        return text
