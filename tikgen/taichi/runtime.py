"""Taichi's runtime: the current epoch, its arch and options, and which thread owns it.

``ti.init`` and ``ti.reset`` replace ``impl.pytaichi``. Its identity is tikgen's *epoch*: arrays and
kernels of another epoch are stale.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import taichi as ti
from taichi.lang import impl

from tikgen.errors import ForkedProcess

CompilationError = ti.TaichiCompilationError
RuntimeFailure = ti.TaichiRuntimeError
AssertionFailure = ti.TaichiAssertionError

# Those of Taichi; messages name those that tikgen is tested on.
ARCHS = ("cpu", "cuda", "vulkan", "metal", "opengl", "gles", "amdgpu")
LISTED_ARCHS = "cpu, cuda or vulkan"

# Neither Taichi's compiler nor the allocation of arrays is thread-safe: both take this lock.
compiling = threading.RLock()

_CPU_NAMES = ("x64", "arm64")
_GPU_OPTIONS = (
    *("default_gpu_block_dim", "max_block_dim", "gpu_max_reg", "saturating_grid_dim"),
    *("make_thread_local", "make_block_local", "half2_vectorization", "constant_folding"),
    *("demote_dense_struct_fors", "cfg_optimization", "flatten_if", "external_optimization_level"),
    *("move_loop_invariant_outside_if", "cache_loop_invariant_global_vars"),
)
_LLVM_ARCHS = ("cpu", "cuda", "amdgpu")
# A runtime, its arch, and whether it checks bounds: those of the last query.
_known: tuple[Any, str, bool] = (None, "", False)
# Taichi's runtime in the parent of this process, if the process was forked after ti.init.
_inherited: list[Any] = []


def is_arch(value: object) -> bool:
    """Return whether a value, which may be anything, is the name of an arch."""
    return isinstance(value, str) and value in ARCHS


def epoch() -> Any:
    """Return an object whose identity changes whenever Taichi is initialised or reset."""
    return impl.pytaichi


def is_initialised() -> bool:
    """Return whether ``ti.init`` was called, and no ``ti.reset`` since."""
    return impl.pytaichi.prog is not None


def current_arch() -> str | None:
    """Return ``"cpu"``, ``"cuda"``, ``"vulkan"`` and so on, or None before ``ti.init``."""
    return _ask_runtime()[1] or None


def refuse_fork(who: str) -> None:
    """Raise :class:`ForkedProcess` if this process was forked after ``ti.init``.

    Args:
        who: what cannot run, for the message.
    """
    if _inherited:
        raise ForkedProcess(who)


def after_fork() -> None:
    """Discard the program of the parent, whose threads do not exist in this process.

    A new epoch begins, which each launch checks anyway.
    """
    parent = impl.pytaichi
    if parent.prog is not None:
        _inherited.append(parent)
        # A launch with it, or its destruction at exit, would wait forever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(parent.prog))
        impl.pytaichi = impl.PyTaichi(parent.kernels)
        for kernel in parent.kernels:
            kernel.reset()


def is_debug() -> bool:
    """Return whether Taichi checks bounds at run time."""
    return _ask_runtime()[2]


def _ask_runtime() -> tuple[Any, str, bool]:
    global _known
    runtime = impl.pytaichi
    if _known[0] is runtime:
        return _known
    if runtime.prog is None:
        return runtime, "", False
    config = runtime.prog.config()
    name = ti._lib.core.arch_name(config.arch)
    _known = (runtime, "cpu" if name in _CPU_NAMES else str(name), bool(config.debug))
    return _known


def may_materialise() -> bool:
    """Return whether this thread may have Taichi lay out the fields declared so far.

    On archs that run through LLVM, any thread but that of ``ti.init`` would corrupt the program.
    """
    runtime = impl.pytaichi
    if runtime.materialized and (impl.root.finalized or impl.root.empty):
        return True
    return _owns_program() or current_arch() not in _LLVM_ARCHS


def may_allocate() -> bool:
    """Return whether this thread may allocate arrays; on cuda others have no context."""
    return _owns_program() or current_arch() != "cuda"


def _owns_program() -> bool:
    owner = getattr(impl.pytaichi, "_tikgen_thread", threading.main_thread().ident)
    return threading.get_ident() == owner


def materialise() -> None:
    """Have Taichi lay out the fields declared so far."""
    impl.pytaichi.materialize()


def default_types() -> dict[str, str]:
    """Return the dtypes that Taichi gives to floats and integers of Python."""
    runtime = impl.pytaichi
    return {"default_fp": str(runtime.default_fp), "default_ip": str(runtime.default_ip)}


def uploads_outputs() -> bool:
    """Return whether a launch uploads host arrays that the kernel only writes."""
    return current_arch() in ("cpu", "cuda")


def writes_inputs() -> bool:
    """Return whether a launch copies host arrays back that the kernel only reads."""
    return current_arch() == "cuda"


def threads() -> int:
    """Return how many threads run a parallel loop on cpu."""
    return int(impl.current_cfg().cpu_max_num_threads)


def sync() -> None:
    """Wait until the device has finished."""
    ti.sync()


def init_options() -> dict[str, Any]:
    """Return the arch and the options of ``ti.init`` that go into the code of kernels."""
    if not is_initialised():
        return {}
    config = impl.pytaichi.prog.config()
    return {
        "arch": current_arch(),
        # Number of the ti.init, counted from the import of tikgen.
        "init": getattr(impl.pytaichi, "_tikgen_number", 0),
        "fast_math": config.fast_math,
        "opt_level": config.opt_level,
        "default_fp": str(impl.pytaichi.default_fp),
        "default_ip": str(impl.pytaichi.default_ip),
        "debug": config.debug,
        "offline_cache": config.offline_cache,
        "advanced_optimization": config.advanced_optimization,
    }


def code_options() -> dict[str, str]:
    """Return the version of Taichi, and every option that may go into the code of kernels."""
    config, own = impl.pytaichi.prog.config(), impl.pytaichi
    apart = ("_", "offline_cache", "device_memory", "print_", "verbose")
    names = [name for name in dir(config) if not name.startswith(apart)]
    options = {name: str(getattr(config, name)) for name in names}
    for name in ("default_fp", "default_ip", "default_up"):
        options[f"own {name}"] = str(getattr(own, name))
    for name in ("short_circuit_operators", "unrolling_limit"):
        options[f"own {name}"] = str(getattr(own, name, None))
    return {"taichi": version(), **options}


def gpu_options() -> dict[str, Any]:
    """Return the options of ``ti.init`` that shape the code of tasks on a GPU."""
    config = impl.pytaichi.prog.config()
    return {name: getattr(config, name) for name in _GPU_OPTIONS if hasattr(config, name)}


def version() -> str:
    """Return the version of Taichi."""
    return ".".join(map(str, ti.__version__))


def needs_own_launches() -> bool:
    """Return whether Taichi must launch, to measure or to check what it does."""
    return is_initialised() and (is_profiling() or is_debug())


def is_profiling() -> bool:
    """Return whether Taichi's profiler must see each launch."""
    return bool(impl.current_cfg().kernel_profiler)
