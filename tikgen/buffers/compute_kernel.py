"""The decorator ``kernel``: a function of Taichi code that takes buffers."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tikgen.buffers.errors import BackendNotAvailableError, InvalidConfigurationError
from tikgen.buffers.function_source import looped_axes, tree_of, written_names
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, TaichiNotInitialised, WrongThread
from tikgen.units import are_missing

if TYPE_CHECKING:
    from tikgen.pipeline.kernel import Kernel

DEVICES = ("auto", "cpu", "cuda", "vulkan")


class ComputeKernel:
    """A kernel over buffers, made by :func:`kernel`.

    It takes :class:`UnifiedBuffer`, NumPy arrays, ``ti.ndarray``, torch tensors and numbers. A
    buffer is copied to the device if needed, and marked as written if the kernel may write to it.

    Attributes:
        function: the function.
        name: for messages and records.
        device: its arch, or ``"auto"``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        device: str,
        wanted: Mapping[str, bool | None],
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = name
        self.device = device
        self._wanted = wanted
        self._epoch: Any = None

    @functools.cached_property
    def written(self) -> frozenset[str]:
        """Return the names of the arguments that the kernel may write to."""
        if self._built is not None:
            return _written_by(self._built)
        names = [name for name, kind, *_ in self._arguments if kind != "scalar"]
        return written_names(self._tree, names)

    @functools.cached_property
    def _axes(self) -> dict[str, int]:
        """Return the number of axes of arrays over which the kernel loops."""
        plain = (None, *(dtype.value for dtype in DType))  # Others are of vectors or matrices.
        names = [n for n, kind, dtype, _ in self._arguments if kind == "array" and dtype in plain]
        return looped_axes(self._tree, names)

    @functools.cached_property
    def _tree(self) -> ast.AST | None:
        """Return the tree of the function's source, None if it has none."""
        if not self._is_taichi:
            return tree_of(self.function)
        from tikgen.taichi import kernels

        known = kernels.written(self.function)
        return tree_of(self.function if known is None else known.function)

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the ``ti.kernel`` or the kernel of ``tikgen.build``."""
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
        """Launch the kernel, and return its result, usually None.

        Raises:
            ArgumentError: if an argument does not fit.
            BackendNotAvailableError: if the kernel is for another arch than ``ti.init`` chose.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if no kernel ran yet in the thread that called ``ti.init``.
        """
        self._check_runtime()
        if self._built is not None:
            return launch_built(self._built, args, kwargs)
        from tikgen.buffers.array_problems import axes_problem, own_copy, problem_with

        values = self._ordered(args, kwargs)
        with contextlib.ExitStack() as blocks:
            for index, (name, kind, *_) in enumerate(self._arguments):
                value, is_written = values[index], name in self.written
                is_buffer = isinstance(value, UnifiedBuffer) and kind != "scalar"
                problem = "" if is_buffer else problem_with(name, value, kind, is_written)
                if not problem and name in self._axes:
                    problem = axes_problem(value, self._axes[name])
                if problem:
                    raise ArgumentError(self.name, f"argument {name!r} {problem}")
                if is_buffer:
                    values[index] = blocks.enter_context(value.on_device(read_only=not is_written))
                else:
                    values[index] = own_copy(value)
            try:
                return self.compiled(*values)
            except ValueError as error:
                if (problem := str(error)).startswith("Invalid value for argument"):
                    raise ArgumentError(self.name, problem) from error
                raise

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
            raise ArgumentError(self.name, f"{are_missing(missing)}; {takes}")
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
    """Make a kernel of a function of Taichi code; a decorator, with or without options.

    A parameter without annotation takes an array. It also takes a ``ti.kernel`` or a kernel of
    ``tikgen.build``.

    Args:
        function: the function. Captured variables are read when it is compiled, at its first call.
        name: for messages and records, by default of the function.
        device: its arch; ``"auto"`` for the arch of ``ti.init``.
        fastmath: the required ``fast_math`` of ``ti.init``; None for any.
        cache: the required ``offline_cache`` of ``ti.init``; None for any.

    Raises:
        InvalidConfigurationError: if an option is invalid, or this is no function.
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
            problem = "takes a function of Taichi code, or a kernel"
            raise InvalidConfigurationError("kernel", function, problem)
        wanted = {"fast_math": fastmath, "offline_cache": cache}
        return ComputeKernel(function, own, device, wanted)

    return decorate if function is None else decorate(function)


def is_built(value: object) -> bool:
    """Return whether ``value`` is a kernel of ``tikgen.build``, without importing Taichi."""
    return _is_a(value, "tikgen.pipeline.kernel", "Kernel")


def is_kernel(value: object) -> bool:
    """Return whether calling ``value`` launches a kernel, without importing Taichi."""
    return (
        isinstance(value, ComputeKernel)
        or is_built(value)
        or _is_a(value, "tikgen.pipeline.bound", "BoundKernel")
        or is_taichi_kernel(value)
    )


def name_of(value: object) -> str:
    """Return the name of a kernel or function for messages and records."""
    while isinstance(value, functools.partial):
        value = value.func
    kernel = getattr(value, "kernel", value)  # Of a bound kernel.
    name = getattr(kernel, "name", None) or getattr(kernel, "__name__", None)
    return str(name or type(value).__name__)


def is_taichi_kernel(value: object) -> bool:
    """Return whether ``value`` is a ``ti.kernel``, without importing Taichi."""
    return bool(getattr(value, "_is_wrapped_kernel", False))


def launch_built(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Launch a kernel of ``tikgen.build``, also over buffers; raises as the kernel."""
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
    """Return a copy of a function with an annotation for each parameter."""
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
