"""Times launches of the engine direct-cpu beside those of Taichi, and writes a page's table.

``python benchmarks/engines.py`` draws sizes from a new seed, ``--seed N`` from that one. Every
result is compared before it is timed. Calls are timed in turn, and a row shows medians.
"""

from __future__ import annotations

import functools
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti

import tikgen
from page import drawn_seed, write_works
from tikgen.units import duration
from timing import Turns

PLAIN = """
import taichi as ti

vector = ti.types.ndarray(dtype=ti.f32, ndim=1)
matrix = ti.types.ndarray(dtype=ti.f32, ndim=2)


@ti.kernel
def scaled(x: vector, y: vector, z: vector):
    for i in x:
        z[i] = 2 * x[i] + y[i]


@ti.kernel
def total(x: vector, out: vector):
    found = 0.0
    for i in range(x.shape[0]):
        found += x[i]
    out[0] = found


@ti.kernel
def laplacian(x: matrix, y: matrix):
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 * x[i, j]
"""
PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
ROUNDS, FIRST_ROUNDS = 21, 5
Work = tuple[str, Any, list[Any], "Callable[[], object] | None"]


def works(rng: random.Random) -> list[Work]:
    """Return name, kernel, arguments and NumPy's way of the same, for sizes drawn at random."""
    numbers = np.random.default_rng(rng.getrandbits(32))

    def r(*shape: int) -> np.ndarray[Any, Any]:
        return numbers.random(shape, np.float32)

    found: list[Work] = []
    for low, high in ((2, 100), (500, 2000), (2000, 4096), (10_000, 60_000), (10**6, 9 * 10**6)):
        n = rng.randint(low, high)
        x, y, z = r(n), r(n), r(n)
        axpy = tikgen.build("map", expr="z = 2*x + y", dtype="f32")
        found.append((f"2\\*x + y, {n:,}", axpy, [x, y, z], lambda x=x, y=y: 2 * x + y))
        total = tikgen.build("reduce", op="sum", dtype="f32")
        found.append((f"sum, {n:,}", total, [x, np.zeros(1, np.float32)], x.sum))
    for n in (rng.randint(100_000, 400_000), rng.randint(10**6, 4 * 10**6)):
        x, y, z = r(n), r(n), r(n)
        kernel = tikgen.build("map", expr="z = sqrt(x*x + y*y)*x/(y + 1)", dtype="f32")
        found.append((f"sqrt and quotient, {n:,}", kernel, [x, y, z], None))
    for low, high in ((16, 40), (50, 90), (120, 220)):
        shape = tuple(rng.randint(low, high) for _ in range(3))
        for boundary in ("interior", "periodic"):
            kernel = tikgen.build("stencil", dim=3, dtype="f32", boundary=boundary)
            title = f"stencil, {boundary}, " + " x ".join(map(str, shape))
            found.append((title, kernel, [r(*shape), np.zeros(shape, np.float32)], None))
    n, m = rng.randint(100, 900), rng.randint(100, 900)
    x = r(n, m)
    kernel = tikgen.build("transpose", perm=(1, 0))
    found.append((f"transpose, {n} x {m}", kernel, [x, np.zeros((m, n), np.float32)], None))
    for _ in range(2):
        n, m, k = (rng.randint(60, 500) for _ in range(3))
        a, b, c = r(n, k), r(k, m), np.zeros((n, m), np.float32)
        title, kernel = f"gemm, {n} x {m} x {k}", tikgen.build("gemm")
        found.append((title, kernel, [a, b, c, 1.0, 0.0], lambda a=a, b=b: a @ b))
    n = rng.randint(10**5, 10**6)
    found.append((f"scan, {n:,}", tikgen.build("scan"), [r(n), np.zeros(n, np.float32)], None))
    return found + plain_works(rng, r)


