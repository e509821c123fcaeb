"""PageRank as a service: a graph is a message, and the reply has the rank of every page.

The actor launches one sparse matrix-vector product of tikgen for each iteration. Give an arch as
argument: cpu, vulkan or cuda.
"""

import asyncio
import logging
import sys
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import taichi as ti

import tikgen
from tikgen.ring import RingKernelRuntime, message, ring_kernel
from tikgen.ring.errors import KernelFailed

ARCH = sys.argv[1] if len(sys.argv) > 1 else "cpu"


@message
class Graph:
    """Page ``sources[e]`` links to page ``targets[e]``."""

    pages: Annotated[int, msgspec.Meta(ge=1)]
    sources: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    damping: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.85
    tolerance: float = 1e-6
    iterations: int = 200


@message
class Ranks:
    ranks: npt.NDArray[np.float32]
    iterations: int
    change: float
    converged: bool


def links_by_target(graph):
    """Return the matrix in rows of link targets, and the pages without links."""
    links = np.bincount(graph.sources, minlength=graph.pages)
    order = np.argsort(graph.targets, kind="stable")
    sources = graph.sources[order]
    rows = np.searchsorted(graph.targets[order], np.arange(graph.pages + 1)).astype(np.int32)
    return (1 / links[sources]).astype(np.float32), sources, rows, links == 0


multiply = tikgen.build("spmv", format="csr", dtype="f32", arch=ARCH)


@ring_kernel(kernel_id="pagerank", input_type=Graph, output_type=Ranks)
async def pagerank(ctx, graph):
    ends = np.concatenate([graph.sources, graph.targets])
    if ends.min(initial=0) < 0 or ends.max(initial=0) >= graph.pages:
        raise ValueError(f"links join pages 0 to {graph.pages - 1}")
    weights, columns, rows, is_dead_end = links_by_target(graph)
    ranks = np.full(graph.pages, 1 / graph.pages, np.float32)
    change, steps = np.inf, 0
    while change >= graph.tolerance and steps < graph.iterations:
        lost = ranks[is_dead_end].sum(dtype=np.float64)
        jump = (1 - graph.damping + graph.damping * lost) / graph.pages
        after = np.full(graph.pages, jump, np.float32)
        if weights.size:  # after = damping * links @ ranks + after
            multiply(weights, columns, rows, ranks, after, graph.damping, 1.0)
        change = float(np.abs(after - ranks).sum(dtype=np.float64))
        ranks = after
        steps += 1
        await asyncio.sleep(0)  # Let other tasks run.
    return Ranks(ranks=ranks, iterations=steps, change=change, converged=change < graph.tolerance)


def power_iteration(graph):
    """Return the same in NumPy, with a dense matrix in f64."""
    links = np.zeros((graph.pages, graph.pages))
    np.add.at(links, (graph.targets, graph.sources), 1.0)
    links[:, links.sum(axis=0) == 0] = 1  # From a page without links the reader goes to any page.
    links /= links.sum(axis=0)
    ranks = np.full(graph.pages, 1 / graph.pages)
    for _ in range(500):
        ranks = graph.damping * links @ ranks + (1 - graph.damping) / graph.pages
    return ranks


def random_graph(rng, pages, links, **settings):
    # Some pages have many more links to them than others, and some link nowhere.
    targets = (pages * rng.random(links) ** 3).astype(np.int32)
    sources = rng.integers(0, max(pages - pages // 10, 1), links, dtype=np.int32)
    return Graph(pages=pages, sources=sources, targets=targets, **settings)


async def main():
    ti.init(arch=getattr(ti, ARCH), log_level=ti.ERROR)
    logging.getLogger("tikgen.ring").setLevel(logging.CRITICAL)  # The failure is shown below.
    rng = np.random.default_rng()
    graphs = [
        random_graph(rng, 1000, 12_000),
        random_graph(rng, 617, 3000, damping=0.5),
        random_graph(rng, 5, 9, tolerance=1e-5),
        Graph(pages=1, sources=np.zeros(0, np.int32), targets=np.zeros(0, np.int32)),
    ]
    async with RingKernelRuntime() as runtime, runtime.kernel_scope("pagerank"):
        requests = [runtime.send_and_receive("pagerank", graph) for graph in graphs]
        for graph, found in zip(graphs, await asyncio.gather(*requests), strict=True):
            exact = power_iteration(graph)
            error = np.abs(found.ranks - exact).sum()
            # The rest of a geometric series, and the rounding of f32.
            bound = graph.damping / (1 - graph.damping) * found.change + 2e-6
            print(
                f"{graph.pages:5} pages: best is {found.ranks.argmax()}, {found.iterations} "
                f"iterations, last change {found.change:.1e}, error {error:.1e} of {bound:.1e}"
            )
            assert found.converged
            assert error <= bound

        # An invalid graph: its sender gets an error, and the actor continues.
        broken = Graph(pages=2, sources=np.int32([0]), targets=np.int32([2]))
        try:
            await runtime.send_and_receive("pagerank", broken)
        except KernelFailed as failure:
            print(f"refused: {failure.__cause__}")
        again = await runtime.send_and_receive("pagerank", graphs[2])
        assert again.converged

        telemetry = runtime.get_telemetry("pagerank")
        print(telemetry)
        assert (telemetry.messages_processed, telemetry.restarts) == (5, 1)


asyncio.run(main())
