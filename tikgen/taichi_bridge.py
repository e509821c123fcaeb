"""The only file that touches private names of Taichi.

Written for Taichi 1.7.4. ``impl.pytaichi`` is replaced at every ``ti.init`` and ``ti.reset``, so
that its identity tells whether what was made earlier is still alive: it is tikgen's *epoch*.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

if "taichi" not in sys.modules:  # Its greeting would spoil what `tikgen render` prints.
    os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "False")

import taichi as ti
from taichi.lang import impl
from taichi.lang._ndarray import Ndarray, ScalarNdarray
from taichi.lang.field import Field, ScalarField
from taichi.types import primitive_types
from taichi.types.annotations import template as template_annotation
from taichi.types.ndarray_type import NdarrayType

CompilationError = ti.TaichiCompilationError
RuntimeFailure = ti.TaichiRuntimeError
AssertionFailure = ti.TaichiAssertionError

ARCHS = ("cpu", "cuda", "vulkan", "metal", "opengl", "gles", "amdgpu")

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


def _stamp_thread_on_create() -> None:
    create = impl.PyTaichi.create_program

    @functools.wraps(create)
    def stamping(self: Any) -> None:
        create(self)
        self._tikgen_thread = threading.get_ident()

    impl.PyTaichi.create_program = stamping


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


# Kernels.


def is_kernel(value: object) -> bool:
    """Tell whether ``value`` is a function decorated with ``ti.kernel``."""
    return bool(getattr(value, "_is_wrapped_kernel", False))


def kernel_arguments(kernel: Any) -> list[tuple[str, str, str | None, int]]:
    """Return (name, kind, dtype, ndim) of each argument, kind as array, field or scalar."""
    found = []
    for argument in kernel._primal.arguments:
        annotation = argument.annotation
        if isinstance(annotation, NdarrayType):
            dtype = None if annotation.dtype is None else str(annotation.dtype)
            found.append((argument.name, "array", dtype, annotation.ndim or 0))
        elif isinstance(annotation, template_annotation):
            found.append((argument.name, "field", None, 0))
        elif id(annotation) in primitive_types.type_ids:
            found.append((argument.name, "scalar", str(annotation), 0))
        else:
            found.append((argument.name, "other", str(annotation), 0))
    return found


def forget_functions(module: types.ModuleType) -> None:
    """Have Taichi compile anew the real functions of ``module``.

    It keeps those of an earlier ``ti.init``, and calling one of them would crash.
    """
    for value in vars(module).values():
        if getattr(value, "_is_real_function", False):
            function = inspect.getclosurevars(value).nonlocals["fun"]
            function.compiled, function.taichi_functions = None, {}


def unload(module: types.ModuleType) -> None:
    """Drop the kernels of ``module`` from the list in which Taichi keeps every kernel."""
    dead = {
        id(half)
        for value in vars(module).values()
        if is_kernel(value)
        for half in (value._primal, value._adjoint)
    }
    kernels = impl.pytaichi.kernels
    kernels[:] = [kernel for kernel in kernels if id(kernel) not in dead]


# Arrays and fields. Taichi gives no way to ask an array which ti.init it belongs to, and
# launching with a stale field can kill the process. So their makers stamp them with the epoch.


def _stamp_on_init(owner: type) -> None:
    make: Callable[..., None] = owner.__init__  # type: ignore[misc]

    @functools.wraps(make)
    def stamping(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._tikgen_epoch = impl.pytaichi

    owner.__init__ = stamping  # type: ignore[misc]


if not hasattr(Ndarray.__init__, "__wrapped__"):
    _stamp_on_init(Ndarray)
    _stamp_on_init(Field)
    _stamp_thread_on_create()
_epoch_at_import = impl.pytaichi


def is_stale(array: Any) -> bool:
    """Tell whether a Taichi array or field was made before the last ``ti.init``."""
    made = getattr(array, "_tikgen_epoch", _epoch_at_import)
    return made is not impl.pytaichi or made.prog is None


def is_fresh(array: Any) -> bool:
    """Tell in the quickest way that an array is not stale; False means to look closer."""
    return getattr(array, "_tikgen_epoch", None) is impl.pytaichi


TiScalarNdarray = ScalarNdarray
TiScalarField = ScalarField
TaichiArray = (Ndarray, Field)


def primitive(dtype: str) -> Any:
    """Return Taichi's own object for a dtype, of which there is one."""
    return getattr(ti, dtype)


