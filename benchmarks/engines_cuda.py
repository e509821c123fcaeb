"""Times the engine direct-cuda beside Taichi and torch, and writes a page's table.

``python benchmarks/engines_cuda.py`` draws sizes from a new seed, ``--seed N`` from that one. Every
result is compared with that of Taichi, bit for bit, before it is timed. Host time is that of one
call among many that nothing waits for; graphs repeat a launch many times. Rounds are taken in turn.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import taichi as ti
import torch

import tikgen
from page import drawn_seed, write_works
from tikgen.engines.direct_cuda import Graph
from tikgen.units import duration

PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
ROUNDS = 15
# Few enough that the device takes all of them without the host waiting for it.
CALLS = 200
SMALL = 70_000
Work = tuple[str, Any, list[Any], "Callable[[], object] | None"]


def works(rng: random.Random) -> list[Work]:
    """Return name, kernel, arguments and torch's way of the same, for sizes drawn at random."""

    def r(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, device="cuda")

    found: list[Work] = []
    for low, high in ((2, 100), (1000, 4096), (20_000, 60_000), (10**6, 9 * 10**6)):
        n = rng.randint(low, high)
        x, y, z, out, one = r(n), r(n), r(n), r(n), r(1)[0]
        axpy = tikgen.build("map", expr="z = 2*x + y", dtype="f32")

        def add(x: Any = x, y: Any = y, out: Any = out) -> object:
            return torch.add(y, x, alpha=2, out=out)

        found.append((f"2\\*x + y, {n:,}", axpy, [x, y, z], add))
        total = tikgen.build("reduce", op="sum", dtype="f32")

        def add_up(x: Any = x, out: Any = one) -> object:
            return torch.sum(x, 0, out=out)

        found.append((f"sum, {n:,}", total, [x, r(1)], add_up))
    for low, high in ((16, 40), (50, 90), (300, 420)):
        shape = tuple(rng.randint(low, high) for _ in range(3))
        for boundary in ("interior", "periodic"):
            kernel = tikgen.build("stencil", dim=3, dtype="f32", boundary=boundary)
            title = f"stencil, {boundary}, " + " x ".join(map(str, shape))
            found.append((title, kernel, [r(*shape), torch.zeros(*shape, device="cuda")], None))
    for low, high in ((20, 200), (1000, 3000)):
        n, m = rng.randint(low, high), rng.randint(low, high)
        x, out = r(n, m), r(m, n)
        kernel = tikgen.build("transpose", perm=(1, 0))

        def turn(x: Any = x, out: Any = out) -> object:
            return out.copy_(x.T)

        found.append((f"transpose, {n} x {m}", kernel, [x, r(m, n)], turn))
    for low, high in ((60, 500), (900, 1500)):
        n, m, k = (rng.randint(low, high) for _ in range(3))
        a, b, out = r(n, k), r(k, m), r(n, m)
        given = [a, b, torch.zeros(n, m, device="cuda"), 1.0, 0.0]

        def multiply(a: Any = a, b: Any = b, out: Any = out) -> object:
            return torch.matmul(a, b, out=out)

        found.append((f"gemm, {n} x {m} x {k}", tikgen.build("gemm"), given, multiply))
    for low, high in ((100, 1000), (10**5, 10**6)):
        n = rng.randint(low, high)
        x = r(n)
        found.append(
            (f"scan, {n:,}", tikgen.build("scan"), [x, r(n)], lambda x=x: torch.cumsum(x, 0))
        )
    return found


def burst(call: Callable[[], object], count: int) -> float:
    """Return the seconds that one call takes the host."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def on_device(replay: Callable[[], object], count: int) -> float:
    """Return the seconds that the device takes for one of ``count`` launches in a graph."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def graph_of_torch(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return what replays ``count`` calls of torch."""
    graph = torch.cuda.CUDAGraph()
    call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay


def measured(kernel: Any, values: list[Any], peer: Callable[[], object] | None) -> dict[str, float]:
    """Return seconds: of the host by Taichi, direct-cuda and torch; of the device in a graph."""
    copies = [v.clone() if torch.is_tensor(v) else v for v in values]
    bound = {
        "taichi": kernel.with_engine("taichi").bind(*values),
        "direct": kernel.with_engine("direct-cuda").bind(*copies),
    }
    for call in bound.values():
        call()
    torch.cuda.synchronize()
    ti.sync()
    for one, other in zip(values, copies, strict=True):
        if torch.is_tensor(one) and not torch.equal(one, other):
            raise SystemExit("direct-cuda and Taichi differ")
    size = max(v.numel() for v in values if torch.is_tensor(v))
    calls: dict[str, Callable[[], object]] = {**bound, **({"torch": peer} if peer else {})}
    count = CALLS if size <= SMALL else 20
    replays = {"direct graph": Graph([bound["direct"]] * count)}
    if peer:
        replays["torch graph"] = graph_of_torch(peer, count)
    found: dict[str, list[float]] = {name: [] for name in (*calls, *replays)}
    for number in range(ROUNDS + 1):
        for name, call in calls.items():
            seconds = burst(call, count)
            if number:
                found[name].append(seconds)
        for name, replay in replays.items():
            seconds = on_device(replay, count)
            if number:
                found[name].append(seconds)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    """Measure, print and write the table."""
    seed = drawn_seed(__doc__)
    ti.init(arch=ti.cuda, log_level=ti.ERROR)
    torch.backends.cuda.matmul.allow_tf32 = False
    rows, small, ratios = [], [], []
    for title, kernel, values, peer in works(random.Random(seed)):
        found = measured(kernel, values, peer)
        if max(v.numel() for v in values if torch.is_tensor(v)) <= SMALL:
            small.append(found)
        if peer:
            ratios.append(found["torch graph"] / found["direct graph"])
        names = ("taichi", "direct", "torch", "direct graph", "torch graph")
        rows.append((title, *(duration(found[n]) if n in found else "" for n in names)))
        print(*rows[-1], sep=" | ", flush=True)

    def median(name: str) -> str:
        return duration(statistics.median(found[name] for found in small if name in found))

    write_works(
        PAGE,
        "cuda",
        f"Sizes of seed {seed}, drawn for this run; medians of {ROUNDS} rounds in turn",
        (
            *("work", "Taichi, bound", "direct-cuda, bound", "torch"),
            *("direct-cuda in a graph", "torch in a graph"),
        ),
        rows,
        f"Up to {SMALL:,} elements a bound launch takes the host {median('taichi')} by Taichi, "
        f"{median('direct')} by direct-cuda, and a call of torch {median('torch')} (medians); in a "
        f"graph a launch takes {median('direct graph')}, one of torch {median('torch graph')}. "
        f"In graphs direct-cuda is {statistics.geometric_mean(ratios):.2f} times as fast as torch "
        "(geometric mean).",
    )


if __name__ == "__main__":
    main()
