"""Schedules of a cpu: chunks of rows that stay rows, or strips and the blocks of their copies."""

import math
from collections.abc import Mapping
from typing import Any

from tikgen.template.shapes import SMALL_BYTES_DIRECT

from .axes import along, named

CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16384)
STRIP_LENGTHS = (64, 128, 256, 512)
# Taichi gives so many iterations to a thread. Eight tasks of chunks or four of strips keep a cpu
# busy.
ITERATIONS_A_TASK = 512
MANY_CHUNKS, MANY_STRIPS = 8 * ITERATIONS_A_TASK, 4 * ITERATIONS_A_TASK
# direct-cpu gives each thread an equal part: long chunks and strips took 0.86 and 0.91 of the time
# of 35 drawn shapes from 260,000 elements on.
MANY_DIRECT = 64
# Strips shorter than this are turned round.
SHORT = 16
# Up to so many elements one thread does it all: to wake Taichi's takes 25 to 60 us. On two cores
# 500 x 500 f32 took 198 us by one thread and 245 in parallel.
SERIAL = 2**18
# Blocks have so many elements a side at most; along axes of up to FEW, as many as waste little.
SIDE, FEW = 8, 32
# Arrays of so many bytes fit no cache, and memory takes most of the time: 224 x 288 x 416 f64 with
# perm=(0, 2, 1) took 67 ms with 8 rows a block, 56 with 2.
LARGE = 2**25


def is_serial(p: Any, count: int, is_direct: bool) -> bool:
    """Return whether one thread copies ``count`` elements; not if that is 0, for unknown."""
    # Both arrays, where threads wake sooner: 70 drawn shapes of more took 0.65 of the time in
    # parallel.
    most = 8 * SMALL_BYTES_DIRECT // (2 * p.dtype.bits) if is_direct else SERIAL
    return 0 < count <= most


def chunks(p: Any, count: int, is_direct: bool) -> Mapping[str, Any]:
    """Return the length of the chunks of ``count`` elements, 0 if that is not known."""
    if is_serial(p, count, is_direct):
        return {"serial": True}
    many = MANY_DIRECT if is_direct else MANY_CHUNKS
    fitting = [c for c in CHUNKS if count >= many * c]
    return {"chunk": max(fitting, default=CHUNKS[0] if count else 2048)}


def strips(
    p: Any, axes: tuple[int, int], sizes: Mapping[str, int] | None, is_direct: bool
) -> Mapping[str, Any]:
    """Return the length and the width of the strips of cpu, and where they lie."""
    # 4096 x 4096 f32 on 2 cores, direct-cpu: 6.2 ms in strips of 512 x 8, 7.1 of 256 x 8, 8.3 of
    # 512 x 16, 12 of 16 x 8, 124 in NumPy; 512 x 512 by one thread 0.09 ms of 512 x 8 and 0.1 of
    # 64 x 8, in NumPy 0.59.
    if sizes is None:
        return {"tile": 256, "unroll": SIDE, "rows": SIDE}
    row, column = axes
    length, width = along(p, axes, sizes)
    if length < SHORT <= width:
        # A strip along y instead: it is as long as there is room.
        row, column, length, width = column, row, width, length
    count = math.prod(sizes.values())
    many = MANY_DIRECT if is_direct else MANY_STRIPS
    fitting = [t for t in STRIP_LENGTHS if count // SIDE >= many * t]
    by_one = is_serial(p, count, is_direct)
    is_large = count * p.dtype.bits > 8 * LARGE and min(length, width) > FEW
    return {
        "tile": STRIP_LENGTHS[-1] if by_one else max(fitting, default=STRIP_LENGTHS[0]),
        "unroll": side(width),
        "rows": 2 if is_large else side(length),
        "serial": by_one,
        **named(p, row, column),
    }


def side(extent: int) -> int:
    """Return how many elements blocks have along an axis, the last of which overlap."""
    if extent > FEW:
        return SIDE
    # 11 x 19 x 11 x 11 f64 with perm=(1, 3, 0, 2): 38 us with blocks of 8 x 8, 30 of 6 x 4.
    return min(range(min(extent, SIDE), 0, -1), key=lambda n: -(-extent // n) * (n + 1))
