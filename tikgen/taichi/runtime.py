"""Taichi's runtime: which epoch it is, on which arch, in which thread.

Written for Taichi 1.7.4. ``impl.pytaichi`` is replaced at every ``ti.init`` and ``ti.reset``, so
that its identity tells whether what was made earlier is still alive: it is tikgen's *epoch*.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import taichi as ti
from taichi.lang import impl

from tikgen.errors import ForkedProcess
from tikgen.taichi.functions import LIFE as LIFE

CompilationError = ti.TaichiCompilationError
RuntimeFailure = ti.TaichiRuntimeError
AssertionFailure = ti.TaichiAssertionError

ARCHS = ("cpu", "cuda", "vulkan", "metal", "opengl", "gles", "amdgpu")

# Neither Taichi's compiler nor the making of arrays is thread-safe: both happen under this lock.
compiling = threading.RLock()

_CPU_NAMES = ("x64", "arm64")
# What was asked of the current runtime: the runtime, its arch, whether it checks bounds.
_known: tuple[Any, str, bool] = (None, "", False)


def epoch() -> Any:
    """Return an object whose identity changes whenever Taichi is initialised or reset."""
    return impl.pytaichi


def is_initialised() -> bool:
    """Tell whether ``ti.init`` was called and not undone."""
    return impl.pytaichi.prog is not None


def current_arch() -> str | None:
    """Return ``"cpu"``, ``"cuda"``, ``"vulkan"`` and so on, or None before ``ti.init``."""
    return _ask_runtime()[1] or None


# What Taichi was in the parent of this process, where that had initialised it.
_inherited: list[Any] = []


def refuse_fork(who: str) -> None:
    """Raise where this process was forked from one in which Taichi was initialised.

    Raises:
        ForkedProcess: if it was; ``who`` is what cannot run.
    """
    if _inherited:
        raise ForkedProcess(who)


def after_fork() -> None:
    """Part with the program of the parent, whose threads are not in this process.

    Kernels are in another epoch then, which each launch looks at anyway.
    """
    parent = impl.pytaichi
    if parent.prog is not None:
        _inherited.append(parent)
        # To launch with it, or to destroy it at the end of the process, would wait for ever.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(parent.prog))
        impl.pytaichi = impl.PyTaichi(parent.kernels)
        for kernel in parent.kernels:
            kernel.reset()


def is_debug() -> bool:
    """Tell whether Taichi checks bounds at run time."""
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


# The program belongs to the thread that called ti.init: on archs that run through LLVM, laying out
# fields anywhere else corrupts it.

_LLVM_ARCHS = ("cpu", "cuda", "amdgpu")


def may_materialise() -> bool:
    """Tell whether this thread may let Taichi lay out what was declared so far."""
    runtime = impl.pytaichi
    if runtime.materialized and (impl.root.finalized or impl.root.empty):
        return True
    return _owns_program() or current_arch() not in _LLVM_ARCHS


def may_allocate() -> bool:
    """Tell whether this thread may make arrays; on cuda others have no context to do it in."""
    return _owns_program() or current_arch() != "cuda"


def _owns_program() -> bool:
    owner = getattr(impl.pytaichi, "_tikgen_thread", threading.main_thread().ident)
    return threading.get_ident() == owner


def materialise() -> None:
    """Let Taichi lay out what was declared so far."""
    impl.pytaichi.materialize()


def default_types() -> dict[str, str]:
    """Return which dtypes Taichi takes for the floats and the integers of Python."""
    runtime = impl.pytaichi
    return {"default_fp": str(runtime.default_fp), "default_ip": str(runtime.default_ip)}


def uploads_outputs() -> bool:
    """Tell whether a launch uploads host arrays that the kernel only writes."""
    return current_arch() in ("cpu", "cuda")


def sync() -> None:
    """Wait until the device has done what it was told."""
    ti.sync()


def init_options() -> dict[str, Any]:
    """Return what ``ti.init`` was told that goes into the code of kernels, and its arch."""
    if not is_initialised():
        return {}
    config = impl.pytaichi.prog.config()
    return {
        "arch": current_arch(),
        # Which ti.init of this process it was, counted from the import of tikgen.
        "init": getattr(impl.pytaichi, "_tikgen_number", 0),
        "fast_math": config.fast_math,
        "opt_level": config.opt_level,
        "default_fp": str(impl.pytaichi.default_fp),
        "default_ip": str(impl.pytaichi.default_ip),
        "debug": config.debug,
        "offline_cache": config.offline_cache,
        "advanced_optimization": config.advanced_optimization,
    }
