"""Counts, or sums of weights, by equal bins of a range."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.dtypes import INTS
from tikgen.pipeline.loop_steps import looped, stepped
from tikgen.template.rules import GPUS, Not
from tikgen.template.shapes import MOST_ELEMENTS, are_small

LARGEST_WORKSPACE = 2**22
# Compiling takes 1 s for 1024 bins in a local vector, and grows with their square.
MOST_LOCAL_BINS = 1024
# 32 KiB; Vulkan promises 16, which the defaults keep to.
MOST_SHARED_BINS = 2**13


class Histogram(Template):
    """Histogram over equal bins from lo to hi, as `np.histogram`.

    Bins hold their lower edge and not their upper one, but the last bin holds hi. Values outside
    count nowhere, nor does NaN. Integers fall into bins exactly; a float within a few units in
    the last place of an edge may fall to either side of it. Every bin is 0 where lo < hi does
    not hold, and where a float hi - lo times or over 4 * bins leaves the range of the dtype.

    The result is the same bit for bit from run to run: each chunk of x is counted on its own,
    and the chunks are added up in order, or in any order where the sums are integers.
    """

    class Problem(ProblemModel):
        bins: int = parameter("number of bins", 64, ge=1, le=4096)
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64", *INTS))
        weighted: bool = parameter("whether to sum a weight for each element", False)
        count_dtype: DType = parameter(
            "dtype of the counts",
            DType.i32,
            choices=("i32", "i64"),
            only={"weighted": False},
        )
        weight_dtype: DType = parameter(
            "dtype of the weights and of their sums",
            DType.f32,
            choices=("f32", "f64", "i32", "i64"),
            only={"weighted": True},
        )

    class Schedule(ScheduleModel):
        bins_in: Literal["workspace", "local", "shared"] = parameter(
            "where a chunk is counted: by one thread into a workspace or into a local vector, or "
            "by a block of threads into memory that they share, with atomics",
            "workspace",
            needs={"local": {"arch": "cpu"}, "shared": {"arch": GPUS}},
        )
        chunks: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] = parameter(
            "parts of x that are counted in parallel, each into bins of its own", 32
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "elements that a thread takes at a step", 1, only={"buffer": 0}
        )
        buffer: Literal[0, 16, 32, 64] = parameter(
            "floats whose bins are found before the first is counted, by a loop that LLVM "
            "vectorises; 0 for one at a time",
            0,
            only={"dtype": ("f32", "f64"), "arch": "cpu"},
        )
        copies: Literal[1, 2, 4, 8] = parameter(
            "sets of bins of a chunk, which the warps of a block or the elements of a buffer take "
            "in turn, so that equal values do not wait for each other",
            1,
            only=({"bins_in": "shared"}, {"buffer": Not(0)}),
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block, 0 for Taichi's own choice",
            0,
            needs={0: {"bins_in": Not("shared")}},
        )
        serial: bool = parameter(
            "whether one thread does it all", False, only={"block_dim": 0, "arch": "cpu"}
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            return on_cpu(p, sizes, are_small(self.arguments(p), sizes))
        if can_share(p):
            # H200, 128 M f32, 256 bins: 146 us on cuda (torch.histc 592), 163 with 8 copies in 1024
            # blocks of 256; on Vulkan 386 and 527.
            shared = {"bins_in": "shared", "block_dim": 512, "chunks": 512}
            return shared | {"unroll": 8 if p.dtype.is_float and arch == "cuda" else 4}
        # As many chunks as give the device enough threads, but no more than 2**20 partial bins.
        most = 2**20 // p.bins
        return {"chunks": min(1024, 1 << (most.bit_length() - 1)), "block_dim": 64}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return {
                "bins_in": ("workspace", "local"),
                "chunks": (1, 2, 4, 8, 16, 32, 64),
                "buffer": (0, 32, 64) if p.dtype.is_float else (0,),
                "copies": (1, 2, 4) if p.dtype.is_float else (1,),
                "unroll": (1, 2, 4),
                "serial": (False, True),
            }
        if can_share(p):
            return {
                "bins_in": ("shared",),
                "chunks": (512, 1024, 2048, 4096),
                "unroll": (1, 2, 4, 8, 16) if p.dtype.is_float else (1, 2, 4, 8),
                "copies": (1, 2, 4, 8),
                "block_dim": (128, 256, 512),
            }
        return {
            "chunks": (256, 512, 1024, 2048, 4096),
            "unroll": (1, 2, 4),
            "block_dim": (32, 64, 128),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.bins_in == "shared":
            check_shared(p, s)
            return
        bins = p.bins * s.copies
        if s.chunks * bins > LARGEST_WORKSPACE:
            raise Invalid(
                "chunks",
                f"times {bins} bins exceeds {LARGEST_WORKSPACE} partial bins; got {s.chunks}",
            )
        if s.bins_in == "local" and bins > MOST_LOCAL_BINS:
            raise Invalid(
                "bins_in",
                f"must be 'workspace' beyond {MOST_LOCAL_BINS} bins, which compile for too long",
            )
        if s.unroll > 8:
            raise Invalid("unroll", "must be 8 or less where bins_in is not 'shared'")

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        x = Array("x", p.dtype, ("n",))
        counts = Array("counts", result_dtype(p), (p.bins,), role="out")
        bounds = Scalar("lo", range_dtype(p)), Scalar("hi", range_dtype(p))
        if p.weighted:
            return (x, Array("weights", p.weight_dtype, ("n",)), counts, *bounds)
        return (x, counts, *bounds)

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        if s.bins_in == "shared":
            return ()
        slots = p.bins if s.bins_in == "local" else s.copies * slots_of(p, s)
        return (Array("partial", tally_dtype(p), (s.chunks, slots), role="work"),)

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        return {
            "result": result_dtype(p),
            "tally_dtype": tally_dtype(p),
            "limit": range_dtype(p),
            "widths": usable_widths(p) if p.dtype.is_float else (),
            "slots": slots_of(p, s),
            "bits": f"ti.u{p.dtype.bits}",
            "infinity": "0x7F800000" if p.dtype.bits == 32 else "0x7FF0000000000000",
            "u64": DType.u64,
            # An offset below this times the number of bins fits 64 bits.
            "narrow": 2**64 // 4096 - 1,
        }

    @staticmethod
    def reference(p: Any, *arguments: Any) -> np.ndarray:
        x, *weights, counts, lo, hi = arguments
        bins = found_bins(p, x, lo, hi)
        amounts = weights[0] if weights else np.ones(x.shape, counts.dtype)
        wide = (p.weight_dtype if p.weighted else p.count_dtype).wide
        total = np.zeros(p.bins, wide)
        np.add.at(total, bins[bins >= 0], amounts.astype(wide)[bins >= 0])
        return total

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        # The range covers most of x; now and then it is empty.
        n = sizes["n"]
        if p.dtype.is_float:
            lo = float(p.dtype.numpy.type(rng.uniform(-1, 1)))
            hi = float(p.dtype.numpy.type(lo + rng.uniform(0.1, 2)))
            x = rng.uniform(lo - 0.1, hi + 0.1, n)
            special = rng.choice([lo, hi, np.nan, np.inf, -np.inf], n)
            x = np.where(rng.random(n) < 0.1, special, x)
            if rng.random() < 0.2:
                # As narrow or wide as a range may be, or one step beyond that.
                side = int(rng.integers(2))
                width = p.dtype.numpy.type(usable_widths(p)[side])
                if rng.random() < 0.5:
                    width = np.nextafter(width, p.dtype.numpy.type((0, np.inf)[side]))
                lo, hi = 0.0, float(width)
                x = rng.uniform(0, 1.1, n) * hi
        else:
            low, high = p.dtype.lowest, p.dtype.highest
            if rng.random() < 0.5:
                low, high = max(low, -40), 40
            lo, hi = sorted(int(v) for v in rng.integers(low, high, 2, p.dtype.numpy, True))
            x = rng.integers(low, high, n, p.dtype.numpy, True)
            # A third of x lies at an edge or one beside it.
            edges = [lo - (-int(b) * (hi - lo) // p.bins) for b in rng.integers(0, p.bins + 1, n)]
            beside = [
                min(max(e + int(d), low), high)
                for e, d in zip(edges, rng.integers(-1, 2, n), strict=True)
            ]
            x = np.where(rng.random(n) < 1 / 3, np.array(beside, x.dtype), x)
        if rng.random() < 0.15:
            lo, hi = hi, lo if rng.random() < 0.5 else hi
        return {"x": x.astype(p.dtype.numpy), "lo": lo, "hi": hi}

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        # Peaked data makes neighbours fall into one bin, which waits for itself.
        n, dtype = sizes["n"], p.dtype
        lo, hi = (0, 1) if dtype.is_float else (max(dtype.lowest, -1000), min(dtype.highest, 1000))
        spread = {
            "uniform": rng.uniform(lo, hi, n),
            "peaked": np.clip(rng.normal((lo + hi) / 2, (hi - lo) / 50, n), lo, hi),
        }
        return {
            kind: {"x": x.astype(dtype.numpy), "lo": lo, "hi": hi} for kind, x in spread.items()
        }

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # What lies next to an edge may fall to either side; a sum of m weights is off by at
        # most m eps sum |w| (Higham 2002, section 4.2), whatever its order.
        x, lo, hi = inputs["x"], inputs["lo"], inputs["hi"]
        amounts = np.abs(inputs["weights"].astype(float)) if p.weighted else np.ones(x.shape)
        open_amounts, amount, count = np.zeros(p.bins), np.zeros(p.bins), np.zeros(p.bins)
        upper = upper_edge_bins(p, x, lo, hi)
        for bins in (upper - 1, upper):
            near = upper > 0
            np.add.at(open_amounts, bins[near], amounts[near])
            np.add.at(count, bins[near], 1)
        bins = found_bins(p, x, lo, hi)
        np.add.at(amount, bins[bins >= 0], amounts[bins >= 0])
        np.add.at(count, bins[bins >= 0], 1)
        if not (p.weighted and p.weight_dtype.is_float):
            return {"counts": open_amounts}
        eps = float(np.finfo(p.weight_dtype.numpy).eps)
        return {"counts": open_amounts + eps * count * (amount + open_amounts)}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        # Two steps of every chunk and a rest, but for the last one.
        step = s.buffer or s.unroll
        return ({"n": (2 * step + 1) * s.chunks - 1},) if s.chunks > 1 else ()

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        size = (sizes["n"] - 1) // s.chunks + 1
        if s.bins_in == "shared":
            turns = 1 if p.bins <= s.block_dim else (p.bins - 1) // s.block_dim + 1
            bins = looped(turns, looped(s.copies))
            return 2 * bins + looped((size - 1) // (s.unroll * s.block_dim) + 1)
        return max(stepped(size, s.unroll), looped(s.chunks))

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        return 4 * sizes["n"]

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        return {"n": (1, 2, 7, 64, 131, 1009)}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {"bins": st.sampled_from((3, 2, 5, 1, 10, 37, 64, 257, 4096))}


def on_cpu(p: Any, sizes: Mapping[str, int] | None, is_small: bool) -> Mapping[str, Any]:
    """Return the schedule of a processor.

    16 M f32, 256 bins, 2 cores of a Zen 5: a local vector and a buffer of 64 take 0.32 of the time
    of the workspace and one element at a time; the buffer alone takes 0.46, the vector alone 0.9; a
    buffer of 32 takes 1.2 times as long as one of 64. Of a million f32, two copies of 256 bins take
    0.93 of the time of one where they are uniform, and 0.52 where they are sorted; four of 12 bins
    take 0.76 and 0.39.
    """
    most = sizes["n"] if sizes else MOST_ELEMENTS
    copies = 1
    if p.dtype.is_float and 4 * p.bins <= most:
        copies = 2 if 64 < p.bins <= MOST_LOCAL_BINS // 2 or p.bins > MOST_LOCAL_BINS else 4
    if is_small:
        schedule = {"bins_in": "workspace", "serial": True, "chunks": 1}
    else:
        # All copies of all chunks are cleared and added up: so many that x takes far longer.
        chunks = min(32, max(4, most // (16 * copies * p.bins)))
        is_local = copies * p.bins <= MOST_LOCAL_BINS
        schedule = {
            "bins_in": "local" if is_local else "workspace",
            "chunks": 1 << (chunks.bit_length() - 1),
        }
    return schedule | {"copies": copies, "buffer": 64 if p.dtype.is_float else 0}


def slots_of(p: Any, s: Any) -> int:
    """Return the bins of a chunk: with a buffer, one more for what counts nowhere."""
    return int(p.bins) + (1 if s.buffer else 0)


def can_share(p: Any) -> bool:
    """Tell whether the order of the sums is free, and atomics can form them."""
    return not p.weighted or p.weight_dtype is DType.i32


def check_shared(p: Any, s: Any) -> None:
    """Raise `Invalid` where blocks of threads cannot count into memory that they share."""
    if not can_share(p):
        raise Invalid(
            "bins_in",
            f"must be 'workspace' for weights of {p.weight_dtype}: only 32-bit integers may be "
            "added in any order",
        )
    if s.copies * p.bins > MOST_SHARED_BINS:
        raise Invalid("copies", f"times {p.bins} bins exceeds {MOST_SHARED_BINS} shared ones")
    if s.unroll > 8 and not p.dtype.is_float:
        raise Invalid("unroll", f"must be 8 or less for {p.dtype}, whose bins take long code")


def result_dtype(p: Any) -> DType:
    """Return the dtype of the counts or sums."""
    found: DType = p.weight_dtype if p.weighted else p.count_dtype
    return found


def tally_dtype(p: Any) -> DType:
    """Return the dtype in which a chunk is counted: no array has 2**31 elements."""
    found: DType = p.weight_dtype if p.weighted else DType.i32
    return found


def range_dtype(p: Any) -> DType:
    """Return the dtype of lo and hi: integers take any range of 64 bits."""
    if p.dtype.is_float:
        return DType(p.dtype)
    return DType.u64 if p.dtype is DType.u64 else DType.i64


def found_bins(p: Any, x: np.ndarray, lo: Any, hi: Any) -> np.ndarray:
    """Return the bin of each element, -1 for none."""
    if p.dtype.is_float:
        place = places(p, x, lo, hi)
        return np.where(place < 0, -1, np.minimum(place.astype(np.int64), p.bins - 1))
    lo, hi = int(lo), int(hi)
    return np.array(
        [
            min((v - lo) * p.bins // (hi - lo), p.bins - 1) if lo < hi and lo <= v <= hi else -1
            for v in x.tolist()
        ]
    )


def places(p: Any, x: np.ndarray, lo: Any, hi: Any) -> np.ndarray:
    """Return where each float lies, in bins from lo; -1 for those that count nowhere."""
    with np.errstate(all="ignore"):
        lo, hi = p.dtype.numpy.type(lo), p.dtype.numpy.type(hi)
        smallest, largest = usable_widths(p)
        if not smallest <= hi - lo <= largest:
            return np.full(x.shape, -1.0)
        inside = (lo <= x) & (x <= hi)
        place = (x.astype(p.dtype.wide) - lo) / (p.dtype.wide.type(hi) - lo) * p.bins
        return np.where(inside, place, -1)


def usable_widths(p: Any) -> tuple[float, float]:
    """Return the least and the greatest hi - lo of floats.

    Between them no order of the operations, such as fast math may choose, overflows.
    """
    info = np.finfo(p.dtype.numpy)
    return 4 * p.bins * float(info.tiny), float(info.max) / (4 * p.bins)


def upper_edge_bins(p: Any, x: np.ndarray, lo: Any, hi: Any) -> np.ndarray:
    """Return for each element the bin above the edge that it lies next to, 0 for none."""
    if not p.dtype.is_float:
        return np.zeros(x.shape, np.int64)
    place = places(p, x, lo, hi)
    edge = np.rint(place)
    # Two differences, a quotient and a product, rounded or off by a few units on a GPU.
    near = (np.abs(place - edge) <= 8 * p.dtype.eps * edge) & (edge < p.bins)
    return np.where(near, edge, 0).astype(np.int64)
