"""Finds out which variant of a kernel takes the views among some arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.rendering import Variant
from tikgen.template.views import is_contiguous, views_of


def variant_for(loaded: Loaded, values: Sequence[Any]) -> Variant | None:
    """Return the variant that takes arguments of which some are views; None if none of them is.

    Args:
        loaded: a kernel, which takes contiguous arrays.
        values: its arguments in order, unchecked.

    Raises:
        ArgumentError: if there is a view, and an argument does not fit.
    """
    variant, signature = loaded.source.variant, loaded.strided_signature
    if variant.views is not None:
        return None
    checks = zip(signature.checks, values, strict=True)
    found = {check.name: value for check, value in checks if check is not None and check.strided}
    if all(map(is_contiguous, found.values())):
        return None
    signature.check(values)
    return dataclasses.replace(variant, sizes=(), views=views_of(found))
