"""The decorator ``kernel``: a Python function whose body is Taichi code, launched over buffers."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tikgen.buffers.errors import BackendNotAvailableError, InvalidConfigurationError
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.buffers.written_names import written_names
from tikgen.errors import ArgumentError, TaichiNotInitialised, WrongThread

if TYPE_CHECKING:
    from tikgen.pipeline.kernel import Kernel

DEVICES = ("auto", "cpu", "cuda", "vulkan")


class ComputeKernel:
    """A kernel over buffers, made by :func:`kernel`; each function has one of its own.

    Call it with :class:`UnifiedBuffer`, NumPy arrays, ``ti.ndarray``, torch tensors and numbers. A
    buffer is brought to the device and, if the kernel may write to it, marked as written there.

    Attributes:
        function: what it was made from.
        name: for messages and records.
        device: the arch that it is for, or ``"auto"``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        device: str,
        fastmath: bool | None,
        cache: bool | None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = name
        self.device = device
        self._wanted = {"fast_math": fastmath, "offline_cache": cache}
        self._epoch: Any = None

    @functools.cached_property
    def written(self) -> frozenset[str]:
        """Return the names of the arguments that the kernel may write to."""
        if self._built is not None:
            return _written_by(self._built)
        names = [name for name, kind, *_ in self._arguments if kind != "scalar"]
        function = self.function
        if self._is_taichi:
            from tikgen.taichi import kernels

            known = kernels.written(self.function)
            function = known.function if known is not None else function
        return written_names(function, names)

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the ``ti.kernel``, or the kernel of ``tikgen.build``, that is launched."""
        if self._built is not None or self._is_taichi:
            return self.function
        import taichi as ti

        return ti.kernel(_annotated(self.function, self.name, ti.types.ndarray()))

    @functools.cached_property
    def _built(self) -> Kernel | None:
        return self.function if is_built(self.function) else None  # type: ignore[return-value]

    @functools.cached_property
    def _is_taichi(self) -> bool:
        from tikgen.taichi import kernels

        return kernels.is_kernel(self.function)

    @functools.cached_property
    def _arguments(self) -> list[tuple[str, str, str | None, int]]:
        from tikgen.taichi import kernels

        return kernels.kernel_arguments(self.compiled)

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        if not isinstance(self.function, types.FunctionType):
            return {}
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel, and return what it returns, mostly None.

        Raises:
            ArgumentError: if an argument does not fit.
            BackendNotAvailableError: if the kernel is for another arch than ``ti.init`` chose.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if no kernel ran yet in the thread that called ``ti.init``.
        """
        self._check_runtime()
        if self._built is not None:
            return launch_built(self._built, args, kwargs)
        values = self._ordered(args, kwargs)
        with contextlib.ExitStack() as blocks:
            for index, (name, kind, *_) in enumerate(self._arguments):
                value = values[index]
                if isinstance(value, UnifiedBuffer) and kind != "scalar":
                    is_written = name in self.written
                    values[index] = blocks.enter_context(value.on_device(read_only=not is_written))
                elif problem := _problem_with(value, kind):
                    raise ArgumentError(self.name, f"argument {name!r} {problem}")
            return self.compiled(*values)

    def _check_runtime(self) -> None:
        from tikgen.taichi import runtime

        arch = runtime.current_arch()
        if arch is None:
            raise TaichiNotInitialised(self.name)
        if not runtime.may_materialise():
            raise WrongThread(self.name)
        if self._epoch is runtime.epoch():
            return
        if self.device not in ("auto", arch):
            reason = f"kernel {self.name!r} is for it, and ti.init chose {arch}"
            raise BackendNotAvailableError(self.device, reason)
        options = runtime.init_options()
        for option, wanted in self._wanted.items():
            if wanted is not None and bool(options[option]) != wanted:
                problem = f"ti.init chose {options[option]}, for all kernels; kernel {self.name!r}"
                raise InvalidConfigurationError(option, wanted, problem)
        self._epoch = runtime.epoch()

    def _ordered(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = [name for name, *_ in self._arguments]
        takes = f"it takes {', '.join(names) or 'none'}"
        if len(args) > len(names):
            raise ArgumentError(self.name, f"got {len(args)} arguments; {takes}")
        values = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in values:
                how = "is given twice" if name in values else "is unknown"
                raise ArgumentError(self.name, f"argument {name!r} {how}; {takes}")
            values[name] = value
        values = {**self._defaults, **values}
        if missing := [name for name in names if name not in values]:
            raise ArgumentError(self.name, f"argument {', '.join(missing)} is missing; {takes}")
        return [values[name] for name in names]

    def __repr__(self) -> str:
        return f"<kernel {self.name} for {self.device}>"


@overload
def kernel(function: Callable[..., Any]) -> ComputeKernel: ...


@overload
def kernel(
    *,
    name: str | None = None,
    device: str = "auto",
    fastmath: bool | None = None,
    cache: bool | None = None,
) -> Callable[[Callable[..., Any]], ComputeKernel]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    device: str = "auto",
    fastmath: bool | None = None,
    cache: bool | None = None,
) -> Any:
    """Make a kernel of a function whose body is Taichi code; a decorator, with options or without.

    A parameter without annotation takes an array. A kernel of ``ti.kernel`` or ``tikgen.build`` is
    taken as well.

    Args:
        function: the function. What it captures is read when it is compiled, at its first call.
        name: for messages and records; the function's own by default.
        device: the arch that it is for; ``"auto"`` takes whatever ``ti.init`` chose.
        fastmath: what ``ti.init`` must have chosen as ``fast_math``; None takes both.
        cache: likewise for ``offline_cache``.

    Raises:
        InvalidConfigurationError: if an option is of no use, or this is no function.
    """
    if device not in DEVICES:
        raise InvalidConfigurationError("device", device, f"takes one of {', '.join(DEVICES)}")

    def decorate(function: Callable[..., Any]) -> ComputeKernel:
        own = name or name_of(function)
        if isinstance(function, ComputeKernel):
            function = function.function
        is_function = isinstance(function, types.FunctionType) and not (
            inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
        )
        if not (is_function or is_built(function) or is_taichi_kernel(function)):
            problem = "takes a function whose body is Taichi code, or a kernel"
            raise InvalidConfigurationError("kernel", function, problem)
        return ComputeKernel(function, own, device, fastmath, cache)

    return decorate if function is None else decorate(function)


