"""Taichi written by hand, in the plain forms that its documentation teaches."""

from functools import partial
from typing import Any

import numpy as np
import taichi as ti

from peers.peer import Absent, Call, Peer, form_of
from works.work import Arguments, Work

Vector = ti.types.ndarray(dtype=ti.f32, ndim=1)
Matrix = ti.types.ndarray(dtype=ti.f32, ndim=2)
Cube = ti.types.ndarray(dtype=ti.f32, ndim=3)
Indices = ti.types.ndarray(dtype=ti.i32, ndim=1)


@ti.kernel
def copy(x: Vector, y: Vector):
    for i in x:
        y[i] = x[i]


@ti.kernel
def axpy(a: ti.f32, x: Vector, y: Vector, z: Vector):
    for i in x:
        z[i] = a * x[i] + y[i]


@ti.kernel
def stencil3d(x: Cube, y: Cube):
    for i, j, k in ti.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1), (1, x.shape[2] - 1)):
        y[i, j, k] = (
            x[i - 1, j, k]
            + x[i + 1, j, k]
            + x[i, j - 1, k]
            + x[i, j + 1, k]
            + x[i, j, k - 1]
            + x[i, j, k + 1]
            - 6.0 * x[i, j, k]
        )


@ti.kernel
def stencil2d(x: Matrix, y: Matrix):
    for i, j in ti.ndrange((2, x.shape[0] - 2), (2, x.shape[1] - 2)):
        y[i, j] = (
            4.0 / 3.0 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
            - 1.0 / 12.0 * (x[i - 2, j] + x[i + 2, j] + x[i, j - 2] + x[i, j + 2])
            - 5.0 * x[i, j]
        )


@ti.kernel
def total(x: Vector) -> ti.f32:
    found = 0.0
    for i in x:
        found += x[i]
    return found


@ti.kernel
def dot(x: Vector, y: Vector) -> ti.f32:
    found = 0.0
    for i in x:
        found += x[i] * y[i]
    return found


@ti.kernel
def scan(x: Vector, out: Vector):
    running = 0.0
    ti.loop_config(serialize=True)
    for i in range(x.shape[0]):
        running += x[i]
        out[i] = running


@ti.kernel
def transpose(x: Matrix, y: Matrix):
    for i, j in x:
        y[j, i] = x[i, j]


@ti.kernel
def gemm(a: Matrix, b: Matrix, c: Matrix):
    for i, j in c:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@ti.kernel
def spmv(data: Vector, indices: Indices, indptr: Indices, x: Vector, y: Vector):
    for row in y:
        total = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            total += data[e] * x[indices[e]]
        y[row] = total


@ti.kernel
def histogram(x: Vector, counts: Indices, lo: ti.f32, hi: ti.f32):
    for b in counts:
        counts[b] = 0
    for i in x:
        if lo <= x[i] <= hi:
            place = ti.cast((x[i] - lo) / (hi - lo) * counts.shape[0], ti.i32)
            counts[ti.min(place, counts.shape[0] - 1)] += 1


KERNELS = {
    "copy": copy,
    "axpy": axpy,
    "stencil3d": stencil3d,
    "stencil2d": stencil2d,
    "sum": total,
    "dot": dot,
    "scan": scan,
    "transpose": transpose,
    "gemm": gemm,
    "spmv": spmv,
    "histogram": histogram,
}


def prepare(work: Work, arguments: Arguments) -> Call:
    if work.kind == "scan" and work.machine != "cpu":
        raise Absent("Taichi's own parallel scan takes i32 only, and a serial one takes minutes")
    kernel = form_of(KERNELS, work)
    if work.kind in ("sum", "dot"):
        return partial(_returned, kernel, arguments)
    values = [v for name, v in arguments.items() if name not in ("alpha", "beta")]
    return lambda: kernel(*values)


def _returned(kernel: Any, arguments: Arguments) -> None:
    inputs = [v for name, v in arguments.items() if name != "out"]
    arguments["out"] = np.array([kernel(*inputs)], np.float32)


def peer(machine: str) -> Peer:
    from peers.tikgen_kernels import PLACES

    return Peer("taichi", "hand-written Taichi", prepare, **PLACES[machine == "cpu"])
