"""Reductions of whole arrays and along one axis."""

import math
from collections.abc import Mapping, Sequence
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
from tikgen.pipeline.loop_steps import looped, parallel, stepped
from tikgen.template.rules import GPUS, Not

AXES = ("i", "j", "k")
COMPENSABLE = ("sum", "mean", "norm2", "dot")
ACCUMULATED = (*COMPENSABLE, "prod")
ACCUMULATORS = ("i32", "i64", "u32", "u64", "f32", "f64")
# Problems that give one number, and those that give one for each line along an axis.
WHOLE = ({"axis": None}, {"dim": 1})
LINES = {"axis": Not(None), "dim": (2, 3)}
# Pairwise summation adds blocks of so many elements in order.
BLOCK = 64
# Teams add at the end up to so many partial sums in order, and therefore shorter blocks before.
TEAM_BLOCK = 16
TEAM_PARTIALS = 32
# Up to so many elements one thread of the cpu does all.
SMALL = 65536
# So many integers of 8 bits may have a sum that f32 does not hold; verification draws up to MOST.
LONG, MOST = 262_139, 2**24
# Where each chunk leaves what it knows; the place of what it found is its own number.
PARTIAL = {"best": "partial", "found": "partial", "total": "partial", "lost": "partial_lost"}
PARTIAL |= {"least": "partial_least", "greatest": "partial_greatest"}
PLACE = {"argmin": {"at": "chunk"}, "argmax": {"at": "chunk"}}


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
    `eps |sum t| + n eps^2 sum|t|` for kahan; the products of `dot` and `norm2` are rounded before.
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
            "most parts of a whole array that are reduced in parallel",
            64,
            ge=1,
            le=16384,
            only=WHOLE,
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
        unroll: Literal[1, 2, 4, 8, 16] = parameter("elements a step", 4)
        team: Literal[1, 64, 128, 256, 512, 1024] = parameter(
            "threads that share a part, or a line along the axis",
            1,
            only=[{**each, "arch": GPUS} for each in ({"dim": 1}, {"linear": True}, LINES)],
        )
        columns: Literal[0, 16, 32, 64] = parameter(
            "columns that a thread, or a team, reduces side by side, 0 for one each",
            0,
            only=({"axis": 0, "dim": (2, 3)}, {"axis": 1, "dim": 3}),
        )
        spread: Literal[1, 8, 64, 512] = parameter(
            "turns of the parallel loop for each line along the axis; the cpu deals out 512",
            1,
            only={**LINES, "arch": "cpu"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice; a team is a block of its own",
            0,
            only={"team": 1, "spread": 1, "chunks": Not(1)},
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        linear = is_whole(p) and p.dim > 1
        is_small = sizes is not None and math.prod(sizes.values()) <= SMALL
        if arch == "cpu" and not is_whole(p):
            if p.axis == p.dim - 1 or p.accuracy != "fast":
                return {"unroll": 1}
            # Totals of 64 columns of f32 stay in registers: a sum over the rows of 4096^2 takes
            # 1/18 of what one column after the other does, and 1/4 of what 128 columns do.
            # The ranks of extremes take more registers: 32 columns take 1/6 of what 64 do.
            columns = 64 if family(p) == "total" else 32
            columns = columns // 2 if work_dtype(p).bits == 64 else columns
            return {"unroll": 1, "columns": columns, "spread": 1 if is_small else 512}
        if arch == "cpu" and is_small:
            # One thread, and so none to be woken: 1000 f32 take 2.5 us, but 15 in parallel.
            return {"chunks": 1, "unroll": 1, "linear": linear}
        if arch == "cpu":
            # Taichi hands 512 iterations to a thread of the cpu at a time, so that 64 chunks run on
            # one: to sum 16 M f32, 16384 take 0.65 times as long. LLVM vectorises the plain loop:
            # 3.6 times as fast as unroll=4.
            return {"chunks": 16384, "grain": 1024, "unroll": 1, "linear": linear}
        # Where an element takes many operations, steps of 16 would take long to compile.
        unroll = 16 if p.accuracy == "fast" and p.op not in ("argmin", "argmax") else 4
        if is_whole(p) and arch == "cuda" and p.op != "dot":
            # H100, f32: 30,000 in 3.5 us, 5 M in 7.6, 12 M in 23.7, 100 M in 147 by 1024 chunks; by
            # 4096 in 6.1, 9.4, 22.4 and 143; by 8192 in 9.4, 13.2, 24 and 166.
            is_large = sizes is not None and math.prod(sizes.values()) >= 2**23
            whole = {"chunks": 4096 if is_large else 1024, "unroll": 1, "team": 256}
        elif is_whole(p):
            # H200, 128 M f32: a sum on Vulkan takes 141 us, 144 in steps of 8; dot on cuda 240,
            # 246 in steps of 8 by teams of 256 (torch.dot 245 to 248).
            whole = {"chunks": 4096, "unroll": unroll, "team": 512}
        elif p.axis == p.dim - 1:
            # H200, 8192^2 f32: 66 us on cuda, as with teams of 256 (torch 80 to 82), 91 on Vulkan.
            return {"team": 128}
        else:
            # H200, 8192^2 f32: 72 us on cuda (torch 74 to 75) and 73 on Vulkan; on cuda 92 in steps
            # of 4 by teams of 256.
            return {"team": 512, "columns": 32, "unroll": unroll}
        return {**whole, "grain": 4096, "linear": linear}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        last = p.axis == p.dim - 1
        if not is_whole(p) and arch == "cpu":
            columns = () if last or p.accuracy != "fast" else (16, 32, 64)
            return {"columns": (0, *columns), "spread": (1, 8, 64, 512), "unroll": (1, 2, 4, 8, 16)}
        if not is_whole(p):
            return {
                "team": (1, 64, 128, 256, 512, 1024),
                "columns": (0,) if last else (0, 16, 32, 64),
                "unroll": (1, 4, 8, 16),
                "block_dim": (0, 32, 64, 128, 256),
            }
        chunks = (1024, 2048, 4096, 8192, 16384)
        if arch == "cpu":
            return {"chunks": chunks, "grain": (256, 1024, 4096), "unroll": (1, 2, 4, 8)}
        return {
            "chunks": chunks,
            "grain": (1024, 4096, 16384),
            "unroll": (1, 4, 8, 16),
            "team": (128, 256, 512, 1024),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.team == 1:
            if s.columns and (arch != "cpu" or p.accuracy != "fast"):
                raise Invalid("columns", "needs a team, or cpu and accuracy='fast'")
            return
        if s.columns >= s.team or (not s.columns and not is_whole(p) and p.axis != p.dim - 1):
            raise Invalid("columns", f"takes 16, 32 or 64, but less than team={s.team}")
        if is_whole(p) and p.accuracy == "pairwise" and s.chunks > TEAM_PARTIALS * s.team:
            most = TEAM_PARTIALS * s.team
            raise Invalid("chunks", f"takes at most {most} for accuracy='pairwise' and this team")

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
        if not is_whole(p) or s.chunks == s.team == 1:
            return ()
        arrays = [
            Array(PARTIAL[variable], dtype, (s.chunks,), role="work")
            for variable, dtype in known_dtypes(p).items()
        ]
        if family(p) == "place" and s.team > 1:
            arrays.append(Array("winner", DType.i32, (1,), role="work"))
        return tuple(arrays)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        extents = [f"x.shape[{axis}]" for axis in range(p.dim)]
        final = known_dtypes(p, places=True)
        known = known_dtypes(p) if is_whole(p) else final
        return {
            "p": p.model_copy(update={"accuracy": accuracy(p)}),
            "family": family(p),
            "whole": is_whole(p),
            "work": work_dtype(p),
            "order": "<" if p.op.endswith("min") else ">",
            "axes": list(AXES[: p.dim]),
            "extents": extents,
            "kept": [AXES[axis] for axis in kept_axes(p)],
            "kept_extents": [extents[axis] for axis in kept_axes(p)],
            "block_length": BLOCK if s.team == 1 else TEAM_BLOCK,
            "state": known,
            "final_state": final,
            "best_only": {"best": final["best"]} if "best" in final else {},
            "neutral": neutral(p),
            "partial": PARTIAL,
            "left_by_chunk": {v: f"{PARTIAL.get(v)}[chunk]" for v in known} | PLACE.get(p.op, {}),
            "held_by_other": lambda state: {v: f"shared_{v}[other]" for v in state},
            "element_form": element_form(p),
            "result_form": result_form(p),
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
                found = np.asarray(np.prod(x.astype(wide), axis=axis, dtype=wide))
                if wide.kind == "f":
                    is_zero = np.any(x == 0, axis=axis) & np.all(np.isfinite(x), axis=axis)
                    found = np.where(is_zero, 0, found)
                return found.reshape(out.shape)
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
            return {
                "out": np.where(
                    leaves_range(inputs["x"], axis, work), np.inf, n * eps * exact + tiny
                )
            }
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
            error = error + 4 * eps * exact + tiny
            # Other sums of an infinite term may be NaN.
            return {"out": np.where(np.isinf(exact), 0, error) if accuracy(p) == "kahan" else error}

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
        axis = p.dim - 1 if p.axis is None else p.axis
        if p.op in ("any", "all"):
            # Mostly all alike: one that differs decides.
            x = np.full(shape, p.op == "all")
            if rng.random() < 0.9:
                x[tuple(rng.integers(0, shape))] ^= True
            return {"x": x.astype(p.dtype.numpy)}
        if p.op == "prod":
            return {"x": factors(p, shape, rng)}
        if p.op not in ACCUMULATED:
            if rng.random() < 0.5:
                return {"x": extremes(p, shape, axis, rng)}
            if p.dtype.is_float and rng.random() < 0.5:
                # Now and then all are infinite, with one sign.
                some = rng.choice([-np.inf, np.inf, np.nan], rng.integers(1, 4))
                part = rng.choice([0.01, 0.5, 1.0])
                x = np.where(rng.random(shape) < part, rng.choice(some, shape), 1.0)
                return {"x": x.astype(p.dtype.numpy)}
            return {}
        if accuracy(p) == "kahan" and shape[axis] > 2 and rng.random() < 0.75:
            return ill_conditioned(p, shape, axis, rng)
        is_long = math.prod(shape) > LONG // 2
        if not p.dtype.is_float and (is_long or rng.random() < 0.5):
            # Sums that f32 cannot hold exactly, nor 32 bits where they are long.
            most = min(2 ** int(rng.choice((20, 30))), p.dtype.highest)
            least = most - most // 16 if is_long or rng.random() < 0.5 else 0
            return {"x": rng.integers(least, most, shape, endpoint=True).astype(p.dtype.numpy)}
        if p.dtype.is_float and rng.random() < 0.5:
            # What a narrower dtype would take for 0, or for infinite.
            scale = 2.0 ** (rng.choice((-1, 1)) * (8 if p.dtype.bits == 16 else 40))
            names = ("x", "y") if p.op == "dot" else ("x",)
            return {n: (rng.uniform(-1, 1, shape) * scale).astype(p.dtype.numpy) for n in names}
        return {}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        extents = [sizes[f"n{axis}"] for axis in range(p.dim)]
        tree = looped(s.team.bit_length())
        if not is_whole(p):
            lines, length = math.prod(extents) // extents[p.axis], extents[p.axis]
            if s.columns:
                lines = lines // extents[-1] * ((extents[-1] - 1) // s.columns + 1)
                length = -(-length * s.columns // s.team)
            elif s.team > 1:
                length = -(-length // s.team)
            sought = looped(length) if family(p) == "place" else 0
            return parallel(lines * s.team, walked(p, s, length) + sought + tree)
        count = math.prod(extents)
        length = max((count - 1) // s.chunks + 1, s.grain)
        used, length = (count - 1) // length + 1, -(-length // s.team)
        if p.dim > 1 and not s.linear:
            rows = length // extents[-1] + 2
            taken = looped(rows, walked(p, s, min(length, extents[-1])))
        else:
            taken = walked(p, s, length)
        sought = looped(length * s.team) if family(p) == "place" and s.team == 1 else 0
        if s.chunks == s.team == 1:
            return taken + sought
        if accuracy(p) == "pairwise" and s.team == 1:
            return max(taken, looped(2 * used.bit_length(), 1) + used)
        return max(taken + tree, looped(used // s.team + 1) + tree + sought)

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        shape = tuple(sizes[f"n{axis}"] for axis in range(p.dim))
        if p.op in ("any", "all"):  # Nothing decides before the end.
            return {"undecided": {"x": np.full(shape, p.op == "all", p.dtype.numpy)}}
        if p.op == "prod" and p.dtype.is_float:
            # A product that left the range of its dtype would be one of zeros or infinities.
            signs = rng.choice(np.array([-1, 1], p.dtype.numpy), shape)
            return {"signs": {"x": signs}}
        return {"uniform": {}}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return math.prod(sizes.values()) * (2 if p.op in ("dot", "norm2") else 1)

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        # The long ones fill the steps of many chunks.
        tried = {1: (1, 2, 7, 64, 131, 1009, 4099, 12289, 16411, LONG), 2: (1, 3, 17, 67)}
        return {f"n{axis}": tried.get(p.dim, (1, 2, 5, 13, 17)) for axis in range(p.dim)}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if s.team > 1:
            return ()
        axis = p.dim - 1 if is_whole(p) else p.axis
        parts = s.chunks if is_whole(p) else 1
        # As many parts as there may be, and longer ones.
        counts = [parts * s.grain, parts * s.grain + 1] if parts > 1 else []
        if p.op in COMPENSABLE and not p.dtype.is_float and p.dtype.bits <= 16:
            counts.append(min(parts * LONG, MOST))
        return tuple({f"n{k}": count if k == axis else 1 for k in range(p.dim)} for count in counts)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "axis": st.none() | st.sampled_from((0, 1, 2)),
            "accumulator": st.none() | st.sampled_from(ACCUMULATORS),
            "chunks": st.sampled_from((1, 2, 7, 64, 1024)),
            "grain": st.sampled_from((1, 3, 64)),
        }


def walked(p: Any, s: Any, length: int) -> int:
    """Return the loop steps of a thread that takes so many elements, and adds up what it kept."""
    if accuracy(p) != "pairwise":
        return stepped(length, s.unroll)
    block = BLOCK if s.team == 1 else TEAM_BLOCK
    # Adding a block to the stack takes two steps on average, and the stack has 31 places.
    return looped((length - 1) // block + 1, stepped(block, s.unroll) + 3) + looped(31)


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


def known_dtypes(p: Any, places: bool = False) -> dict[str, DType]:
    """Return the variables, with their dtypes, that hold what a reduction knows."""
    if family(p) == "total":
        work = work_dtype(p)
        more = {"lost": work} if accuracy(p) == "kahan" else {}
        if p.op == "prod" and work.is_float:
            # The bits of the least and the greatest factor: a 0 beside finite ones gives 0, even
            # where others make up an infinity before they meet it.
            names = ("least", "greatest") if p.dtype.is_float else ("least",)
            more = dict.fromkeys(names, DType(f"i{work.bits}"))
        return {"total": work, **more}
    if family(p) == "truth":
        return {"found": DType.i32}
    work = work_dtype(p)
    # Floats are compared by their ranks, which are integers.
    best = DType(f"i{work.bits}") if work.is_float else work
    return {"best": best, "at": DType.i32} if places and family(p) == "place" else {"best": best}


def neutral(p: Any) -> dict[str, int]:
    """Return what each variable holds before the first element."""
    best = known_dtypes(p).get("best", DType.i32)
    return {
        "best": int(best.highest if p.op.endswith("min") else best.lowest),
        "at": int(DType.i32.highest),
        "found": int(p.op == "all"),
        "total": int(p.op == "prod"),
        "lost": 0,
        "least": int(DType(f"i{work_dtype(p).bits}").highest),
        "greatest": 0,
    }


def factors(p: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return numbers whose product shows each of them."""
    if p.dtype.is_float:
        # Near 1, so that long products neither overflow nor vanish.
        x = rng.choice((-1.0, 1.0), shape) * 2.0 ** rng.uniform(-0.5, 0.5, shape)
        if rng.random() < 0.5:
            # But now and then they do, beside a 0, and some are infinite.
            x = x * (_greatest(p.dtype) / 2)
            if rng.random() < 0.5:
                x[tuple(rng.integers(0, shape))] = np.inf
            axis = p.dim - 1 if p.axis is None else p.axis
            lines = np.moveaxis(x, axis, -1)
            zeros = rng.integers(0, shape[axis], (*lines.shape[:-1], 1))
            np.put_along_axis(lines, zeros, 0.0, -1)
        return x.astype(p.dtype.numpy)
    signs = np.array((-1, 1) if p.dtype.is_signed else (1,))
    if total_numpy(p).kind == "f":
        # Few other than 1, so that f32 holds the product; or one that overflows beside a 0.
        x = rng.choice(signs, shape)
        x.flat[rng.integers(0, x.size, 10)] = 3
        if rng.random() < 0.5:
            x = np.full(shape, p.dtype.highest)
            x[tuple(rng.integers(0, shape))] = 0
        return x.astype(p.dtype.numpy)
    # Odd numbers, whose product wraps and never vanishes.
    highest = int((7, p.dtype.highest)[rng.integers(2)])
    lowest = -highest if p.dtype.is_signed else 0
    return rng.integers(lowest, highest, shape, p.dtype.numpy, endpoint=True) | 1


def extremes(p: Any, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers among which each line along the axis has one or two that decide."""
    is_min = p.op.endswith("min")
    x, best = rng.uniform(1, 20, shape), 0 if is_min else 21
    is_level = p.dtype.is_float or rng.random() < 0.5
    if not is_level:
        # Near the limit, so that what else there is in memory would decide.
        x = rng.integers(0, 20, shape)
        x = p.dtype.highest - x.astype(p.dtype.numpy) if is_min else p.dtype.lowest + x
        best = p.dtype.highest - 20 if is_min else p.dtype.lowest + 20
    x = x.astype(p.dtype.numpy)
    lines = np.moveaxis(x, axis, -1)
    for _ in range(rng.integers(1, 3)):
        if is_whole(p):
            x[tuple(rng.integers(0, shape))] = best
        else:
            places = rng.integers(0, shape[axis], (*lines.shape[:-1], 1))
            np.put_along_axis(lines, places, best, -1)
    if is_level and not is_whole(p):
        # What another line holds would decide.
        lines += (25 * rng.integers(0, 5, (*lines.shape[:-1], 1))).astype(x.dtype)
    if p.dtype.is_float:
        # Numbers of all their digits, often negative.
        x = (x * rng.uniform(0.9, 1.1) - rng.choice((0, 200))).astype(x.dtype)
    return x


def ill_conditioned(
    p: Any, shape: tuple[int, ...], axis: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return terms that a plain sum loses beside great ones, or an infinite one."""
    great = 2.0 / float(np.finfo(total_numpy(p)).eps)
    x = rng.uniform(0, 4, shape)
    lines = np.moveaxis(x, axis, -1)
    one, other = rng.choice(shape[axis], 2, replace=False)
    if p.op == "norm2":
        x /= 8
        lines[..., one] = min(np.sqrt(great), _greatest(p.dtype))
    elif p.dtype.is_signed and great < _greatest(p.dtype):
        lines[..., one], lines[..., other] = great, -great
    if p.dtype.is_float and rng.random() < 0.25:
        lines[..., other] = np.inf
    found = {"x": x.astype(p.dtype.numpy)}
    return found | ({"y": np.ones(shape, p.dtype.numpy)} if p.op == "dot" else {})


def accuracy(p: Any) -> str:
    """Return how sums are computed: "fast" where none is rounded, as of small integers in f64."""
    bits = p.dtype.bits * (2 if p.op in ("dot", "norm2") else 1)
    is_wide = p.op in ACCUMULATED and total_numpy(p).itemsize == 8
    is_exact = not p.dtype.is_float and is_wide and bits <= 16
    return "fast" if is_exact else str(p.accuracy)


def _greatest(dtype: DType) -> float:
    """Return the greatest finite number of a dtype."""
    return float(np.finfo(dtype.numpy).max if dtype.is_float else dtype.highest)


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


def leaves_range(x: np.ndarray, axis: int | None, work: np.dtype) -> np.ndarray:
    """Tell where a product may be infinite, 0 or NaN, as the order of its factors decides."""
    with np.errstate(all="ignore"):
        size = np.log2(np.abs(x.astype(np.float64)))
        size = np.where(np.isfinite(size), size, 0)
        info = np.finfo(work)
        above = np.sum(np.maximum(size, 0), axis=axis) >= np.log2(float(info.max))
        below = np.sum(np.minimum(size, 0), axis=axis) <= np.log2(float(info.tiny))
    decided = np.any(x == 0, axis=axis) | ~np.all(np.isfinite(x), axis=axis)
    return np.atleast_1d((above | below) & ~decided)


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


def element_form(p: Any) -> str:
    """Return generated code for what the reduction takes of elements {x} and {y}."""
    is_float = work_dtype(p).is_float
    if family(p) == "truth":
        return f"ti.cast({'magnitude({x})' if is_float else '{x}'} != 0, ti.i32)"
    if family(p) != "total":
        return "rank({x})" if is_float else "{x}"
    return {"dot": "{x} * {y}", "norm2": "{x} * {x}"}.get(p.op, "{x}")


def result_form(p: Any) -> str:
    """Return generated code for the result; {} stands for what picks an element of vectors."""
    work = work_dtype(p)
    if p.op in ("min", "max"):
        best = "at_rank(best{})" if work.is_float else "best{}"
        return best if p.dtype is work else f"ti.cast({best}, {p.dtype.taichi})"
    if p.op == "mean":
        return f"total{{}} / ti.cast({{count}}, {work.taichi})"
    if p.op == "prod" and work.is_float:
        infinity = 0x7F800000 if work.bits == 32 else 0x7FF0000000000000
        bits = DType(f"i{work.bits}")
        is_zero = f"least{{}} == {bits.literal(0)}"
        if p.dtype.is_float:
            is_zero += f" and greatest{{}} < {bits.literal(infinity)}"
        return f"ti.select({is_zero}, {work.literal(0)}, total{{}})"
    total = "ti.sqrt(total{})" if p.op == "norm2" else "total{}"
    return {"place": "at{}", "truth": "found{}"}.get(family(p), total)
