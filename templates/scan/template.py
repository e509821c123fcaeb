"""Running sums, products, minima and maxima."""

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
from tikgen.pipeline.loop_steps import looped, stepped
from tikgen.template.rules import GPUS, Not

COMBINED = {"sum": "{} + {}", "prod": "{} * {}", "min": "ti.min({}, {})", "max": "ti.max({}, {})"}
# What a block can share on every arch: cuda allows 48 KiB, lavapipe 32.
SHARED_BYTES = 32768
# Up to so many elements one thread of the cpu does all.
SMALL = 32768
# Up to so many bits one team of a GPU does all.
SMALL_ON_GPU = 2**20
# One thread scans each of several parts.
PARTS_OF_THREADS = {"team": 1, "chunks": Not(1)}
UFUNCS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}


class Scan(Template):
    """Running sum, product, minimum or maximum of a vector.

    Inclusive, `out[i]` combines `x[0]` to `x[i]`, as `np.cumsum(x, dtype=x.dtype)`. Exclusive, it
    combines what lies before `x[i]`; `out[0]` is then the identity: 0, 1, and for `min` and `max`
    the greatest and the least value of the dtype, infinite for floats. `out` may be `x` itself.

    Integers wrap around. Floats are combined in their own dtype, f16 in f32, with an error of at
    most `n eps sum|x|`; NaN propagates as in NumPy. From its first 0 on a product is 0,
    of infinities too; before, where some of the factors overflow or vanish by themselves, it may be
    infinite, 0 or NaN, for their order is free. The order of operations depends on length and
    schedule only, so that equal launches give equal bits. Method: chunks are reduced, their totals
    scanned, and then every chunk is scanned from the total before it (Blelloch 1990); within a
    block of a GPU, the totals of its threads by doubling steps (Hillis and Steele 1986).
    """

    class Problem(ProblemModel):
        op: Literal["sum", "prod", "min", "max"] = parameter("what to compute", "sum")
        mode: Literal["inclusive", "exclusive"] = parameter(
            "whether element i counts in result i", "inclusive"
        )
        dtype: DType = parameter("element type", DType.f32)

    class Schedule(ScheduleModel):
        chunks: int = parameter("most parts that are scanned in parallel", 64, ge=1, le=16384)
        grain: int = parameter(
            "fewest elements in a part; parts of teams hold whole tiles",
            1,
            ge=1,
            le=65536,
            only=PARTS_OF_THREADS,
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "elements a step", 4, only=({"team": 1}, {"chunks": Not(1)})
        )
        team: Literal[1, 64, 128, 256, 512] = parameter(
            "threads that share a part", 1, only={"arch": GPUS}
        )
        items: Literal[0, 4, 8, 16, 32] = parameter(
            "elements in a tile for each thread of a team",
            0,
            only={"team": Not(1)},
            needs={0: {"team": 1}},
        )
        join: Literal["shared", "shuffle"] = parameter(
            "how the threads of a team scan their totals: in memory that they share, or by "
            "warp shuffles",
            "shared",
            only={"team": Not(1), "arch": "cuda"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice; a team is a block of its own",
            0,
            only=PARTS_OF_THREADS,
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu" and sizes is not None and sizes["n0"] <= SMALL:
            # One thread, and so none to be woken: 1000 f32 take 2.9 us, but 25 in parallel.
            return {"chunks": 1, "unroll": 4}
        if arch == "cpu":
            # Taichi hands 512 iterations to a thread of the cpu at a time, so that 64 chunks run on
            # one. Of 16 M f32, unroll=4 takes 0.77 times as long as 1; 8, or 4096 chunks, do alike.
            return {"chunks": 16384, "grain": 1024, "unroll": 4}
        bits = state_dtype(p).bits
        join = "shuffle" if arch == "cuda" else "shared"
        schedule = {"items": 8, "join": join}
        # H200, direct-cuda: one team scans 10,000 f64 in 6.4 us, which take 9.7 in two launches.
        if sizes is not None and sizes["n0"] * bits <= SMALL_ON_GPU:
            return schedule | {"chunks": 1, "team": 256}
        # 100 M f32 take 347 us (torch.cumsum 312; 356 with 512 teams of 256, 370 with 4 items), and
        # as many f64 611 (574; 646 with 1024 teams of 128). The totals scanned by a launch between
        # the two took 5 to 16 us more. One pass with look-back (Merrill and Garland 2016), its sums
        # in a fixed order, took 1.6 times as long or more.
        if bits == 32 or arch == "vulkan":
            return schedule | {"chunks": 1024, "team": 128, "unroll": 8}
        return schedule | {"chunks": 512, "team": 256, "unroll": 8}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        chunks = (1024, 2048, 4096, 8192, 16384)
        if arch == "cpu":
            return {"chunks": chunks, "grain": (256, 1024, 4096), "unroll": (1, 2, 4, 8, 16)}
        return {
            "chunks": (1, 512, 1024, 2048, 4096),
            "unroll": (4, 8),
            "team": (128, 256, 512),
            "items": (4, 8, 16),
            "join": ("shared", "shuffle") if arch == "cuda" else ("shared",),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        used = shared_bytes(p, s.team, s.items)
        if used > SHARED_BYTES:
            raise Invalid(
                "items", f"with team={s.team} takes {used} of {SHARED_BYTES} bytes of shared memory"
            )

    def arguments(self, p: Any) -> tuple[Array, ...]:
        return (
            Array("x", p.dtype, ("n0",)),
            Array("out", p.dtype, ("n0",), role="out", inplace=True),
        )

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        if s.chunks == 1:
            return ()
        return (Array("totals", state_dtype(p), (s.chunks,), role="work"),)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        work = p.dtype.working
        combined = COMBINED[p.op]
        if p.op == "prod" and work.is_float:
            combined = "times({}, {})"
        if is_ranked(p):
            infinity = 0x7F800000 if work.bits == 32 else 0x7FF0000000000000
            first = state_dtype(p).literal(infinity if p.op == "min" else -infinity)
        else:
            first = work.literal(identity(p))
        return {
            "work": state_dtype(p),
            "is_ranked": is_ranked(p),
            "identity": first,
            "combine": lambda a, b: combined.format(a, b),
            "element": lambda i: _element(p, i),
            "result": lambda value: _result(p, value),
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, out: np.ndarray) -> np.ndarray:
        # Integers wrap around: modulo 2**64 first, and then modulo what their dtype holds.
        with np.errstate(all="ignore"):
            running = getattr(np, UFUNCS[p.op]).accumulate(x.astype(p.dtype.wide))
        if p.op == "prod" and p.dtype.is_float:
            has_nan = np.logical_or.accumulate(np.isnan(x))
            running = np.where(np.logical_or.accumulate(x == 0), 0, running)
            running[has_nan] = np.nan
        if p.mode == "exclusive":
            running[1:] = running[:-1].copy()
            running[0] = identity(p)
        return running if p.dtype.is_float else running.astype(p.dtype.numpy)

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        if p.op in ("min", "max") or not p.dtype.is_float:
            return {"out": 0}
        work = np.result_type(p.dtype.numpy, np.float32)
        eps, tiny = float(np.finfo(work).eps), float(np.finfo(work).tiny)
        x = np.abs(inputs["x"].astype(p.dtype.wide))
        terms = np.arange(1, x.size + 1)
        if p.mode == "exclusive":
            x = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
        size = np.cumsum(x) if p.op == "sum" else np.abs(expected["out"])
        allowed = terms * (eps * size + tiny)
        if p.op == "sum" and (x == np.rint(x)).all():
            # Whole numbers are added exactly as long as the dtype holds their sums.
            allowed = np.where(size <= 2 / eps, 0, allowed)
        if p.op == "prod":
            if p.mode == "exclusive":
                x[:1] = 1
            allowed = np.where(leaves_range(x, work), np.inf, allowed)
        return {"out": allowed}

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        n = sizes["n0"]
        if p.op in ("min", "max") and rng.random() < 0.25:
            return {"x": _new_extremes(p, n, rng)}
        if p.op in ("min", "max") and p.dtype.is_float and rng.random() < 0.4:
            special = rng.choice(rng.choice([-np.inf, np.inf, np.nan], 2), n)
            x = np.where(rng.random(n) < rng.choice([0.01, 0.3]), special, rng.uniform(-1, 1, n))
            x[: rng.integers(3)] = rng.choice((-np.inf, np.inf))
            return {"x": x.astype(p.dtype.numpy)}
        if p.op in ("min", "max") and not p.dtype.is_float and rng.random() < 0.3:
            # Mostly the value with which a part begins.
            x = (rng.random(n) < 0.05).astype(p.dtype.numpy)
            return {"x": p.dtype.highest - x if p.op == "min" else p.dtype.lowest + x}
        if p.op in ("min", "max") and p.dtype.is_float and rng.random() < 0.4:
            # Of all sizes, and with all their digits.
            return {
                "x": (rng.uniform(-1, 1, n) * 2.0 ** rng.integers(-8, 8, n)).astype(p.dtype.numpy)
            }
        if p.op == "sum" and p.dtype.is_float and rng.random() < 0.3:
            # Sums that f16 rounds, and f32 does not.
            x = rng.integers(rng.choice((-40, 0)), 40, n, endpoint=True)
            return {"x": x.astype(p.dtype.numpy)}
        if p.op != "prod":
            return {}
        if not p.dtype.is_float:
            # Odd numbers, whose product wraps and never vanishes.
            highest = int((7, p.dtype.highest)[rng.integers(2)])
            lowest = -highest if p.dtype.is_signed else 0
            return {"x": rng.integers(lowest, highest, n, p.dtype.numpy, endpoint=True) | 1}
        # Near 1, so that long products neither overflow nor vanish.
        spread = 0.05 if p.dtype.value == "f16" else 0.5
        x = rng.choice((-1.0, 1.0), n) * 2.0 ** rng.uniform(-spread, spread, n)
        if rng.random() < 0.5:
            # What comes before and after a 0, an infinity or a NaN.
            x[rng.integers(0, n, 2)] = rng.choice((0, np.inf, np.nan), 2, p=(0.6, 0.3, 0.1))
        return {"x": x.astype(p.dtype.numpy)}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        n = sizes["n0"]
        if s.chunks == s.team == 1:
            return stepped(n, s.unroll)
        tile = s.team * s.items or 1
        length = -(-n // (s.chunks * tile)) * tile
        if s.team == 1:
            length = max(length, s.grain)
            used = (n - 1) // length + 1
            return max(looped(length), stepped(length, s.unroll), looped(used))
        doubling = looped(s.team.bit_length())
        totals = stepped(length // s.team, s.unroll) + doubling
        join = 2 * looped(s.chunks // s.team + 1) + doubling
        return max(totals, join, looped(length // tile, doubling))

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        if p.op != "prod" or not p.dtype.is_float:
            return {"uniform": {}}
        # A product that left the range of its dtype would be one of zeros or infinities.
        return {"signs": {"x": rng.choice(np.array([-1, 1], p.dtype.numpy), sizes["n0"])}}

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return sizes["n0"]

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        # The long ones fill the steps of many chunks.
        return {"n0": (1, 2, 7, 63, 64, 65, 131, 1009, 4099, 16411, 140_009)}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if s.team > 1 or s.chunks == 1:
            return ()
        # As many parts as there may be, and longer ones.
        return tuple({"n0": s.chunks * s.grain + more} for more in (0, 1))

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "chunks": st.sampled_from((1, 2, 7, 64, 1024)),
            "grain": st.sampled_from((1, 3, 64)),
        }


def _new_extremes(p: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return values of which each is a new extreme, from some place on, while there are others."""
    most = {"f16": 2**11 - 1, "f32": 2**24 - 1}.get(p.dtype.value, 2 * n)
    if not p.dtype.is_float:
        most = min(2 * n, p.dtype.highest - p.dtype.lowest)
    steps = np.clip(np.arange(n) - rng.integers(-n // 2, n), 0, most)
    if p.dtype.is_float:
        return ((-1 if p.op == "min" else 1) * (steps + 1)).astype(p.dtype.numpy)
    # Unsigned numbers of 64 bits wrap around, as those of the dtype do.
    first, size = p.dtype.highest if p.op == "min" else p.dtype.lowest, steps.astype(np.uint64)
    first = np.uint64(first % 2**64)
    return (first - size if p.op == "min" else first + size).astype(p.dtype.numpy)


def identity(p: Any) -> int | float:
    """Return what leaves every value as it is."""
    return {"sum": 0, "prod": 1, "min": p.dtype.highest, "max": p.dtype.lowest}[p.op]


def leaves_range(x: np.ndarray, work: np.dtype) -> np.ndarray:
    """Tell where a product may be infinite, 0 or NaN, as the order of its factors decides."""
    with np.errstate(all="ignore"):
        size = np.log2(np.abs(x.astype(np.float64)))
    size = np.where(np.isfinite(size), size, 0)
    info = np.finfo(work)
    above = np.cumsum(np.maximum(size, 0)) >= np.log2(float(info.max))
    below = np.cumsum(np.minimum(size, 0)) <= np.log2(float(info.tiny))
    decided = np.logical_or.accumulate((x == 0) | np.isnan(x))
    return (above | below) & ~decided


def is_ranked(p: Any) -> bool:
    """Tell whether numbers are compared by their ranks, which are integers."""
    return p.op in ("min", "max") and p.dtype.is_float


def state_dtype(p: Any) -> DType:
    """Return the dtype of what is carried from element to element."""
    work = p.dtype.working
    return DType(f"i{work.bits}") if is_ranked(p) else work


def shared_bytes(p: Any, team: int, items: int) -> int:
    """Return how much memory a team shares."""
    return (team * items * 33 // 32 + 2 * (team + 1) + team) * state_dtype(p).bits // 8


def _element(p: Any, index: str) -> str:
    """Return generated code for what the scan takes of the element at an index."""
    work = p.dtype.working
    x = f"x[{index}]" if p.dtype is work else f"ti.cast(x[{index}], {work.taichi})"
    return f"rank({x})" if is_ranked(p) else x


def _result(p: Any, value: str) -> str:
    """Return generated code for a result."""
    number = f"at_rank({value})" if is_ranked(p) else value
    return number if p.dtype is p.dtype.working else f"ti.cast({number}, {p.dtype.taichi})"
