"""Says what a measurement ran on: processor, device, versions, date."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable

from tikgen.machine.devices import UNKNOWN, cpu_name, device_name
from tikgen.version import __version__

LIBRARIES = (
    "tikgen",
    "taichi",
    "numpy",
    "scipy",
    "numba",
    "jax",
    "pystencils",
    "devito",
    "torch",
    "cupy",
)


def description(arch: str) -> dict[str, str]:
    """Return what a run on ``arch`` ran on."""
    found = {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "arch": arch,
        "processor": cpu_name(),
        "cores": str(len(os.sched_getaffinity(0))),
        "system": platform.system(),
        "versions": versions(LIBRARIES),
    }
    if arch != "cpu":
        found["device"] = device_name(arch)
    if compiler := _first_line("gcc", "--version"):
        found["versions"] += f", {compiler.split()[0]} {compiler.split()[-1]}"
    return found


def versions(names: Iterable[str]) -> str:
    """Return the versions of Python and of those libraries that are installed."""
    found = [f"Python {platform.python_version()}"]
    installed = {
        d.metadata["Name"].lower(): d.version
        for d in importlib.metadata.distributions()
        if d.metadata["Name"]
    }
    installed["tikgen"] = __version__
    for name in names:
        # CuPy is called after the version of CUDA: cupy-cuda13x.
        own = (v for n, v in installed.items() if re.sub(r"-cuda\d+x$", "", n) == name)
        version = next(own, None)
        found += [f"{name} {version}"] if version else []
    return ", ".join(found)


def kind(arch: str) -> str:
    """Return whose sizes suit ``arch`` here: those of a cpu, a GPU, or Vulkan on a cpu."""
    if arch == "cpu":
        return "cpu"
    slow = arch == "vulkan" and any(n in device_name(arch) for n in ("llvmpipe", UNKNOWN))
    return "lavapipe" if slow else "gpu"


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""
