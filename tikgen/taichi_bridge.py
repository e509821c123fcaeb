"""The only file that touches private names of Taichi, but for those of real functions.

Written for Taichi 1.7.4. ``impl.pytaichi`` is replaced at every ``ti.init`` and ``ti.reset``, so
that its identity tells whether what was made earlier is still alive: it is tikgen's *epoch*.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import itertools
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import taichi as ti
from taichi.aot.utils import produce_injected_args
from taichi.lang import impl, kernel_impl
from taichi.lang._ndarray import Ndarray, ScalarNdarray
from taichi.lang.exception import handle_exception_from_cpp
from taichi.lang.field import Field, ScalarField
from taichi.lang.matrix import MatrixField
from taichi.lang.util import to_taichi_type
from taichi.types import primitive_types
from taichi.types.annotations import template as template_annotation
from taichi.types.ndarray_type import NdarrayType

from tikgen import error_stream, taichi_functions
from tikgen.errors import ForkedProcess, TaichiNotInitialised, WrongThread
from tikgen.taichi_functions import LIFE as LIFE

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


def _after_fork() -> None:
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


def _stamp_on_create() -> None:
    create, numbers = impl.PyTaichi.create_program, itertools.count(1)

    @functools.wraps(create)
    def stamping(self: Any) -> None:
        refuse_fork("ti.init")
        create(self)
        self._tikgen_thread = threading.get_ident()
        self._tikgen_number = next(numbers)

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


class Written(NamedTuple):
    """A kernel or a ``ti.func`` as its author wrote it.

    Attributes:
        function: the Python function.
        decorator: ``ti.kernel``, ``ti.func``, ``ti.real_func``, or nothing.
        parameters: name, annotation and default of each, less those of ``owner``.
        returns: what it declares to return, None where it declares nothing.
        owner: name of the first parameter of a method, and the object whose method it is.
    """

    function: Any
    decorator: str
    parameters: tuple[tuple[str, Any, Any], ...]
    returns: Any
    owner: tuple[str, Any] | None


def written(value: Any) -> Written | None:
    """Return what a kernel or a ``ti.func`` was made from, None for anything else."""
    if isinstance(value, kernel_impl._BoundedDifferentiableMethod):
        made, decorator = value._primal, "ti.kernel"
        bound = () if getattr(value, "_is_staticmethod", False) else (value._kernel_owner,)
    elif is_kernel(value) or isinstance(value, kernel_impl.Kernel):
        made, decorator, bound = getattr(value, "_primal", value), "ti.kernel", ()
    elif getattr(value, "_is_taichi_function", False):
        made, bound = value.func, (value.__self__,) if isinstance(value, types.MethodType) else ()
        decorator = "ti.real_func" if made.is_real_function else "ti.func"
    else:
        return None
    names = [argument.name for argument in made.arguments]
    owner = (names[0], bound[0]) if bound else None
    parameters = [(a.name, a.annotation, a.default) for a in made.arguments]
    returns = made.return_type
    if isinstance(returns, list | tuple) and len(returns) == 1:
        returns = returns[0]
    return Written(made.func, decorator, tuple(parameters[len(bound) :]), returns, owner)


class CallHook:
    """Hands every launch of a ``ti.kernel`` over: the kernel, its instance, its arguments.

    The kernel and the instance are Taichi's own, the kernel known to :func:`written`.
    """

    def __init__(self, tell: Callable[[Any, Any, tuple[Any, ...]], None]) -> None:
        original = self._original = kernel_impl.Kernel.launch_kernel

        @functools.wraps(original)
        def launch(kernel: Any, instance: Any, *args: Any) -> Any:
            returned = original(kernel, instance, *args)
            tell(kernel, instance, args)
            return returned

        kernel_impl.Kernel.launch_kernel = launch

    def remove(self) -> None:
        """Stop telling of launches."""
        kernel_impl.Kernel.launch_kernel = self._original


def is_gradient(kernel: Any) -> bool:
    """Tell whether a kernel is the derivative of another one, as a :class:`CallHook` sees it."""
    none = kernel_impl.AutodiffMode.NONE
    return bool(getattr(kernel, "autodiff_mode", none) != none)


def default_types() -> dict[str, str]:
    """Return which dtypes Taichi takes for the floats and the integers of Python."""
    runtime = impl.pytaichi
    return {"default_fp": str(runtime.default_fp), "default_ip": str(runtime.default_ip)}


def field_layout(field: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return dtype, shape and shape of an element of a field that ``ti.field`` can make again.

    Raises:
        ValueError: if it is of another kind; the message says which.
    """
    if not isinstance(field, ScalarField | MatrixField):
        raise ValueError("is a field of structs; make a field of each of their members")
    if is_stale(field):
        raise ValueError("belongs to an earlier ti.init; make it again")
    if not is_placed(field):
        raise ValueError("has no shape yet")
    for variable in field.vars:
        node = variable.ptr.snode()
        above = [node.parent, node.parent.parent]
        if [str(n.type) for n in above] != ["SNodeType.dense", "SNodeType.root"]:
            raise ValueError("is sparse or of several levels; make it with ti.field(dtype, shape)")
        if any(node.offset):
            raise ValueError("has an offset; make it without")
    shape = (field.n, field.m)[: field.ndim] if isinstance(field, MatrixField) else ()
    return str(field.dtype), tuple(field.shape), shape


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
    _stamp_on_create()
    taichi_functions.mend()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
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


