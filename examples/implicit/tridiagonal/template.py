"""Tridiagonal systems along one axis of a grid."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import Array, Cost, DType, ProblemModel, ScheduleModel, Template, parameter


class Tridiagonal(Template):
    """Solve `lower*x[i-1] + main*x[i] + upper*x[i+1] = right` along each line of an axis.

    The first element of `lower` in a line and the last one of `upper` are not read. Without a
    pivot, so the diagonal should dominate: Thomas' algorithm, Higham, Accuracy and Stability of
    Numerical Algorithms, section 9.6.
    """

    class Problem(ProblemModel):
        axis: Literal[0, 1] = parameter("axis along which points depend on each other", 0)
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))

    class Schedule(ScheduleModel):
        strip: Literal[1, 8, 32, 128] = parameter("lines that a thread solves together", 1)

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return {"strip": 32 if arch == "cpu" and p.axis == 0 else 1}

    def arguments(self, p: Any) -> tuple[Array, ...]:
        names = ("lower", "main", "upper", "right")
        read = (Array(name, p.dtype, ("n0", "n1")) for name in names)
        return (*read, Array("x", p.dtype, ("n0", "n1"), role="out"))

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        return (Array("factor", p.dtype, ("n0", "n1"), role="work"),)

    @staticmethod
    def reference(p: Any, *arguments: np.ndarray) -> np.ndarray:
        wide = [np.moveaxis(each.astype(p.dtype.wide), p.axis, 0) for each in arguments]
        lower, main, upper, right, x = wide
        factor = upper.copy()
        for i in range(len(x)):
            before = (lower[i] * factor[i - 1], lower[i] * x[i - 1]) if i else (0, 0)
            factor[i] = upper[i] / (main[i] - before[0])
            x[i] = (right[i] - before[1]) / (main[i] - before[0])
        for i in reversed(range(len(x) - 1)):
            x[i] -= factor[i] * x[i + 1]
        return np.moveaxis(x, 0, p.axis)

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        shape = sizes["n0"], sizes["n1"]
        lower, upper = rng.uniform(-1, 1, (2, *shape))
        main = (abs(lower) + abs(upper) + rng.uniform(0.5, 2, shape)) * rng.choice([-1, 1], shape)
        numbers = {"lower": lower, "main": main, "upper": upper}
        return {name: value.astype(p.dtype.numpy) for name, value in numbers.items()}

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # A diagonal that dominates: the inverse is at most 1 over that by which it does.
        lower, main, upper = (np.abs(inputs[name]) for name in ("lower", "main", "upper"))
        beyond = (main - lower - upper).min(p.axis, keepdims=True)
        condition = (main + lower + upper).max(p.axis, keepdims=True) / np.maximum(beyond, 0)
        most = np.abs(expected["x"]).max(p.axis, keepdims=True)
        return {"x": 6 * p.dtype.eps * condition * most}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        points = sizes["n0"] * sizes["n1"]
        # The factors and the solution are written, and read again on the way back.
        return Cost(bytes=9 * points * p.dtype.bits // 8, flops=9 * points)
