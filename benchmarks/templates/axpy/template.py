"""The kernel of the launch benchmarks: two arrays, two scalars, next to no work."""

from typing import Any

import numpy as np

from tikgen import Array, Cost, DType, ProblemModel, Scalar, Template, parameter


class Axpy(Template):
    """Serial loop that computes y = a*x + b."""

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        x = Array("x", p.dtype, ("n",))
        y = Array("y", p.dtype, ("n",), role="out")
        return (x, y, Scalar("a", p.dtype), Scalar("b", p.dtype))

    def cost(self, p: Any, sizes: Any) -> Cost:
        return Cost(bytes=2 * sizes["n"] * p.dtype.bits // 8, flops=2 * sizes["n"])

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray, a: float, b: float) -> np.ndarray:
        return a * x.astype(p.dtype.wide) + b
