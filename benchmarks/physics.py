"""The equations that benchmarks solve on every arch."""

from __future__ import annotations

from collections.abc import Mapping
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
    kernels = tikgen.update(DEPTH, **grid), tikgen.update(SPEED, **grid)
    depth, speed = (k.with_engine(engine) if engine else k for k in kernels)
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
    matrix, go, turn = (k.with_engine(engine) if engine else k for k in kernels)
    parts = [
        matrix.bind(p=p, q=q, pq=numbers["pq"]),
        "a = rr / pq",
        go.bind(x=x, r=r, p=p, q=q, a=numbers["a"], rr_next=numbers["rr_next"]),
        "b = rr_next / rr; rr = rr_next",
        turn.bind(p=p, r=r, b=numbers["b"]),
    ]
    return tikgen.Program(parts, **numbers)
