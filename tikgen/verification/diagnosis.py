"""Reports mistakes in a template as such, and not as errors of tikgen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.errors import TemplateError
from tikgen.template.base import CODE_NAME, Template


def check_has_reference(template: Template) -> None:
    """Raise :class:`TemplateError` for a template without a reference."""
    if not (template.folder / CODE_NAME).is_file():
        raise TemplateError(template.name, "has no template.py, and so no reference to verify by")
    if type(template).reference is Template.reference:
        needs = "it needs a method reference(p, ...) that computes its outputs with NumPy"
        raise TemplateError(template.name, f"has no reference to verify by; {needs}")


def check_unchanged(
    template: Template, method: str, given: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    """Raise :class:`TemplateError` if ``method`` changed an array that it was given."""
    for name, value in given.items():
        if not np.array_equal(value, before[name], equal_nan=True):
            raise TemplateError(template.name, f"{method} changes {name}, which it must only read")
