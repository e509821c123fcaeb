"""Who is measured, one module for each peer."""

from __future__ import annotations

import importlib

from peers.peer import Absent, Peer

LABELS = {
    "default": "tikgen",
    "tuned": "tikgen, tuned",
    "taichi": "hand-written Taichi",
    "numpy": "NumPy, SciPy",
    "numba": "Numba",
    "c": "C, OpenMP",
    "torch": "PyTorch",
    "torch_compile": "torch.compile",
    "cuda_c": "CUDA C",
}
MODULES = {
    "numpy": "numpy_calls",
    "numba": "numba_loops",
    "c": "c_openmp",
    "torch": "torch_calls",
    "torch_compile": "torch_compiled",
    "cuda_c": "cuda_c",
    "taichi": "taichi_loops",
    "default": "tikgen_kernels",
}


def find_peers(arch: str, machine: str, tune_seconds: float) -> dict[str, Peer | str]:
    """Return each peer of a machine by key, or why it is absent."""
    keys = ["default", "tuned", "taichi"]
    if machine == "gpu":
        # CUDA's own peers stand in the cuda run; beside Vulkan PyTorch shows the same card.
        keys += ["torch", "torch_compile", "cuda_c"] if arch == "cuda" else ["torch"]
    else:
        keys += ["numpy", "numba", "c", "torch"] if machine == "cpu" else ["numpy"]
    return {key: _find(key, machine, tune_seconds) for key in keys}


def _find(key: str, machine: str, tune_seconds: float) -> Peer | str:
    try:
        if key == "tuned":
            from peers.tikgen_kernels import tuned_peer

            return tuned_peer(machine, tune_seconds)
        return importlib.import_module(f"peers.{MODULES[key]}").peer(machine)
    except ImportError as error:
        return f"not installed: {error.name or error}"
    except Absent as error:
        return str(error)
    except Exception as error:  # Installed, and without the driver or device that it needs.
        return f"fails: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


__all__ = ["LABELS", "Absent", "Peer", "find_peers"]
