"""The schedules of a stencil: what is taken where none is given, and what tuning tries."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tikgen.pipeline.loop_steps import MOST_ITERATIONS
from tikgen.template.arguments import Argument
from tikgen.template.shapes import (
    are_ends_far,
    are_rows_short,
    are_small,
    points_of_buffers,
    rows_of_strips,
)

# Where the sizes are not known.
EXTENT = 2048
# Terms in the unrolled code of the points of a thread.
MOST_TERMS = 256


def on_cpu(
    p: Any,
    sizes: Mapping[str, int] | None,
    reach: int,
    arguments: Iterable[Argument],
    is_direct: bool = False,
) -> dict[str, Any]:
    """Return the schedule of a processor, for one thread where the arrays are small."""
    if p.storage == "field":
        return {}
    # 2 cores, f32, against rows with row_buffer=32: 1.5 times as fast at 200^3 and 2D 4096^2, 2.5
    # times at 100^3. In 3D strips of 16 rows beat single ones by 1.15 to 1.3, and those of 4 rows
    # by 1.05 to 1.1. Taichi gives a thread 512 iterations at least: without empty ones, small grids
    # are done by one thread, which takes up to 3 times as long. 25^3 with a boundary took 0.7 to
    # 0.9 of the time with 16 points a step, 300 x 30 the same to 0.8. In 2D, 32 took 0.6 to 0.9 of
    # it with rows of 36 to 70 points. With f64 16 took 0.94 of the time, in the mean of 90 grids.
    points = points_of_buffers(p.dtype)
    fits = p.dim == 2 and sizes is not None and sizes["n1"] >= points + 2 * reach
    if are_rows_short(p.dim, sizes) and not fits:
        points = min(points, 16)
    if sizes is not None and p.boundary == "interior":
        # Rows with fewer points inside go point by point: 4 to 7 took 2 to 3 times as long so.
        inside = sizes[f"n{p.dim - 1}"] - 2 * reach
        points = next((count for count in (32, 16, 8) if count <= min(points, inside)), 4)
    strips = {1: {"chunk": 1024}, 2: {}, 3: {"rows": 16}}[p.dim]
    schedule = {"loop": "function", "unroll": 1, "row_buffer": points, **strips}
    if are_small(arguments, sizes, is_direct, are_ends_far(p.dim, sizes, reach)):
        # One thread took 0.4 of the time for 1792 rows of 9 points in strips of 16 rows.
        return schedule | rows_of_strips(p.dim, sizes) | {"serial": True}
    return schedule | (rows_of_strips(p.dim, sizes) if is_direct else {"iterations": 8})


def on_gpu(
    p: Any, arch: str, sizes: Mapping[str, int] | None, reach: int, terms: int
) -> dict[str, Any]:
    """Return the schedule for a stencil of so many terms that reaches so far to a side."""
    extents = list(sizes.values()) if sizes else [EXTENT] * p.dim
    # H200: in 2D rows of 40 points took 0.9 to 1.1 times as long with a sweep. On Vulkan blocks
    # that take turns cost small grids up to 30 us.
    is_thin = math.prod(extents[1:]) < (64 if p.dim == 2 else 32)
    is_small = arch == "vulkan" and math.prod(extents) < 2**20
    if p.dim == 1:
        return {"loop": "blocks", "unroll": 1, **_in_1d(arch, extents[0])}
    if p.storage == "field" or is_thin or is_small:
        return {"loop": "points", "unroll": 1, "block_dim": 128}
    lanes = _lanes(p, extents, reach, terms) if arch == "cuda" else {}
    if lanes:
        return {"loop": "lanes", "unroll": 1, "block_dim": 128, **lanes}
    sweep = _in_2d(extents) if p.dim == 2 else _in_3d(p, arch, extents, reach)
    block_y = sweep.get("block_y", 0)
    threads = sweep["block_x"] * (block_y or 1)
    if tiles(extents, sweep["sweep"], sweep["block_x"], block_y) * threads > MOST_ITERATIONS:
        # Most threads of each block would lie beyond an edge: 3 x 1 x 600,000,000.
        return {"loop": "points", "unroll": 1, "block_dim": 128}
    return {"loop": "sweep", "unroll": 1, "blocks": 8448 if arch == "vulkan" else 0, **sweep}


def _lanes(p: Any, extents: list[int], reach: int, terms: int) -> dict[str, int]:
    """Return how many points a thread computes on the first axes, nothing where sweeps are faster.

    H200, 441 drawn grids of 30,000 to 80 M points, orders 2, 4 and 8, without a boundary, with
    zeros and with periodic ends, as fast as sweeps, in the mean: below 2**18 points 1.9 to 3.0
    times with 2 points a thread, below 2**21 1.2 to 2.0 with 4, above in 2D 1.0 to 1.6 with 4, in
    3D with f32 1.0 to 1.5 with 4 in each of 2 rows and 1.3 to 1.6 with 8 for order 2 with a
    boundary. With f64 they are no faster where a stencil reaches far, but with periodic ends.
    """
    points = math.prod(extents)
    if points < 2**21:
        items, rows = 2 if points < 2**18 else 4, 1
    elif p.dim == 2:
        is_slow = reach > 2 and points >= 2**23 and p.boundary in ("interior", "zero")
        items, rows = (0, 0) if is_slow else (4, 1)
    elif p.dtype.bits <= 32:
        items, rows = (8, 1) if reach == 1 and p.boundary != "interior" else (4, 2)
    elif reach == 1 or (reach == 2 and p.boundary in ("interior", "periodic")):
        items, rows = 4, 1
    else:
        items, rows = (2, 2) if p.boundary == "periodic" else (0, 0)
    # Points of an axis that fill no group go one by one.
    first, second = (extent - 2 * reach * (p.boundary == "interior") for extent in extents[:2])
    while items > 1 and (4 * items > first or items * rows * terms > MOST_TERMS):
        items //= 2
    while rows > 1 and (4 * rows > second or items * rows * terms > MOST_TERMS):
        rows //= 2
    if items * rows < 2 and points >= 2**21:
        return {}
    return {"items": items} | ({"item_rows": rows} if rows > 1 else {})


def tiles(extents: list[int], sweep: int, block_x: int, block_y: int) -> int:
    """Return how many blocks of threads walk through a grid."""
    first, *rows, last = extents
    if not block_y:
        rows, last = [], math.prod(rows) * last
    count = ((first - 1) // sweep + 1) * ((last - 1) // block_x + 1)
    return count * ((rows[0] - 1) // block_y + 1) if rows else count


def _in_1d(arch: str, points: int) -> dict[str, Any]:
    """Return the threads of a block, and the points of each.

    H100, cuda, 61 M points against one point a thread in blocks of 128: f32 of order 2 took 185 us
    instead of 266 (torch.compile 186), of order 8 with periodic ends 236 instead of 542 (225), f64
    344 instead of 368 (343). With 10 M points 4 in blocks of 256 took 38 to 53 us, and 8 in blocks
    of 512 44 to 53. H200, Vulkan, 63 M points of order 2: 241 us by 8 in blocks of 512, 264 by 2
    and 334 by one in blocks of 256.
    """
    if points < 2**18:
        return {"block_dim": 128}
    if points < 2**25:
        return {"block_dim": 256, "items": 2 if points < 2**22 else 4}
    return {"block_dim": 512, "items": 8}


def _in_2d(extents: list[int]) -> dict[str, Any]:
    """Return the threads of a block, how far each walks, and what it reads ahead.

    H200, cuda, 8192^2 f32 against point by point: order 2 154 us without a boundary and 157 to 161
    with one, against 210 to 220; order 8 219, and 239 to 263, against 391 to 478. With nothing read
    ahead 1.15 times as long at order 2, and 0.95 at order 8.
    """
    return {"block_x": 256 if extents[-1] > 512 else 64, "sweep": 16, "ahead": 2}


def _in_3d(p: Any, arch: str, extents: list[int], reach: int) -> dict[str, Any]:
    """Return the same in three dimensions.

    H200, cuda, 400^3 f32 against point by point: order 2 180 us without a boundary and 190 to 250
    with one, against 336 to 704; order 8 332, and 378 to 474, against 719 to 2037. Where the
    stencil reaches far, rows of 64 threads took 1.1 times as long: blocks of few columns share more
    of what they read.
    """
    ahead = 2 if (p.boundary == "interior" and reach == 1) or arch == "vulkan" else 0
    # 64^3 and 90^3 took 9 us with 32, and 6 with 16.
    length = 64 if arch == "vulkan" else 16 if math.prod(extents) < 2**24 else 32
    walk = {"sweep": length, "ahead": ahead}
    if extents[-1] < 64 and -extents[-1] % 32 > extents[-1] // 4:
        # Threads beyond the end of each row would do nothing: 2000 x 3000 x 13 of order 8 with a
        # boundary took 407 to 527 us, in blocks 975 to 1347, point by point 889 to 2478.
        return {"block_x": 256 if extents[1] * extents[2] >= 1024 else 32, "block_y": 0, **walk}
    return {"block_x": 64 if reach == 1 or arch == "vulkan" else 32, "block_y": 4, **walk}


def space(p: Any, arch: str) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each schedule parameter that tuning tries."""
    if arch == "cpu":
        return {
            "loop": ("function", "rows", "points"),
            "unroll": (1, 4, 8),
            "row_buffer": (0, 8, 16, 32, 64),
            "rows": (1, 2, 4, 8, 16),
            "chunk": (1024, 4096, 16384),
            "iterations": (1, 8),
            "serial": (False, True),
        }
    return {
        "loop": ("blocks", "points") if p.dim == 1 else ("points", "linear", "lanes", "sweep"),
        "unroll": (1,),
        "block_dim": (0, 128, 256, 512),
        "items": (1, 2, 4, 8),
        "item_rows": (1, 2),
        "block_x": (32, 64, 128, 256),
        "block_y": (0, 1, 2, 4, 8),
        "sweep": (16, 32, 64, 128) if p.dim == 3 else (8, 16, 32),
        "ahead": (0, 1, 2),
        "blocks": (0, 8448),
    }
