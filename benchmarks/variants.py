"""Draws variants of every template, the same ones at every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import tikgen
from tikgen.errors import ParameterError
from tikgen.pipeline.builder import resolve
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import ParameterModel

# What templates take that has no default.
REQUIRED: dict[str, dict[str, Any]] = {"map": {"expr": "z = a*x + y"}}


def variants(name: str, count: int) -> list[dict[str, Any]]:
    """Return the parameters of up to ``count`` different variants of a template."""
    rng = random.Random(name)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(20 * count):
        if len(found) == count:
            break
        params = REQUIRED.get(name, {}) | dict(_draw(name, rng))
        try:
            variant = resolve(name, **params)
        except ParameterError:
            continue
        found.setdefault(variant.key, params)
    return list(found.values())


def _draw(name: str, rng: random.Random) -> Iterator[tuple[str, Any]]:
    template = find_template(name)
    for model in (template.Problem, template.Schedule):
        for parameter in model.model_fields:
            values = _values(model, parameter)
            if values and rng.random() < 0.8:
                yield parameter, rng.choice(values)


def _values(model: type[ParameterModel], parameter: str) -> list[Any]:
    """Return values of a parameter whose type lists them; a few numbers where it is one."""
    field = model.model_fields[parameter]
    if isinstance(field.json_schema_extra, dict) and "choices" in field.json_schema_extra:
        return list(field.json_schema_extra["choices"]) if field.annotation is tikgen.DType else []
    if get_origin(field.annotation) is Literal:
        return list(get_args(field.annotation))
    if field.annotation is bool:
        return [False, True]
    if float in (field.annotation, *get_args(field.annotation)):
        return [1.0, 0.5, 2.0, 0.1, 0.25]
    bounds = [getattr(m, side, None) for side in ("ge", "le") for m in field.metadata]
    low, high = ([b for b in bounds if b is not None] + [None, None])[:2]
    return list(range(low, high + 1)) if low is not None and high is not None else []
