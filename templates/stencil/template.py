"""Finite-difference stencils on regular grids."""

import math
from collections.abc import Callable, Mapping
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
from tikgen.template.parameters import require_defaults

# Central second derivatives: weights at distance 0, 1, 2, ... (Fornberg 1988, table 1).
SECOND_DERIVATIVE = {
    2: (-2.0, 1.0),
    4: (-5 / 2, 4 / 3, -1 / 12),
    6: (-49 / 18, 3 / 2, -3 / 20, 1 / 90),
    8: (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560),
}
AXES = ("i", "j", "k")


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
        order: Literal[2, 4, 6, 8] = parameter("order of accuracy of the Laplacian", 2)
        spacing: float | tuple[float, ...] = parameter(
            "distance between grid points, one number or one for each axis", 1.0
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
            if self.points is not None and (self.order, self.spacing) != (2, 1.0):
                raise Invalid("points", "stands in place of order and spacing; leave those out")
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
        loop: Literal["function", "rows", "points", "linear", "sweep"] = parameter(
            "parallel over strips of rows that a real function computes (cpu), over rows, over "
            "points, over points by their linear index, or over columns that threads walk along "
            "the slowest axis",
            "rows",
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter("points a step along a row", 4)
        row_buffer: Literal[0, 8, 16, 32, 64, 128] = parameter(
            "points computed into a local buffer before they are stored, 0 for none; rows are "
            "then walked by their linear index",
            0,
        )
        rows: Literal[1, 2, 4, 8, 16] = parameter(
            "rows a strip, where there are several axes and loop='function'", 1
        )
        chunk: Literal[1024, 4096, 16384, 65536] = parameter(
            "points of a row where there is one axis, with row_buffer", 4096
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice; 0 with loop='function' or 'sweep'", 0
        )
        block_x: Literal[32, 64, 128, 256] = parameter(
            "threads along the last axis, with loop='sweep'", 64
        )
        block_y: Literal[1, 2, 4, 8] = parameter(
            "threads along the axis before it, with loop='sweep' and three axes", 1
        )
        sweep: Literal[4, 8, 16, 32, 64, 128] = parameter(
            "points that a thread walks, with loop='sweep'", 32
        )
        ahead: Literal[0, 1, 2] = parameter("points read ahead of their need, with loop='sweep'", 0)
        blocks: Literal[0, 2, 4224, 8448] = parameter(
            "blocks that take turns, with loop='sweep'; 0 for as many as there is work for", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        fast = p.storage == "ndarray"
        if arch == "cpu":
            if not fast:
                return {}
            # 2 cores, f32, against rows with row_buffer=32: 1.5 times as fast at 200^3 and
            # 2D 4096^2, 2.5 times at 100^3. Strips of 4 or 8 rows beat single ones at 100^3 by 1.2.
            # Taichi gives a thread 512 iterations at least, so longer strips idle some threads.
            strips = {1: {"chunk": 1024}, 2: {}, 3: {"rows": 4}}[p.dim]
            return {"loop": "function", "unroll": 1, "row_buffer": 32, **strips}
        if fast and p.boundary == "interior" and p.dim > 1:
            # H200, 512^3 f32: 356 us on cuda, 349 with sizes baked in (torch.compile 362 to 371),
            # and 384 on Vulkan. Without reading ahead 385 and 396, on Vulkan without turns 606;
            # point by point 873 and more. 8192^2, order 4: 185 and 187, without turns 291.
            if p.dim == 2:
                shape = {"block_x": 256, "sweep": 8 if arch == "cuda" else 16}
            else:
                shape = {"block_x": 128, "block_y": 2} if arch == "cuda" else {"block_y": 4}
                shape |= {"sweep": 64}
            ahead = 2 if p.dim == 3 or arch == "vulkan" else 0
            blocks = 8448 if arch == "vulkan" else 0
            return {"loop": "sweep", "unroll": 1, "ahead": ahead, "blocks": blocks, **shape}
        return {"loop": "points", "unroll": 1, "block_dim": 128}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return {
                "loop": ("function", "rows", "points"),
                "unroll": (1, 4, 8),
                "row_buffer": (0, 8, 16, 32, 64),
                "rows": (1, 2, 4, 8, 16) if p.dim > 1 else (1,),
                "chunk": (1024, 4096, 16384) if p.dim == 1 else (4096,),
            }
        return {
            "loop": ("points", "linear", "sweep"),
            "unroll": (1,),
            "block_dim": (0, 128, 256),
            "block_x": (64, 128, 256),
            "block_y": (1, 2, 4, 8) if p.dim == 3 else (1,),
            "sweep": (16, 32, 64, 128) if p.dim == 3 else (8, 16, 32),
            "ahead": (0, 1, 2),
            "blocks": (0, 8448),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        interior = p.boundary == "interior"
        if s.loop in ("function", "linear", "sweep") and p.storage != "ndarray":
            raise Invalid("loop", f"{s.loop!r} needs storage='ndarray'")
        if s.loop in ("linear", "sweep") and not interior:
            raise Invalid("loop", f"{s.loop!r} needs boundary='interior'")
        if s.loop == "function" and arch != "cpu":
            raise Invalid("loop", "'function' works on cpu only")
        if s.loop == "function" and not s.row_buffer:
            raise Invalid("row_buffer", "must not be 0 where loop='function'")
        if s.loop == "sweep" and (p.dim == 1 or s.block_dim):
            raise Invalid("loop", "'sweep' needs several axes, and block_dim=0")
        if s.row_buffer and s.loop not in ("function", "rows"):
            raise Invalid("row_buffer", "needs loop='function' or 'rows'")
        if s.row_buffer and s.loop == "rows" and not (interior and p.storage == "ndarray"):
            raise Invalid("row_buffer", "needs boundary='interior' and storage='ndarray'")
        if s.unroll != 1 and (s.loop != "rows" or s.row_buffer):
            raise Invalid("unroll", "must be 1 but where loop='rows' without row_buffer")
        if s.block_x * s.block_y > 1024:
            raise Invalid("block_y", "times block_x must not exceed 1024 threads")
        unused = unused_parameters(p.dim, s.loop, s.row_buffer)
        require_defaults(s, unused, f"where loop={s.loop!r} and dim={p.dim}")
        if s.unroll * len(weights(p)) > 1024:
            raise Invalid(
                "unroll",
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
        zeros, runs = "0, " * (p.dim - 1), _runs(p)

        def in_run(at: str, offset: tuple[int, ...]) -> str:
            if at != "u":
                return _read(p, f"{zeros}{_linear(at, offset)}")
            run, first = runs[offset[:-1]]
            return _read(p, f"{zeros}{_linear(f'{run} + u', (offset[-1] - first[-1],))}")

        return {
            "bounds": bounds,
            "margins": radii(p),
            "near_edge": _near_edge(p),
            "linear_index": ("i", "i * row + j", "i * plane + j * row + k")[p.dim - 1],
            "weighted_sum": lambda index: _weighted_sum(p, lambda offset: _value(p, index, offset)),
            "linear_sum": lambda k: _weighted_sum(
                p, lambda offset: _read(p, zeros + _linear(k, offset))
            ),
            "read": lambda place: _read(p, place),
            "runs": [("out", "k"), *((run, _linear("k", first)) for run, first in runs.values())],
            "run_value": lambda at: in_run(at, (0,) * p.dim) if p.update else "",
            "run_sum": lambda at: _weighted_sum(p, lambda offset: in_run(at, offset)),
            "column": _column(p, s.ahead),
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
            threads = s.block_x * s.block_y
            tiles = ((extents[0] - 1) // s.sweep + 1) * ((last - 1) // s.block_x + 1)
            if p.dim == 3:
                tiles *= (extents[1] - 1) // s.block_y + 1
            walk = looped(s.sweep) + looped(s.ahead)
            if s.blocks:
                return looped((tiles - 1) // s.blocks + 1, walk)
            return parallel(tiles * threads, walk)
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
            drawn |= {"order": 2, "spacing": 1.0}
        plain = drawn["storage"] == "ndarray"
        linear = plain and drawn["boundary"] == "interior"
        possible = {
            "function": plain and arch == "cpu",
            "linear": linear,
            "sweep": linear and drawn["dim"] > 1,
        }
        loop = drawn["loop"] = drawn["loop"] if possible.get(drawn["loop"], True) else "rows"
        if loop == "function":
            drawn["row_buffer"] = drawn["row_buffer"] or 16
        elif loop != "rows" or not linear:
            drawn["row_buffer"] = 0
        if loop != "rows" or drawn["row_buffer"]:
            drawn["unroll"] = 1
        if loop == "sweep":
            drawn["block_dim"] = 0
        for name in unused_parameters(drawn["dim"], loop, drawn["row_buffer"]):
            drawn[name] = self.Schedule.model_fields[name].default
        if drawn["block_x"] == 256:
            drawn["block_y"] = min(drawn["block_y"], 4)
        return drawn


def unused_parameters(dim: int, loop: str, row_buffer: int) -> list[str]:
    """Return the schedule parameters that mean nothing in a loop."""
    unused = [] if loop == "function" and dim > 1 else ["rows"]
    if dim > 1 or not row_buffer:
        unused.append("chunk")
    if loop == "function":
        unused.append("block_dim")
    if loop != "sweep":
        unused += ["block_x", "block_y", "sweep", "ahead", "blocks"]
    elif dim == 2:
        unused.append("block_y")
    return unused


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


def _weighted_sum(p: Any, value: Callable[[tuple[int, ...]], str]) -> str:
    """Return generated code for the sum, one line for each distinct weight.

    `value` gives the code of x at an offset from the point.
    """
    groups: dict[float, list[str]] = {}
    for offset, weight in weights(p).items():
        groups.setdefault(weight, []).append(value(offset))
    terms = []
    for weight, values in groups.items():
        total = values[0] if len(values) == 1 else f"({' + '.join(values)})"
        if len(total) > 60 and len(values) > 1:
            total = "(\n    " + "\n    + ".join(values) + "\n)"
        terms.append(total if weight == 1 else f"{p.dtype.working.literal(weight)} * {total}")
    return "\n+ ".join(terms)


def _read(p: Any, place: str) -> str:
    """Return generated code for x at a place, in the dtype in which the kernel computes."""
    work = p.dtype.working
    return f"x[{place}]" if p.dtype is work else f"ti.cast(x[{place}], {work.taichi})"


def _linear(k: str, offset: tuple[int, ...]) -> str:
    """Return generated code for the linear index at an offset from the linear index k."""
    text = k
    for step, size in zip(offset, ("plane", "row", "")[-len(offset) :], strict=True):
        if step:
            factor = f"{abs(step)} * {size}" if size and abs(step) > 1 else size or str(abs(step))
            text += f" {'+' if step > 0 else '-'} {factor}"
    return text


def _value(p: Any, index: tuple[str, ...], offset: tuple[int, ...]) -> str:
    """Return generated code for the value of x at an offset from the point."""
    places, inside = [], []
    for axis, (name, step) in enumerate(zip(index, offset, strict=True)):
        extent = f"x.shape[{axis}]"
        moved = f"{name} {'+' if step > 0 else '-'} {abs(step)}" if step else name
        if step == 0 or p.boundary == "interior":
            places.append(moved)
        elif p.boundary == "periodic":
            places.append(f"({moved}) % {extent}")
        else:
            places.append(f"ti.min({moved}, {extent} - 1)" if step > 0 else f"ti.max({moved}, 0)")
            inside.append(f"{moved} < {extent}" if step > 0 else f"{moved} >= 0")
    value = _read(p, ", ".join(places))
    if p.boundary == "zero" and inside:
        condition = " and ".join(inside)
        return f"ti.select({condition}, {value}, {p.dtype.working.literal(0)})"
    return value


def _runs(p: Any) -> dict[tuple[int, ...], tuple[str, tuple[int, ...]]]:
    """Return, by its offset on the leading axes, the name and first offset of each run of x."""
    firsts: dict[tuple[int, ...], int] = {}
    for *leading, last in (*weights(p), *([(0,) * p.dim] if p.update else ())):
        firsts[tuple(leading)] = min(last, firsts.get(tuple(leading), last))
    return {
        leading: (f"run{number}", (*leading, last))
        for number, (leading, last) in enumerate(sorted(firsts.items()))
    }


def _near_edge(p: Any) -> str:
    """Return generated code for whether a row lies where some neighbours lie outside."""
    conditions = []
    for axis, (low, high) in enumerate(radii(p)[:-1]):
        if low:
            conditions.append(f"{AXES[axis]} < {low}")
        if high:
            conditions.append(f"{AXES[axis]} >= x.shape[{axis}] - {high}")
    return " or ".join(conditions)


def _column(p: Any, ahead: int) -> dict[str, str]:
    """Return generated code for what a sweep along the slowest axis keeps of its column.

    What a thread has read ahead of a point stays in variables until it lies behind. It reads
    `ahead` points further than the stencil reaches, so that fewer wait for memory.
    """
    zeros, rest = "0, " * (p.dim - 1), (0,) * (p.dim - 1)
    steps = [offset[0] for offset in weights(p) if offset[1:] == rest]
    low, high = min(steps, default=0), max(steps, default=0)
    low, high = min(low, 0), max(high, 0)
    furthest = high + ahead

    def name(step: int) -> str:
        return "at" if step == 0 else f"ahead{step}" if step > 0 else f"behind{-step}"

    def read(offset: tuple[int, ...]) -> str:
        return _read(p, zeros + _linear("here", offset))

    def first(step: int) -> str:
        # A short walk may end before what it reads ahead.
        place = _linear("here", (step, *rest))
        place = f"ti.min({place}, end)" if step > high else place
        return f"{name(step)} = {_read(p, zeros + place)}"

    def shift(stop: int) -> str:
        return "\n".join(f"{name(s)} = {name(s + 1)}" for s in range(low, stop))

    def value(offset: tuple[int, ...]) -> str:
        return name(offset[0]) if offset[1:] == rest else read(offset)

    return {
        "prepare": "\n".join(first(step) for step in range(low, furthest)),
        "load": f"{name(furthest)} = {read((furthest, *rest))}",
        "sum": _weighted_sum(p, value),
        "advance": shift(furthest),
        "finish": shift(furthest - 1),
    }
