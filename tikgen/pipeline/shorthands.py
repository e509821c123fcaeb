"""Arithmetic on arrays in one call."""

from __future__ import annotations

from typing import Any

from tikgen.expression import Expression, Program
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel


def elementwise(expr: str | Expression | Program, dtype: Any = "f32", **params: Any) -> Kernel:
    """Return the kernel that computes ``expr`` at every element; ``build("map", ...)`` for short.

    Args:
        expr: assignments such as ``"z = a*x + y"``, or one expression, whose value goes to
            ``out``. The names a, b, c, alpha, beta, gamma and scale are scalars by default.
        dtype: type of every array and scalar.
        params: further parameters of the template ``map``, such as ``dim`` and ``scalars``.

    Raises:
        ParameterError: if ``expr`` holds what is not allowed, or a parameter is wrong.
        UnsupportedOnArch: if Taichi runs on an arch that cannot run the kernel.
    """
    return build("map", expr=expr, dtype=dtype, **params)
