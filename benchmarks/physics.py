"""The simulations that benchmarks run on every arch: equations, programs, and grids of a GPU."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import tikgen

GRAY_SCOTT = """
    r  = u*v**2
    u' = u + dt*(Du*lap(u) - r + F*(1 - u))
    v' = v + dt*(Dv*lap(v) + r - (F + k)*v)
"""
NUMBERS = {"dt": 1.0, "Du": 0.16, "Dv": 0.08, "F": 0.06, "k": 0.062}
# Yee's grid, in place: each half step reads neighbours of the other field only.
MAGNETIC = """
    hx = hx - a*((ez[0, 1, 0] - ez) - (ey[0, 0, 1] - ey))
    hy = hy - a*((ex[0, 0, 1] - ex) - (ez[1, 0, 0] - ez))
    hz = hz - a*((ey[1, 0, 0] - ey) - (ex[0, 1, 0] - ex))
"""
ELECTRIC = """
    ex = ex + a*((hz - hz[0, -1, 0]) - (hy - hy[0, 0, -1]))
    ey = ey + a*((hx - hx[0, 0, -1]) - (hz - hz[-1, 0, 0]))
    ez = ez + a*((hy - hy[-1, 0, 0]) - (hx - hx[0, -1, 0]))
"""
YEE = ("ex", "ey", "ez", "hx", "hy", "hz")
# Shallow water over a bottom `b`, on Arakawa's C grid: element i of `u` lies before cell i. What
# flows has the depth of the cell from which it comes, and cells may become wet or dry.
DEPTH = """
    fx = u*where(u > 0, h[-1, 0], h)
    fy = v*where(v > 0, h[0, -1], h)
    h' = max(h - dt*(fx[1, 0] - fx + fy[0, 1] - fy), 0)
"""
SPEED = """
    s  = h + b
    w  = (v + v[-1, 0] + v[0, 1] + v[-1, 1])/4
    z  = (u + u[0, -1] + u[1, 0] + u[1, -1])/4
    fu = s - s[-1, 0] + u*dx(u, along=u) + w*dy(u, along=w)
    fv = s - s[0, -1] + z*dx(v, along=z) + v*dy(v, along=v)
    u' = where(max(h, h[-1, 0]) > 0.001, u - dt*fu, 0)
    v' = where(max(h, h[0, -1]) > 0.001, v - dt*fv, 0)
"""

# By dimension: simulations, and the least and the greatest extent of their grids on a GPU.
GPU_GRIDS = {
    2: (("Gray-Scott", "shallow water"), ((150, 400), (900, 1200), (7000, 8500))),
    3: (("wave, order 8", "Maxwell", "conjugate gradients"), ((60, 130), (350, 520))),
}


def gpu_grids(seed: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names of simulations, and grids that are drawn."""
    draw = random.Random(seed)
    for dim, (names, ranges) in GPU_GRIDS.items():
        for (low, high), name in itertools.product(ranges, names):
            yield name, tuple(draw.randint(low, high) for _ in range(dim))


def gray_scott(
    fields: Mapping[str, Any], after: Mapping[str, Any], engine: str | None = None
) -> tikgen.Program:
    """Return steps of two reacting fields on a torus.

    Args:
        fields: ``u`` and ``v``.
        after: arrays for both after a step.
        engine: what launches kernels, by default as usual.
    """
    names = " ".join(NUMBERS)
    kernel = _by(engine, tikgen.update(GRAY_SCOTT, dim=2, boundary="periodic", scalars=names))
    now = {name: fields[name] for name in "uv"}
    step = kernel.bind(**now, **{f"{name}_next": after[name] for name in "uv"}, **NUMBERS)
    return tikgen.Program([step, tikgen.swap(*((now[name], after[name]) for name in "uv"))])


def wave(p: Any, q: Any, c: Any, engine: str | None = None) -> tikgen.Program:
    """Return steps of the wave equation of order 8.

    Args:
        p: the field.
        q: the field a step earlier.
        c: for each point the square of the speed, times that of the length of a step.
        engine: what launches kernels, by default as usual.
    """
    kernel = _by(engine, tikgen.update("q = 2*p - q + c*lap(p)", dim=3, order=8))
    return tikgen.Program([kernel.bind(p=p, q=q, c=c), tikgen.swap((p, q))])


def maxwell(fields: Mapping[str, Any], engine: str | None = None) -> tikgen.Program:
    """Return steps of Maxwell's equations on Yee's grid.

    Args:
        fields: the six fields ``YEE``.
        engine: what launches kernels, by default as usual.
    """
    kernels = [_by(engine, tikgen.update(t, dim=3, scalars="a")) for t in (MAGNETIC, ELECTRIC)]
    yee = {name: fields[name] for name in YEE}
    return tikgen.Program([kernel.bind(**yee, a=0.4) for kernel in kernels])


def shallow_water(
    fields: Mapping[str, Any], after: Mapping[str, Any], dt: float, engine: str | None = None
) -> tikgen.Program:
    """Return steps of shallow water on a torus.

    Args:
        fields: the depth ``h``, the speeds ``u`` and ``v``, and the bottom ``b``.
        after: arrays for the depth and the speeds after a step.
        dt: the length of a step.
        engine: what launches kernels, by default as usual.
    """
    grid: dict[str, Any] = {"dim": 2, "boundary": "periodic", "scalars": "dt"}
    depth, speed = (_by(engine, tikgen.update(text, **grid)) for text in (DEPTH, SPEED))
    flow = {"u": fields["u"], "v": fields["v"], "dt": dt}
    next_flow = {f"{name}_next": after[name] for name in "uv"}
    parts = [
        depth.bind(h=fields["h"], h_next=after["h"], **flow),
        speed.bind(h=after["h"], b=fields["b"], **flow, **next_flow),
        tikgen.swap(*((fields[name], after[name]) for name in "huv")),
    ]
    return tikgen.Program(parts)


def conjugate_gradients(
    x: Any, r: Any, p: Any, q: Any, numbers: Mapping[str, Any], engine: str | None = None
) -> tikgen.Program:
    """Return conjugate gradients for Poisson's equation between walls.

    Args:
        x: the solution, 0 at first.
        r: the right-hand side, and what is left of it.
        p: the direction, ``r`` at first.
        q: the operator applied to it.
        numbers: arrays of one element: ``rr``, the square of ``r``, and ``rr_next``, ``pq``, ``a``
            and ``b``.
        engine: what launches kernels, by default as usual.
    """
    grid: dict[str, Any] = {"dim": 3, "boundary": "zero"}
    text = "x = x + a*p; r = r - a*q; rr_next = sum(r*r)"
    kernels = (
        tikgen.update("q = -lap(p); pq = sum(p*q)", outputs="q", **grid),
        tikgen.update(text, scalars="a", on_device="a", **grid),
        tikgen.update("p = r + b*p", scalars="b", on_device="b", **grid),
    )
    matrix, go, turn = (_by(engine, kernel) for kernel in kernels)
    parts = [
        matrix.bind(p=p, q=q, pq=numbers["pq"]),
        "a = rr / pq",
        go.bind(x=x, r=r, p=p, q=q, a=numbers["a"], rr_next=numbers["rr_next"]),
        "b = rr_next / rr; rr = rr_next",
        turn.bind(p=p, r=r, b=numbers["b"]),
    ]
    return tikgen.Program(parts, **numbers)


def _by(engine: str | None, kernel: Any) -> Any:
    return kernel.with_engine(engine) if engine else kernel
