"""Times sums within parallel loops on an NVIDIA GPU: of rows, by matrices, of forces.

``python benchmarks/own_sums_cuda.py`` prints a table. Sizes are drawn from a new seed; ``--seed N``
draws those of that one. Each loop is launched by direct-cuda as it is written, which a
``ti.loop_config`` asks for, and as tikgen changes it; results are compared with torch's.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import taichi as ti
import torch

import tikgen
from own_loops_cuda import seconds

KERNEL = """
import taichi as ti


@ti.kernel
def own(
    a: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=1),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim={axes}),
):
    {told}{loop}
"""
ROWS = """for i, j in a:
        y[i] += a[i, j]"""
PRODUCT = """for i in range(a.shape[0]):
        s = 0 * a[0, 0]
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s"""
FORCES = """for i in range(a.shape[0]):
        s = 0 * ti.Vector([a[i, 0], a[i, 1], a[i, 2]])
        for j in range(a.shape[0]):
            d = ti.Vector([a[j, 0] - a[i, 0], a[j, 1] - a[i, 1], a[j, 2] - a[i, 2]])
            s += x[j] * d / (d.norm_sqr() + 0.01) ** 1.5
        for c in ti.static(range(3)):
            y[i, c] = s[c]"""
TOLD = "ti.loop_config(block_dim=128)\n    "
Tensor = Any


class Work(NamedTuple):
    """A loop, the shapes of its arrays, and what torch computes instead."""

    name: str
    loop: str
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    peer: Callable[[Tensor, Tensor], Tensor]


def forces(a: Tensor, x: Tensor) -> Tensor:
    """Return the forces between all pairs, some at a time."""
    parts = []
    for part in a.split(max(1, 2**24 // len(a))):
        d = a[None] - part[:, None]
        parts.append((x[None, :, None] * d / ((d * d).sum(-1, True) + 0.01) ** 1.5).sum(1))
    return torch.cat(parts)


def works(rng: random.Random) -> Iterator[Work]:
    """Yield works of drawn sizes: 10,000 to 60 M elements, and 500 to 30,000 particles."""
    for name, loop, peer in (
        ("sums of rows", ROWS, lambda a, x: a.sum(1)),
        ("matrix times vector", PRODUCT, torch.mv),
    ):
        for _ in range(3):
            count = 10 ** rng.uniform(4, 7.8)
            rows = round(count ** rng.uniform(0.2, 0.8))
            columns = round(count / rows) + 1
            yield Work(name, loop, ((rows, columns), (columns,), (rows,)), peer)
    for _ in range(3):
        count = round(10 ** rng.uniform(2.7, 4.5))
        yield Work("forces", FORCES, ((count, 3), (count,), (count, 3)), forces)


def measured(work: Work, dtype: str) -> list[float]:
    """Return the seconds as it is written, as it is changed, and of torch."""
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    a, x, y = (torch.rand(shape, device="cuda", dtype=kind) for shape in work.shapes)
    expected = work.peer(a, x)
    found = []
    for told in (TOLD, ""):
        text = KERNEL.format(dtype=dtype, axes=y.dim(), told=told, loop=work.loop)
        kernel = tikgen.from_string(text).with_engine("direct-cuda").bind(a, x, y.zero_())
        kernel()
        torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
        found.append(seconds(kernel))
    return [*found, seconds(lambda: work.peer(a, x))]


def main() -> None:
    """Measure each work, and print a line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    seed = parser.parse_args().seed
    ti.init(arch=ti.cuda, log_level=ti.ERROR)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    print(f"seed {seed}, {torch.cuda.get_device_name()}")
    print("| work | dtype | sizes | as written us | changed us | torch us | torch / changed |")
    print("|---|---|---|---|---|---|---|")
    for work in works(rng):
        dtype = rng.choice(("f32", "f64"))
        found = measured(work, dtype)
        times = " | ".join(f"{1e6 * one:.1f}" for one in found)
        sizes = " x ".join(map(str, work.shapes[0]))
        print(
            f"| {work.name} | {dtype} | {sizes} | {times} | {found[2] / found[1]:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