def is_built(value: object) -> bool:
    """Tell whether ``value`` is a kernel of ``tikgen.build``; does not import Taichi."""
    return _is_a(value, "tikgen.pipeline.kernel", "Kernel")


def is_kernel(value: object) -> bool:
    """Tell whether calling ``value`` launches a kernel; does not import Taichi."""
    return (
        isinstance(value, ComputeKernel)
        or is_built(value)
        or _is_a(value, "tikgen.pipeline.bound", "BoundKernel")
        or is_taichi_kernel(value)
    )


def name_of(value: object) -> str:
    """Return what to call a kernel or a function in messages and records."""
    while isinstance(value, functools.partial):
        value = value.func
    kernel = getattr(value, "kernel", value)  # Of a bound kernel.
    name = getattr(kernel, "name", None) or getattr(kernel, "__name__", None)
    return str(name or type(value).__name__)


def is_taichi_kernel(value: object) -> bool:
    """Tell whether ``value`` is a function decorated with ``ti.kernel``; does not import Taichi."""
    return bool(getattr(value, "_is_wrapped_kernel", False))


def launch_built(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Launch a kernel of ``tikgen.build`` over buffers and whatever else it takes.

    Raises:
        ArgumentError: if an argument does not fit.
    """
    named = kernel.signature.named(args, kwargs)
    written = _written_by(kernel)
    with contextlib.ExitStack() as blocks:
        for name, value in named.items():
            if isinstance(value, UnifiedBuffer):
                block = value.on_device(read_only=name not in written)
                named[name] = blocks.enter_context(block)
        return kernel(**named)


def _written_by(kernel: Kernel) -> frozenset[str]:
    arguments = kernel.signature.arguments
    return frozenset(a.name for a in arguments if getattr(a, "written", True))


def _is_a(value: object, module: str, name: str) -> bool:
    return any(k.__module__ == module and k.__qualname__ == name for k in type(value).__mro__)


def _annotated(function: Callable[..., Any], name: str, array: Any) -> Callable[..., Any]:
    """Return a copy of a function, each parameter of which says what Taichi is to take."""
    assert isinstance(function, types.FunctionType)
    try:
        known = inspect.get_annotations(function, eval_str=True)
    except Exception as error:
        problem = f"an annotation cannot be read: {error}"
        raise InvalidConfigurationError("kernel", name, problem) from error
    arrays = (inspect.Parameter.empty, np.ndarray, UnifiedBuffer)
    annotations = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            problem = f"parameter {parameter.name!r} must be an ordinary one"
            raise InvalidConfigurationError("kernel", name, problem)
        annotation = known.get(parameter.name, inspect.Parameter.empty)
        annotations[parameter.name] = array if annotation in arrays else annotation
    if known.get("return") is not None:
        annotations["return"] = known["return"]
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
    copy.__annotations__, copy.__qualname__ = annotations, function.__qualname__
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    return copy


def _problem_with(value: Any, kind: str) -> str:
    """Return why Taichi cannot take a value for an argument of this kind, or nothing."""
    from tikgen.taichi import arrays as taichi_arrays

    if isinstance(value, taichi_arrays.TaichiArray) and taichi_arrays.is_stale(value):
        return "was made before the last ti.init and is stale"
    if isinstance(value, UnifiedBuffer):
        return "takes a number; got a UnifiedBuffer"
    is_array = isinstance(value, (np.ndarray, *taichi_arrays.TaichiArray)) or hasattr(
        value, "data_ptr"
    )
    if kind == "array" and not is_array:
        return (
            f"takes an array; got {type(value).__name__} {value!r:.40}. "
            "Annotate the parameter if it is to take a number, such as `n: int`"
        )
    if isinstance(value, np.ndarray) and 0 in value.shape:
        return f"is empty (shape {value.shape}), which Taichi cannot take"
    return ""
