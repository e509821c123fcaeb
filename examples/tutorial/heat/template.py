"""The heat equation on a 3D grid, with a loop nest for each step of the tutorial."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    Cost,
    DType,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)


class Heat(Template):
    """One explicit step of the heat equation on the inner points of a grid."""

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))

    class Schedule(ScheduleModel):
        loop: Literal["points", "rows", "function", "sweep", "shared"] = parameter(
            "how the grid is walked", "points"
        )
        depth: Literal[8, 16, 32, 64] = parameter("planes that a thread of a sweep walks", 16)

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return {"loop": "function" if arch == "cpu" else "sweep"}

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.loop == "function" and arch == "vulkan":
            raise Invalid("loop", "must not be 'function' on Vulkan, which has no real functions")
        if s.loop == "shared" and arch == "cpu":
            raise Invalid("loop", "must not be 'shared' on cpu, which has no shared memory")
        if s.loop != "sweep" and s.depth != 16:
            raise Invalid("depth", "must be 16 unless loop='sweep'")

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        shape = ("n0", "n1", "n2")
        return (
            Array("x", p.dtype, shape),
            Array("y", p.dtype, shape, role="out", covered=False),
            Scalar("r", p.dtype),
        )

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray, r: Any) -> np.ndarray:
        result, wide = y.astype(p.dtype.wide), x.astype(p.dtype.wide)
        total = -6 * wide
        for axis in range(3):
            total += np.roll(wide, 1, axis) + np.roll(wide, -1, axis)
        result[1:-1, 1:-1, 1:-1] = (wide + p.dtype.wide.type(r) * total)[1:-1, 1:-1, 1:-1]
        return result

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Seven terms, each of at most max |x|, one of them with the factor 6.
        most = np.abs(inputs["x"].astype(p.dtype.wide)).max(initial=0)
        return {"y": 8 * p.dtype.eps * most * (1 + 12 * abs(float(inputs["r"])))}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        points = max(sizes["n0"] * sizes["n1"] * sizes["n2"], 1)
        return Cost(bytes=2 * points * p.dtype.bits // 8, flops=8 * points)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return {"n0": (1, 2, 3, 20), "n1": (1, 2, 9, 12), "n2": (2, 3, 33, 40)}
