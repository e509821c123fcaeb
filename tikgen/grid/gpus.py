"""Which GPU a process takes, where several processes of a host share a grid."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from tikgen.errors import GridError
from tikgen.grid.processes import Processes
from tikgen.taichi import runtime

# What starts processes tells each of them its number on its host.
_NUMBERS = (
    *("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"),
    *("SLURM_LOCALID", "PALS_LOCAL_RANKID"),
)
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_gpu() -> str | None:
    """Have this process use one GPU: by its number among those started together on its host.

    Call it before ``ti.init``, and before torch uses a GPU. Where there are more processes than
    GPUs, several share one.

    Returns:
        The number of the GPU as CUDA counts them, or its UUID; None if there is none.

    Raises:
        GridError: if Taichi or torch uses a GPU already.
    """
    torch = sys.modules.get("torch")
    users = {
        "Taichi": runtime.current_arch() == "cuda",
        "torch": torch is not None and torch.cuda.is_initialized(),
    }
    for name, uses in users.items():
        if uses:
            raise GridError(f"choose_gpu comes too late: {name} uses a GPU already")
    visible = [each.strip() for each in os.environ.get(_VISIBLE, "").split(",") if each.strip()]
    if _VISIBLE not in os.environ:
        visible = _numbers()
    if not visible:
        return None
    chosen = visible[_local_rank() % len(visible)]
    os.environ[_VISIBLE] = chosen
    return chosen


def _numbers() -> list[str]:
    """Return the number of each GPU of the host."""
    found = [path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*")]
    return [str(n) for n in range(sum(bool(re.fullmatch(r"\d+", each)) for each in found))]


def _local_rank() -> int:
    """Return the number of this process among those of its host that were started together."""
    for name in _NUMBERS:
        if (value := os.environ.get(name, "")).isdecimal():
            return int(value)
    return 0


def check_own_gpu(processes: Processes) -> None:
    """Raise GridError on all processes if two share a GPU and their transport cannot.

    All processes must call it.
    """
    if not processes.transport.needs_own_gpu or processes.has_own_gpu:
        return
    every = processes.all(gpu_of_torch())
    for rank, gpu in enumerate(every):
        first = every.index(gpu)
        if first != rank:
            raise GridError(
                f"{processes.transport.name} needs a GPU for each process, and ranks {first} and "
                f"{rank} share one; call tikgen.choose_gpu() before ti.init, and start no more "
                "processes than there are GPUs, or take a group with the backend gloo"
            )
    processes.has_own_gpu = True


def gpu_of_torch() -> tuple[str, Any]:
    """Return the host, and what tells the GPU that torch uses first from others there."""
    properties = sys.modules["torch"].cuda.get_device_properties(0)
    known = getattr(properties, "uuid", None) or os.environ.get(_VISIBLE, "")
    return socket.gethostname(), str(known)