def plain_works(rng: random.Random, r: Callable[..., np.ndarray[Any, Any]]) -> list[Work]:
    """Return kernels as people write them in Taichi: plain loops, without real functions."""
    n, rows, columns = (rng.randint(10**low, 2 * 10**low) for low in (6, 3, 3))
    x, y, z, out, grid = r(n), r(n), r(n), np.zeros(1, np.float32), r(rows, columns)
    head, *kernels = PLAIN.split("\n\n\n")
    scaled, total, laplacian = (tikgen.from_string(f"{head}\n\n\n{text}") for text in kernels)
    return [
        (f"plain loop, 2\\*x + y, {n:,}", scaled, [x, y, z], lambda: 2 * x + y),
        (f"plain loop, sum, {n:,}", total, [x, out], x.sum),
        (f"plain loop, Laplacian, {rows} x {columns}", laplacian, [grid, grid.copy()], None),
    ]


def measured(kernel: Any, values: list[Any], numpy: Callable[[], object] | None) -> list[float]:
    """Return seconds of bound launches by both engines, of a plain call, and of NumPy or 0."""
    copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    calls: dict[str, Callable[[], object]] = {
        "taichi": kernel.with_engine("taichi").bind(*values),
        "direct": kernel.with_engine("direct-cpu").bind(*copies),
        "plain": functools.partial(kernel.with_engine("direct-cpu"), *copies),
    }
    for call in calls.values():
        call()
    for one, other in zip(values, copies, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    if numpy is not None:
        calls["numpy"] = numpy
    turns = Turns(calls, dict.fromkeys(calls, lambda: None), rounds=ROUNDS)
    last = list(calls)[-1]
    for _ in range(ROUNDS):
        turns.begin_round(last)
        turns.time(last)
    timings = turns.timings()
    return [
        timings[name].median if name in timings else 0.0
        for name in ("taichi", "direct", "plain", "numpy")
    ]


FIRST = """
import sys, time
import numpy as np, taichi as ti
ti.init(arch=ti.cpu, log_level=ti.ERROR)
import tikgen
a, b, c = (np.ones((60, 60), np.float32) for _ in range(3))
kernel = tikgen.build("gemm", engine=sys.argv[1])
start = time.perf_counter()
kernel(a, b, c, 1.0, 0.0)
print(time.perf_counter() - start)
"""


def first_launches() -> str:
    """Return in a sentence how long a first launch takes in a process that is not the first."""
    found: dict[str, list[float]] = {"taichi": [], "direct-cpu": []}
    for _ in range(1 + FIRST_ROUNDS):
        for engine, seconds in found.items():
            command = [sys.executable, "-c", FIRST, engine]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds.append(float(done.stdout.splitlines()[-1]))
    taichi, direct = (duration(statistics.median(seconds[1:])) for seconds in found.values())
    return (
        f"The first launch of gemm in a process that is not the first takes {taichi} by Taichi, "
        f"whose own cache has the code, and {direct} by direct-cpu (medians of {FIRST_ROUNDS} "
        "processes in turn)."
    )


def main() -> None:
    """Measure, print and write the table."""
    seed = drawn_seed(__doc__)
    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    rows, ratios, small, more = [], [], [], []
    for title, kernel, values, numpy in works(random.Random(seed)):
        taichi, direct, plain, by_numpy = measured(kernel, values, numpy)
        ratios.append(taichi / direct)
        if max(np.size(v) for v in values) <= 4096:
            small.append(direct)
            more.append(plain - direct)
        rows.append(
            (
                title,
                duration(taichi),
                duration(direct),
                duration(plain),
                f"{taichi / direct:.2f}x",
                f"{by_numpy / direct:.2f}x" if by_numpy else "",
            )
        )
        print(*rows[-1], sep=" | ", flush=True)
    write_works(
        PAGE,
        "cpu",
        f"Sizes of seed {seed}, drawn for this run; medians of {ROUNDS} rounds in turn",
        (
            *("work", "Taichi, bound", "direct-cpu, bound", "a plain call"),
            *("bound, as fast as Taichi", "as NumPy"),
        ),
        rows,
        f"Geometric mean of all works: {statistics.geometric_mean(ratios):.2f} times as fast as "
        f"Taichi. Up to 4,096 elements a bound launch takes {duration(max(small))} at most, and a "
        f"plain call {duration(max(more))} more at most.",
        first_launches(),
    )


if __name__ == "__main__":
    main()
