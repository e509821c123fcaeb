"""Times loops as users write them first on an NVIDIA GPU, beside torch's copy or sum of the array.

``python benchmarks/own_loops_cuda.py`` prints a table. Sizes are drawn from a new seed; ``--seed
N`` draws those of that one. Each loop is launched by Taichi and by the engine direct-cuda; their
results are compared before they are timed, in turn.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any

import taichi as ti
import torch

import tikgen

ROUNDS, LAUNCHES = 7, 5
KERNEL = """
import taichi as ti


@ti.kernel
def own(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim={axes}),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim={results}),
):
    {body}
"""
INSIDE = "ti.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1), (1, x.shape[2] - 1))"
TWO_INSIDE = "ti.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2), (2, x.shape[2] - 2))"
SEVEN = """y[i, j, k] = (
            x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k]
            + x[i, j, k - 1] + x[i, j, k + 1] - 6 * x[i, j, k]
        )"""
THIRTEEN = """y[i, j, k] = (
            30 * x[i, j, k] - 16 * (x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k]
            + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]) + x[i - 2, j, k] + x[i + 2, j, k]
            + x[i, j - 2, k] + x[i, j + 2, k] + x[i, j, k - 2] + x[i, j, k + 2]
        )"""
PERIODIC = """n, m = x.shape[0], x.shape[1]
        y[i, j] = (
            x[(i + 1) % n, j] + x[(i - 1) % n, j] + x[i, (j + 1) % m] + x[i, (j - 1) % m]
        )"""
# For each work the axes of what is read and written (0: a few sums), and its loop.
WORKS: dict[str, tuple[int, int, str]] = {
    "line": (1, 1, "for i in x:\n        y[i] = 2 * x[i] + 1"),
    "plane": (2, 2, "for i, j in x:\n        y[i, j] = 2 * x[i, j] + 1"),
    "block": (3, 3, "for i, j, k in x:\n        y[i, j, k] = 2 * x[i, j, k] + 1"),
    "nested": (
        2,
        2,
        "for i in range(x.shape[0]):\n        for j in range(x.shape[1]):\n"
        "            y[i, j] = 2 * x[i, j] + 1",
    ),
    "seven points": (3, 3, f"for i, j, k in {INSIDE}:\n        {SEVEN}"),
    "thirteen points": (3, 3, f"for i, j, k in {TWO_INSIDE}:\n        {THIRTEEN}"),
    "turned": (2, 2, "for i, j in y:\n        y[i, j] = x[j, i]"),
    "periodic": (2, 2, f"for i, j in x:\n        {PERIODIC}"),
    "sum": (1, 0, "for i in x:\n        y[0] += x[i]"),
    "two sums": (2, 0, "for i, j in x:\n        y[0] += x[i, j]\n        y[1] += x[i, j] ** 2"),
    "maximum": (1, 0, "for i in x:\n        ti.atomic_max(y[0], x[i])"),
    "count": (1, 0, "for i in x:\n        if x[i] > 0:\n            y[0] += 1"),
    "sums of rows": (2, 1, "for i, j in x:\n        y[i] += x[i, j]"),
}


def shape(axes: int, rng: random.Random) -> tuple[int, ...]:
    """Return the shape of an array of 10,000 to 100 M elements."""
    count = 10 ** rng.uniform(4, 8)
    extents = [round(count ** (1 / axes) * rng.uniform(0.5, 2)) for _ in range(axes - 1)]
    for extent in extents:
        count /= extent
    return (*extents, round(count) + 3)


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a launch takes, of the best of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(LAUNCHES):
            call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3 / LAUNCHES)
    return min(times)


def measured(work: str, dtype: str, rng: random.Random) -> tuple[str, list[float]]:
    """Return the sizes, and the seconds of Taichi, of the direct engine and of torch."""
    axes, results, body = WORKS[work]
    kind = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32}[dtype]
    generator = torch.Generator("cuda").manual_seed(rng.randrange(10**6))
    read = shape(axes, rng)
    x = torch.randint(-9, 9, read, device="cuda", generator=generator).to(kind)
    written = (read[::-1] if work == "turned" else read[:results]) or (2,)
    own, other = (torch.zeros(written, device="cuda", dtype=kind) for _ in range(2))
    text = KERNEL.format(dtype=dtype, axes=axes, results=results or 1, body=body)
    kernel = tikgen.from_string(text)
    by_taichi = kernel.with_engine("taichi").bind(x, own)
    direct = kernel.with_engine("direct-cuda").bind(x, other)
    by_taichi()
    direct()
    tolerance = 1e-5 * float(x.double().square().sum()) if results < axes else 0.0
    torch.testing.assert_close(own, other, rtol=0, atol=tolerance)
    copy = torch.empty_like(x)
    peer = (lambda: torch.sum(x)) if results < axes else (lambda: copy.copy_(x))
    return " x ".join(map(str, read)), [seconds(call) for call in (by_taichi, direct, peer)]


def main() -> None:
    """Measure each work, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    seed = parser.parse_args().seed
    ti.init(arch=ti.cuda, log_level=ti.ERROR)
    rng = random.Random(seed)
    print(f"seed {seed}, {torch.cuda.get_device_name()}")
    print("| work | dtype | sizes | Taichi us | direct us | torch us | torch / direct |")
    print("|---|---|---|---|---|---|---|")
    for work in WORKS:
        for dtype in ("f32", rng.choice(("f64", "i32"))):
            sizes, found = measured(work, dtype, rng)
            times = " | ".join(f"{1e6 * one:.1f}" for one in found)
            print(
                f"| {work} | {dtype} | {sizes} | {times} | {found[2] / found[1]:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
