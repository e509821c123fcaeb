"""Equations as fused loops in Numba: what a person would write for speed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

fast = numba.njit(parallel=True, fastmath=True, nogil=True)
inline = numba.njit(fastmath=True, inline="always")


@inline
def _gray_scott(u, v, un, vn, i, im, ip, j, jm, jp, dt, du, dv, f, k):  # type: ignore[no-untyped-def]
    r = u[i, j] * v[i, j] ** 2
    lu = u[im, j] + u[ip, j] + u[i, jm] + u[i, jp] - np.float32(4) * u[i, j]
    lv = v[im, j] + v[ip, j] + v[i, jm] + v[i, jp] - np.float32(4) * v[i, j]
    un[i, j] = u[i, j] + dt * (du * lu - r + f * (np.float32(1) - u[i, j]))
    vn[i, j] = v[i, j] + dt * (dv * lv + r - (f + k) * v[i, j])


@fast
def gray_scott(u: Any, v: Any, un: Any, vn: Any, dt: Any, du: Any, dv: Any, f: Any, k: Any) -> None:
    """Do a step on a torus; the edges stand apart, so that the inner loop is vectorised."""
    n, m = u.shape
    for i in numba.prange(n):
        im, ip = (i - 1) % n, (i + 1) % n
        _gray_scott(u, v, un, vn, i, im, ip, 0, m - 1, 1 % m, dt, du, dv, f, k)
        for j in range(1, m - 1):
            _gray_scott(u, v, un, vn, i, im, ip, j, j - 1, j + 1, dt, du, dv, f, k)
        if m > 1:
            _gray_scott(u, v, un, vn, i, im, ip, m - 1, m - 2, 0, dt, du, dv, f, k)


@fast
def wave(p: Any, q: Any, c: Any, w: Any) -> None:
    """Do a leapfrog step of the wave equation, order 8, in place in the older field ``q``."""
    n0, n1, n2 = p.shape
    for i in numba.prange(4, n0 - 4):
        for j in range(4, n1 - 4):
            for k in range(4, n2 - 4):
                total = np.float32(3) * w[0] * p[i, j, k]
                for s in range(1, 5):
                    total += w[s] * (
                        p[i - s, j, k]
                        + p[i + s, j, k]
                        + p[i, j - s, k]
                        + p[i, j + s, k]
                        + p[i, j, k - s]
                        + p[i, j, k + s]
                    )
                q[i, j, k] = np.float32(2) * p[i, j, k] - q[i, j, k] + c[i, j, k] * total


@fast
def magnetic(ex: Any, ey: Any, ez: Any, hx: Any, hy: Any, hz: Any, a: Any) -> None:
    """Update H from the curl of E on Yee's grid, away from the upper walls."""
    n0, n1, n2 = ex.shape
    for i in numba.prange(n0 - 1):
        for j in range(n1 - 1):
            for k in range(n2 - 1):
                hx[i, j, k] -= a * (
                    (ez[i, j + 1, k] - ez[i, j, k]) - (ey[i, j, k + 1] - ey[i, j, k])
                )
                hy[i, j, k] -= a * (
                    (ex[i, j, k + 1] - ex[i, j, k]) - (ez[i + 1, j, k] - ez[i, j, k])
                )
                hz[i, j, k] -= a * (
                    (ey[i + 1, j, k] - ey[i, j, k]) - (ex[i, j + 1, k] - ex[i, j, k])
                )


@fast
def electric(ex: Any, ey: Any, ez: Any, hx: Any, hy: Any, hz: Any, a: Any) -> None:
    """Update E from the curl of H on Yee's grid, away from the lower walls."""
    n0, n1, n2 = ex.shape
    for i in numba.prange(1, n0):
        for j in range(1, n1):
            for k in range(1, n2):
                ex[i, j, k] += a * (
                    (hz[i, j, k] - hz[i, j - 1, k]) - (hy[i, j, k] - hy[i, j, k - 1])
                )
                ey[i, j, k] += a * (
                    (hx[i, j, k] - hx[i, j, k - 1]) - (hz[i, j, k] - hz[i - 1, j, k])
                )
                ez[i, j, k] += a * (
                    (hy[i, j, k] - hy[i - 1, j, k]) - (hx[i, j, k] - hx[i, j - 1, k])
                )


@inline
def _depth(h, u, v, hn, i, im, ip, j, jm, jp, dt):  # type: ignore[no-untyped-def]
    west = u[i, j] * (h[im, j] if u[i, j] > 0 else h[i, j])
    east = u[ip, j] * (h[i, j] if u[ip, j] > 0 else h[ip, j])
    south = v[i, j] * (h[i, jm] if v[i, j] > 0 else h[i, j])
    north = v[i, jp] * (h[i, j] if v[i, jp] > 0 else h[i, jp])
    hn[i, j] = max(h[i, j] - dt * (east - west + north - south), np.float32(0))


@fast
def depth(h: Any, u: Any, v: Any, hn: Any, dt: Any) -> None:
    """Have water flow into the next cells, on a torus."""
    n, m = h.shape
    for i in numba.prange(n):
        im, ip = (i - 1) % n, (i + 1) % n
        _depth(h, u, v, hn, i, im, ip, 0, m - 1, 1 % m, dt)
        for j in range(1, m - 1):
            _depth(h, u, v, hn, i, im, ip, j, j - 1, j + 1, dt)
        if m > 1:
            _depth(h, u, v, hn, i, im, ip, m - 1, m - 2, 0, dt)


@inline
def _speed(h, b, u, v, un, vn, i, im, ip, j, jm, jp, dt):  # type: ignore[no-untyped-def]
    s, quarter = h[i, j] + b[i, j], np.float32(0.25)
    w = (v[i, j] + v[im, j] + v[i, jp] + v[im, jp]) * quarter
    z = (u[i, j] + u[i, jm] + u[ip, j] + u[ip, jm]) * quarter
    ux = u[i, j] - u[im, j] if u[i, j] > 0 else u[ip, j] - u[i, j]
    uy = u[i, j] - u[i, jm] if w > 0 else u[i, jp] - u[i, j]
    vx = v[i, j] - v[im, j] if z > 0 else v[ip, j] - v[i, j]
    vy = v[i, j] - v[i, jm] if v[i, j] > 0 else v[i, jp] - v[i, j]
    fu = s - (h[im, j] + b[im, j]) + u[i, j] * ux + w * uy
    fv = s - (h[i, jm] + b[i, jm]) + z * vx + v[i, j] * vy
    least, dry = np.float32(0.001), np.float32(0)
    un[i, j] = u[i, j] - dt * fu if max(h[i, j], h[im, j]) > least else dry
    vn[i, j] = v[i, j] - dt * fv if max(h[i, j], h[i, jm]) > least else dry


@fast
def speed(h: Any, b: Any, u: Any, v: Any, un: Any, vn: Any, dt: Any) -> None:
    """Have slopes of the surface and the flow itself change the flow, on a torus."""
    n, m = h.shape
    for i in numba.prange(n):
        im, ip = (i - 1) % n, (i + 1) % n
        _speed(h, b, u, v, un, vn, i, im, ip, 0, m - 1, 1 % m, dt)
        for j in range(1, m - 1):
            _speed(h, b, u, v, un, vn, i, im, ip, j, j - 1, j + 1, dt)
        if m > 1:
            _speed(h, b, u, v, un, vn, i, im, ip, m - 1, m - 2, 0, dt)
