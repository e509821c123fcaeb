"""Which kernel of a bundle an object in Python is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tikgen.aot import manifest as m
from tikgen.aot.exporting.graphs import StepLike
from tikgen.aot.names import identifier
from tikgen.errors import ExportError
from tikgen.pipeline.kernel import Kernel
from tikgen.template.parameters import canonical


def by_name(steps: Sequence[StepLike], kernels: Mapping[str, m.Kernel]) -> list[StepLike]:
    """Return the steps of a graph with each kernel under its name in the bundle.

    Raises:
        ExportError: if a kernel is not in the bundle, or more than once.
    """
    return [
        (_name_in(step[0], kernels), *step[1:])
        if isinstance(step, tuple) and step and not isinstance(step[0], str)
        else step
        for step in steps
    ]


def _name_in(kernel: Any, kernels: Mapping[str, m.Kernel]) -> str:
    if isinstance(kernel, Kernel) and kernel.variant.arguments:
        params = {name: canonical(value) for name, value in kernel.variant.problem}
        wanted = (kernel.template.name, params, dict(kernel.variant.sizes))
        shown = kernel.name
        found = [n for n, k in kernels.items() if (k.template, k.params, k.sizes) == wanted]
    else:
        function = kernel.function if isinstance(kernel, Kernel) else kernel
        shown = getattr(function, "__name__", repr(kernel))
        family = identifier(shown)
        found = [n for n, k in kernels.items() if not k.template and k.family == family]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ExportError(
            "the graph", f"{shown} is not in the bundle; there is {', '.join(kernels)}"
        )
    raise ExportError(
        "the graph", f"{shown} is in the bundle more than once; name one of {', '.join(found)}"
    )
