"""The demonstration of equations: a pattern of two chemicals, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import taichi as ti

from tikgen.demo.stepwise import Report, Stage, build_in_stages, drawn, start_taichi, timed
from tikgen.program.parts import swap
from tikgen.program.program import Program
from tikgen.program.reference import Verified

_EQUATIONS = """r = u*v**2
u' = u + dt*(Du*lap(u) - r + F*(1 - u))
v' = v + dt*(Dv*lap(v) + r - (F + k)*v)"""
_CONSTANTS = {"dt": 1.0, "Du": 0.16, "Dv": 0.08, "F": 0.0545, "k": 0.062}
_PICTURES = 4


def run_gray_scott(
    arch: str, n: int, steps: int, picture: Path, report: Report, say: Callable[[str], None]
) -> Verified:
    """Compute the pattern on ``n`` points along each axis, compare the first steps and draw.

    ``report`` is called after each stage, ``say`` with each further line. UnsupportedOnArch is
    raised if ``arch`` does not work here.
    """
    say(f"Gray-Scott equations on a torus: {n}^2 points, {steps} steps, f32, {arch}")
    start_taichi(arch, "the demo")
    kernel = build_in_stages(
        "update", report, arch=arch, equations=_EQUATIONS, dim=2, boundary="periodic",
        constants=_CONSTANTS,
    )  # fmt: skip
    u, v, u_next, v_next = (ti.ndarray(ti.f32, (n, n)) for _ in range(4))
    for array, values in zip((u, v), _start(n), strict=True):
        array.from_numpy(values)
    bound = kernel.bind(u=u, v=v, u_next=u_next, v_next=v_next)
    program = Program([bound, swap((u, u_next), (v, v_next))])
    found = timed("verify", report, program.verify, _in_words)
    shown: list[npt.NDArray[Any]] = []
    every = max(steps // _PICTURES, 1)
    ran = program.run(steps, every=every, call=lambda run: shown.append(run["v"].to_numpy()))
    how = "in native code" if program.is_native else "launched from Python"
    report(Stage("run", ran.seconds, f"{steps / ran.seconds:,.0f} steps/s, {how}"))
    say(f"The pattern covers {(shown[-1] > 0.1).mean():.0%} of the torus.")
    say(drawn(picture, lambda: _draw(picture, shown)))
    return found


def _start(n: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return u and v with some spots in the middle."""
    u, v = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    for i, j in np.random.default_rng(1).integers(n // 3, n // 2 + 1, (5, 2)):
        u[i : i + 10, j : j + 10], v[i : i + 10, j : j + 10] = 0.5, 0.25
    return u, v


def _in_words(found: Verified) -> str:
    """Return the outcome of a comparison."""
    return found.message or (
        f"{found.launches} steps agree with NumPy, {found.worst:.0%} of what the tolerance allows"
    )


def _draw(picture: Path, shown: list[npt.NDArray[Any]]) -> None:
    """Write the pictures side by side."""
    from matplotlib.image import imsave

    imsave(picture, np.hstack(shown), cmap="magma")
