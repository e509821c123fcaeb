"""The launches of an orchestrator: settings, record, thread and time limit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import types
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from tikgen.buffers.compute_kernel import (
    ComputeKernel,
    is_built,
    is_kernel,
    is_taichi_kernel,
    kernel,
    launch_built,
    name_of,
)
from tikgen.buffers.errors import InvalidConfigurationError


@dataclass(frozen=True)
class KernelLaunchConfig:
    """Settings of a launch.

    Args:
        grid_size: must be None: Taichi chooses grids.
        block_size: must be None: it is a schedule parameter, or in ``ti.loop_config``.
        timeout: time limit in seconds, None for none. Code in the thread of the event loop cannot
            be interrupted.
        in_thread: whether it runs in a thread, by default for plain functions.

    Raises:
        InvalidConfigurationError: if a size is given, or the time limit is not positive.
    """

    grid_size: tuple[int, ...] | int | None = None
    block_size: tuple[int, ...] | int | None = None
    timeout: float | None = None
    in_thread: bool | None = None

    def __post_init__(self) -> None:
        for name in ("grid_size", "block_size"):
            if (value := getattr(self, name)) is not None:
                problem = "Taichi chooses grids; a schedule parameter sets the block size"
                raise InvalidConfigurationError(name, value, problem)
        check_timeout(self.timeout)


def check_timeout(timeout: object) -> None:
    """Raise :class:`InvalidConfigurationError` unless it is None or a positive number."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout > 0):  # type: ignore[operator]
        raise InvalidConfigurationError("timeout", timeout, "takes positive seconds, or None")


@dataclass
class KernelExecution:
    """The record of a kernel or task.

    Attributes:
        kernel_name: of the kernel or the task.
        config: settings of the launch.
        start_time: when it began, in seconds of ``time.perf_counter``.
        end_time: when it ended.
        success: whether it did not fail.
        error: the error that it raised.
        result: its result; None in the history.
    """

    kernel_name: str = ""
    config: KernelLaunchConfig = field(default_factory=KernelLaunchConfig)
    start_time: float = 0.0
    end_time: float = 0.0
    success: bool = False
    error: BaseException | None = None
    result: Any = None

    @property
    def duration_ms(self) -> float:
        """Return its duration in milliseconds; a launch on a GPU returns before it has finished."""
        return (self.end_time - self.start_time) * 1000


def wants_thread(function: Callable[..., Any]) -> bool:
    """Return whether a function may run in a thread: it is no kernel and no coroutine function."""
    while isinstance(function, functools.partial):
        function = function.func
    is_coroutine = inspect.iscoroutinefunction(inspect.unwrap(function))
    is_coroutine |= inspect.iscoroutinefunction(type(function).__call__)
    return not (is_coroutine or is_kernel(function))


def taking_buffers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that takes buffers in place of a ``ti.kernel``, or the function itself."""
    if isinstance(function, types.FunctionType) and is_taichi_kernel(function):
        return _wrapped(function)
    return function


@functools.lru_cache(maxsize=256)  # Taichi keeps its kernels as well.
def _wrapped(function: Callable[..., Any]) -> ComputeKernel:
    return kernel(function)


async def called(
    function: Callable[..., Any],
    threads: concurrent.futures.Executor | None,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function, a coroutine function or a kernel, and return its result.

    Without ``threads`` it runs in the thread of the event loop.
    """
    if is_built(function):
        return launch_built(function, args, kwargs)  # type: ignore[arg-type]
    if threads is not None:
        context = contextvars.copy_context()
        call = functools.partial(context.run, _guarded, function, *args, **kwargs)
        result = await asyncio.get_running_loop().run_in_executor(threads, call)
    else:
        result = function(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _guarded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a thread; a StopIteration would never reach the caller."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"{name_of(function)} raised StopIteration") from error


async def within(timeout: float | None, call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of ``call``, which is cancelled after ``timeout`` seconds."""
    if timeout is None:
        return await call
    task = asyncio.ensure_future(call)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        await _cancelled(task)
        raise
    if done:
        return task.result()
    await _cancelled(task)
    raise TimeoutError(f"it took longer than {timeout:g} s")


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
