"""NumPy and SciPy, called as one would."""

from __future__ import annotations

import numpy as np

from peers.peer import Absent, Call, Peer, form_of
from works.work import Arguments, Work


def copy(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    return lambda: np.copyto(y, x)


def axpy(a: Arguments) -> Call:
    factor, x, y, z = np.float32(a["a"]), a["x"], a["y"], a["z"]

    def call() -> None:
        np.multiply(x, factor, out=z)
        np.add(z, y, out=z)

    return call


def stencil3d(a: Arguments) -> Call:
    x, y = a["x"], a["y"][1:-1, 1:-1, 1:-1]

    def call() -> None:
        np.multiply(x[1:-1, 1:-1, 1:-1], np.float32(-6), out=y)
        np.add(y, x[:-2, 1:-1, 1:-1], out=y)
        np.add(y, x[2:, 1:-1, 1:-1], out=y)
        np.add(y, x[1:-1, :-2, 1:-1], out=y)
        np.add(y, x[1:-1, 2:, 1:-1], out=y)
        np.add(y, x[1:-1, 1:-1, :-2], out=y)
        np.add(y, x[1:-1, 1:-1, 2:], out=y)

    return call


def stencil2d(a: Arguments) -> Call:
    x, y = a["x"], a["y"][2:-2, 2:-2]

    def call() -> None:
        near = x[1:-3, 2:-2] + x[3:-1, 2:-2] + x[2:-2, 1:-3] + x[2:-2, 3:-1]
        far = x[:-4, 2:-2] + x[4:, 2:-2] + x[2:-2, :-4] + x[2:-2, 4:]
        np.multiply(x[2:-2, 2:-2], np.float32(-5), out=y)
        np.add(y, np.float32(4 / 3) * near, out=y)
        np.subtract(y, np.float32(1 / 12) * far, out=y)

    return call


def total(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    return lambda: np.sum(x, keepdims=True, out=out)


def dot(a: Arguments) -> Call:
    x, y, out = a["x"], a["y"], a["out"]
    return lambda: np.copyto(out, np.dot(x, y))


def scan(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    return lambda: np.cumsum(x, out=out)


def transpose(a: Arguments) -> Call:
    x = a["x"]

    def call() -> None:
        a["y"] = np.ascontiguousarray(x.T)

    return call


def gemm(a: Arguments) -> Call:
    left, right, c = a["a"], a["b"], a["c"]
    return lambda: np.matmul(left, right, out=c)


def spmv(a: Arguments) -> Call:
    try:
        from scipy.sparse import csr_array
    except ImportError:
        raise Absent("SciPy is not installed") from None
    x, rows = a["x"], a["y"].size
    matrix = csr_array((a["data"], a["indices"], a["indptr"]), shape=(rows, x.size))

    def call() -> None:
        a["y"] = matrix @ x

    return call


def histogram(a: Arguments) -> Call:
    x, bins, span = a["x"], a["counts"].size, (a["lo"], a["hi"])

    def call() -> None:
        a["counts"] = np.histogram(x, bins, span)[0]

    return call


FORMS = {
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
    return form_of(FORMS, work)(arguments)


def peer(machine: str) -> Peer:
    return Peer("numpy", "NumPy, SciPy", prepare)
