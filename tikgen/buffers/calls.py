"""How an orchestrator makes one call: where it runs, how long it may take, over which grid."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import types
from collections.abc import Callable, Coroutine, Sequence
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
from tikgen.buffers.executions import KernelLaunchConfig


def wants_thread(function: Callable[..., Any]) -> bool:
    """Tell whether a function may run in a thread: neither a kernel nor a coroutine function."""
    while isinstance(function, functools.partial):
        function = function.func
    is_coroutine = inspect.iscoroutinefunction(inspect.unwrap(function))
    is_coroutine |= inspect.iscoroutinefunction(type(function).__call__)
    return not (is_coroutine or is_kernel(function))


def taking_buffers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes buffers, where it is a ``ti.kernel``, which takes none."""
    if isinstance(function, types.FunctionType) and is_taichi_kernel(function):
        return _wrapped(function)
    return function


@functools.lru_cache(maxsize=256)  # Taichi keeps its kernels for ever as well.
def _wrapped(function: Callable[..., Any]) -> ComputeKernel:
    return kernel(function)


def over_grid(
    name: str, function: Callable[..., Any], config: KernelLaunchConfig
) -> Callable[..., Any]:
    """Return a kernel over a grid, for those that are launched as ``kernel[grid, block](...)``.

    Raises:
        InvalidConfigurationError: if there is a grid, and the function takes none.
    """
    if config.grid_size is None and config.block_size is None:
        return function
    if not hasattr(type(function), "__getitem__"):
        problem = f"{name!r} takes no grid: Taichi chooses grids, and functions have none"
        raise InvalidConfigurationError("grid_size", config.grid_size, problem)
    sizes = config.grid_size or (1,), config.block_size or (256,)
    grid: Callable[..., Any] = function[sizes]  # type: ignore[index]
    return grid


async def called(
    function: Callable[..., Any],
    threads: concurrent.futures.Executor | None,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function, and return its result.

    Args:
        function: a function, a coroutine function or a kernel.
        threads: where it runs; None runs it in the thread of the event loop.
        args: its arguments.
        kwargs: its arguments by name.
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
    """Call a function in a thread: a future that is given a StopIteration would never end."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"{name_of(function)} raised StopIteration") from error


async def within(timeout: float | None, call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of ``call``, which is cancelled when it takes too long.

    Raises:
        TimeoutError: if it took longer than ``timeout`` seconds.
    """
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