def make_ndarray(dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a new zeroed ``ti.ndarray``."""
    return ti.ndarray(primitive(dtype), shape)


def uploads_outputs() -> bool:
    """Tell whether a launch uploads host arrays that the kernel only writes."""
    return current_arch() in ("cpu", "cuda")


def is_on_host(array: Any) -> bool:
    """Tell whether ``array`` is one that Taichi copies to the device and back."""
    return not isinstance(array, Ndarray | Field)


def is_placed(field: Any) -> bool:
    """Tell whether a field has a shape, be it its own or that of its place in a tree."""
    return is_stale(field) or field.vars[0].ptr.snode() is not None


def to_host(array: Any) -> Any:
    """Return what a Taichi array, a field or a torch tensor holds, as a NumPy array."""
    if isinstance(array, TaichiArray):
        return array.to_numpy()
    return array.detach().cpu().numpy() if hasattr(array, "data_ptr") else array


def sync() -> None:
    """Wait until the device has done what it was told."""
    ti.sync()


def to_ndarray(array: Any) -> Any:
    """Return a new ``ti.ndarray`` that holds what a NumPy array or a torch tensor holds."""
    host = to_host(array)
    made = make_ndarray(f"{host.dtype.kind}{8 * host.dtype.itemsize}", host.shape)
    made.from_numpy(host)
    return made


def copy_back(made: Any, array: Any) -> None:
    """Copy a ``ti.ndarray`` into the NumPy array or torch tensor that it was made from."""
    if isinstance(array, np.ndarray):
        array[...] = made.to_numpy()
    else:
        array.copy_(array.new_tensor(made.to_numpy()))


# Launching over a cached context.


def can_bind() -> bool:
    """Tell whether launching around Taichi's Python layer is proven safe in this epoch."""
    return ti.__version__[:2] == (1, 7) and is_initialised() and not is_debug()


def is_recording() -> bool:
    """Tell whether an autodiff tape must see each launch."""
    runtime = impl.pytaichi
    return runtime.target_tape is not None or runtime.fwd_mode_manager is not None


def is_plain_launch(kernel: Any) -> bool:
    """Tell whether a launch of a compiled kernel has nothing to do afterwards."""
    primal = kernel._primal
    return primal.return_type is None and not primal.has_print


def ensure_compiled(kernel: Any, values: Sequence[Any]) -> tuple[Any, Any]:
    """Compile ``kernel`` for ``values`` without launching it; return its two halves in C++."""
    primal = kernel._primal
    instance = primal.compiled_kernels[primal.ensure_compiled(*values)]
    program = impl.pytaichi.prog
    return instance, program.compile_kernel(program.config(), program.get_device_caps(), instance)


class Launcher:
    """A compiled kernel with a launch context of its own, for one thread and one epoch.

    Arguments stay set from launch to launch, unless the context :attr:`is_spent` by a launch. On
    cpu a ``ti.ndarray`` is passed by address, because there a launch replaces its handle.
    """

    def __init__(self, kernel: Any, values: Sequence[Any]) -> None:
        self._program = impl.pytaichi.prog
        self._kernel, self._compiled = ensure_compiled(kernel, values)
        self._by_address = current_arch() == "cpu"
        # A launch on cuda leaves device addresses behind: setting an argument then is a SIGSEGV.
        self.is_spent = current_arch() == "cuda"
        self.renew()

    def renew(self) -> None:
        """Begin a new context, in which no argument is set."""
        self._context = self._kernel.make_launch_context()
        self.launch: Callable[[], None] = functools.partial(
            self._program.launch_kernel, self._compiled, self._context
        )

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``; templates take no slot."""
        context, where = self._context, (slot,)
        if isinstance(array, Ndarray):
            if not self._by_address:
                context.set_arg_ndarray(where, array.arr)
                return
            address = self._program.get_ndarray_data_ptr_as_int(array.arr)
            size = array.arr.nelement() * array.arr.element_size()
        elif hasattr(array, "data_ptr"):
            address, size = array.data_ptr(), array.element_size() * array.nelement()
        else:
            address, size = array.ctypes.data, array.nbytes
        context.set_arg_external_array_with_shape(where, address, size, tuple(array.shape), 0)

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        name = "float" if is_float else "int" if is_signed else "uint"
        return functools.partial(getattr(self._context, f"set_arg_{name}"), (slot,))
