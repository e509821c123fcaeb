"""Schedules of gemm on a processor."""

from collections.abc import Mapping
from typing import Any

# What takes one thread less is for it alone: to wake the other threads takes 25 us with Taichi.
SERIAL_NANOSECONDS = 50_000
# Where C is thin, products wait for memory; so few are for one thread.
THIN_SERIAL = 2**18
# Steps along the inner axis at a time, where it is as long: the rest takes as long as all of them.
STEPS = 4
# C is thin up to so many rows or columns: then a copy in panels takes longer than the products.
THIN = 8


def on_cpu(p: Any, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the schedule of a processor.

    A tile of 8 vectors of 32 bytes, and what they are made of, fit in the 16 registers of AVX2. On
    one core without AVX-512, direct-cpu, 240 x 256 x 257 f32 took 0.75 ms in tiles of 4 by 16
    (np.matmul 0.63), 1.17 of 8 by 8.
    """
    tiles = _NANOSECONDS[p.dtype.bits]
    if sizes is None:
        return panels("b", *min(tiles, key=tiles.__getitem__), STEPS) | {"iterations": 8}
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    if m == n == 1:
        return {"tile_m": 1, "tile_n": 1, "serial": True}
    if min(m, n) <= THIN:
        best = thin(tiles, p.layout, m, n, k)
        is_short = m * n * k <= THIN_SERIAL
    else:
        best, nanoseconds = best_tile(tiles, p.layout, m, n, k)
        is_short = nanoseconds <= SERIAL_NANOSECONDS
    if is_short:
        return best | {"serial": True}
    if "via" not in best:
        return best
    along = {"m": best["tile_m"], "n": best["tile_n"]}
    if best.get("vectors_of") == "a":
        along = {"m": best["tile_n"], "n": best["tile_m"]}
    return best | spread(-(-m // along["m"]) * -(-n // along["n"]), m * n * k, k)


def thin(
    tiles: Mapping[tuple[int, int], float], layout: str, m: int, n: int, k: int
) -> dict[str, Any]:
    """Return the schedule of a thin C, which reads the large operand where it lies.

    On two cores, direct-cpu, f32, a row times 4096^2 took 4.1 ms in rows of 256 (np.matmul 2.5,
    arrays 41), 4096^2 times a column 2.5 by dots of 4 by 1 (2.6; arrays 4.5). A step of dots takes
    half as long as one of panels for two columns, as long for six, but a dot itself takes 8 ns.
    """
    wide, few = max(m, n), min(m, n)
    large = "a" if m > n else "b"
    # Rows of less than a vector are no vectors.
    if lies_in_rows(layout, large) and (wide >= 16 or layout == "tn"):
        tile_n = next((size for size in (16, 64) if wide < 4 * size), 256)
        tile_m, steps = (1, 8) if few == 1 else (4, STEPS)
        tile = {"tile_m": tile_m, "tile_n": tile_n, "unroll": steps if k >= steps else 1}
        return {"via": "rows", "vectors_of": large} | tile
    if few == 1:
        tile = {"tile_m": 4, "tile_n": 1} if n == 1 else {"tile_m": 1, "tile_n": 4}
        return tile | ({"via": "dots", "unroll": 2} if k >= 128 else {})
    if few <= 4 and k >= 64 * few:
        return {"via": "dots", "tile_m": 4, "tile_n": 2, "unroll": 4}
    return best_tile(tiles, layout, m, n, k)[0]


def spread(tiles: int, products: int, k: int) -> dict[str, Any]:
    """Return the parts of the inner axis and the iterations a tile that occupy all threads."""
    units = min(products // 2**14, 256)
    # Every second number is enough: each is compiled.
    fitting = [parts for parts in (4, 16, 64, 256) if k >= 64 * parts]
    parts = next(
        (parts for parts in (1, *fitting) if tiles * parts >= units), max(fitting, default=1)
    )
    # Two runs of 512 iterations at least. More of them, which threads take as they come, write what
    # the other thread had in its cache: 200^3 f32 took 0.31 ms with 8 iterations, 0.42 with 64.
    tasks = tiles * parts
    return {
        "split_k": parts,
        "iterations": next((count for count in (8, 16, 32) if tasks * count >= 1024), 64),
    }


def lies_in_rows(layout: str, operand: str) -> bool:
    """Tell whether the rows of an operand as it is stored lie along C."""
    return layout["ab".index(operand)] == ("t" if operand == "a" else "n")


def best_tile(
    tiles: Mapping[tuple[int, int], float], layout: str, m: int, n: int, k: int
) -> tuple[dict[str, Any], float]:
    """Return the panels and tile that take the least time, and the nanoseconds of one thread."""

    def nanoseconds(vectors_of: str, tile_m: int, tile_n: int) -> float:
        across, along = (m, n) if vectors_of == "a" else (n, m)
        count, tiles_along = -(-across // tile_n), -(-along // tile_m)
        products = tiles[tile_m, tile_n] * count * tile_n * tiles_along * tile_m * k
        copied = _COPIED[lies_in_rows(layout, vectors_of)] * count * tile_n * k
        return products + copied + _STORED[vectors_of] * m * n + _TILE * count * tiles_along

    choices = [(operand, *tile) for operand in ("b", "a") for tile in tiles]
    best = min(choices, key=lambda choice: nanoseconds(*choice))
    return panels(*best, k), nanoseconds(*best)


def panels(vectors_of: str, tile_m: int, tile_n: int, k: int) -> dict[str, Any]:
    """Return the schedule that copies an operand to panels."""
    tiles = {"vectors_of": vectors_of, "tile_m": tile_m, "tile_n": tile_n}
    return {"via": "panels", "unroll": STEPS if k >= STEPS else 1} | tiles


# What one core of an EPYC without AVX-512 took, fitted to 88 drawn products, in nanoseconds: a
# product by size of the element and tile, an element of a panel by whether it lies along it, one of
# C, and a tile. The tile chosen takes 1.06 times as long as the best one (geometric mean).
_NANOSECONDS = {
    32: {(4, 16): 0.06, (4, 8): 0.07},
    64: {(2, 16): 0.077, (4, 8): 0.093},
}
_COPIED, _STORED, _TILE = {True: 0.6, False: 0.9}, {"b": 0.8, "a": 1.1}, 15


def space_on_cpu(p: Any, sizes: Mapping[str, int] | None) -> Mapping[str, tuple[Any, ...]]:
    """Return the schedules that are worth trying on a processor."""
    best = on_cpu(p, sizes)
    via, parts = best.get("via"), best.get("split_k", 1)
    space = {
        "vectors_of": ("b", "a"),
        "iterations": tuple(sorted({1, best.get("iterations", 8)})),
        "serial": (False, True),
        "block_dim": (0,),
    }
    if via not in ("rows", "dots"):
        tiles = {"tile_m": (1, 2, 4, 8), "tile_n": (1, 4, 8, 16, 32, 64), "unroll": (1, 4)}
        return space | tiles | {"via": ("arrays", "panels"), "split_k": (parts,)}
    space |= {"via": (via,), "split_k": tuple(sorted({1, parts}))}
    if via == "dots":
        return space | {"tile_m": (1, 2, 4), "tile_n": (1, 2, 4), "unroll": (2, 4)}
    tiles = {"tile_m": (1, 2, 4, 8), "tile_n": (16, 64, 256), "unroll": (4, 8)}
    return space | tiles | {"vectors_of": (best["vectors_of"],)}
