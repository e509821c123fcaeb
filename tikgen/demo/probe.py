"""Shows whether an arch works with a small kernel: ``python -m tikgen.demo.probe ARCH``."""

from __future__ import annotations

import sys

import taichi as ti

from tikgen.demo.stepwise import build_in_stages, launch_in_stages
from tikgen.machine.doctor import WORKS


def probe(arch: str) -> None:
    """Run a small kernel on ``arch`` and print whether it is right; ends the process if not."""
    # The trace names the device that Taichi picks.
    ti.init(arch=getattr(ti, arch), log_level=ti.TRACE, enable_fallback=False)
    ti.set_logging_level(ti.ERROR)
    kernel = build_in_stages("stencil", lambda stage: None, arch=arch, dim=1, boundary="periodic")
    outcome = launch_in_stages(kernel, lambda stage: None, seed=0)
    if not outcome.ok:
        sys.exit(f"a kernel gave wrong numbers: {outcome.message}")
    print(WORKS + str(ti.cfg.offline_cache_file_path), flush=True)


if __name__ == "__main__":
    probe(sys.argv[1])
