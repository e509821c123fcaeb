"""Reductions of whole arrays and along one axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tikgen import Array, Cost, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter

AXES = ("i", "j", "k")
COMPENSABLE = ("sum", "mean", "norm2", "dot")
ACCUMULATED = (*COMPENSABLE, "prod")
ACCUMULATORS = ("i32", "i64", "u32", "u64", "f32", "f64")
# Where a chunk starts, as generated code.
START_PLACES = {
    1: ("start",),
    2: ("start // x.shape[1]", "start % x.shape[1]"),
    3: ("head // x.shape[1]", "head % x.shape[1]", "start % x.shape[2]"),
}
# Pairwise summation adds blocks of so many elements in order.
BLOCK = 64


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
    array. `norm2` does not scale: it overflows where the squares do.

    `accuracy` is for sums in floats. With eps the accumulator's, the error of a sum of n terms t
    is at most about `n eps sum|t|` for fast, `(64 + log2 n) eps sum|t|` for pairwise, and
    `eps |sum t| + n eps^2 sum|t|` for kahan; the products of `dot` and `norm2` are rounded before.
    """

    class Problem(ProblemModel):
        op: Literal[
            "sum", "prod", "min", "max", "mean", "norm2", "dot", "argmin", "argmax", "any", "all"
        ] = parameter("what to compute", "sum")
        dim: int = parameter("number of axes of the input", 1, ge=1, le=3)
        axis: Literal[0, 1, 2] | None = parameter("axis to reduce, None for all", None)
        dtype: DType = parameter("element type of the input", DType.f32)
        accumulator: DType | None = parameter(
            "dtype of totals and of the result, of sum prod mean norm2 and dot only",
            None,
            choices=ACCUMULATORS,
        )
        accuracy: Literal["fast", "pairwise", "kahan"] = parameter(
            "how rounding errors of sums are kept small", "fast"
        )

        def check(self) -> None:
            if self.axis is not None and self.axis >= self.dim:
                raise Invalid("axis", f"takes an axis below dim={self.dim}; got {self.axis}")
            if self.accumulator is not None:
                self.check_accumulator(self.accumulator)
            summed = self.op in COMPENSABLE and work_dtype(self).is_float
            if self.accuracy != "fast" and not summed:
                raise Invalid(
                    "accuracy",
                    "must be 'fast' but for sum, mean, norm2 and dot with a float accumulator; "
                    f"got {self.accuracy!r} with op={self.op!r} on {self.dtype}",
                )

        def check_accumulator(self, accumulator: DType) -> None:
            if self.op not in ACCUMULATED:
                raise Invalid("accumulator", f"must be None where op={self.op!r} adds nothing up")
            needs_float = self.dtype.is_float or self.op in ("mean", "norm2")
            if needs_float and not accumulator.is_float:
                raise Invalid(
                    "accumulator",
                    f"takes f32 or f64 for op={self.op!r} on {self.dtype}; got {accumulator}",
                )

    class Schedule(ScheduleModel):
        chunks: int = parameter(
            "parts of a whole array that are reduced in parallel", 64, ge=1, le=16384
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step", 4)
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice", 0
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        # LLVM vectorises the plain loop: 3.6 times as fast as unroll=4 on a sum of 16 M f32.
        return {"unroll": 1} if arch == "cpu" else {"chunks": 4096, "block_dim": 64}

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
            return ()
        truth = family(p) == "truth"
        arrays = [Array("partial", DType.i32 if truth else work_dtype(p), (s.chunks,), role="work")]
        if family(p) == "place":
            arrays.append(Array("partial_at", DType.i32, (s.chunks,), role="work"))
        if p.accuracy == "kahan":
            arrays.append(Array("partial_lost", work_dtype(p), (s.chunks,), role="work"))
        return tuple(arrays)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        axes = AXES[: p.dim]
        extents = [f"x.shape[{axis}]" for axis in range(p.dim)]
        state = {"extreme": "best", "place": "best", "truth": "found", "total": "total"}[family(p)]
        second = {"partial_at": "at", "partial_lost": "lost"}
        names = [array.name for array in self.workspace(p, s)]
        return {
            "family": family(p),
            "whole": is_whole(p),
            "work": work_dtype(p),
            "order": "<" if p.op.endswith("min") else ">",
            "axes": axes,
            "extents": extents,
            "kept": [axes[axis] for axis in kept_axes(p)],
            "kept_extents": [extents[axis] for axis in kept_axes(p)],
            "block_length": BLOCK,
            "left": {name: second.get(name, state) for name in names},
            "element": lambda index: _element(p, index),
            "start_place": START_PLACES[p.dim],
            "along": lambda index: [index if a == p.axis else axes[a] for a in range(p.dim)],
            "result": lambda count: _result(p, count),
        }

    @staticmethod
    def reference(p: Any, *arguments: np.ndarray) -> np.ndarray:
        x, out = arguments[0], arguments[-1]
        axis = None if is_whole(p) else p.axis
        with np.errstate(all="ignore"):
            if p.op not in ACCUMULATED:
                found = getattr(np, p.op)(x, axis=axis)
                return np.asarray(found, out.dtype).reshape(out.shape)
            wide = wide_numpy(p)
            if p.op == "prod":
                return np.asarray(np.prod(x.astype(wide), axis=axis, dtype=wide)).reshape(out.shape)
            terms = summands(p, [a.astype(wide) for a in arguments])
            if wide.kind == "f":
                total = exact_sum(terms, axis)
            else:
                total = np.asarray(np.sum(terms, axis=axis, dtype=wide))
            if p.op == "mean":
                total = total / wide.type(x.size if axis is None else x.shape[axis])
            elif p.op == "norm2":
                total = np.sqrt(total)
            return total.reshape(out.shape)

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        work = total_numpy(p)
        if p.op not in ACCUMULATED or work.kind != "f":
            return {"out": 0}
        axis = None if is_whole(p) else p.axis
        given = [inputs[name].astype(wide_numpy(p)) for name in ("x", "y") if name in inputs]
        n = given[0].size if axis is None else given[0].shape[axis]
        eps = float(np.finfo(work).eps)
        exact = np.abs(expected["out"])
        tiny = n * float(np.finfo(work).tiny)
        if p.op == "prod":
            return {"out": n * eps * exact + tiny}
        # Higham 2002, chapter 4. A term may also be rounded twice before it is added.
        factor = {"fast": n + 2.0, "pairwise": BLOCK + np.log2(n) + 4, "kahan": 4 * n * eps}
        is_rounded = p.op in ("dot", "norm2") or p.dtype.numpy != work
        with np.errstate(all="ignore"):
            size = np.sum(np.abs(summands(p, given)), axis=axis).reshape(exact.shape)
            error = eps * (min(factor[p.accuracy], n + 2.0) + 2 * is_rounded) * size
            if p.op == "mean":
                error = error / n
            elif p.op == "norm2":
                # The root halves a relative error; where the squares vanish it is their root.
                error = error / np.maximum(exact, np.sqrt(tiny)) + np.sqrt(tiny)
            return {"out": error + 4 * eps * exact + tiny}

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
        if p.op in ("any", "all"):
            # Mostly all alike: one that differs decides.
            x = np.full(shape, p.op == "all")
            if rng.random() < 0.5:
                x[tuple(rng.integers(0, shape))] ^= True
            return {"x": x.astype(p.dtype.numpy)}
        if p.op == "prod" and p.dtype.is_float:
            # Near 1, so that long products neither overflow nor vanish.
            x = rng.choice((-1.0, 1.0), shape) * 2.0 ** rng.uniform(-0.5, 0.5, shape)
            return {"x": x.astype(p.dtype.numpy)}
        if p.accuracy == "kahan" and p.op in ("sum", "mean") and p.dtype.value in ("f32", "f64"):
            # Ill-conditioned: two great numbers cancel, the small ones in between count.
            x = rng.uniform(0, 1, shape)
            great = 2.0 / float(np.finfo(p.dtype.numpy).eps)
            axis = p.dim - 1 if p.axis is None else p.axis
            lines = np.moveaxis(x, axis, -1)
            if shape[axis] > 2:
                lines[..., 0], lines[..., -1] = great, -great
            return {"x": x.astype(p.dtype.numpy)}
        return {}

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        elements = int(np.prod([sizes[f"n{axis}"] for axis in range(p.dim)]))
        results = 1 if is_whole(p) else elements // sizes[f"n{p.axis}"]
        read = (2 if p.op == "dot" else 1) * elements * p.dtype.bits
        flops = elements * (2 if p.op in ("dot", "norm2") else 1)
        return Cost(bytes=(read + results * result_dtype(p).bits) // 8, flops=flops)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        tried = {1: (1, 2, 7, 63, 64, 65, 131, 1009, 4099), 2: (1, 3, 17, 67), 3: (1, 2, 5, 13, 17)}
        return {f"n{axis}": tried[p.dim] for axis in range(p.dim)}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "axis": st.none() | st.sampled_from((0, 1, 2)),
            "accumulator": st.none() | st.sampled_from(ACCUMULATORS),
            "chunks": st.sampled_from((1, 2, 7, 64, 1024)),
        }

    def adjust(self, drawn: dict[str, Any], arch: str) -> dict[str, Any]:
        drawn = dict(drawn)
        if drawn.get("axis") is not None:
            drawn["axis"] = min(drawn["axis"], drawn["dim"] - 1)
        dtype = DType.parse(drawn["dtype"])
        needs_float = dtype.is_float or drawn["op"] in ("mean", "norm2")
        given = drawn.get("accumulator")
        if drawn["op"] not in ACCUMULATED or (given and needs_float and str(given)[0] != "f"):
            given = drawn["accumulator"] = None
        is_float = needs_float if given is None else str(given)[0] == "f"
        if drawn["op"] not in COMPENSABLE or not is_float:
            drawn["accuracy"] = "fast"
        return drawn


def family(p: Any) -> str:
    """Return what kind of state the reduction keeps."""
    if p.op in ACCUMULATED:
        return "total"
    return {"min": "extreme", "max": "extreme", "any": "truth", "all": "truth"}.get(p.op, "place")


def is_whole(p: Any) -> bool:
    """Tell whether everything is reduced to one number."""
    return p.axis is None or p.dim == 1


def kept_axes(p: Any) -> list[int]:
    """Return the axes that the result keeps."""
    return [axis for axis in range(p.dim) if axis != p.axis and not is_whole(p)]


def work_dtype(p: Any) -> DType:
    """Return the dtype in which the kernel computes."""
    return DType.parse(total_numpy(p)) if p.op in ACCUMULATED else p.dtype.working


def total_numpy(p: Any) -> np.dtype:
    """Return the dtype of totals, as NumPy's."""
    if p.accumulator is not None:
        return p.accumulator.numpy
    if p.dtype.is_float:
        return np.result_type(p.dtype.numpy, np.float32)
    return np.dtype(np.float64) if p.op in ("mean", "norm2") else p.dtype.wide


def wide_numpy(p: Any) -> np.dtype:
    """Return the dtype in which the reference adds up: integers must wrap around alike."""
    total = total_numpy(p)
    if total.kind != "f":
        return total
    return np.dtype(np.longdouble if total.itemsize == 8 else np.float64)


def result_dtype(p: Any) -> DType:
    """Return the dtype of `out`."""
    if p.op in ACCUMULATED:
        return work_dtype(p)
    return p.dtype if p.op in ("min", "max") else DType.i32


def summands(p: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the terms that are added up."""
    if p.op == "dot":
        return inputs[0] * inputs[1]
    return inputs[0] * inputs[0] if p.op == "norm2" else inputs[0]


def exact_sum(terms: np.ndarray, axis: int | None) -> np.ndarray:
    """Return a sum in twice the precision of its terms: pairwise, with what every step loses."""
    total = terms.reshape(-1) if axis is None else np.moveaxis(terms, axis, 0)
    lost = np.zeros_like(total[0])
    while len(total) > 1:
        even = total if len(total) % 2 == 0 else np.concatenate([total, np.zeros_like(total[:1])])
        a, b = even[0::2], even[1::2]
        total = a + b
        of_b = total - a
        lost = lost + np.sum((a - (total - of_b)) + (b - of_b), axis=0)
    return np.where(np.isfinite(total[0]), total[0] + lost, total[0])


def _element(p: Any, index: Sequence[str]) -> str:
    """Return generated code for what the reduction takes of the element at an index."""
    work = work_dtype(p)
    place = ", ".join(index)
    x, y = (
        f"{a}[{place}]" if p.dtype is work else f"ti.cast({a}[{place}], {work.taichi})"
        for a in ("x", "y")
    )
    if family(p) == "truth":
        return f"magnitude({x})" if work.is_float else x
    return {"dot": f"{x} * {y}", "norm2": f"{x} * {x}"}.get(p.op, x)


def _result(p: Any, count: str) -> str:
    """Return generated code for the result, where the state is complete."""
    work = work_dtype(p)
    if p.op in ("min", "max"):
        return "best" if p.dtype is work else f"ti.cast(best, {p.dtype.taichi})"
    if p.op == "mean":
        return f"total / ti.cast({count}, {work.taichi})"
    return {"place": "at", "truth": "found"}.get(
        family(p), "ti.sqrt(total)" if p.op == "norm2" else "total"
    )
