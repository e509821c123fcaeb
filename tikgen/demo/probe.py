"""Tries a small kernel on an arch: ``python -m tikgen.demo.probe ARCH [ENGINE]``."""

from __future__ import annotations

import sys

import numpy as np
import taichi as ti

from tikgen import engines
from tikgen.demo.stepwise import build_in_stages, launch_in_stages
from tikgen.machine.doctor import WORKS


def probe(arch: str, engine: str = engines.TAICHI) -> None:
    """Run a small kernel on ``arch``; print that it works, or end the process with a message."""
    if problem := engines.problem(engine):
        sys.exit(problem)
    # The log names the device that Taichi uses.
    ti.init(arch=getattr(ti, arch), log_level=ti.TRACE, enable_fallback=False)
    ti.set_logging_level(ti.ERROR)
    kernel = build_in_stages("stencil", lambda stage: None, arch=arch, dim=1, boundary="periodic")
    outcome = launch_in_stages(kernel, lambda stage: None, seed=0)
    if not outcome.ok:
        sys.exit(f"a kernel gave wrong numbers: {outcome.message}")
    if engine != engines.TAICHI:
        x = np.random.default_rng(0).random(1000, np.float32)
        wanted, found = np.zeros_like(x), np.zeros_like(x)
        kernel(x, wanted)
        kernel.with_engine(engine)(x, found)
        if not np.array_equal(wanted, found):
            sys.exit("a kernel gave other bits than with Taichi")
    print(WORKS + str(ti.cfg.offline_cache_file_path), flush=True)


if __name__ == "__main__":
    probe(*sys.argv[1:])
