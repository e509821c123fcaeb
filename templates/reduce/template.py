"""Reductions of whole arrays and along one axis."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Invalid,
    ProblemModel,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.template.rules import GPUS, Not

from . import data, schedules
from .context import PARTIAL, context
from .data import inputs
from .kinds import (
    ACCUMULATED,
    COMPENSABLE,
    family,
    is_whole,
    kept_axes,
    known_dtypes,
    result_dtype,
    work_dtype,
)
from .reference import reference, tolerance

ACCUMULATORS = ("i32", "i64", "u32", "u64", "f32", "f64")
# Problems that give one number, and those that give one for each line along an axis.
WHOLE = ({"axis": None}, {"dim": 1})
LINES = {"axis": Not(None), "dim": (2, 3)}
NOT_LAST = ({"axis": 0, "dim": (2, 3)}, {"axis": 1, "dim": 3})
SLABS = {"axis": 0, "dim": (2, 3), "slab": Not(0)}


class Reduce(Template):
    """Reduction of an array to one number, or along one axis.

    `out` has shape `(1,)` where everything is reduced (`axis=None`, or `dim=1`), else the shape
    of `x` without `axis`. Its dtype: the accumulator for `sum`, `prod`, `mean`, `norm2` and
    `dot`; that of `x` for `min` and `max`; i32 for `argmin`, `argmax`, `any` and `all`. The
    accumulator is, where none is given, the dtype of floats, but f32 for f16; i64 or u64 for
    integers, but f64 for their `mean` and `norm2`. Integers wrap around.

    The order of operations depends on shapes and schedule only, so that equal launches give
    equal bits. NaN propagates as in NumPy: it wins `min`, `max`, `argmin` and `argmax`, and
    counts as true. The first of equals gives the index; `axis=None` gives it into the flattened
    array. `norm2` does not scale: it overflows where the squares do. A `prod` of finite factors
    with a 0 among them is 0; without a 0, where some of the factors overflow or vanish by
    themselves, it may be infinite, 0 or NaN, for their order is free.

    `accuracy` is for sums in floats. With eps the accumulator's, the error of a sum of n terms t
    is at most about `n eps sum|t|` for fast, `(64 + log2 n) eps sum|t|` for pairwise, and
    `eps |sum t| + n eps^2 sum|t|` for kahan; the products of `dot` and `norm2` are rounded before,
    unless the engine fuses product and sum.
    """

    class Problem(ProblemModel):
        op: Literal[
            "sum", "prod", "min", "max", "mean", "norm2", "dot", "argmin", "argmax", "any", "all"
        ] = parameter("what to compute", "sum")
        dim: int = parameter("number of axes of the input", 1, ge=1, le=3)
        axis: Literal[0, 1, 2] | None = parameter(
            "axis to reduce, None for all", None, needs={1: {"dim": (2, 3)}, 2: {"dim": 3}}
        )
        dtype: DType = parameter("element type of the input", DType.f32)
        accumulator: DType | None = parameter(
            "dtype of totals and of the result",
            None,
            choices=ACCUMULATORS,
            only={"op": ACCUMULATED},
        )
        accuracy: Literal["fast", "pairwise", "kahan"] = parameter(
            "how rounding errors of sums are kept small", "fast", only={"op": COMPENSABLE}
        )

        def check(self) -> None:
            if self.accuracy != "fast" and not work_dtype(self).is_float:
                raise Invalid(
                    "accuracy",
                    f"must be 'fast' but for a float accumulator; got {self.accuracy!r} with "
                    f"op={self.op!r} on {self.dtype}",
                )
            needs_float = self.dtype.is_float or self.op in ("mean", "norm2")
            if self.accumulator and needs_float and not self.accumulator.is_float:
                raise Invalid(
                    "accumulator",
                    f"takes f32 or f64 for op={self.op!r} on {self.dtype}; got {self.accumulator}",
                )

    class Schedule(ScheduleModel):
        chunks: int = parameter(
            "most parts of a whole array, or of its rows with slab, that are reduced in parallel",
            64,
            ge=1,
            le=16384,
            only=[*WHOLE, SLABS],
        )
        grain: int = parameter(
            "fewest elements in such a part",
            1,
            ge=1,
            le=65536,
            only=[{**whole, "chunks": Not(1)} for whole in WHOLE],
        )
        linear: bool = parameter(
            "walk a whole array of several axes as if it had one",
            False,
            only={"axis": None, "dim": (2, 3)},
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step", 4, only={"slab": 0})
        team: Literal[1, 4, 8, 16, 32, 64, 128, 256, 512, 1024] = parameter(
            "threads that share a part, or a line along the axis",
            1,
            only=[{**each, "arch": GPUS} for each in ({"dim": 1}, {"linear": True}, LINES)],
            needs={(4, 8, 16, 32): {**LINES, "columns": 0}},
        )
        columns: Literal[0, 4, 8, 16, 32, 64] = parameter(
            "columns that a thread, or a team, reduces side by side, 0 for one each",
            0,
            only=NOT_LAST,
            needs={(4, 8): {"arch": GPUS}},
        )
        strip: Literal[0, 256, 1024, 4096] = parameter(
            "columns of a row that a real function joins with those of the row before, 0 for none",
            0,
            only=[{**each, "columns": 0, "arch": "cpu"} for each in NOT_LAST],
        )
        slab: Literal[0, 16, 64, 256] = parameter(
            "rows that a real function takes as one, along the first axis of an array with short "
            "rows, 0 for none",
            0,
            only={"dim": (2, 3), "axis": 0, "columns": 0, "strip": 0, "arch": "cpu"},
        )
        once: bool = parameter(
            "whether a line is read once, and not a second time to find a place",
            False,
            only={**LINES, "op": ("argmin", "argmax"), "team": 1, "columns": 0},
        )
        parts: Literal[1, 2, 8, 64, 512] = parameter(
            "parts of a line along the axis, each for a team of its own",
            1,
            only={**LINES, "team": (64, 128, 256, 512, 1024)},
        )
        spread: Literal[1, 8, 64, 512] = parameter(
            "turns of the parallel loop for each line along the axis; the cpu deals out 512",
            1,
            only={**LINES, "serial": False, "arch": "cpu"},
        )
        serial: bool = parameter(
            "whether one thread reduces all lines", False, only={**LINES, "arch": "cpu"}
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice; a team is a block of its own",
            0,
            only={"team": 1, "spread": 1, "serial": False, "chunks": Not(1)},
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return schedules.default_schedule(p, arch, sizes)

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return schedules.default_schedule(p, arch, sizes, is_direct=True)

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        return schedules.schedule_space(p, arch, sizes)

    def check(self, p: Any, s: Any, arch: str) -> None:
        schedules.check_schedule(p, s, arch)

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        return schedules.steps(p, s, sizes, read)

    def arguments(self, p: Any) -> tuple[Array, ...]:
        shape = tuple(f"n{axis}" for axis in range(p.dim))
        kept = ("1",) if is_whole(p) else tuple(f"n{axis}" for axis in kept_axes(p))
        inputs = ("x", "y") if p.op == "dot" else ("x",)
        out_shape = tuple(1 if extent == "1" else extent for extent in kept)
        return (
            *(Array(name, p.dtype, shape) for name in inputs),
            Array("out", result_dtype(p), out_shape, role="out"),
        )

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        if not is_whole(p):
            kept = tuple(f"n{axis}" for axis in kept_axes(p))
            if s.slab:
                shape = (s.chunks, s.slab, *kept)
                return (Array("partial", result_dtype(p), shape, role="work"),)
            return tuple(
                Array(PARTIAL[variable], dtype, (s.parts, *kept), role="work")
                for variable, dtype in known_dtypes(p, places=True).items()
                if s.parts > 1
            )
        if s.chunks == s.team == 1:
            return ()
        arrays = [
            Array(PARTIAL[variable], dtype, (s.chunks,), role="work")
            for variable, dtype in known_dtypes(p).items()
        ]
        if family(p) == "place" and s.team > 1:
            arrays.append(Array("winner", DType.i32, (1,), role="work"))
        return tuple(arrays)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        return context(p, s)

    reference = staticmethod(reference)
    tolerance = staticmethod(tolerance)
    inputs = staticmethod(inputs)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        return data.workload(p, sizes, rng)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return data.sizes(p)

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        return data.full_sizes(p, s)

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * (2 if p.op in ("dot", "norm2") else 1)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "axis": st.none() | st.sampled_from((0, 1, 2)),
            "accumulator": st.none() | st.sampled_from(ACCUMULATORS),
            "chunks": st.sampled_from((1, 2, 7, 64, 1024)),
            "grain": st.sampled_from((1, 3, 64)),
        }
