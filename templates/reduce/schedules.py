"""How fast: the schedules of a reduction, and how many steps they take."""

import math
from collections.abc import Mapping
from typing import Any

from tikgen import Invalid
from tikgen.pipeline.loop_steps import looped, parallel, stepped

from .kinds import accuracy, family, is_whole, work_dtype

# Pairwise summation adds blocks of so many elements in order.
BLOCK = 64
# Teams add at the end up to so many partial sums in order, and therefore shorter blocks before.
TEAM_BLOCK = 16
TEAM_PARTIALS = 32
# Up to so many elements one thread of the cpu does all.
SMALL = 65536


def default_schedule(p: Any, arch: str, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the schedule parameters that differ from their defaults."""
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
    p: Any, arch: str, sizes: Mapping[str, int] | None
) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each schedule parameter that tuning tries."""
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


def check_schedule(p: Any, s: Any, arch: str) -> None:
    """Raise :class:`Invalid` where a schedule does not fit."""
    if s.team == 1:
        if s.columns and (arch != "cpu" or p.accuracy != "fast"):
            raise Invalid("columns", "needs a team, or cpu and accuracy='fast'")
        return
    if s.columns >= s.team or (not s.columns and not is_whole(p) and p.axis != p.dim - 1):
        raise Invalid("columns", f"takes 16, 32 or 64, but less than team={s.team}")
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


def walked(p: Any, s: Any, length: int) -> int:
    """Return the loop steps of a thread that takes so many elements, and adds up what it kept."""
    if accuracy(p) != "pairwise":
        return stepped(length, s.unroll)
    block = BLOCK if s.team == 1 else TEAM_BLOCK
    # Adding a block to the stack takes two steps on average, and the stack has 31 places.
    return looped((length - 1) // block + 1, stepped(block, s.unroll) + 3) + looped(31)
