"""How fast: the schedules of a text, and how many steps they take."""

import math
from collections.abc import Mapping
from typing import Any

from tikgen import Invalid
from tikgen.expression.vector_math import vectorised
from tikgen.pipeline.loop_steps import box, looped, parallel, steps_of_points
from tikgen.template.grid_use import ghosts_of
from tikgen.template.totals import MOST_PARTS

from .program import takes_turns

# What LLVM calls a function for, an element at a time, unless they are vectorised.
TRANSCENDENTAL = frozenset(
    {"acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "log", "pow", "sin", "sinh", "tan"}
    | {"acosh", "asinh", "atanh", "expm1", "hypot", "log10", "log1p", "log2", "tanh"}
)
# How many operations take as long as a function that is vectorised.
OPERATIONS_A_FUNCTION = 10
CHUNKS = (64, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHUNKS_A_TASK = 512
# Operations of one thread alone, by Taichi and by an engine beside it. Taichi wakes the other
# threads in 25 us: one thread took 0.27, 0.38 and 0.79 of Numba's time for 1,000, 10,000 and
# 100,000 elements of a*x + y, two threads 1.01 for 1 M. With direct-cpu, two threads took 0.85 of
# the time of one for 32,000 elements, 0.5 to 0.7 for 65,000 or more, 0.6 for 8,000 exponentials.
MOST_SERIAL, MOST_COSTLY = (2**20, 2**16), (2**14, 2**10)
# Reductions: most chunks, the length of those of one thread alone, and sums side by side, of which
# LLVM unrolls 32 too early to vectorize them: x, r and r*r of 8 M took 1.5 times as long.
MOST_CHUNKS, SERIAL_CHUNK, LANES = 16384, 4096, 64
# Rows that a chunk of a part of a grid has at least.
GRAIN_OF_ROWS = 16


def default_schedule(
    p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool = False
) -> Mapping[str, Any]:
    """Return the schedule parameters that differ from their defaults."""
    functions = TRANSCENDENTAL & p.expr.functions
    in_vectors = vectorised(functions, p.dtype)
    costly = functions > in_vectors
    is_large = sizes is not None and math.prod(sizes.values()) >= 2**26
    if p.expr.reductions and (arch != "cpu" or takes_turns(p)):
        schedule = {"loop": "points", "unroll": 1, "block_dim": 256 if arch != "cpu" else 0}
        # On an H100 sums of 100 M f32 took 0.93 to 0.98 of the time, those of 10 M 1.15.
        return schedule | ({"parts": 8192} if arch == "cuda" and is_large else {})
    if p.part and arch != "cpu":
        return {"loop": "points", "unroll": 1, "block_dim": 256}
    if arch != "cpu":
        # An H200 copied 128 M f32 on cuda in 265 us (torch 256) by 8448 blocks of 512 threads
        # with 16 items, in 279 with 8 items of 256, 527 with one; on Vulkan in 293 with the 8.
        # On an H100 a*x + y of 700 to 140,000 f32 took 1.3 to 1.6 us of the device with 4 items
        # of 512, and 7.6 to 10 by 8448 blocks; of 4.4 M 18 and 26, of 100 M 654 and 646.
        # A root is rounded correctly on cuda, in many steps: with one, 74 M f32 took 263 us with 4
        # items of 512 on an H200, and 375 to 395 by 8448 blocks with 16.
        is_long = is_large and "sqrt" not in p.expr.functions
        most = (16 if is_long else 4) if arch == "cuda" else 8
        items = most if p.expr.operations <= 16 else 4 if p.expr.operations <= 64 else 1
        schedule = {"loop": "blocks", "unroll": 1, "items": items, "block_dim": 256}
        if arch == "cuda":
            schedule |= {"block_dim": 512, "blocks": 8448 if is_long else 0}
        return schedule
    # On 2 cores, 16 M f32, a*x + y took 1.04 times as long as in Numba, 1.01 in place, a
    # polynomial of degree 5 0.97, a root and a quotient, which Taichi computes exactly, 1.24.
    if takes_turns(p):
        return {"loop": "rows", "unroll": 1}
    schedule = {"loop": "flat", "unroll": 1}
    if sizes is None:
        return schedule
    count = math.prod(sizes.values())
    operations = max(1, p.expr.operations + OPERATIONS_A_FUNCTION * len(in_vectors))
    # Sums would round differently by another engine.
    wakes_soon = is_direct and not p.expr.reductions
    if count * operations <= (MOST_COSTLY if costly else MOST_SERIAL)[wakes_soon]:
        return {**schedule, "serial": True}
    if p.part and p.dim > 1:
        return schedule  # Rows take the place of chunks.
    # Eight tasks or more; the largest chunks that leave so many, for they cost least. Every second
    # length is enough: each is compiled, and neighbours take the same within noise. Where elements
    # take long, short ones occupy the other threads as well: 200,000 sines 0.5 of the time.
    usual = (512, 2048, 8192)
    fitting = [c for c in usual if count >= 8 * CHUNKS_A_TASK * c]
    are_short = costly or (functions and not wakes_soon)
    return {**schedule, "chunk": max(fitting, default=64 if are_short else usual[0])}


def schedule_space(
    p: Any, arch: str, sizes: Mapping[str, int] | None
) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each schedule parameter that tuning tries."""
    if p.expr.reductions and (arch != "cpu" or takes_turns(p)):
        if arch == "cpu":
            return {"loop": ("points",), "block_dim": (0,)}
        return {"loop": ("points",), "block_dim": (128, 256, 512), "parts": (2048, 8192, 262144)}
    if arch == "cpu":
        return {
            "loop": ("rows",) if takes_turns(p) else ("flat", "rows"),
            "unroll": (1, 2, 4, 8, 16),
            "chunk": CHUNKS,
            "serial": (False, True),
        }
    return {
        "loop": ("points", "rows") if p.part else ("blocks", "points"),
        "unroll": (1,),
        "items": (1, 2, 4, 8, 16),
        "blocks": (0, 1056, 2112, 4224, 8448),
        "block_dim": (128, 256, 512),
    }


def check_schedule(p: Any, s: Any, arch: str) -> None:
    """Raise :class:`Invalid` where a schedule does not fit."""
    if s.loop == "flat" and takes_turns(p):
        raise Invalid("loop", "cannot be 'flat' where expr divides floats with // or %")
    if p.expr.reductions and s.loop not in ("flat", "points"):
        raise Invalid("loop", "takes 'flat' or 'points' where expr has reductions")
    if p.expr.reductions and s.block_dim and arch == "cpu":
        raise Invalid("block_dim", "must be 0 on cpu where expr has reductions")
    if s.parts != MOST_PARTS and not p.expr.reductions:
        raise Invalid("parts", f"must be {MOST_PARTS} where expr has no reductions")
    for name in ("unroll", "items"):
        copies = getattr(s, name)
        if copies > 1 and copies * p.expr.operations > 1024:
            raise Invalid(
                name,
                f"times the {p.expr.operations} operations of expr exceeds 1024, "
                "which would take long to compile",
            )


def steps(p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
    """Return how many steps the loops of a launch take at most."""
    extents = [sizes[f"n{axis}"] for axis in range(p.dim)]
    if p.expr.reductions:
        return steps_of_points(math.prod(extents), s.parts, s.block_dim or 1)
    if s.loop != "blocks":
        return box(extents, s.loop == "rows", s.unroll)
    pieces = (math.prod(extents) - 1) // (s.block_dim * s.items) + 1
    rest = looped(s.items)
    if s.blocks:
        return looped((pieces - 1) // s.blocks + 1, rest)
    return parallel(pieces * s.block_dim, rest)


def sizes(p: Any) -> Mapping[str, tuple[int, ...]]:
    """Return the extents to verify: those of parts leave some points between their ghost points."""
    if not p.part:
        return {}
    usual = ((1, 2, 7, 33, 131), (1, 2, 5, 17, 37), (1, 2, 3, 5, 9), (1, 2, 3, 5))[p.dim - 1]
    return {
        f"n{axis}": (max(ghosts, 1), *(ghosts + size for size in usual))
        for axis, ghosts in enumerate(map(sum, ghosts_of(p.part, p.dim)))
    }


def full_sizes(p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
    """Return the sizes that fill every part of a schedule: threads that take turns, chunks."""
    first = [1] * (p.dim - 1)
    inner: list[list[int]] = []
    if s.loop == "blocks":
        # Some threads of the last block lack one item, or have one alone. The product of the
        # extents takes more turns than their sum.
        whole, rest = (s.blocks + 2) * s.block_dim * s.items, [3, 2, 2][: p.dim - 1]
        row = math.prod(rest)
        inner = [[(whole - 5) // row, *rest], [(whole + 5) // row + 1, *rest]]
    elif p.expr.reductions and s.loop == "points":  # As many parts as there may be, and longer.
        inner = [[[140_009], [370, 379], [53, 52, 51], [20, 19, 19, 20]][p.dim - 1]]
    elif p.expr.reductions and p.part and p.dim > 1:
        inner = [[rows * GRAIN_OF_ROWS, *first[1:], LANES + 5] for rows in (18, 16)]
        inner[0][0] += 5
        inner += [[MOST_CHUNKS * GRAIN_OF_ROWS + 5, *first]]
    elif p.expr.reductions:
        # Chunks for two steps of what joins them, with a rest and without, and longer ones.
        chunk = SERIAL_CHUNK if s.serial else s.chunk
        inner = [[18 * chunk + 5, *first], [16 * chunk, *first], [MOST_CHUNKS * chunk + 5, *first]]
    elif s.loop == "flat" and not s.serial:
        # The product of the extents takes more chunks than their sum.
        inner = [[s.chunk + 5, 3, 2, 2][: p.dim], [3 * s.chunk, *first]]
    ghosts = list(map(sum, ghosts_of(p.part, p.dim)))
    return tuple(
        {f"n{axis}": size + ghosts[axis] for axis, size in enumerate(extents)} for extents in inner
    )
