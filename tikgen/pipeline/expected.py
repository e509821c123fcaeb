"""What a kernel must compute: its reference, called as the kernel is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.errors import ArgumentError, TemplateError
from tikgen.pipeline.loaded import Loaded
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.base import Template
from tikgen.template.blame import blamed
from tikgen.template.outputs import in_order


def expected(loaded: Loaded, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what the reference gives for the arguments of a call, of which it changes none.

    Outputs may be omitted and are then zero before the call.
    """
    variant, signature = loaded.source.variant, loaded.signature
    if type(variant.template).reference is Template.reference:
        raise TemplateError(variant.template.name, "has no reference")
    given = signature.on_host(signature.named(args, kwargs))
    sizes = signature.sizes_of(given)
    values: list[Any] = []
    for argument in signature.arguments:
        if not isinstance(argument, Array):
            values.append(given.get(argument.name))
        elif argument.name in given:
            # A copy, since the reference may take an output that is also an input.
            values.append(np.array(given[argument.name], order="C"))
        elif argument.role == "out":
            values.append(np.zeros(concrete_shape(argument, sizes), argument.dtype.numpy))
        else:
            raise ArgumentError(variant.template.name, f"argument {argument.name!r} is missing")
    loaded.host_signature.check(values)
    with blamed(variant.template, "reference()"):
        found = variant.template.reference(variant.problem, *values)
    outputs = [a.name for a in signature.arguments if isinstance(a, Array) and a.written]
    results = in_order(variant.template.name, outputs, found)
    return results[0] if len(results) == 1 else results
