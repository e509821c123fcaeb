"""Equations in PyTorch: a step through torch.compile, repeated as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Fields = Mapping[str, torch.Tensor]
Made = tuple[Callable[[int], object], Callable[[], Fields]]
WEIGHTS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


def recorded(step: Callable[[], object], fields: Sequence[torch.Tensor]) -> Callable[[int], object]:
    """Return what replays two steps, compiled and recorded as a CUDA graph, any number of times.

    The steps that compile and record leave their traces in ``fields``, which get their values back.
    """
    before = [field.clone() for field in fields]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(2):
            step()
    for field, value in zip(fields, before, strict=True):
        field.copy_(value)

    def run(steps: int) -> None:
        for _ in range(steps // 2):
            graph.replay()

    return run


def gray_scott(u: torch.Tensor, v: torch.Tensor, n: Mapping[str, float]) -> Made:
    """Return what does steps on a torus, and what returns ``u`` and ``v`` after them."""

    def lap(f: Any) -> Any:
        return f.roll(1, 0) + f.roll(-1, 0) + f.roll(1, 1) + f.roll(-1, 1) - 4 * f

    @torch.compile(fullgraph=True)
    def step(u: Any, v: Any, un: Any, vn: Any) -> None:
        rate = u * v**2
        un.copy_(u + n["dt"] * (n["Du"] * lap(u) - rate + n["F"] * (1 - u)))
        vn.copy_(v + n["dt"] * (n["Dv"] * lap(v) + rate - (n["F"] + n["k"]) * v))

    pairs = [(u, v), (torch.zeros_like(u), torch.zeros_like(v))]

    def both() -> None:
        step(*pairs[0], *pairs[1])
        pairs.reverse()

    return recorded(both, (u, v)), lambda: dict(zip("uv", pairs[0], strict=True))


def wave(p: torch.Tensor, q: torch.Tensor, c: torch.Tensor) -> Made:
    """Return what does steps of order 8 where all neighbours exist, and the fields after them."""
    size = p.shape

    def near(f: Any, axis: int, by: int) -> Any:
        return f[tuple(slice(4 + by * (a == axis), n - 4 + by * (a == axis)) for a, n in ends)]

    ends = list(enumerate(size))

    @torch.compile(fullgraph=True)
    def step(p: Any, q: Any, c: Any) -> None:
        inner = (slice(4, -4),) * 3
        lap = 3 * WEIGHTS[0] * p[inner]
        for axis in range(3):
            for by in range(1, 5):
                lap = lap + WEIGHTS[by] * (near(p, axis, by) + near(p, axis, -by))
        q[inner].copy_(2 * p[inner] - q[inner] + c[inner] * lap)

    pair = [p, q]

    def one() -> None:
        step(*pair, c)
        pair.reverse()

    return recorded(one, (p, q)), lambda: {"p": p, "q": q}


def maxwell(f: Fields, a: float) -> Made:
    """Return what does steps on Yee's grid, and the fields after them."""
    low, high = (slice(None, -1),) * 3, (slice(1, None),) * 3

    def moved(x: Any, axis: int, there: slice, others: slice) -> Any:
        return x[tuple(there if k == axis else others for k in range(3))]

    @torch.compile(fullgraph=True)
    def magnetic(ex: Any, ey: Any, ez: Any, hx: Any, hy: Any, hz: Any) -> None:
        d = [[moved(x, k, high[0], low[0]) - x[low] for k in range(3)] for x in (ex, ey, ez)]
        hx[low].sub_(a * (d[2][1] - d[1][2]))
        hy[low].sub_(a * (d[0][2] - d[2][0]))
        hz[low].sub_(a * (d[1][0] - d[0][1]))

    @torch.compile(fullgraph=True)
    def electric(ex: Any, ey: Any, ez: Any, hx: Any, hy: Any, hz: Any) -> None:
        d = [[x[high] - moved(x, k, low[0], high[0]) for k in range(3)] for x in (hx, hy, hz)]
        ex[high].add_(a * (d[2][1] - d[1][2]))
        ey[high].add_(a * (d[0][2] - d[2][0]))
        ez[high].add_(a * (d[1][0] - d[0][1]))

    names = ("ex", "ey", "ez", "hx", "hy", "hz")
    fields = [f[name] for name in names]

    def step() -> None:
        magnetic(*fields)
        electric(*fields)

    return recorded(step, fields), lambda: f


def shallow_water(f: Fields, dt: float) -> Made:
    """Return what does steps on a torus, and what returns depth and speeds after them."""

    def at(x: Any, i: int, j: int) -> Any:
        return x.roll((-i, -j), (0, 1))

    def along(x: Any, speed: Any, axis: int) -> Any:
        behind, before = (at(x, by * (axis == 0), by * (axis == 1)) for by in (-1, 1))
        return torch.where(speed > 0, x - behind, before - x)

    @torch.compile(fullgraph=True)
    def depth(h: Any, u: Any, v: Any, hn: Any) -> None:
        fx = u * torch.where(u > 0, at(h, -1, 0), h)
        fy = v * torch.where(v > 0, at(h, 0, -1), h)
        hn.copy_(torch.clamp(h - dt * (at(fx, 1, 0) - fx + at(fy, 0, 1) - fy), min=0))

    @torch.compile(fullgraph=True)
    def speed(h: Any, b: Any, u: Any, v: Any, un: Any, vn: Any) -> None:
        s = h + b
        w = (v + at(v, -1, 0) + at(v, 0, 1) + at(v, -1, 1)) / 4
        z = (u + at(u, 0, -1) + at(u, 1, 0) + at(u, 1, -1)) / 4
        fu = s - at(s, -1, 0) + u * along(u, u, 0) + w * along(u, w, 1)
        fv = s - at(s, 0, -1) + z * along(v, z, 0) + v * along(v, v, 1)
        un.copy_(torch.where(torch.maximum(h, at(h, -1, 0)) > 0.001, u - dt * fu, 0.0))
        vn.copy_(torch.where(torch.maximum(h, at(h, 0, -1)) > 0.001, v - dt * fv, 0.0))

    sets = [[f[name] for name in "huv"], [torch.zeros_like(f[name]) for name in "huv"]]

    def both() -> None:
        (h, u, v), (hn, un, vn) = sets
        depth(h, u, v, hn)
        speed(hn, f["b"], u, v, un, vn)
        sets.reverse()

    return recorded(both, sets[0]), lambda: dict(zip("huv", sets[0], strict=True))


def poisson(r: torch.Tensor, x: torch.Tensor) -> Made:
    """Return what does steps of conjugate gradients between walls at 0, and ``x`` after them."""
    p, q = r.clone(), torch.zeros_like(r)
    rr = (r * r).sum()

    @torch.compile(fullgraph=True)
    def step(x: Any, r: Any, p: Any, q: Any, rr: Any) -> None:
        padded = torch.nn.functional.pad(p, (1,) * 6)
        inner = slice(1, -1)
        q.copy_(
            6 * p
            - padded[2:, inner, inner]
            - padded[:-2, inner, inner]
            - padded[inner, 2:, inner]
            - padded[inner, :-2, inner]
            - padded[inner, inner, 2:]
            - padded[inner, inner, :-2]
        )
        alpha = rr / (p * q).sum()
        x.add_(alpha * p)
        r.sub_(alpha * q)
        after = (r * r).sum()
        p.copy_(r + after / rr * p)
        rr.copy_(after)

    run = recorded(lambda: step(x, r, p, q, rr), (x, r, p, rr))
    return run, lambda: {"x": x}
