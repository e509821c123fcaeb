"""Runs kernels, functions, and graphs of them, concurrently where possible."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from tikgen.buffers.compute_kernel import name_of
from tikgen.buffers.errors import InvalidConfigurationError, RuntimeClosed, TaskFailed
from tikgen.buffers.launches import (
    KernelExecution,
    KernelLaunchConfig,
    called,
    check_timeout,
    taking_buffers,
    wants_thread,
    within,
)
from tikgen.buffers.task_graph import GraphTask, TaskGraph, tasks_in
from tikgen.errors import near

_HISTORY = 1000


class ComputeOrchestrator:
    """Launches kernels, and runs graphs of kernels and functions.

    Kernels run in the thread of the event loop, which must be the one that called ``ti.init``.
    Plain functions run in threads, and coroutine functions on the event loop.

    Args:
        max_threads: number of threads for plain functions; by default one for each processor, and
            two at least.

    Raises:
        InvalidConfigurationError: if that is no positive integer.
    """

    def __init__(self, *, max_threads: int | None = None) -> None:
        if max_threads is not None and (type(max_threads) is not int or max_threads < 1):
            raise InvalidConfigurationError("max_threads", max_threads, "takes a positive integer")
        self._max_threads = max_threads or max(os.cpu_count() or 1, 2)
        self._kernels: dict[str, Callable[..., Any]] = {}
        self._graph = TaskGraph()
        self._history: collections.deque[KernelExecution] = collections.deque(maxlen=_HISTORY)
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._ended: set[asyncio.Task[Any]] = set()
        self._was_closed = False

    # Start and end.

    async def __aenter__(self) -> ComputeOrchestrator:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def initialize(self) -> None:
        """Start it; a second call has no effect."""
        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(
                self._max_threads, thread_name_prefix="tikgen-orchestrator"
            )

    async def shutdown(self) -> None:
        """Cancel everything that runs, and wait until the device is idle.

        A function in a thread cannot be interrupted; its result is discarded.
        """
        if self._threads is None:
            return
        threads, self._threads, self._was_closed = self._threads, None, True
        self._ended |= self._running
        for task in self._ended:
            task.cancel()
        await asyncio.gather(*self._ended, return_exceptions=True)
        threads.shutdown(wait=False, cancel_futures=True)
        self.synchronize()

    @property
    def is_active(self) -> bool:
        """Return whether it was started and not shut down."""
        return self._threads is not None

    def synchronize(self) -> None:
        """Wait until the device has finished."""
        from tikgen.buffers.accelerator import get_accelerator

        get_accelerator().synchronize()

    # Single kernels.

    def register_kernel(self, name: str, kernel_func: Callable[..., Any]) -> None:
        """Register a kernel or a function by name.

        Raises:
            InvalidConfigurationError: if the name is taken, or this cannot be called.
        """
        if self._kernels.get(name, kernel_func) is not kernel_func:
            raise InvalidConfigurationError("name", name, "there is a kernel of this name")
        if not callable(kernel_func):
            raise InvalidConfigurationError("kernel_func", kernel_func, "cannot be called")
        self._kernels[name] = kernel_func

    async def launch_kernel(
        self, kernel: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> KernelExecution:
        """Launch a kernel, or call a function, and return the record with its result.

        Args:
            kernel: a kernel, a function, or a registered name.
            args: its arguments, optionally after a :class:`KernelLaunchConfig`.
            kwargs: its arguments by name; ``config`` may be a :class:`KernelLaunchConfig`.

        Raises:
            InvalidConfigurationError: if there is no such kernel, or a setting does not suit it.
            RuntimeClosed: if the orchestrator was not started, or has ended.
            TimeoutError: if it exceeded its time limit.
            Exception: any error of the kernel; its record is in the history.
        """
        config = KernelLaunchConfig()
        if args and isinstance(args[0], KernelLaunchConfig):
            config, args = args[0], args[1:]
        elif isinstance(kwargs.get("config"), KernelLaunchConfig):
            config = kwargs.pop("config")
        name, function = self._resolved(kernel)
        in_thread = _in_thread(name, function, config.in_thread)
        execution = KernelExecution(name, config)
        self._check_active("launch a kernel")
        await self._tracked(
            self._execute(execution, function, in_thread, args, kwargs, config.timeout)
        )
        return execution

    def _resolved(self, kernel: Callable[..., Any] | str) -> tuple[str, Callable[..., Any]]:
        if not isinstance(kernel, str):
            if not callable(kernel):
                raise InvalidConfigurationError("kernel", kernel, "cannot be called")
            return name_of(kernel), taking_buffers(kernel)
        found = self._kernels.get(kernel)
        if found is None:
            problem = f"no kernel of this name is registered.{near(kernel, self._kernels)}"
            raise InvalidConfigurationError("kernel", kernel, problem)
        return kernel, taking_buffers(found)

    # Graphs.

    def add(
        self,
        name: str,
        function: Callable[..., Any] | str,
        /,
        *args: Any,
        after: Iterable[GraphTask | str] | GraphTask | str = (),
        timeout: float | None = None,
        in_thread: bool | None = None,
        **kwargs: Any,
    ) -> GraphTask:
        """Add a task to the graph, and return it: it stands for its result in later tasks.

        Args:
            name: of the task.
            function: a kernel, its registered name, a function, or a coroutine function.
            args: its arguments; tasks in them stand for their results.
            after: further tasks, or their names, on which it depends.
            timeout: time limit in seconds. Code in the thread of the event loop cannot be
                interrupted.
            in_thread: whether it runs in a thread, by default for plain functions.
            kwargs: its arguments by name.

        Raises:
            InvalidConfigurationError: if the name is taken, the function cannot be called, or a
                task is of another graph.
        """
        if not isinstance(name, str) or not name:
            raise InvalidConfigurationError("name", name, "takes a text")
        check_timeout(timeout)
        _, resolved = self._resolved(function)
        threaded = _in_thread(name, resolved, in_thread)
        listed = [after] if isinstance(after, GraphTask | str) else list(after)
        waits = [*tasks_in([*args, *kwargs.values()]), *listed]
        names = tuple(dict.fromkeys(map(self._graph.name_of, waits)))
        return self._graph.add(GraphTask(name, resolved, args, kwargs, names, timeout, threaded))

    def clear(self) -> None:
        """Remove all tasks of the graph."""
        self._graph = TaskGraph()

    async def run(
        self,
        *targets: GraphTask | str,
        timeout: float | None = None,
        return_exceptions: bool = False,
    ) -> dict[str, Any]:
        """Run the graph and return the results by name; it can be run again.

        When a task fails, those that depend on it are skipped, and the others run.

        Args:
            targets: wanted tasks, or their names, with all their dependencies; empty for all.
            timeout: time limit of the whole run in seconds.
            return_exceptions: whether to return errors in place of results, rather than raise.

        Raises:
            InvalidConfigurationError: if a task is unknown, or tasks depend on each other.
            RuntimeClosed: if the orchestrator was not started, or has ended.
            TaskFailed: if tasks failed; its ``problems`` are texts by name, and its cause is the
                first error.
            TimeoutError: if it exceeded the time limit.
        """
        self._check_active("run a graph")
        check_timeout(timeout)
        names = [self._graph.name_of(target) for target in targets]
        results = await self._tracked(within(timeout, self._run(names)))
        failed = {name: r for name, r in results.items() if isinstance(r, _Failure)}
        if failed and not return_exceptions:
            problems = {name: failure.text for name, failure in failed.items()}
            first = next(f.error for f in failed.values() if not isinstance(f.error, TaskFailed))
            raise TaskFailed(problems) from first
        return {n: r.error if isinstance(r, _Failure) else r for n, r in results.items()}

    async def _run(self, names: list[str]) -> dict[str, Any]:
        graph = self._graph
        sorter, needed = graph.order(names)
        results: dict[str, Any] = {}
        running: dict[asyncio.Task[Any], str] = {}
        try:
            while sorter.is_active():
                # Threads start before kernels, which block the loop.
                ready = sorted(sorter.get_ready(), key=lambda n: not graph.tasks[n].in_thread)
                for name in ready:
                    task = graph.tasks[name]
                    culprit = next((a for a in task.after if isinstance(results[a], _Failure)), "")
                    if culprit:
                        results[name] = _Failure.not_run(name, culprit)
                        sorter.done(name)
                    else:
                        running[asyncio.ensure_future(self._run_task(task, results))] = name
                if running:
                    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for finished in done:
                        name = running.pop(finished)
                        results[name] = _outcome(finished)
                        sorter.done(name)
        finally:
            for left in running:
                left.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return {name: results[name] for name in needed}

    async def _run_task(self, task: GraphTask, results: dict[str, Any]) -> Any:
        if not task.in_thread:
            await asyncio.sleep(0)  # The threads of others start first.
        args, kwargs = task.arguments(results)
        execution = KernelExecution(task.name, KernelLaunchConfig(timeout=task.timeout))
        await self._execute(execution, task.function, task.in_thread, args, kwargs, task.timeout)
        return execution.result

    # One call.

    async def _execute(
        self,
        execution: KernelExecution,
        function: Callable[..., Any],
        in_thread: bool,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> None:
        execution.start_time = time.perf_counter()
        try:
            call = called(function, self._threads if in_thread else None, args, kwargs)
            execution.result = await within(timeout, call)
            execution.success = True
        except BaseException as error:
            execution.error = error
            raise
        finally:
            execution.end_time = time.perf_counter()
            self._history.append(dataclasses.replace(execution, result=None))

    async def _tracked(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await a call that :meth:`shutdown` may cancel."""
        task = asyncio.ensure_future(call)
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if task in self._ended:
                raise RuntimeClosed("finish", True) from None
            raise
        finally:
            self._running.discard(task)
            self._ended.discard(task)

    def _check_active(self, operation: str) -> None:
        if self._threads is None:
            raise RuntimeClosed(operation, self._was_closed)

    # History.

    def get_execution_history(
        self, limit: int | None = None, kernel_name: str | None = None
    ) -> list[KernelExecution]:
        """Return records of the last 1,000 launches and tasks, oldest first, without results.

        Args:
            limit: greatest number of records, the latest ones.
            kernel_name: of one kernel or task; None for all.
        """
        found = [e for e in self._history if kernel_name in (None, e.kernel_name)]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    def __repr__(self) -> str:
        return (
            f"ComputeOrchestrator(active={self.is_active}, kernels={len(self._kernels)}, "
            f"tasks={len(self._graph.tasks)}, executions={len(self._history)})"
        )


def _in_thread(name: str, function: Callable[..., Any], wanted: bool | None) -> bool:
    may = wants_thread(function)
    if wanted and not may:
        problem = f"{name!r} is a kernel or a coroutine function: it runs in the loop's thread"
        raise InvalidConfigurationError("in_thread", wanted, problem)
    return may if wanted is None else wanted


class _Failure:
    """Takes the place of a result."""

    def __init__(self, error: BaseException, text: str) -> None:
        self.error = error
        self.text = text

    @classmethod
    def not_run(cls, name: str, culprit: str) -> _Failure:
        text = f"was not run, because {culprit!r} failed or was not run"
        return cls(TaskFailed({name: text}), text)


def _outcome(finished: asyncio.Task[Any]) -> Any:
    if finished.cancelled():
        return _Failure(asyncio.CancelledError(), "was cancelled")
    error = finished.exception()
    if error is None:
        return finished.result()
    return _Failure(error, f"{type(error).__name__}: {error}")
