"""Times loops as users write them first, in a text of their own, beside the same loops in Numba.

``python benchmarks/own_loops.py`` prints a table, on cpu. Sizes are drawn from a new seed; ``--seed
N`` draws those of that one. Results are compared before they are timed, in turn, with rests for
threads to come to an end.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import taichi as ti

import tikgen
from tikgen.units import duration

ROUNDS, REST = 25, 0.002
KERNEL = """
import taichi as ti


@ti.kernel
def own(
    x: ti.types.ndarray(dtype=ti.f32, ndim={axes}),
    y: ti.types.ndarray(dtype=ti.f32, ndim={results}),
):
    {body}
"""
FUNCTION = """
@nb.njit(parallel=True, fastmath=True)
def own(x, y):
    {body}
"""
MEAN = "y[i, j] = {quarter} * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])"
INSIDE = """for i in {range}(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            """
PERIODIC = """for i in {range}(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = {quarter} * (
                x[(i + 1) % x.shape[0], j] + x[(i - 1) % x.shape[0], j]
                + x[i, (j + 1) % x.shape[1]] + x[i, (j - 1) % x.shape[1]]
            )"""
CLAMPED = """for i in {range}(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = {quarter} * (
                x[{max}(i - 1, 0), j] + x[{min}(i + 1, x.shape[0] - 1), j]
                + x[i, {max}(j - 1, 0)] + x[i, {min}(j + 1, x.shape[1] - 1)]
            )"""
SEVEN = """for i in {range}(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for k in range(1, x.shape[2] - 1):
                y[i, j, k] = (
                    x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k]
                    + x[i, j, k - 1] + x[i, j, k + 1] - {six} * x[i, j, k]
                )"""
ROWS = """for i in {range}(x.shape[0]):
        s = x[i, 0]
        for j in range(x.shape[1]):
            s = {next}
        y[i] = s"""
SCAN = """for i in {range}(x.shape[0]):
        s = {zero}
        for j in range(x.shape[1]):
            s += x[i, j]
            y[i, j] = s"""
CHOICE = """for i in {range}(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > {half}:
                y[i, j] = x[i, j] * x[i, j]
            else:
                y[i, j] = {zero}"""
IF = "if i > 0 and i < x.shape[0] - 1 and j > 0 and j < x.shape[1] - 1:\n                "
WHOLE = "for i in {range}(x.shape[0]):\n        for j in range(x.shape[1]):\n            "
FORCES = """for i in {range}(x.shape[0]):
        a = {zero}
        b = {zero}
        for j in range(x.shape[0]):
            u = x[j, 0] - x[i, 0]
            v = x[j, 1] - x[i, 1]
            d = u * u + v * v + {half}
            w = {one} / (d * {sqrt}(d))
            a += u * w
            b += v * w
        y[i, 0] = a
        y[i, 1] = b"""
WINDOW = """for i in {range}(2, x.shape[0] - 2):
        for j in range(2, x.shape[1] - 2):
            s = {zero}
            for a in range(5):
                for b in range(5):
                    s += x[i + a - 2, j + b - 2]
            y[i, j] = {quarter} * s"""
CUBE = """for i in {range}(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for k in range(1, x.shape[2] - 1):
                s = {zero}
                for a in range(-1, 2):
                    for b in range(-1, 2):
                        for c in range(-1, 2):
                            s += x[i + a, j + b, k + c]
                y[i, j, k] = {quarter} * s"""
NINE = """for i in {range}(x.shape[1]):
        for j in range(x.shape[2]):
            s = {zero}
            for q in range(9):
                s += x[q, i, j]
            for q in range(9):
                y[q, i, j] = x[q, i, j] + {half} * (s - x[q, i, j])"""
LINE = "for i in {range}(x.shape[0]):\n        y[i] = {half} * x[i] + {one}"
EVERY = "for i, j in ti.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):\n        "
# For each work its loops in Taichi, and in Numba.
WORKS: dict[str, tuple[str, str]] = {
    "mean of neighbours": (INSIDE + MEAN, INSIDE + MEAN),
    "the same, ti.ndrange": (EVERY + MEAN, INSIDE + MEAN),
    "the same, inside by if": (WHOLE + IF + MEAN,) * 2,
    "periodic mean": (PERIODIC, PERIODIC),
    "clamped mean": (CLAMPED, CLAMPED),
    "seven points": (SEVEN, SEVEN),
    "line": (LINE, LINE),
    "the same, for i in x": (LINE.replace("{range}(x.shape[0])", "x"), LINE),
    "sums of rows": (ROWS.replace("{next}", "s + x[i, j]"),) * 2,
    "maxima of rows": (ROWS.replace("{next}", "{max}(s, x[i, j])"),) * 2,
    "sums so far": (SCAN, SCAN),
    "either way": (CHOICE, CHOICE),
    "forces": (FORCES, FORCES),
    "25 points by loops": (WINDOW, WINDOW),
    "27 points by loops": (CUBE, CUBE),
    "nine components": (NINE, NINE),
}
NUMBERS = {"quarter": 0.25, "six": 6.0, "zero": 0.0, "half": 0.5, "one": 1.0}
TAICHI = {"range": "range", "max": "ti.max", "min": "ti.min", "sqrt": "ti.sqrt"}
NUMBA = {"range": "nb.prange", "max": "max", "min": "min", "sqrt": "np.sqrt"}


def shapes(work: str, rng: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of what is read and of what is written, some 10,000 to 1,000,000."""
    count = round(10 ** rng.uniform(4, 6))
    rows = rng.randint(20, 1000)
    plane = rows, count // rows + 3
    if work == "nine components":
        return ((9, rows, count // rows // 9 + 3),) * 2
    if work in ("seven points", "27 points by loops"):
        deep = rng.randint(10, 60)
        return ((deep, rng.randint(10, 60), count // deep // 40 + 3),) * 2
    if "line" in work or work == "the same, for i in x":
        return ((count,),) * 2
    if "of rows" in work:
        return plane, plane[:1]
    return ((rows, 2),) * 2 if work == "forces" else (plane,) * 2


def measured(work: str, rng: random.Random) -> tuple[str, float, float]:
    """Return the sizes, and the seconds of tikgen and of Numba."""
    read, written = shapes(work, rng)
    x = np.random.default_rng(rng.randrange(10**6)).random(read, np.float32)
    own, other = np.zeros(written, np.float32), np.zeros(written, np.float32)
    taichi, numba = WORKS[work]
    numbers = {name: repr(value) for name, value in NUMBERS.items()}
    singles = {name: f"np.float32({value})" for name, value in NUMBERS.items()}
    text = KERNEL.format(axes=x.ndim, results=own.ndim, body=taichi.format(**TAICHI | numbers))
    names: dict[str, Any] = {"nb": nb, "np": np}
    exec(FUNCTION.format(body=numba.format(**NUMBA | singles)), names)
    calls: list[Callable[[], Any]] = [
        tikgen.from_string(text).bind(x, own),
        lambda: names["own"](x, other),
    ]
    for call in calls:
        call()
    np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-3)
    found: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for times, call in zip(found, calls, strict=True):
            time.sleep(REST)
            call()
            start = time.perf_counter()
            call()
            call()
            times.append((time.perf_counter() - start) / 2)
    one, two = map(statistics.median, found)
    return " x ".join(map(str, read)), one, two


def main() -> None:
    """Measure each work, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    seed = parser.parse_args().seed
    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    print(f"seed {seed}")
    for number, work in enumerate(WORKS):
        sizes, own, other = measured(work, random.Random(seed * 100 + number))
        told = f"{duration(own)} tikgen, {duration(other)} Numba, {other / own:.2f}"
        print(f"{work}, {sizes}: {told}", flush=True)


if __name__ == "__main__":
    main()
