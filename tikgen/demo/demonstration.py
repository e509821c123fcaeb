"""The demonstration: the 3D heat equation, compared with the exact solution and NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti

from tikgen.demo.demo_result import DemoResult as DemoResult
from tikgen.demo.demo_result import History
from tikgen.demo.heat import RATIO, ExactHeat, Field, NumpyHeat, initial_field
from tikgen.demo.stepwise import Report, Stage, build_in_stages, drawn, start_taichi, timed
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.kernel import Kernel

_FRAMES = 12


def run_demo(
    arch: str,
    n: int,
    steps: int,
    picture: Path,
    report: Report,
    say: Callable[[str], None],
) -> DemoResult:
    """Solve the heat equation on ``n`` points along each axis, compare and draw.

    ``report`` is called after each stage, ``say`` with each further line. UnsupportedOnArch is
    raised if ``arch`` does not work here.
    """
    say(f"Heat equation in a cube with cold walls: {n}^3 points, {steps} steps, f32, {arch}")
    start_taichi(arch, "the demo")
    kernel = build_in_stages(
        "stencil", report, arch=arch, dim=3, dtype="f32", boundary="interior", update=True
    )
    start = initial_field(n)
    # The cold walls are the halo, which the kernel reads and never writes.
    u, v = (ti.ndarray(ti.f32, (n + 2, n + 2, n + 2)) for _ in range(2))
    u.from_numpy(np.pad(start.astype(np.float32), 1))
    forward, back = timed(
        "compile",
        report,
        lambda: _first_launch(kernel, u, v),
        lambda _: f"by Taichi for {arch}, at the first launch",
    )
    seconds, history = _run(forward, back, u, v, steps)
    final = (v if steps % 2 else u).to_numpy()[1:-1, 1:-1, 1:-1]
    sizes = dict.fromkeys(("n0", "n1", "n2"), n + 2)
    moved = kernel.template.cost(kernel.problem, sizes).bytes * steps / 1e9
    report(Stage("run", seconds, f"{steps / seconds:,.0f} steps/s, {moved / seconds:.1f} GB/s"))
    numpy_final, numpy_seconds = _run_numpy(start.astype(np.float32), steps)
    report(Stage("numpy", numpy_seconds, f"{steps / numpy_seconds:,.0f} steps/s, same steps"))
    exact = ExactHeat(start)
    result = DemoResult(
        n=n,
        steps=steps,
        seconds=seconds,
        gigabytes_per_second=moved / seconds,
        numpy_seconds=numpy_seconds,
        error_to_discrete=_difference(final, exact.discrete(steps)),
        error_to_continuous=_difference(final, exact.continuous(steps)),
        error_to_numpy=_difference(final, numpy_final),
    )
    _say_result(result, say)
    say(drawn(picture, lambda: _draw(picture, exact, history, result)))
    return result


def _first_launch(kernel: Kernel, u: Any, v: Any) -> tuple[BoundKernel, BoundKernel]:
    """Return compiled steps from u to v and from v to u; u is unchanged."""
    forward, back = kernel.bind(u, v, RATIO), kernel.bind(v, u, RATIO)
    forward()
    ti.sync()
    return forward, back


def _run(
    forward: BoundKernel, back: BoundKernel, u: Any, v: Any, steps: int
) -> tuple[float, History]:
    """Return the seconds of ``steps`` steps, and the frames."""
    frames = sorted({round(steps * i / _FRAMES) for i in range(_FRAMES + 1)})
    slices, norms, seconds, done = [], [], 0.0, 0
    for frame in frames:
        start = time.perf_counter()
        for step in range(done, frame):
            (back if step % 2 else forward)()
        ti.sync()
        seconds += time.perf_counter() - start
        done = frame
        field = (v if done % 2 else u).to_numpy()
        slices.append(field[:, :, field.shape[2] // 2])
        norms.append(float(np.sqrt(np.mean(field[1:-1, 1:-1, 1:-1].astype(np.float64) ** 2))))
    return seconds, History(tuple(frames), tuple(slices), tuple(norms))


def _run_numpy(start: Field, steps: int) -> tuple[Field, float]:
    heat = NumpyHeat(start)
    begin = time.perf_counter()
    for _ in range(steps):
        heat.step()
    return heat.field, time.perf_counter() - begin


def _difference(actual: Field, expected: Field) -> float:
    wide = expected.astype(np.float64)
    return float(np.linalg.norm(actual - wide) / np.linalg.norm(wide))


def _say_result(result: DemoResult, say: Callable[[str], None]) -> None:
    verdict = "agrees" if result.ok else "DISAGREES"
    say(f"The kernel ran {result.speed_ratio:.1f} times as fast as NumPy.")
    say(
        f"It {verdict} with the exact decay of the difference equation: "
        f"relative error {result.error_to_discrete:.1e} (rounding in f32)."
    )
    say(f"It {verdict} with NumPy: relative difference {result.error_to_numpy:.1e}.")
    say(
        f"Against the exact decay of the differential equation: {result.error_to_continuous:.1e} "
        "(the grid's own error, which falls with its spacing squared)."
    )


def _draw(picture: Path, exact: ExactHeat, history: History, result: DemoResult) -> None:
    from tikgen.demo.picture import draw

    draw(picture, exact, history, result)
