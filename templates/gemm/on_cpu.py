"""Schedules of gemm on a processor."""

from collections.abc import Mapping
from typing import Any

from .panels import STEPS, best_panels, lies_in_rows, usual_panels

# What takes one thread less is for it alone: to wake the other threads takes 25 us with Taichi.
SERIAL_NANOSECONDS = 50_000
# The same with direct-cpu, which takes a few.
SERIAL_NANOSECONDS_DIRECT = 15_000
# Where C is thin, products wait for memory; so few are for one thread.
THIN_SERIAL, THIN_SERIAL_DIRECT = 2**18, 2**12
# C is thin up to so many rows or columns: then a copy in panels takes longer than the products.
THIN = 8


def on_cpu(p: Any, sizes: Mapping[str, int] | None, is_direct: bool = False) -> Mapping[str, Any]:
    """Return the schedule of a processor, for Taichi or for direct-cpu.

    On one core without AVX-512, direct-cpu, 240 x 256 x 257 f32 took 0.75 ms in tiles of 4 by 16
    (np.matmul 0.63), 1.17 of 8 by 8.
    """
    if sizes is None:
        return usual_panels(p.dtype.bits) | ({} if is_direct else {"iterations": 8})
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    if m == n == 1:
        return {"tile_m": 1, "tile_n": 1, "serial": True}
    if min(m, n) <= THIN:
        best = thin(p.dtype.bits, p.layout, m, n, k)
        is_short = m * n * k <= (THIN_SERIAL_DIRECT if is_direct else THIN_SERIAL)
    else:
        best, nanoseconds = best_panels(p.dtype.bits, p.layout, m, n, k)
        is_short = nanoseconds <= (SERIAL_NANOSECONDS_DIRECT if is_direct else SERIAL_NANOSECONDS)
    if is_short:
        return best | {"serial": True}
    if "via" not in best:
        return best
    along = {"m": best["tile_m"], "n": best["tile_n"]}
    if best.get("vectors_of") == "a":
        along = {"m": best["tile_n"], "n": best["tile_m"]}
    parts, iterations = spread(-(-m // along["m"]) * -(-n // along["n"]), m * n * k, k)
    return best | {"split_k": parts} | ({} if is_direct else {"iterations": iterations})


def thin(bits: int, layout: str, m: int, n: int, k: int) -> dict[str, Any]:
    """Return the schedule of a thin C, which reads the large operand where it lies.

    On two cores, direct-cpu, f32, a row times 4096^2 took 4.1 ms in rows of 256 (np.matmul 2.5,
    arrays 41), 4096^2 times a column 2.5 by dots of 4 by 1 (2.6; arrays 4.5). A step of dots takes
    half as long as one of panels for two columns, as long for six, but a dot itself takes 8 ns. On
    an Intel Xeon with AVX-512, 45 x 128 x 6 'nt' took 2.8 us by dots, 3.5 in panels, 141 x 1253 x 6
    'nn' 29 and 40, 119 x 76 x 5 6.0 and 4.5.
    """
    wide, few = max(m, n), min(m, n)
    large = "a" if m > n else "b"
    is_in_rows = lies_in_rows(layout, large)
    # Rows of less than half a vector are no vectors.
    if is_in_rows and (wide >= 8 or (layout == "tn" and few == 1)):
        tile_n = next((size for size in (16, 64) if wide < 4 * size), 256)
        tile_m, steps = (1, 8) if few == 1 else (4, STEPS)
        tile = {"tile_m": tile_m, "tile_n": tile_n, "unroll": steps if k >= steps else 1}
        return {"via": "rows", "vectors_of": large} | tile
    if few == 1:
        tile = {"tile_m": 4, "tile_n": 1} if n == 1 else {"tile_m": 1, "tile_n": 4}
        return tile | ({"via": "dots", "unroll": 2} if k >= 128 else {})
    if layout != "tn" and k >= least_of_dots(layout, is_in_rows, few):
        tile = {"tile_m": 2 if m == 2 else 4, "tile_n": 2 if n == 2 else 4}
        return tile | {"via": "dots", "unroll": 4}
    if n <= THIN:
        return {"via": "panels", "vectors_of": "b", "tile_m": 4, "tile_n": 8, "unroll": 8}
    return best_panels(bits, layout, m, n, k)[0]


def least_of_dots(layout: str, is_in_rows: bool, few: int) -> int:
    """Return how long dots have to be: both operands lie along k, or one is copied first."""
    if layout == "nt":
        return 64
    if is_in_rows:  # The large one.
        return 64 * few
    return 48 if few <= 4 else 256


def spread(tiles: int, products: int, k: int) -> tuple[int, int]:
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
    return parts, next((count for count in (8, 16, 32) if tasks * count >= 1024), 64)


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
        steps = tuple(sorted({1, max(4, best.get("unroll", 1))}))
        tiles = {"tile_m": (1, 2, 4, 8), "tile_n": (1, 4, 8, 16, 32, 64), "unroll": steps}
        order = best.get("order", "down")
        ways = {"via": ("arrays", "panels"), "split_k": (parts,), "order": (order,)}
        return space | tiles | ways
    space |= {"via": (via,), "split_k": tuple(sorted({1, parts}))}
    if via == "dots":
        return space | {"tile_m": (1, 2, 4), "tile_n": (1, 2, 4), "unroll": (2, 4)}
    tiles = {"tile_m": (1, 2, 4, 8), "tile_n": (16, 64, 256), "unroll": (4, 8)}
    return space | tiles | {"vectors_of": (best["vectors_of"],)}
