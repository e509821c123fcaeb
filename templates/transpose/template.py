"""Permutation of the axes of an array."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import Array, Cost, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter
from tikgen.dtypes import ALL_DTYPES

AXES = ("i", "j", "k", "l")


class Transpose(Template):
    """Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`."""

    class Problem(ProblemModel):
        perm: tuple[int, ...] = parameter(
            "which axis of x becomes each axis of y, up to 4 of them", (1, 0)
        )
        dtype: DType = parameter("element type", DType.f32, choices=ALL_DTYPES)

        def check(self) -> None:
            dim = len(self.perm)
            if not 1 <= dim <= 4 or sorted(self.perm) != list(range(dim)):
                raise Invalid(
                    "perm",
                    "takes each of 0, 1, ... once, up to 4 of them, such as (0, 2, 1); "
                    f"got {self.perm}",
                )

    class Schedule(ScheduleModel):
        loop: Literal["rows", "points"] = parameter(
            "without a tile: parallel over rows of y, each walked in order, or over every point",
            "rows",
        )
        tile: Literal[0, 8, 16, 32, 64] = parameter(
            "side of the square blocks in which the last axes of x and of y are walked, so that "
            "both stay in cache; 0 for none",
            0,
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step along a row", 1)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch != "cpu":
            return {"loop": "points", "block_dim": 128}
        return {"unroll": 4} if keeps_last_axis(p) else {"tile": 16, "unroll": 4}

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.loop == "points" and s.unroll != 1 and not s.tile:
            raise Invalid("unroll", "must be 1 where loop='points', which has no rows to unroll")
        if s.tile and keeps_last_axis(p):
            raise Invalid("tile", f"must be 0 where perm={p.perm} keeps the last axis last")
        if s.tile and s.unroll > s.tile:
            raise Invalid("unroll", f"exceeds the tile's side of {s.tile}")

    def arguments(self, p: Any) -> tuple[Array, ...]:
        x = Array("x", p.dtype, tuple(f"n{axis}" for axis in range(len(p.perm))))
        y = Array("y", p.dtype, tuple(f"n{axis}" for axis in p.perm), role="out")
        return x, y

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        dim = len(p.perm)
        return {
            "bounds": [(AXES[axis], "0", f"y.shape[{axis}]") for axis in range(dim)],
            # The axis of y along which x is contiguous; the last one is contiguous in y.
            "source_axis": p.perm.index(dim - 1),
            "permuted": lambda index: [index[p.perm.index(axis)] for axis in range(dim)],
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.transpose(x, p.perm))

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        return {"y": 0}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        count = int(np.prod([sizes[f"n{axis}"] for axis in p.perm]))
        return Cost(bytes=2 * count * p.dtype.bits // 8, flops=0)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        largest = {
            1: (1, 2, 7, 33, 131),
            2: (1, 3, 8, 17, 67),
            3: (1, 2, 5, 9, 17),
            4: (1, 2, 3, 5, 9),
        }[len(p.perm)]
        return {f"n{axis}": largest for axis in p.perm}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "perm": st.integers(1, 4).flatmap(lambda dim: st.permutations(range(dim)).map(tuple))
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        perm = drawn["perm"]
        if perm[-1] == len(perm) - 1:
            drawn["tile"] = 0
        if drawn["loop"] == "points" and not drawn["tile"]:
            drawn["unroll"] = 1
        if drawn["tile"]:
            drawn["unroll"] = min(drawn["unroll"], drawn["tile"])
        return drawn


def keeps_last_axis(p: Any) -> bool:
    """Tell whether rows of y are rows of x, so that both are walked in order anyway."""
    return bool(p.perm[-1] == len(p.perm) - 1)