def stand_in(array: Any) -> Any:
    """Return a ``ti.ndarray`` of one element that is compiled for as ``array`` would be."""
    host = to_host(array)
    return make_ndarray(f"{host.dtype.kind}{8 * host.dtype.itemsize}", (1,) * host.ndim)


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


# What Taichi does to a kernel, told stage by stage to whoever wants to know. Stages are rare, so
# that their hooks stay in place; launches are not, and have a hook of their own that does not.

# Takes a stage, the kernel's Python function, when it began, the seconds it took, and details.
Report = Callable[[str, Any, float, float, dict[str, Any]], None]

TAICHI_FOLDER = str(Path(ti.__file__).parent)
_LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "critical")
_CACHE_WORDS = {
    "Cache kernel": "compiled",
    "from cache": "disk",
    "from in-memory cache": "memory",
}
# Instances that were transformed, and are to be compiled once they are launched. Those exported
# ahead of time never are.
_MOST_UNCOMPILED = 64


class StageHooks:
    """Reports each stage that Taichi takes a kernel through, up to its first launch.

    Args:
        is_wanted: tells of a kernel's Python function whether anyone wants to know.
        report: takes what there is to know, in the thread in which it happened.
    """

    def __init__(self, is_wanted: Callable[[Any], bool], report: Report) -> None:
        self._is_wanted = is_wanted
        self._report = report
        self._uncompiled: list[tuple[Any, Any, str]] = []
        self._instance = threading.local()
        self._compile_kernel = ti._lib.core.Program.compile_kernel
        # Seconds that stages took within the launch under way, by thread.
        self.spent: dict[int, float] = {}
        self._hook(kernel_impl.Kernel, "__init__", self._register)
        self._hook(kernel_impl, "_get_tree_and_ctx", self._instantiate)
        self._hook(ti._lib.core.Program, "create_kernel", self._transform)

    def _hook(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            return hook(original, *args, **kwargs)

        setattr(owner, name, hooked)

    def _timed(
        self, stage: str, function: Any, details: dict[str, Any], action: Callable[[], Any]
    ) -> Any:
        if not self._is_wanted(function):
            return action()
        start = time.perf_counter()
        try:
            return action()
        except Exception as error:
            details["error"] = str(error).strip()
            raise
        finally:
            seconds = time.perf_counter() - start
            thread = threading.get_ident()
            self.spent[thread] = self.spent.get(thread, 0.0) + seconds
            self._report(stage, function, start, seconds, details)

    def _register(self, original: Any, kernel: Any, *args: Any, **kwargs: Any) -> None:
        def make() -> None:
            original(kernel, *args, **kwargs)

        # Each kernel is registered twice, the second time for its derivative.
        mode = kwargs.get("autodiff_mode", args[1] if len(args) > 1 else None)
        if mode == kernel_impl.AutodiffMode.NONE:
            self._timed("register", args[0], {}, make)
        else:
            make()

    def _instantiate(self, original: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(kernel, kernel_impl.Kernel):  # A ti.func within a kernel.
            return original(kernel, *args, **kwargs)
        self._instance.kernel = kernel
        self._instance.signature = _shown_signature(kernel, kwargs.get("arg_features"))
        details = {
            "signature": self._instance.signature,
            "number": len(kernel.compiled_kernels),
        }
        return self._timed(
            "instantiate", kernel.func, details, lambda: original(kernel, *args, **kwargs)
        )

    def _transform(self, original: Any, program: Any, *args: Any) -> Any:
        kernel, signature = self._instance.kernel, self._instance.signature
        self._instance.kernel = None  # Or it would be kept alive.
        made = self._timed("ast", kernel.func, {}, lambda: original(program, *args))
        if self._is_wanted(kernel.func):
            # Less those of an earlier ti.init: what is made now may lie where they lay.
            waiting = [w for w in self._uncompiled if w[0] in w[1].compiled_kernels.values()]
            self._uncompiled = [*waiting[1 - _MOST_UNCOMPILED :], (made, kernel, signature)]
            self._watch_compiler()
        return made

    def _watch_compiler(self) -> None:
        """Hook the compiler, which every launch asks, while there is something to compile."""
        program = ti._lib.core.Program
        if not self._uncompiled:
            program.compile_kernel = self._compile_kernel
        elif program.compile_kernel is self._compile_kernel:

            def hooked(*args: Any) -> Any:
                return self._compile(*args)

            program.compile_kernel = hooked

    def _compile(self, program: Any, config: Any, caps: Any, made: Any) -> Any:
        found = [entry for entry in self._uncompiled if entry[0] is made]
        if not found:
            return self._compile_kernel(program, config, caps, made)
        self._uncompiled = [entry for entry in self._uncompiled if entry[0] is not made]
        self._watch_compiler()
        _, kernel, signature = found[0]
        details: dict[str, Any] = {"signature": signature, **init_options()}

        def compiled() -> Any:
            with _cache_status(details, _profiled_name(kernel)):
                return self._compile_kernel(program, config, caps, made)

        return self._timed("compile", kernel.func, details, compiled)


# Start and stop of a launch, and the thread.
Span = tuple[float, float, int]
# Of each kernel so many launches are timed, and from then on every eighth.
_ALL_TIMED, _TIMED_EVERY = 1000, 8
_MOST_UNTOLD = 4096


class _Tally:
    """Launches of one kernel that were not told yet."""

    __slots__ = ("count", "next_timed", "spans", "tell", "told")

    def __init__(self, tell: Callable[[int, list[Span]], None] | None) -> None:
        self.tell = tell
        self.count = self.told = 0
        self.next_timed = sys.maxsize if tell is None else 0
        self.spans: list[Span] = []

    def hand_over(self) -> None:
        if self.tell is not None:
            spans, count = self.spans[:], self.count  # Other threads may add to them meanwhile.
            del self.spans[: len(spans)]
            self.tell(count - self.told, spans)
            self.told = count


class LaunchHook:
    """Hands the number and the times of the launches of each ``ti.kernel`` over, many at once.

    ``tally_of`` is asked once for each kernel; it returns what takes them, or None where nobody
    wants to know. Stages within a launch do not count as launch.
    """

    def __init__(
        self,
        tally_of: Callable[[Any, str], Callable[[int, list[Span]], None] | None],
        spent: dict[int, float],
    ) -> None:
        self._tally_of = tally_of
        self._telling = threading.Lock()
        tallies = self._tallies = dict[Any, _Tally]()
        original = self._original = kernel_impl.Kernel.__call__
        clock, get_ident = time.perf_counter, threading.get_ident

        @functools.wraps(original)
        def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            tally = tallies.get(kernel) or self._begin(kernel)
            if tally.count < tally.next_timed:
                returned = original(kernel, *args, **kwargs)
                tally.count += 1
                return returned
            thread = get_ident()
            spent.pop(thread, None)
            start = clock()
            returned = original(kernel, *args, **kwargs)
            stop = clock()
            tally.spans.append((start + spent.pop(thread, 0.0), stop, thread))
            tally.count += 1
            if tally.count > _ALL_TIMED:
                tally.next_timed = tally.count + _TIMED_EVERY - 1
                if len(tally.spans) > _MOST_UNTOLD:
                    self.tell()
            return returned

        kernel_impl.Kernel.__call__ = launch

    def _begin(self, kernel: Any) -> _Tally:
        tell = self._tally_of(kernel.func, _profiled_name(kernel))
        return self._tallies.setdefault(kernel, _Tally(tell))

    def tell(self) -> None:
        """Hand over what was not told yet."""
        with self._telling:
            for tally in list(self._tallies.values()):
                tally.hand_over()

    def remove(self) -> None:
        """Hand over what was not told yet, and stop telling of launches."""
        kernel_impl.Kernel.__call__ = self._original
        self.tell()


def profiled_name(kernel: Any) -> str:
    """Return the beginning of the names that Taichi's profiler has for a ``ti.kernel``."""
    return _profiled_name(kernel._primal)


def _profiled_name(primal: Any) -> str:
    return f"{primal.func.__name__}_c{primal.kernel_counter}_"


def device_times() -> dict[str, tuple[int, float]]:
    """Return by :func:`profiled_name` how many launches the profiler saw, and their seconds.

    The result is empty where Taichi runs without ``kernel_profiler=True``.
    """
    program = impl.pytaichi.prog
    if program is None or not program.config().kernel_profiler:
        return {}
    sync()  # Vulkan tells times only of what it was waited for.
    program.sync_kernel_profiler()
    program.update_kernel_profiler()
    found = {}
    for kernel in impl.pytaichi.kernels:
        if kernel.compiled_kernels and hasattr(kernel, "func"):
            name = _profiled_name(kernel)
            instances = [number for _, number, _ in kernel.compiled_kernels]
            infos = [program.query_kernel_profile_info(f"{name}{n}_") for n in instances]
            seconds = sum(info.counter * info.avg / 1e3 for info in infos)
            found[name] = (sum(info.counter for info in infos), seconds)
    return found


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


def _shown_signature(kernel: Any, features: Sequence[Any] | None) -> str:
    """Return the template signature of an instance as text, such as ``x: f32[2d], n: i32``."""
    shown = []
    for argument, feature in zip(kernel.arguments, features or (), strict=False):
        annotation = argument.annotation
        if isinstance(annotation, NdarrayType):
            dtype, ndim = feature[0], feature[1]
            shown.append(f"{argument.name}: {_shown_array(dtype, ndim)}")
        elif isinstance(annotation, template_annotation):
            shown.append(f"{argument.name}: {_shown_template(feature)}")
        else:
            shown.append(f"{argument.name}: {getattr(annotation, '__name__', annotation)}")
    return ", ".join(shown)


def _shown_array(dtype: Any, ndim: int) -> str:
    """Return a kind of array as text; Taichi makes an instance for each library as well."""
    if isinstance(dtype, ti._lib.core.DataType):  # A ti.ndarray.
        return f"{dtype}[{ndim}d]"
    library = "NumPy" if isinstance(dtype, np.dtype) else type(dtype).__module__
    return f"{to_taichi_type(dtype)}[{ndim}d] {library}"


def _shown_template(feature: Any) -> str:
    value = feature() if isinstance(feature, weakref.ref) else feature
    if isinstance(value, int | float | bool | str | None):
        return repr(value)
    shown = type(value).__name__
    kind = {ScalarField: "field", MatrixField: "matrix field"}.get(type(value))
    if kind and not is_stale(value) and is_placed(value):
        shown = f"{value.dtype} {kind} {value.shape}"
    return f"{shown} at {id(value):#x}"


def signatures(kernel: Any) -> list[str]:
    """Return the template signature of each instance of a ``ti.kernel``, oldest first."""
    primal = kernel._primal
    made = {instance for _, instance, _ in primal.compiled_kernels}
    return [
        _shown_signature(primal, features)
        for features, instance in primal.mapper.mapping.items()
        if instance in made
    ]


@contextlib.contextmanager
def _cache_status(details: dict[str, Any], name: str = "") -> Iterator[None]:
    """Put into ``details`` where Taichi took code from: compiled, disk, memory or unknown.

    Taichi tells it in its log only, which it writes to the error stream; other threads launch
    other kernels meanwhile, and it tells of these as well.
    """
    core, level = ti._lib.core, ""
    details["cache"] = "unknown"

    def is_ours(line: str) -> bool:
        return line.startswith("[D ") and level not in ("trace", "debug")

    with error_stream.reading(is_ours) as lines:
        if lines is None:
            yield
            return
        # Not before, when another thread may be at it.
        level = next(name for name in _LOG_LEVELS if core.logging_effective(name))
        if level != "trace":
            core.set_logging_level("debug")
        try:
            yield
        finally:
            core.flush_log()
            core.set_logging_level(level)
    told = [line for line in lines if f"'{name}" in line]
    found = [s for words, s in _CACHE_WORDS.items() if any(words in line for line in told)]
    # Taichi tells what it keeps, and what it finds.
    otherwise = "compiled" if details.get("offline_cache") is False else "unknown"
    details["cache"] = found[0] if found else otherwise


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


def is_compiled(kernel: Any, values: Sequence[Any] | None = None) -> bool:
    """Tell whether ``kernel`` is compiled for ``values``, or for whatever where there are none."""
    primal = kernel._primal
    if values is None:
        return bool(primal.compiled_kernels)
    instance = primal.mapper.mapping.get(primal.mapper.extract(values))
    return (primal.func, instance, primal.autodiff_mode) in primal.compiled_kernels


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


# Modules whose text may be replaced. Their global names hold a token under LIFE: the token dies
# with the last function of the module. Taichi holds every kernel for ever, but those it must not.


class _WeakKernel(weakref.ref):  # type: ignore[type-arg]
    """Stands for a kernel in Taichi's list of all kernels, and does not keep it alive."""

    __slots__ = ()

    def reset(self) -> None:
        """Have the kernel, where it lives, compiled anew; Taichi asks for it in ``ti.init``."""
        kernel = self()
        if kernel is not None:
            kernel.reset()

    @property
    def compiled_kernels(self) -> dict[Any, Any]:
        """Return the instances of the kernel, none where it died."""
        kernel = self()
        return {} if kernel is None else kernel.compiled_kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self(), name)


# Handles of kernels that died. They leave the list when the next one comes, not while Taichi
# may be walking through it.
_dead_kernels: collections.deque[Any] = collections.deque()


class _LiveKernel(kernel_impl.Kernel):  # type: ignore[misc]
    """A kernel that compiles under the lock, and tells the token of its module of a failure."""

    _was_compiled = False

    def ensure_compiled(self, *args: Any) -> Any:
        """Return the key of the instance for ``args``, compiling it where that is due."""
        number = self.mapper.mapping.get(self.mapper.extract(args))
        key = (self.func, number, self.autodiff_mode)
        if key in self.compiled_kernels:
            self.runtime.materialize()
            return key
        with compiling:
            try:
                return self._compile(args)
            except _CannotCompile as caught:
                error = caught.args[0]
        # Not under the lock: whoever is told may have to load other code.
        raise self.func.__globals__[LIFE].explain(self.func, error, self._was_compiled) from None

    def _compile(self, args: Sequence[Any]) -> Any:
        if not is_initialised():
            refuse_fork(self.func.__name__)
            raise TaichiNotInitialised(self.func.__name__)
        if not may_materialise():
            raise WrongThread(self.func.__name__)
        self.runtime.materialize()
        number, features = self.mapper.lookup(args)  # Raises where an argument does not fit.
        key = (self.func, number, self.autodiff_mode)
        try:
            self.materialize(key=key, args=args, arg_features=features)
            program = impl.pytaichi.prog
            instance = self.compiled_kernels[key]
            program.compile_kernel(program.config(), program.get_device_caps(), instance)
        except Exception as error:
            self.compiled_kernels.pop(key, None)
            raise _CannotCompile(handle_exception_from_cpp(error)) from None
        self._was_compiled = True
        return key


class _CannotCompile(Exception):
    """Carries the error of Taichi's compiler past those that are the caller's fault."""


def _adopt_on_init() -> None:
    make = kernel_impl.Kernel.__init__

    @functools.wraps(make)
    def adopting(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        life = getattr(self.func, "__globals__", {}).get(LIFE)
        if life is not None:
            # One step at a time, each of them atomic: other threads may be adding kernels.
            kernels = impl.pytaichi.kernels
            kernels.append(_WeakKernel(self, _dead_kernels.append))
            kernels.remove(self)
            with contextlib.suppress(IndexError, ValueError):
                while True:
                    kernels.remove(_dead_kernels.popleft())
            if life.explain is not None:
                self.__class__ = _LiveKernel

    kernel_impl.Kernel.__init__ = adopting
    kernel_impl.Kernel._tikgen_adopts = True


if not hasattr(kernel_impl.Kernel, "_tikgen_adopts"):
    _adopt_on_init()


def bytes_of(array: Any) -> int:
    """Return how many bytes go with a Taichi array; those of a field stay until ``ti.init``."""
    if not isinstance(array, Ndarray) or is_stale(array):
        return 0
    return int(array.arr.nelement() * array.arr.element_size())


# Ahead of time. ti.aot.Module ends the declaration of fields, so that there is one in each ti.init.


class ArtefactBuilder:
    """Collects compiled kernels and graphs, and writes them as one AOT module.

    Within one ``ti.init`` there may be any number of them. All fields are declared before.

    Args:
        capabilities: what the device will have, such as ``spirv_has_float64``.
    """

    def __init__(self, capabilities: Sequence[str]) -> None:
        if not impl.root.finalized:
            impl.pytaichi._finalize_root_fb_for_aot()
        arch = impl.current_cfg().arch
        self._builder = impl.pytaichi.prog.make_aot_module_builder(arch, list(capabilities))
        self._content: list[str] = []

    def add_kernel(self, kernel: Any, name: str) -> None:
        """Compile a ``ti.kernel``, each array of which says its dtype and dimension."""
        primal = kernel._primal
        number = primal.ensure_compiled(*produce_injected_args(primal))
        self._builder.add(name, primal.compiled_kernels[number])
        self._content.append(f"kernel:{name}")

    def add_field(self, name: str, field: Any) -> None:
        """Have the module tell of a field, which its kernels use."""
        matrix = isinstance(field, MatrixField)
        rows, columns = (field.m, field.n) if matrix else (1, 1)
        snode = field.snode
        self._builder.add_field(
            name, snode.ptr, not matrix, field.dtype, snode.shape, rows, columns
        )

    def add_graph(self, name: str, steps: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        """Compile a graph of kernels, each with the ``ti.graph.Arg`` of its arguments."""
        graph = ti.graph.GraphBuilder()
        for kernel, arguments in steps:
            graph.dispatch(kernel, *arguments)
        self._builder.add_graph(name, graph.compile()._compiled_graph)
        self._content.append(f"cgraph:{name}")

    def write(self, folder: Path) -> None:
        """Write the module into a folder that is there."""
        self._builder.dump(str(folder), "")
        (folder / "__content__").write_text("\n".join(self._content))
        (folder / "__version__").write_text(".".join(map(str, ti.__version__)))
