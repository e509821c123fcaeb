"""C with OpenMP, compiled by gcc for this machine when it is first needed."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.peer import Absent, Call, Peer, form_of
from works.work import Arguments, Work

FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL:
    """Compile c_openmp.c into a temporary folder and load it."""
    if shutil.which("gcc") is None:
        raise Absent("gcc is not installed")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "c_openmp.so"
        source = Path(__file__).with_suffix(".c")
        done = subprocess.run(
            ["gcc", *FLAGS, str(source), "-o", str(target)], capture_output=True, text=True
        )
        if done.returncode:
            raise Absent(f"gcc refuses it: {done.stderr.splitlines()[0]}")
        return ctypes.CDLL(str(target))


def _extents_of(*names: str) -> Callable[[Arguments], list[Any]]:
    """Return what lists the extents of the first array, and then the arrays."""
    return lambda a: [*a[names[0]].shape, *(a[name] for name in names)]


def _axpy(a: Arguments) -> list[Any]:
    return [a["x"].size, np.float32(a["a"]), a["x"], a["y"], a["z"]]


def _gemm(a: Arguments) -> list[Any]:
    return [*a["c"].shape, a["a"].shape[1], a["a"], a["b"], a["c"]]


def _spmv(a: Arguments) -> list[Any]:
    return [a["y"].size, a["data"], a["indices"], a["indptr"], a["x"], a["y"]]


def _histogram(a: Arguments) -> list[Any]:
    span = np.float32(a["lo"]), np.float32(a["hi"])
    return [a["x"].size, a["counts"].size, *span, a["x"], a["counts"]]


FORMS = {
    "copy": _extents_of("x", "y"),
    "axpy": _axpy,
    "stencil3d": _extents_of("x", "y"),
    "stencil2d": _extents_of("x", "y"),
    "sum": _extents_of("x", "out"),
    "dot": _extents_of("x", "y", "out"),
    "scan": _extents_of("x", "out"),
    "transpose": _extents_of("x", "y"),
    "gemm": _gemm,
    "spmv": _spmv,
    "histogram": _histogram,
}


def _native(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, np.float32) else ctypes.c_long(value)


def prepare(work: Work, arguments: Arguments) -> Call:
    values = form_of(FORMS, work)(arguments)
    function = getattr(library(), work.kind)
    function.restype = None
    native = [_native(v) for v in values]
    return lambda arrays=arguments: function(*native)  # The call keeps the arrays alive.


def fma_of(steps: int) -> tuple[Call, float]:
    """Return a call that multiplies and adds in registers, and how many operations it does."""
    threads = len(os.sched_getaffinity(0))
    out = np.zeros(threads, np.float32)
    function, pointer = library().fma_limit, ctypes.c_void_p(out.ctypes.data)
    function.restype = None
    call = lambda keep=out: function(ctypes.c_long(steps), threads, pointer)  # noqa: E731
    return call, 2.0 * 128 * steps * threads


def peer(machine: str) -> Peer:
    library()
    return Peer("c", "C, OpenMP", prepare)
