"""Schedules of gemm on a GPU: of a few blocks of threads, that with the least predicted time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tikgen.template.shapes import MOST_ELEMENTS

# Mesa's Vulkan on a processor counts the steps of a thread: no part is longer there.
DEEP = 32_768
# Parts of the inner axis. All powers of two would save 2% of the time, for twice as many kernels.
PARTS = (1, 4, 16, 64, 256)
# Of an H100 or H200: processors, and the bytes that a nanosecond moves: A, B and C of a small
# product, and the partial sums, which are written and then read.
PROCESSORS, OPERANDS, PARTIAL = 132, 1400, 3000
# Nanoseconds until a second loop over C begins.
SECOND_LOOP = 1000
# More partial sums take memory for a gain of a few percent.
MOST_PARTIAL = 2**24


@dataclass(frozen=True)
class Block:
    """A block of threads, which compute m by n elements of C in steps of k along the inner axis.

    ``step`` is how many nanoseconds an element of the inner axis takes where a processor has one
    block, and ``rate`` how many products it computes in a nanosecond where it has many. Both are
    fitted to times of drawn sizes on one H200, 288 of f32 and 224 of f64, which the model predicts
    within 10% (root mean square).
    """

    m: int
    n: int
    k: int
    tile_m: int
    tile_n: int
    step: float
    rate: float
    strip: int = 4
    unroll: int = 1

    def schedule(self, parts: int) -> dict[str, Any]:
        """Return the schedule of this block and so many parts of the inner axis."""
        found = {"via": "shared", "strip": self.strip, "unroll": self.unroll, "split_k": parts}
        found |= {"block_m": self.m, "block_n": self.n, "block_k": self.k}
        return found | {"tile_m": self.tile_m, "tile_n": self.tile_n}

    def nanoseconds(self, m: int, n: int, k: int, parts: int, size: int) -> float:
        """Return the predicted time, less that of a launch, for elements of ``size`` bytes."""
        blocks = math.ceil(m / self.m) * math.ceil(n / self.n) * parts
        steps = math.ceil(k / (parts * self.k)) * self.k
        alone = self.step * steps
        together = math.ceil(blocks / PROCESSORS) * self.m * self.n * steps / self.rate
        memory = (m * k + k * n + (m * n if parts == 1 else 0)) * size / OPERANDS
        # The longest of the three, and more where two of them are as long.
        longest = (alone**4 + together**4 + memory**4) ** 0.25
        if parts == 1:
            return longest
        return longest + SECOND_LOOP + parts * m * n * size / PARTIAL


SINGLE = (
    Block(32, 32, 16, 4, 4, 35.4, 73.0),
    Block(16, 64, 16, 4, 4, 35.8, 63.1),
    Block(64, 16, 16, 4, 4, 42.4, 55.6),
    Block(128, 32, 16, 8, 4, 53.5, 89.5),
    Block(64, 64, 16, 8, 4, 53.3, 96.2),
)
# In strips of 4, blocks of 64 by 64 take 1.5 to 2 times as long.
DOUBLE = (
    Block(32, 32, 8, 4, 4, 62.0, 41.3, strip=1),
    Block(16, 64, 8, 4, 4, 67.4, 39.0, strip=1),
    Block(64, 16, 8, 4, 4, 66.4, 38.9, strip=1),
    Block(128, 32, 8, 8, 4, 76.1, 54.0, strip=1),
    Block(32, 128, 8, 4, 8, 103.0, 53.5, strip=1),
    Block(64, 64, 8, 8, 4, 67.2, 59.9, strip=1),
)
# The last block is that of large products, on H200. 4096^3 f32: 31.8 TFLOP/s on cuda (torch 51.2),
# 27.8 with tiles of 8 by 8, and with these 29.1 on Vulkan. 2048^3 f64, cuda: 17.5 TFLOP/s, 15.9 by
# blocks of 64 by 64, and 2.5 of 128 by 128, whose threads spill; Vulkan: 8.1 by these, 10.0 by 64.
BLOCKS = {
    ("cuda", 32): (*SINGLE, Block(128, 128, 8, 16, 4, 146.0, 109.0, unroll=4)),
    ("vulkan", 32): (*SINGLE, Block(128, 128, 8, 8, 8, 160.0, 107.0)),
    ("cuda", 64): (*DOUBLE, Block(128, 64, 8, 8, 8, 158.0, 64.8, strip=2)),
    ("vulkan", 64): DOUBLE,
}


def on_gpu(p: Any, arch: str, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the schedule of a GPU: that of large products where the sizes are not known."""
    block, parts = best(p, arch, sizes)
    return block.schedule(parts)


def space_on_gpu(
    p: Any, arch: str, sizes: Mapping[str, int] | None
) -> Mapping[str, tuple[Any, ...]]:
    """Return values of the parameters among which tuning searches on a GPU."""
    block, parts = best(p, arch, sizes)
    space: dict[str, tuple[Any, ...]] = {"via": ("shared",), "block_k": (8, 16)}
    if block.m * block.n < 64 * 128:
        return space | {
            "tile_m": (4, 8),
            "tile_n": (4, 8),
            "unroll": (1, 2),
            "block_m": tuple(sorted({block.m, 32, 64})),
            "block_n": tuple(sorted({block.n, 32, 64})),
            "strip": (block.strip,),
            "split_k": tuple(sorted({1, parts, min(4 * parts, PARTS[-1])})),
        }
    return space | {
        "tile_m": (8, 16),
        "tile_n": (4, 8, 16),
        "unroll": (1, 2, 4),
        "block_m": (64, 128, 256),
        "block_n": (64, 128),
        "strip": (1, block.strip),
        "split_k": (parts,),
    }


def best(p: Any, arch: str, sizes: Mapping[str, int] | None) -> tuple[Block, int]:
    """Return the block that takes the least time, and how many parts the inner axis has."""
    blocks = BLOCKS[arch, p.dtype.bits]
    if sizes is None:
        return blocks[-1], 1
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    longest = DEEP if arch == "vulkan" else MOST_ELEMENTS
    least = next((parts for parts in PARTS if k <= parts * longest), PARTS[-1])
    most = max(least, MOST_PARTIAL // (m * n))
    numbers = [parts for parts in PARTS if least <= parts <= most]
    return min(
        ((block, parts) for block in blocks for parts in numbers),
        key=lambda choice: choice[0].nanoseconds(m, n, k, choice[1], p.dtype.bits // 8),
    )
