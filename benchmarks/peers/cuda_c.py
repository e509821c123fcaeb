"""CUDA C, compiled by CuPy: what a programmer of CUDA would write by hand."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import cupy
import numpy as np

from peers.peer import Absent, Call, Peer, form_of
from works.work import Arguments, Work

SWEEP = 32  # Planes that a thread of the stencil walks.
THREADS = 256


@functools.cache
def kernel(name: str) -> Any:
    source = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    return cupy.RawKernel(source, name, options=("--std=c++14", f"-DSWEEP={SWEEP}"))


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _quads(array: Any) -> np.int32:
    """Return how many float4 an array holds."""
    if array.size % 4:
        raise Absent("takes sizes that are multiples of 4")
    return np.int32(array.size // 4)


def copy(a: Arguments) -> Call:
    quads = _quads(a["x"])
    grid, values = (_blocks(int(quads), THREADS),), (a["x"], a["y"], quads)
    return lambda: kernel("copy")(grid, (THREADS,), values)


def axpy(a: Arguments) -> Call:
    quads = _quads(a["x"])
    grid = (_blocks(int(quads), THREADS),)
    values = (np.float32(a["a"]), a["x"], a["y"], a["z"], quads)
    return lambda: kernel("axpy")(grid, (THREADS,), values)


def stencil3d(a: Arguments) -> Call:
    n, m, depth = a["x"].shape
    grid = (_blocks(depth - 2, 64), _blocks(m - 2, 8), _blocks(n - 2, SWEEP))
    values = (a["x"], a["y"], *map(np.int32, (n, m, depth)))
    return lambda: kernel("stencil3d")(grid, (64, 8), values)


def _reduction(name: str, inputs: tuple[Any, ...], out: Any) -> Call:
    blocks = 16 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    partial = cupy.empty(blocks, np.float32)
    quads = _quads(inputs[0])

    def call() -> None:
        kernel(name)((blocks,), (THREADS,), (*inputs, partial, quads))
        kernel("total")((1,), (1024,), (partial, out, np.int32(blocks)))

    return call


def total(a: Arguments) -> Call:
    return _reduction("sum", (a["x"],), a["out"])


def dot(a: Arguments) -> Call:
    return _reduction("dot", (a["x"], a["y"]), a["out"])


def transpose(a: Arguments) -> Call:
    n, m = a["x"].shape
    grid = (_blocks(m, 32), _blocks(n, 32))
    values = (a["x"], a["y"], np.int32(n), np.int32(m))
    return lambda: kernel("transpose")(grid, (32, 8), values)


FORMS = {
    "copy": copy,
    "axpy": axpy,
    "stencil3d": stencil3d,
    "sum": total,
    "dot": dot,
    "transpose": transpose,
}


def prepare(work: Work, arguments: Arguments) -> Call:
    return form_of(FORMS, work)(arguments)


def peer(machine: str) -> Peer:
    device = cupy.cuda.Device()
    return Peer("cuda_c", "CUDA C", prepare, cupy.asarray, cupy.asnumpy, device.synchronize)
