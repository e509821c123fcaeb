"""Products through panels on a processor: which operand is copied, in tiles of which size."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tikgen.machine import devices

# Up to so many bytes of panels C is computed across its rows, as it lies in memory: the panels stay
# in the cache of a core. Zen 4, one thread, f32: 3000 x 7 x 2000 took 2.4 ms in tiles of 8 by 16,
# and 8.2 down its columns (np.matmul 2.2), 2000 x 27 x 3000 4.6 and 9.4 (4.1). With 9.6 MB of
# panels, 300 x 600 x 4000 took 1.1 of the time.
MOST_ACROSS = 2**21
# Wider than tiles across rows should be: 3000 x 7 x 2000 f32 took 1.2 of the time.
WIDE = 64
# Steps along the inner axis at a time, where it is as long: the rest takes as long as all of them.
STEPS = 4


class Nanoseconds(NamedTuple):
    """What the parts of a product take on one core.

    Attributes:
        products: a product, by tile.
        across: an element of the operand that is not copied, where it is not stored along the
            inner axis.
        copied: an element of a panel, by whether the operand is stored along it.
        stored: an element of C, by the operand that is copied: with A, C is written in columns.
        tile: a tile.
    """

    products: Mapping[tuple[int, int], float]
    across: float
    copied: Mapping[bool, float]
    stored: Mapping[str, float]
    tile: float


# By bytes of a vector and bits of an element, each fitted to 96 drawn products: on an EPYC without
# AVX-512, whose 16 registers hold a tile of 8 vectors and what it is made of, and on a Xeon with
# it. There the tile chosen takes 1.05 times as long as the best one of 14 (geometric mean).
_TIMES = {
    (32, 32): Nanoseconds(
        products={(4, 16): 0.037, (4, 8): 0.045},
        across=0,
        copied={True: 0.87, False: 0.93},
        stored={"b": 0, "a": 0.74},
        tile=31,
    ),
    (32, 64): Nanoseconds(
        products={(2, 16): 0.065, (4, 8): 0.066},
        across=0.33,
        copied={True: 1.05, False: 0.78},
        stored={"b": 0, "a": 1.2},
        tile=29,
    ),
    (64, 32): Nanoseconds(
        products={(8, 16): 0.024, (4, 16): 0.025, (4, 64): 0.028},
        across=0.18,
        copied={True: 0.58, False: 0.56},
        stored={"b": 0, "a": 0.44},
        tile=38,
    ),
    (64, 64): Nanoseconds(
        products={(4, 16): 0.046, (8, 8): 0.047},
        across=0.13,
        copied={True: 0.61, False: 0.75},
        stored={"b": 0, "a": 0.12},
        tile=51,
    ),
}


def best_panels(bits: int, layout: str, m: int, n: int, k: int) -> tuple[dict[str, Any], float]:
    """Return the schedule that takes the least time, and its nanoseconds on one thread."""
    times = _TIMES[devices.vector_bytes(), bits]

    def nanoseconds(vectors_of: str, tile_m: int, tile_n: int) -> float:
        across, along = (m, n) if vectors_of == "a" else (n, m)
        count, tiles_along = -(-across // tile_n), -(-along // tile_m)
        steps = count * tiles_along * tile_m * k
        time = times.products[tile_m, tile_n] * steps * tile_n + times.tile * count * tiles_along
        if lies_in_rows(layout, "b" if vectors_of == "a" else "a"):
            time += times.across * steps
        time += times.copied[lies_in_rows(layout, vectors_of)] * count * tile_n * k
        return time + times.stored[vectors_of] * m * n

    order = {"order": "across"} if n * k * bits // 8 <= MOST_ACROSS else {}
    choices = [
        (operand, *tile)
        for operand in ("b", "a")
        for tile in times.products
        if not (order and operand == "b" and tile[1] == WIDE)
    ]
    best = min(choices, key=lambda choice: nanoseconds(*choice))
    return panels(*best, k) | (order if best[0] == "b" else {}), nanoseconds(*best)


def usual_panels(bits: int) -> dict[str, Any]:
    """Return a schedule that is good at most sizes, the same one on every processor."""
    return panels("b", 2 if bits == 64 else 4, 16, STEPS)


def panels(vectors_of: str, tile_m: int, tile_n: int, k: int) -> dict[str, Any]:
    """Return the schedule that copies an operand to panels."""
    tiles = {"vectors_of": vectors_of, "tile_m": tile_m, "tile_n": tile_n}
    return {"via": "panels", "unroll": STEPS if k >= STEPS else 1} | tiles


def lies_in_rows(layout: str, operand: str) -> bool:
    """Tell whether the rows of an operand as it is stored lie along C."""
    return layout["ab".index(operand)] == ("t" if operand == "a" else "n")
