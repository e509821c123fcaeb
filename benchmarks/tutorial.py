"""Measures each step of the tutorial "a fast template", and writes the ratios into its page.

``python benchmarks/tutorial.py`` does so on the processor, ``TIKGEN_TEST_ARCH=cuda python
benchmarks/tutorial.py`` on a GPU. Every step is compared with the reference before it is timed.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import taichi as ti

import tikgen
from page import write_works
from timing import Turns

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorials" / "fast-template.md"
LOOPS = {
    "cpu": ("points", "rows", "function"),
    "cuda": ("points", "rows", "sweep", "shared"),
    "vulkan": ("points", "rows", "sweep", "shared"),
}
# Others than Taichi's where plain loops differ.
ENGINES = {"cpu": ("taichi", "direct-cpu")}
POINTS = {"cpu": 200, "cuda": 512, "vulkan": 512}
ROUNDS = 21


def main() -> None:
    """Measure on the arch of the environment and write the section of the page."""
    arch = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
    ti.init(arch=getattr(ti, arch), enable_fallback=False, log_level=ti.ERROR)
    template = tikgen.load_template(ROOT / "examples" / "tutorial" / "heat")
    n = POINTS[arch]
    values = np.random.default_rng(0).random((n, n, n), dtype=np.float32)
    x, y = (ti.ndarray(ti.f32, values.shape) for _ in range(2))
    x.from_numpy(values)
    kernels = {loop: tikgen.build(template, loop=loop) for loop in LOOPS[arch]}
    expected = None
    for loop, kernel in kernels.items():
        y.fill(0)
        kernel(x, y, 0.1)
        if expected is None:
            expected = kernel.reference(values, np.zeros_like(values), np.float32(0.1))
        error = np.abs(y.to_numpy() - expected).max()
        assert error < 1e-5, f"{loop} is off by {error:.1e}"
    engines = ENGINES.get(arch, ("taichi",))
    calls = {
        f"{loop} {engine}": kernel.with_engine(engine).bind(x, y, r=0.1)
        for loop, kernel in kernels.items()
        for engine in engines
    }
    turns = Turns(calls, dict.fromkeys(calls, ti.sync), rounds=ROUNDS, seconds_each=20.0)
    last = list(calls)[-1]
    for _ in range(ROUNDS):
        turns.begin_round(last)
        turns.time(last)
    seconds = {name: timing.median for name, timing in turns.timings().items()}
    slowest = seconds["points taichi"]
    rows = [
        (f"`{loop}`", *(f"{slowest / seconds[f'{loop} {engine}']:.1f}x" for engine in engines))
        for loop in kernels
    ]
    method = f"{n}^3 points in f32, medians of {ROUNDS} rounds in turn"
    of = [f"as fast as `points`{f', by {engine}' * (len(engines) > 1)}" for engine in engines]
    write_works(PAGE, arch, method, ("`loop`", *of), rows)


if __name__ == "__main__":
    main()
