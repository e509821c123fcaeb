"""Schedules of gemm on a processor."""

from collections.abc import Mapping
from typing import Any

# To wake the other threads takes 25 us with Taichi, and each of them gets 512 iterations at least.
# So few products are for one thread; fewer where C is thin, whose products wait for memory.
SERIAL, THIN_SERIAL = 2**21, 2**18
# C is thin up to so many rows or columns: then a copy in panels takes longer than the products.
THIN = 8


def on_cpu(p: Any, sizes: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the schedule of a processor.

    On two cores, direct-cpu, 1024^3 f32 took 10.7 ms in tiles of 4 by 32 (np.matmul 10.6), 13.7 of
    4 by 64, 14.4 of 4 by 16.
    """
    tiles = _NANOSECONDS[p.dtype.bits]
    if sizes is None:
        tile_m, tile_n = min(tiles, key=tiles.__getitem__)
        return panels("b", tile_m, tile_n) | {"iterations": 8}
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    if m == n == 1:
        return {"tile_m": 1, "tile_n": 1, "serial": True}
    is_thin = min(m, n) <= THIN
    best = thin(p.layout, m, n, k) if is_thin else panels(*best_tile(tiles, m, n, k))
    if m * n * k <= (THIN_SERIAL if is_thin else SERIAL):
        return best | {"serial": True}
    if "via" not in best:
        return best
    along = {"m": best["tile_m"], "n": best["tile_n"]}
    if best.get("vectors_of") == "a":
        along = {"m": best["tile_n"], "n": best["tile_m"]}
    return best | spread(-(-m // along["m"]) * -(-n // along["n"]), m * n * k, k)


def thin(layout: str, m: int, n: int, k: int) -> dict[str, Any]:
    """Return the schedule of a thin C, which reads the large operand where it lies.

    On two cores, direct-cpu, f32, a row times 4096^2 took 4.1 ms in rows of 256 (np.matmul 2.5,
    arrays 41), 4096^2 times a column 2.5 by dots of 4 by 1 (2.6; arrays 4.5). A step of dots takes
    half as long as one of panels for two columns, as long for six, but a dot itself takes 8 ns.
    """
    wide, few = max(m, n), min(m, n)
    large, small = ("a", "b") if m > n else ("b", "a")
    # Rows of less than a vector are no vectors.
    if lies_in_rows(layout, large) and (wide >= 16 or layout == "tn"):
        tile_n = next((size for size in (16, 64) if wide < 4 * size), 256)
        step = {"tile_m": 1, "unroll": 8} if few == 1 else {"tile_m": 4, "unroll": 4}
        return {"via": "rows", "vectors_of": large, "tile_n": tile_n} | step
    if few == 1:
        tile = {"tile_m": 4, "tile_n": 1} if n == 1 else {"tile_m": 1, "tile_n": 4}
        return tile | ({"via": "dots", "unroll": 2} if k >= 128 else {})
    if few <= 4 and k >= 64 * few:
        return {"via": "dots", "tile_m": 4, "tile_n": 2, "unroll": 4}
    return panels(small, 8, 8)


def spread(tiles: int, products: int, k: int) -> dict[str, Any]:
    """Return the parts of the inner axis and the iterations a tile that occupy all threads."""
    units = min(products // 2**14, 256)
    # Every second number is enough: each is compiled.
    fitting = [parts for parts in (4, 16, 64, 256) if k >= 64 * parts]
    parts = next(
        (parts for parts in (1, *fitting) if tiles * parts >= units), max(fitting, default=1)
    )
    tasks = tiles * parts
    return {"split_k": parts, "iterations": 64 if tasks < 128 else 8}


def lies_in_rows(layout: str, operand: str) -> bool:
    """Tell whether the rows of an operand as it is stored lie along C."""
    return layout["ab".index(operand)] == ("t" if operand == "a" else "n")


def best_tile(
    tiles: Mapping[tuple[int, int], float], m: int, n: int, k: int
) -> tuple[str, int, int]:
    """Return the operand to copy in panels, and the tile, by what they are expected to take."""

    def seconds(choice: tuple[str, int, int]) -> float:
        vectors_of, tile_m, tile_n = choice
        across, along = (m, n) if vectors_of == "a" else (n, m)
        count, tiles_along = -(-across // tile_n), -(-along // tile_m)
        products = tiles[tile_m, tile_n] * count * tile_n * tiles_along * tile_m * k
        copied = _COPIED * count * tile_n * k + _STORED[vectors_of] * m * n
        return products + copied + _TILE * count * tiles_along

    return min(((operand, *tile) for operand in ("b", "a") for tile in tiles), key=seconds)


def panels(vectors_of: str, tile_m: int, tile_n: int) -> dict[str, Any]:
    """Return the schedule that copies an operand to panels."""
    tiles = {"vectors_of": vectors_of, "tile_m": tile_m, "tile_n": tile_n}
    return {"via": "panels", "unroll": 4} | tiles


# What one core took, fitted to 110 drawn products, in nanoseconds: a product by size of the element
# and tile, an element of a panel, one of C, and a tile. The tile chosen takes 1.06 times as long as
# the best one (geometric mean).
_NANOSECONDS = {
    32: {(4, 32): 0.019, (8, 16): 0.02, (4, 16): 0.022, (8, 8): 0.034},
    64: {(4, 16): 0.038, (8, 8): 0.04, (4, 8): 0.051},
}
_COPIED, _STORED, _TILE = 0.35, {"b": 0.15, "a": 0.5}, 10


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
