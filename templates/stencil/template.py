"""Finite-difference stencils on regular grids."""

import math
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
from tikgen.pipeline.loop_steps import box, looped, parallel
from tikgen.template.rules import Not

from .schedules import on_cpu, on_gpu, space, tiles

# Central second derivatives: weights at distance 0, 1, 2, ... (Fornberg 1988, table 1).
SECOND_DERIVATIVE = {
    2: (-2.0, 1.0),
    4: (-5 / 2, 4 / 3, -1 / 12),
    6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
AXES = ("i", "j", "k")
# Where the neighbours of a point lie a fixed step of the linear index away.
PLAIN = {"boundary": "interior", "storage": "ndarray"}
SWEEP = {"loop": "sweep"}


class Stencil(Template):
    """Weighted sum over a neighbourhood on a regular grid.

    Without `points` it is the Laplacian of the given order of accuracy, central differences,
    `spacing` apart on each axis. With `update=True` it computes `y = x + scale * stencil(x)`,
    one explicit step in time.
    """

    class Problem(ProblemModel):
        dim: int = parameter("number of axes", 3, ge=1, le=3)
        dtype: DType = parameter(
            "element type", DType.f32, choices=("f16", "f32", "f64", "i32", "i64")
        )
        order: Literal[2, 4, 6, 8] = parameter(
            "order of accuracy of the Laplacian", 2, only={"points": None}
        )
        spacing: float | tuple[float, ...] = parameter(
            "distance between grid points, one number or one for each axis",
            1.0,
            only={"points": None},
        )
        points: dict[tuple[int, ...], float] | None = parameter(
            "weight at each offset, such as {(0, 0, 1): 0.5}, in place of the Laplacian", None
        )
        boundary: Literal["interior", "zero", "clamp", "periodic"] = parameter(
            "what lies outside: nothing (the halo of y is untouched), zeros, the nearest "
            "point, or the other side",
            "interior",
        )
        storage: Literal["ndarray", "field"] = parameter(
            "whether x and y are arrays or ti.field", "ndarray"
        )
        update: bool = parameter("whether to compute y = x + scale * stencil(x)", False)

        def check(self) -> None:
            spacing = self.spacing if isinstance(self.spacing, tuple) else (self.spacing,)
            fitting = (self.dim,) if isinstance(self.spacing, tuple) else (1,)
            if len(spacing) not in fitting or min(spacing) <= 0:
                raise Invalid(
                    "spacing", f"takes one positive number, or {self.dim}; got {self.spacing}"
                )
            if self.points is not None and not self.points:
                raise Invalid("points", "holds no point")
            for offset in self.points or ():
                if len(offset) != self.dim or max(map(abs, offset)) > 64:
                    raise Invalid(
                        "points",
                        f"takes offsets of {self.dim} integers from -64 to 64; got {offset}",
                    )
            if len(self.points or ()) > 512:
                raise Invalid("points", f"takes at most 512 points; got {len(self.points)}")
            name = "points" if self.points else "spacing" if self.order == 2 else "order"
            if min(spacing) < 1e-100 or max(spacing) > 1e100:
                raise Invalid("spacing", f"takes numbers from 1e-100 to 1e100; got {self.spacing}")
            for weight in weights(self).values():
                if self.dtype.is_float:
                    fits = abs(weight) <= float(np.finfo(self.dtype.numpy).max)
                else:
                    fits = self.dtype.lowest <= weight <= self.dtype.highest
                if not fits:
                    raise Invalid(
                        "spacing" if name == "order" else name,
                        f"gives the weight {weight:g}, which is beyond dtype {self.dtype}",
                    )
            fractional = [w for w in weights(self).values() if w != int(w)]
            if not self.dtype.is_float and fractional:
                raise Invalid(
                    name,
                    f"gives the weight {fractional[0]:g}, which dtype {self.dtype} cannot "
                    "hold; use a float dtype, or whole weights",
                )

    class Schedule(ScheduleModel):
        loop: Literal["function", "rows", "points", "linear", "blocks", "lanes", "sweep"] = (
            parameter(
                "parallel over strips of rows that a real function computes, over rows, over "
                "points, over points by their linear index, over blocks of threads with several "
                "points each, over groups of points along the first axes, which a thread computes "
                "at once, or over columns that threads walk along the slowest axis",
                "rows",
                needs={
                    "function": {"storage": "ndarray", "arch": "cpu"},
                    "linear": PLAIN,
                    "blocks": {"dim": 1},
                    "lanes": {"storage": "ndarray", "dim": (2, 3)},
                    "sweep": {"storage": "ndarray", "dim": (2, 3)},
                },
            )
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "points a step along a row", 4, only={"loop": "rows", "row_buffer": 0}, neutral=1
        )
        row_buffer: Literal[0, 4, 8, 16, 32, 64, 128] = parameter(
            "points computed into a local buffer before they are stored, 0 for none; rows are "
            "then walked by their linear index",
            0,
            only=({"loop": "function"}, {"loop": "rows", **PLAIN}),
            needs={0: {"loop": Not("function")}},
        )
        rows: Literal[1, 2, 4, 8, 16] = parameter(
            "rows a strip", 1, only={"loop": "function", "dim": (2, 3)}
        )
        chunk: Literal[1024, 4096, 16384, 65536] = parameter(
            "points of a row that are walked at a time",
            4096,
            only={"dim": 1, "row_buffer": Not(0)},
        )
        iterations: Literal[1, 4, 8, 16] = parameter(
            "iterations of the parallel loop a strip, all but one of them empty: Taichi gives "
            "a thread 512 at least",
            1,
            only={"loop": "function", "serial": False},
        )
        serial: bool = parameter("whether one thread does it all", False, only={"loop": "function"})
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice",
            0,
            only={"loop": ("rows", "points", "linear", "blocks", "lanes")},
            needs={0: {"loop": Not("blocks")}},
        )
        items: Literal[1, 2, 4, 8] = parameter(
            "points a thread, along the first axis if there are several",
            1,
            only={"loop": ("blocks", "lanes")},
        )
        item_rows: Literal[1, 2, 4] = parameter(
            "rows of them along the second axis", 1, only={"loop": "lanes", "dim": 3}
        )
        block_x: Literal[32, 64, 128, 256] = parameter(
            "threads along the last axis", 64, only=SWEEP
        )
        block_y: Literal[0, 1, 2, 4, 8] = parameter(
            "threads along the axis before it, 0 for rows that follow one another",
            1,
            only={**SWEEP, "dim": 3},
        )
        sweep: Literal[4, 8, 16, 32, 64, 128] = parameter(
            "points that a thread walks", 32, only=SWEEP
        )
        ahead: Literal[0, 1, 2] = parameter("points read ahead of their need", 0, only=SWEEP)
        blocks: Literal[0, 2, 4224, 8448] = parameter(
            "blocks that take turns, 0 for as many as there is work for", 0, only=SWEEP
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return on_cpu(p, sizes, max(map(max, radii(p))), self.arguments(p))
        return on_gpu(p, arch, sizes, max(map(max, radii(p))), len(weights(p)))

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return on_cpu(p, sizes, max(map(max, radii(p))), self.arguments(p), is_direct=True)
        return self.default_schedule(p, arch, sizes)

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        return space(p, arch)

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.block_x * s.block_y > 1024:
            raise Invalid("block_y", "times block_x must not exceed 1024 threads")
        terms = s.unroll * s.items * s.item_rows
        if terms * len(weights(p)) > 1024:
            raise Invalid(
                "items" if s.items > 1 else "unroll",
                f"times the {len(weights(p))} points of the stencil exceeds 1024 terms, "
                "which would take long to compile",
            )

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        shape = tuple(f"n{axis}" for axis in range(p.dim))
        x = Array("x", p.dtype, shape, storage=p.storage)
        y = Array(
            "y",
            p.dtype,
            shape,
            role="out",
            storage=p.storage,
            covered=p.boundary != "interior",
        )
        return (x, y, Scalar("scale", p.dtype)) if p.update else (x, y)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        interior = p.boundary == "interior"
        bounds = []
        for axis, radius in enumerate(radii(p)):
            extent = f"x.shape[{axis}]"
            low, high = radius if interior else (0, 0)
            bounds.append((AXES[axis], str(low), f"{extent} - {high}" if high else extent))
        groups: dict[float, list[tuple[int, ...]]] = {}
        for offset, weight in weights(p).items():
            groups.setdefault(weight, []).append(offset)
        return {
            "bounds": bounds,
            "margins": radii(p),
            "centre": (0,) * p.dim,
            "weights": list(groups.items()),
            "runs": runs(p),
            "reaching": runs_along_rows(p),
            "reach": column_reach(p),
            "steps_off_column": steps_off_column(p),
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray, scale: Any = None) -> np.ndarray:
        total = stencil_sum(p, x.astype(p.dtype.wide), weights(p))
        if p.update:
            factor = np.asarray(scale, p.dtype.numpy).astype(p.dtype.wide)
            total = x.astype(p.dtype.wide) + factor * total
        inner = interior(p, x.shape)
        result = y.astype(p.dtype.wide)
        result[inner] = total[inner]
        return result

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # A sum of m products differs from the exact one by at most about (m + 2) eps sum |w x|.
        if not p.dtype.is_float:
            return {"y": 0}
        x = np.abs(inputs["x"].astype(p.dtype.wide))
        w = {offset: abs(weight) for offset, weight in weights(p).items()}
        bound = (len(w) + 4) * stencil_sum(p, x, w)
        if p.update:
            bound = x + abs(float(inputs["scale"])) * bound
        eps = float(np.finfo(np.result_type(p.dtype.numpy, np.float32)).eps)
        allowed = np.zeros(x.shape)
        allowed[interior(p, x.shape)] = eps * bound[interior(p, x.shape)]
        return {"y": allowed}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        extents = [sizes[f"n{axis}"] for axis in range(p.dim)]
        *leading, last = extents
        if s.loop == "sweep":
            count = tiles(extents, s.sweep, s.block_x, s.block_y)
            walk = looped(s.sweep) + looped(s.ahead)
            if s.blocks:
                return looped((count - 1) // s.blocks + 1, walk)
            return parallel(count * s.block_x * (s.block_y or 1), walk)
        if s.loop == "lanes":
            groups = [(extents[0] - 1) // s.items + 1, *extents[1:]]
            groups[1] = (groups[1] - 1) // s.item_rows + 1
            return parallel(math.prod(groups), looped(s.items, looped(s.item_rows)))
        if s.loop == "blocks":
            pieces = (last - 1) // (s.block_dim * s.items) + 1
            return parallel(pieces * s.block_dim, looped(s.items))
        if s.loop == "rows" and s.row_buffer:
            count = math.prod(leading) if leading else (last - 1) // s.chunk + 1
            length = last if leading else min(last, s.chunk)
            buffered = looped((length - 1) // s.row_buffer + 1, 2 * looped(s.row_buffer))
            return parallel(count, buffered + looped(s.row_buffer))
        return box(extents, s.loop == "rows", s.unroll)

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        points = int(np.prod([sizes[f"n{axis}"] for axis in range(p.dim)]))
        size = p.dtype.bits // 8
        return Cost(bytes=2 * points * size, flops=points * (2 * len(weights(p)) + 2 * p.update))

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        tried = {1: (1, 2, 3, 7, 17, 64, 131), 2: (1, 3, 8, 17, 37), 3: (1, 2, 5, 9, 17)}
        return {f"n{axis}": tried[p.dim] for axis in range(p.dim)}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if s.loop == "function":
            room = s.row_buffer + 6  # A full buffer, and some points after it.
        elif s.loop == "lanes":
            room = 4
        elif s.loop == "blocks":
            # The threads of a block between others lie far from the ends; some of the last lack
            # points.
            room = 3 * s.block_dim * s.items - 5
        elif s.loop == "sweep" and p.boundary != "interior":
            room = 64  # So long that some threads walk far from the faces.
        else:
            return ()
        extents = [low + high + 3 for low, high in radii(p)]
        extents[-1] += room
        return ({f"n{axis}": extent for axis, extent in enumerate(extents)},)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            # No array here is so large that more than 2 blocks take several turns.
            "blocks": st.sampled_from((0, 2, 2, 4224)),
            "spacing": st.sampled_from((1.0, 0.5, 0.3, 2.0)),
            "points": st.none()
            | st.dictionaries(
                st.tuples(*[st.integers(-3, 3)] * 3),
                st.integers(-3, 3).map(float) | st.sampled_from((0.5, 0.1, -1.5)),
                min_size=1,
                max_size=6,
            ),
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        if drawn.get("points"):
            drawn["points"] = {k[: drawn["dim"]]: v for k, v in drawn["points"].items()}
        return drawn


def weights(p: Any) -> dict[tuple[int, ...], float]:
    """Return the weight at each offset, sorted by offset."""
    if p.points is not None:
        return dict(sorted(p.points.items()))
    found: dict[tuple[int, ...], float] = {(0,) * p.dim: 0.0}
    spacing = p.spacing if isinstance(p.spacing, tuple) else (p.spacing,)
    for axis in range(p.dim):
        h = spacing[axis % len(spacing)]
        for distance, weight in enumerate(SECOND_DERIVATIVE[p.order]):
            for step in {distance, -distance}:
                offset = tuple(step if a == axis else 0 for a in range(p.dim))
                found[offset] = found.get(offset, 0.0) + weight / h**2
    return dict(sorted(found.items()))


def radii(p: Any) -> list[tuple[int, int]]:
    """Return how far the stencil reaches below and above each axis."""
    offsets = list(weights(p))
    reach = []
    for axis in range(p.dim):
        steps = [offset[axis] for offset in offsets]
        reach.append((max(0, -min(steps)), max(0, max(steps))))
    return reach


def interior(p: Any, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the points that the kernel writes."""
    if p.boundary != "interior":
        return (slice(None),) * p.dim
    return tuple(
        slice(low, max(low, n - high)) for n, (low, high) in zip(shape, radii(p), strict=True)
    )


def stencil_sum(p: Any, x: Any, w: Mapping[tuple[int, ...], float]) -> Any:
    """Return the weighted sum at every point of x, computed on a padded copy."""
    mode = {"interior": "constant", "zero": "constant", "clamp": "edge", "periodic": "wrap"}
    padded = np.pad(x, radii(p), mode=mode[p.boundary])
    total = np.zeros_like(x)
    for offset, weight in w.items():
        window = tuple(
            slice(low + step, low + step + n)
            for step, n, (low, _) in zip(offset, x.shape, radii(p), strict=True)
        )
        total += x.dtype.type(weight) * padded[window]
    return total


def runs(p: Any) -> dict[tuple[int, ...], tuple[str, int]]:
    """Return the name and the first offset of each run of x, by its offset on the other axes."""
    firsts: dict[tuple[int, ...], int] = {}
    for *leading, last in (*weights(p), *([(0,) * p.dim] if p.update else ())):
        firsts[tuple(leading)] = min(last, firsts.get(tuple(leading), last))
    return {
        leading: (f"run{number}", first)
        for number, (leading, first) in enumerate(sorted(firsts.items()))
    }


def runs_along_rows(p: Any) -> set[str]:
    """Return the names of the runs that are read beside a point of their row, not at it alone."""
    return {runs(p)[offset[:-1]][0] for offset in weights(p) if offset[-1]}


def column_reach(p: Any) -> tuple[int, int]:
    """Return how far the stencil reaches below and above a point on the slowest axis alone."""
    steps = [0, *(offset[0] for offset in weights(p) if not any(offset[1:]))]
    return min(steps), max(steps)


def steps_off_column(p: Any) -> list[list[int]]:
    """Return the steps along each axis that lead to points off the column of a point."""
    offsets = [offset for offset in weights(p) if any(offset[1:])]
    return [sorted({offset[axis] for offset in offsets} - {0}) for axis in range(p.dim)]
