"""Gray-Scott in pystencils, which generates vectorised C++ with OpenMP."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pystencils as ps

Array = np.ndarray[Any, Any]


def gray_scott(
    u: Array, v: Array, n: Mapping[str, float]
) -> tuple[Callable[[int], object], Callable[[], Any]]:
    """Return what does steps on a torus, and what returns ``u`` and ``v`` after them.

    As its documentation does, ghost layers are copied before each step.
    """
    fields = ps.fields("u, v, un, vn: float32[2D]")
    kernel = _compiled(*fields, n)
    arrays = [np.pad(x, 1) for x in (u, v, np.zeros_like(u), np.zeros_like(v))]

    def run(steps: int) -> None:
        for _ in range(steps):
            for x in arrays[:2]:
                x[0], x[-1] = x[-2], x[1]
                x[:, 0], x[:, -1] = x[:, -2], x[:, 1]
            kernel(u=arrays[0], v=arrays[1], un=arrays[2], vn=arrays[3])
            arrays[:] = arrays[2:] + arrays[:2]

    def read() -> dict[str, Array]:
        return {name: x[1:-1, 1:-1].copy() for name, x in zip("uv", arrays, strict=False)}

    return run, read


def _compiled(u: Any, v: Any, un: Any, vn: Any, n: Mapping[str, float]) -> Any:
    def lap(f: Any) -> Any:
        return f[1, 0] + f[-1, 0] + f[0, 1] + f[0, -1] - 4 * f[0, 0]

    a, b = u[0, 0], v[0, 0]
    rate = a * b**2
    next_u = a + n["dt"] * (n["Du"] * lap(u) - rate + n["F"] * (1 - a))
    next_v = b + n["dt"] * (n["Dv"] * lap(v) + rate - (n["F"] + n["k"]) * b)
    config = ps.CreateKernelConfig(
        default_dtype="float32", ghost_layers=1, target=ps.Target.CurrentCPU
    )
    config.cpu.openmp.enable = True
    config.cpu.openmp.num_threads = len(os.sched_getaffinity(0))
    config.cpu.vectorize.enable = config.cpu.vectorize.assume_inner_stride_one = True
    equations = [ps.Assignment(un[0, 0], next_u), ps.Assignment(vn[0, 0], next_v)]
    return ps.create_kernel(equations, config).compile()
