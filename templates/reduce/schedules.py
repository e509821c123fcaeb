"""How fast: the schedules of a reduction, and how many steps they take."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tikgen import Invalid
from tikgen.pipeline.loop_steps import looped, parallel, stepped

from .kinds import accuracy, family, is_whole, known_dtypes, work_dtype

# Pairwise summation adds blocks of so many elements in order.
BLOCK = 64
# Teams add at the end up to so many partial sums in order, and therefore shorter blocks before.
TEAM_BLOCK = 16
# One thread seeks the place of an extreme in the one block of so many elements that holds it.
SEEK_BLOCK = 1024
TEAM_PARTIALS = 32
# Fewer teams than these leave processors of a large GPU idle.
FEW_TEAMS = 128
# As many lines occupy it, with one thread each.
MANY_LINES = 2**16
# Strips of a row, which threads share, are shorter where there would be fewer.
ENOUGH = 3
# Bytes of a row that is too short to be read ahead, and of what stays in the caches of the cpu.
SHORT_ROW, CACHED = 2048, 2**23
# Elements of a slab of rows, and rows of the slabs of all chunks.
SLAB, MOST_SLAB_ROWS = 1024, 2**16
# Up to so many bytes one thread of the cpu does all, and fewer where an element takes long: on two
# cores 500,009 f32 took 27 us to sum by one thread and 85 in parallel, with direct-cpu 23 and 17.
SMALL_BYTES, SMALL_SLOW_BYTES = 2**21, 2**18
# The same of lines, for an engine that wakes its threads soon: two threads took 0.7 of the time
# of one for 80,000 f32 in two lines, 0.55 for 30,000 rows of 3. In loops of few turns, and where
# places are found, an element takes up to 20 times as long.
SHARED_BYTES, SHARED_SLOW_BYTES, FEW_TURNS = 2**19, 2**15, 32
# The place in a line of fewer elements: 2000 lines of 3 took 0.45 of the time read once, 400 of 12
# 0.5 to 0.8, and 300 of 17 1.2 to 1.4, whose loops fill vector registers.
FEW_PLACES = 16


def default_schedule(
    p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool = False
) -> Mapping[str, Any]:
    """Return the schedule parameters that differ from their defaults."""
    linear = is_whole(p) and p.dim > 1
    if arch == "cpu" and not is_whole(p):
        return of_lines_on_cpu(p, sizes, is_direct)
    if arch == "cpu" and is_small(p, sizes):
        # One thread, and so none to be woken: 1000 f32 take 2.5 us, but 15 in parallel.
        return {"chunks": 1, "unroll": 1, "linear": linear}
    if arch == "cpu":
        # Taichi hands 512 iterations to a thread of the cpu at a time, so that 64 chunks run on
        # one: to sum 16 M f32, 16384 take 0.65 times as long. LLVM vectorises the plain loop:
        # 3.6 times as fast as unroll=4.
        grain = 256 if sizes and math.prod(sizes.values()) < 2**20 else 1024
        return {"chunks": 16384, "grain": grain, "unroll": 1, "linear": linear}
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
    else:
        return of_lines(p, arch, unroll, sizes)
    return {**whole, "grain": 4096, "linear": linear}


def of_lines_on_cpu(p: Any, sizes: Mapping[str, int] | None, is_direct: bool) -> dict[str, Any]:
    """Return the schedule of the cpu for lines along an axis."""
    extents = [sizes[f"n{axis}"] for axis in range(p.dim)] if sizes else [2**10] * p.dim
    count = math.prod(extents)
    if sizes and (slab := slab_of(p, extents)):
        if is_small(p, sizes):
            return {"slab": slab, "chunks": 1, "serial": True}
        return {"slab": slab, "chunks": 64, "spread": 512}
    if p.axis == p.dim - 1:
        schedule, lines = {"unroll": 1}, count // extents[-1]
        if family(p) == "place" and extents[-1] < FEW_PLACES:
            schedule["once"] = True
    elif fits_in_out(p):
        # Two cores, best of NumPy and torch over tikgen: a sum in f32 along the middle of
        # 105 x 27 x 171 0.85 instead of 0.28 by columns, of 200^3 1.17 instead of 0.41 (0.78 by
        # four rows a step: short rows are read one after the other where memory is slow).
        width = count // extents[0] if p.axis == 0 else extents[-1]
        outer = count // (extents[p.axis] * width)
        row_bytes = width * p.dtype.bits // 8
        is_slow = row_bytes < SHORT_ROW and row_bytes * extents[p.axis] * outer > CACHED
        strip = next((n for n in (4096, 1024) if outer * ((width - 1) // n + 1) >= ENOUGH), 256)
        lines = outer * ((width - 1) // strip + 1)
        schedule = {"strip": strip, "unroll": 1 if is_slow else 4}
    elif p.accuracy == "fast":
        # Totals of 64 columns of f32 stay in registers. Ranks of extremes take more of them.
        columns = 64 if family(p) == "total" else 32
        columns = columns // 2 if work_dtype(p).bits == 64 else columns
        schedule = {"unroll": 1, "columns": columns}
        lines = count // (extents[p.axis] * extents[-1]) * ((extents[-1] - 1) // columns + 1)
    else:
        schedule, lines = {"unroll": 1}, count // extents[p.axis]
    # Shared or not, each line is reduced in the same order.
    if are_few_bytes(p, extents) if sizes and is_direct else is_small(p, sizes):
        return schedule | {"serial": True}
    if is_direct:
        return schedule
    # Taichi hands 512 turns at a time to a thread, but empty ones take time as well.
    spread = next((n for most, n in ((64, 512), (1024, 64), (8192, 8)) if lines <= most), 1)
    return schedule | {"spread": spread}


def slab_of(p: Any, extents: Sequence[int]) -> int:
    """Return how many rows the cpu takes as one; 0 where rows are long, or few."""
    if p.axis != 0 or not fits_in_out(p):
        return 0
    width = math.prod(extents[1:])
    fitting = (n for n in (256, 64, 16) if n * width <= SLAB and 4 * n <= extents[0])
    return next(fitting, 0)


def is_small(p: Any, sizes: Mapping[str, int] | None) -> bool:
    """Return whether an array is work for one thread of a processor."""
    most = SMALL_BYTES if accuracy(p) == "fast" else SMALL_SLOW_BYTES
    return sizes is not None and math.prod(sizes.values()) * max(p.dtype.bits, 32) // 8 <= most


def are_few_bytes(p: Any, extents: Sequence[int]) -> bool:
    """Return whether lines are work for one thread, where others are woken soon."""
    has_few_turns = p.axis == p.dim - 1 and extents[-1] < FEW_TURNS
    is_slow = has_few_turns or p.op in ("argmin", "argmax") or accuracy(p) != "fast"
    most = SHARED_SLOW_BYTES if is_slow else SHARED_BYTES
    return math.prod(extents) * max(p.dtype.bits, 32) // 8 <= most


def of_lines(p: Any, arch: str, unroll: int, sizes: Mapping[str, int] | None) -> dict[str, Any]:
    """Return the schedule of a GPU for lines along an axis."""
    extents = [sizes[f"n{axis}"] for axis in range(p.dim)] if sizes else []
    if p.axis == p.dim - 1:
        # H200, 8192^2 f32: 66 us on cuda, as with teams of 256 (torch 80 to 82), 91 on Vulkan.
        teams = math.prod(extents[:-1])
        schedule = {"team": team_of_line(extents[-1], teams) if sizes else 128}
    elif sizes and math.prod(extents) // extents[p.axis] >= MANY_LINES:
        # Threads side by side read neighbours. H200, Vulkan, mean along the first axis of
        # 365 x 629 x 211 f32: 197 us in steps of 16, 274 in steps of 4.
        return {"team": 1, "unroll": unroll if arch == "vulkan" else 4}
    else:
        # H200, 8192^2 f32: 72 us on cuda (torch 74 to 75) and 73 on Vulkan; on cuda 92 in steps
        # of 4 by teams of 256.
        schedule = {"team": 512, "columns": 32, "unroll": unroll}
        if sizes:
            schedule["columns"] = next((c for c in (4, 8, 16) if extents[-1] <= c), 32)
        blocks = ((extents[-1] - 1) // schedule["columns"] + 1) if sizes else 1
        teams = blocks * math.prod(extents) // (extents[-1] * extents[p.axis]) if sizes else 1
    if sizes and schedule["team"] >= 64:
        # As many teams as occupy a large GPU, if there is a turn for each of their threads.
        rows = schedule["team"] // schedule.get("columns", 1)
        fitting = [n for n in (2, 8, 64, 512) if extents[p.axis] >= 2 * n * rows]
        if fitting and teams < FEW_TEAMS:
            enough = [n for n in fitting if n * teams >= 2 * FEW_TEAMS]
            schedule["parts"] = min(enough, default=max(fitting))
            schedule["team"] = max(schedule["team"], 256)
    return schedule


def fits_in_out(p: Any) -> bool:
    """Tell whether an element of `out` can hold all that is known of a line, at any time."""
    return accuracy(p) == "fast" and len(known_dtypes(p, places=True)) == 1


def team_of_line(length: int, lines: int) -> int:
    """Return how many threads of a GPU share a line along the last axis.

    H100, cuda, f32: a million lines of 20 took 33 us by one thread each, 39 by 4 and 760 by 128;
    500,000 lines of 64 took 48 by 8, 140 by one and 56 by 16; 200,000 lines of 200 took 59 by 8, 65
    by 4 or 16 and 104 by 32; 50,000 lines of 700 took 57 by 32, 64 by 8 and 75 by 128.
    """
    if length <= 24:
        return 1
    if length <= 400:
        return 8
    return 32 if length <= 4096 and lines >= 1024 else 128


def schedule_space(
    p: Any, arch: str, sizes: Mapping[str, int] | None
) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each schedule parameter that tuning tries."""
    last = p.axis == p.dim - 1
    if not is_whole(p) and arch == "cpu":
        columns = () if last or p.accuracy != "fast" else (16, 32, 64)
        return {
            "columns": (0, *columns),
            "strip": (0,) if last or not fits_in_out(p) else (0, 256, 1024, 4096),
            "slab": (0, 16, 64, 256) if p.axis == 0 and fits_in_out(p) else (0,),
            "spread": (1, 8, 64, 512),
            "serial": (False, True),
            "unroll": (1, 2, 4, 8, 16),
            "once": (False, True) if last and family(p) == "place" else (False,),
        }
    if not is_whole(p):
        return {
            "team": (1, 4, 8, 16, 32, 64, 128, 256, 512) if last else (1, 128, 256, 512, 1024),
            "columns": (0,) if last else (0, 4, 8, 16, 32, 64),
            "parts": (1, 2, 8, 64, 512),
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


def check_schedule(p: Any, s: Any, arch: str) -> None:
    """Raise :class:`Invalid` where a schedule does not fit."""
    for name in ("strip", "slab"):
        if getattr(s, name) and not fits_in_out(p):
            raise Invalid(name, f"needs accuracy='fast', and no op={p.op!r} on {p.dtype}")
    if s.slab and s.chunks * s.slab > MOST_SLAB_ROWS:
        raise Invalid("chunks", f"times slab exceeds {MOST_SLAB_ROWS} rows; got {s.chunks}")
    if s.team == 1:
        if s.columns and (arch != "cpu" or p.accuracy != "fast"):
            raise Invalid("columns", "needs a team, or cpu and accuracy='fast'")
        return
    if s.columns >= s.team or (not s.columns and not is_whole(p) and p.axis != p.dim - 1):
        raise Invalid("columns", f"takes 4, 8, 16, 32 or 64, but less than team={s.team}")
    if is_whole(p) and p.accuracy == "pairwise" and s.chunks > TEAM_PARTIALS * s.team:
        most = TEAM_PARTIALS * s.team
        raise Invalid("chunks", f"takes at most {most} for accuracy='pairwise' and this team")


def steps(p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
    """Return how many steps the loops of a launch take at most."""
    extents = [sizes[f"n{axis}"] for axis in range(p.dim)]
    tree = looped(s.team.bit_length())
    if not is_whole(p):
        lines, length = math.prod(extents) // extents[p.axis], extents[p.axis]
        if s.columns:
            lines = lines // extents[-1] * ((extents[-1] - 1) // s.columns + 1)
        threads = s.team // s.columns if s.columns else s.team
        length = -(-((length - 1) // s.parts + 1) // max(threads, 1))
        sought = looped(length) if family(p) == "place" and s.team == 1 and not s.once else 0
        joined = looped(s.parts // s.team + 1) if s.parts > 1 else 0
        block = max(s.team, 128) if s.team > 1 else 1
        most = parallel(lines * s.parts * s.team + block, walked(p, s, length) + sought + tree)
        return max(most, joined + tree)
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


def walked(p: Any, s: Any, length: int) -> int:
    """Return the loop steps of a thread that takes so many elements, and adds up what it kept."""
    if accuracy(p) != "pairwise":
        return stepped(length, s.unroll)
    block = BLOCK if s.team == 1 else TEAM_BLOCK
    # Adding a block to the stack takes two steps on average, and the stack has 31 places.
    return looped((length - 1) // block + 1, stepped(block, s.unroll) + 3) + looped(31)
