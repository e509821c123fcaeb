"""The kernel that tells how fast a device multiplies and adds."""

# ruff: noqa: D102, D106 - what the methods are is said in the base class.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen import Array, Cost, DType, ProblemModel, Scalar, ScheduleModel, Template, parameter


class Peak(Template):
    """Repeated t = a*t + b in registers: the arithmetic that a device can do.

    A thread carries so many independent values that none waits for another. Nothing is read from
    memory, and each value is written once. Element k of y starts at k modulo `lanes`.
    """

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32)
        steps: int = parameter("multiply-adds on each value", 1024, ge=1, le=65536)
        lanes: int = parameter("values that a thread carries", 8, ge=1, le=256)

    class Schedule(ScheduleModel):
        block_dim: int = parameter("threads in a block, on cpu iterations a task", 128, ge=1)

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return {"block_dim": 1} if arch == "cpu" else {}

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        y = Array("y", p.dtype, ("n",), role="out", covered=False)
        return (y, Scalar("a", p.dtype), Scalar("b", p.dtype))

    @staticmethod
    def reference(p: Any, y: Any, a: Any, b: Any) -> Any:
        t = np.arange(p.lanes).astype(p.dtype.wide)
        with np.errstate(over="ignore"):
            for _ in range(p.steps):
                t = t.dtype.type(a) * t + t.dtype.type(b)
        whole = len(y) // p.lanes
        result = y.astype(p.dtype.wide)
        result[: whole * p.lanes] = np.tile(t, whole)
        return result

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        return {"a": 0.5, "b": 1.0} if p.dtype.is_float else {"a": 3, "b": 1}

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # Halved at each step, so that what was lost before does not add up.
        return {"y": 4 * p.lanes * p.dtype.eps if p.dtype.is_float else 0}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        values = sizes["n"] // p.lanes * p.lanes
        return Cost(bytes=values * p.dtype.bits // 8, flops=2 * p.steps * values)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return {"n": (p.lanes, 5 * p.lanes + 1)}
