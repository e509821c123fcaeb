"""The schedules of a GPU: tiles through shared memory, or several elements a thread."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .axes import along, extents, merged, named

# Up to so many rows, or columns, most threads of a tile would do nothing: an H200 took 3.2 ms to
# transpose 1 x 64,731,019 f32 in tiles, 25 times as long as a copy.
THIN = 4
# Arrays of fewer elements take as many threads as there are, and shorter rows fewer elements each.
FEW, FEW_THIN, SHORT_ROW = 2**21, 2**17, 64


def gpu_schedule(
    p: Any, arch: str, axes: tuple[int, int] | None, sizes: Mapping[str, int] | None
) -> Mapping[str, Any]:
    """Return the default schedule of a GPU, given the axes along which x and y are contiguous."""
    if axes is None or axes[0] == axes[1]:
        return several_points(p, sizes)
    if sizes and min(along(p, axes, sizes)) <= THIN:
        return thin(p, arch, sizes)
    # H200, 8192^2 f32: 133 us on cuda with tiles of 64, 137 with tiles of 32; 157 on Vulkan
    # with tiles of 32, 165 with tiles of 64. A copy takes 134.
    tile, block_dim = 32, 128
    if arch == "cuda" and p.dtype.bits > 32:
        block_dim = 256  # 265 x 472 x 211 f64: 140 us, with 128 threads 147.
    elif arch == "cuda" and not (sizes and _wastes(along(p, axes, sizes))):
        # 8191 x 8193 f32: 164 us, with 256 threads 178; 259 x 268 x 638 u8: 98, with 256 76.
        # Of tiles that reach far beyond the edges, 175 x 97 x 74 x 37 f32: 159 us, with 256 141.
        tile, block_dim = 64, 512 if p.dtype.bits == 32 else 256
        if sizes and _padded(along(p, axes, sizes), 64) > 1.1:
            block_dim = 256
    return {"loop": "tiles", "tile": tile, "block_dim": block_dim, **named(p, *axes)}


def thin(p: Any, arch: str, sizes: Mapping[str, int]) -> Mapping[str, Any]:
    """Return how many elements of a few rows or columns a thread takes."""
    groups = merged(p.perm)
    *_, rows, columns = extents(p.perm, groups, sizes)
    count = math.prod(sizes.values())
    if arch != "cuda" or count < FEW_THIN or min(rows, columns) > THIN:
        return {"loop": "points", "block_dim": 128}
    # H200, in CUDA graphs, microseconds with one element a thread and so: 5,000,011 x 2 f32 49 and
    # 26 (torch 35), 2 x 5,000,011 49 and 26 (32), 3 x 2,000,003 30 and 16 (20); 1,000,003 x 4 f64
    # 25 and 18 (25).
    if p.dtype.bits < 32 and rows <= THIN:
        # 5,000,011 x 2 u8: 16 us with one, 9 with 8 along a row and 13 with 4 down a column.
        return {"loop": "points", "unroll": 8, "lanes": groups[-1][-1], "block_dim": 256}
    if p.dtype.bits > 32 and columns <= THIN:
        # 3 x 300,001 f64: 5.8 us with one and 128 threads, 4.1 with 256; 5.7 with 2, but 30 for 31
        # of 3 x 2,000,003.
        several = {"unroll": 2} if count >= FEW else {}
        return {"loop": "points", **several, "block_dim": 256}
    return {"loop": "points", "unroll": 4, "block_dim": 256}


def several_points(p: Any, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return how many elements of kept rows a thread takes, which spares divisions."""
    if sizes is None or math.prod(sizes.values()) < FEW:
        return {"loop": "points", "block_dim": 128}
    # H200, one element, 2, 4 and 8: 336, 247, 212 and 214 us of 62 x 169 x 106 x 78 f32 with
    # perm=(1, 0, 2, 3); 816, 543, 349 and 278 of 31 x 501 x 77 x 130 f16 with (0, 2, 1, 3);
    # 140, 117, 139 and 151 of 5003 x 701 x 9 f32 with (1, 0, 2).
    groups = merged(p.perm)
    counts = extents(p.perm, groups, sizes)
    many = 8 if len(counts) == 1 or p.dtype.bits < 32 else 4
    if len(counts) > 1 and (counts[-2] < many or counts[-1] == 1):
        # No elements one below the other, or no others beside them: H100, 10,553,056 x 1 x 1 f32
        # with perm=(2, 1, 0) took 39 us instead of 60 (a copy 34).
        if max(counts) < 8 * 256:
            return {"loop": "points", "block_dim": 128}
        longest = groups[counts.index(max(counts))][-1]
        return {"loop": "points", "unroll": 8, "lanes": longest, "block_dim": 256}
    return {"loop": "points", "unroll": 2 if counts[-1] < SHORT_ROW else many, "block_dim": 256}


def _wastes(lengths: Sequence[int]) -> bool:
    """Return whether tiles of 64 reach much further beyond the edges than tiles of 32.

    Along axes of 71 and 54 elements, less than half of each tile of 64 has elements: on an H200
    54 x 207 x 108 x 71 f32 took 644 us in such tiles, 326 in tiles of 32.
    """
    return _padded(lengths, 32) < 0.8 * _padded(lengths, 64)


def _padded(lengths: Sequence[int], side: int) -> float:
    """Return how many elements fit into the tiles for each that there is."""
    return math.prod(-(-length // side) * side / length for length in lengths)
