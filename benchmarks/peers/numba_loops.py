"""Numba: plain loops, parallel, with fastmath."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange

from peers.peer import Call, Peer, form_of
from works.work import Arguments, Work

compiled = njit(parallel=True, fastmath=True)


@compiled
def copy(x, y):  # type: ignore[no-untyped-def]
    for i in prange(x.size):
        y[i] = x[i]


@compiled
def axpy(a, x, y, z):  # type: ignore[no-untyped-def]
    for i in prange(x.size):
        z[i] = a * x[i] + y[i]


@compiled
def stencil3d(x, y):  # type: ignore[no-untyped-def]
    six = np.float32(6)
    for i in prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for k in range(1, x.shape[2] - 1):
                y[i, j, k] = (
                    x[i - 1, j, k]
                    + x[i + 1, j, k]
                    + x[i, j - 1, k]
                    + x[i, j + 1, k]
                    + x[i, j, k - 1]
                    + x[i, j, k + 1]
                    - six * x[i, j, k]
                )


@compiled
def stencil2d(x, y):  # type: ignore[no-untyped-def]
    near, far, centre = np.float32(4 / 3), np.float32(1 / 12), np.float32(5)
    # Indices from 0 up: Numba does not vectorise where one might be negative (6 times slower).
    for i in prange(x.shape[0] - 4):
        for j in range(x.shape[1] - 4):
            y[i + 2, j + 2] = (
                near * (x[i + 1, j + 2] + x[i + 3, j + 2] + x[i + 2, j + 1] + x[i + 2, j + 3])
                - far * (x[i, j + 2] + x[i + 4, j + 2] + x[i + 2, j] + x[i + 2, j + 4])
                - centre * x[i + 2, j + 2]
            )


@compiled
def total(x, out):  # type: ignore[no-untyped-def]
    found = np.float32(0)
    for i in prange(x.size):
        found += x[i]
    out[0] = found


@compiled
def dot(x, y, out):  # type: ignore[no-untyped-def]
    found = np.float32(0)
    for i in prange(x.size):
        found += x[i] * y[i]
    out[0] = found


@compiled
def scan(x, out, parts):  # type: ignore[no-untyped-def]
    length = (x.size + parts - 1) // parts
    totals = np.zeros(parts + 1, np.float32)
    for part in prange(parts):
        found = np.float32(0)
        for i in range(part * length, min((part + 1) * length, x.size)):
            found += x[i]
        totals[part + 1] = found
    for part in range(parts):
        totals[part + 1] += totals[part]
    for part in prange(parts):
        running = totals[part]
        for i in range(part * length, min((part + 1) * length, x.size)):
            running += x[i]
            out[i] = running


@compiled
def transpose(x, y):  # type: ignore[no-untyped-def]
    side = 32
    for block in prange((y.shape[0] + side - 1) // side):
        for column in range(0, y.shape[1], side):
            for i in range(block * side, min((block + 1) * side, y.shape[0])):
                for j in range(column, min(column + side, y.shape[1])):
                    y[i, j] = x[j, i]


@compiled
def gemm(a, b, c):  # type: ignore[no-untyped-def]
    for i in prange(c.shape[0]):
        c[i, :] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@njit(parallel=True)  # With fastmath it gathers vectors, and takes 1.6 times as long.
def spmv(data, indices, indptr, x, y):  # type: ignore[no-untyped-def]
    for row in prange(y.size):
        found = np.float32(0)
        for e in range(indptr[row], indptr[row + 1]):
            found += data[e] * x[indices[e]]
        y[row] = found


@compiled
def histogram(x, counts, lo, hi, parts):  # type: ignore[no-untyped-def]
    bins = counts.size
    length = (x.size + parts - 1) // parts
    scale = np.float32(bins / (hi - lo))
    partial = np.zeros((parts, bins), np.int32)
    for part in prange(parts):
        for i in range(part * length, min((part + 1) * length, x.size)):
            if lo <= x[i] <= hi:
                partial[part, min(np.int32((x[i] - lo) * scale), bins - 1)] += 1
    counts[:] = 0
    for part in range(parts):
        counts += partial[part]


def _parts(a: Arguments) -> list[Any]:
    return [*a.values(), get_num_threads()]


def _all(a: Arguments) -> list[Any]:
    return [v for name, v in a.items() if name not in ("alpha", "beta")]


def _axpy(a: Arguments) -> list[Any]:
    return [np.float32(a["a"]), a["x"], a["y"], a["z"]]


def _histogram(a: Arguments) -> list[Any]:
    return [a["x"], a["counts"], np.float32(a["lo"]), np.float32(a["hi"]), get_num_threads()]


FORMS = {
    "copy": (copy, _all),
    "axpy": (axpy, _axpy),
    "stencil3d": (stencil3d, _all),
    "stencil2d": (stencil2d, _all),
    "sum": (total, _all),
    "dot": (dot, _all),
    "scan": (scan, _parts),
    "transpose": (transpose, _all),
    "gemm": (gemm, _all),
    "spmv": (spmv, _all),
    "histogram": (histogram, _histogram),
}


def prepare(work: Work, arguments: Arguments) -> Call:
    loop, values_of = form_of(FORMS, work)
    values = values_of(arguments)
    return lambda: loop(*values)


def peer(machine: str) -> Peer:
    return Peer("numba", "Numba", prepare)
