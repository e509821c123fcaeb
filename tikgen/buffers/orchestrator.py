"""Runs kernels and functions, and graphs of them: in order, overlapping where they may."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tikgen.buffers.calls import called, over_grid, taking_buffers, wants_thread, within
from tikgen.buffers.compute_kernel import name_of
from tikgen.buffers.errors import InvalidConfigurationError, RuntimeClosed, TaskFailed
from tikgen.buffers.executions import KernelExecution, KernelLaunchConfig, check_timeout
from tikgen.buffers.task_graph import GraphTask, TaskGraph, tasks_in
from tikgen.errors import near

if TYPE_CHECKING:
    from tikgen.buffers.accelerator import Accelerator
    from tikgen.buffers.memory_pool import MemoryPool

_HISTORY = 1000


class ComputeOrchestrator:
    """Launches kernels one by one, and runs graphs of kernels and functions.

    Kernels run in the thread of the event loop, which must be the one that called ``ti.init``.
    Plain functions run in threads and coroutine functions in the event loop, so that they overlap.

    Args:
        max_threads: how many plain functions may run at once; by default one for each processor,
            and two at least.

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

    # Its life.

    async def __aenter__(self) -> ComputeOrchestrator:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def initialize(self) -> None:
        """Begin; once begun, nothing more happens."""
        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(
                self._max_threads, thread_name_prefix="tikgen-orchestrator"
            )

    async def shutdown(self) -> None:
        """End: cancel what runs, and wait until the device is idle.

        A function in a thread cannot be interrupted; its result is dropped.
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
        """Tell whether it was begun and not ended."""
        return self._threads is not None

    @property
    def accelerator(self) -> Accelerator:
        """Return the devices of this machine."""
        from tikgen.buffers.accelerator import get_accelerator

        return get_accelerator()

    @property
    def memory_pool(self) -> MemoryPool:
        """Return the pool that buffers are from where they name none."""
        from tikgen.buffers.memory_pool import get_memory_pool

        return get_memory_pool()

    def synchronize(self) -> None:
        """Wait until the device has done what it was told."""
        self.accelerator.synchronize()

    # Kernels by name, and one at a time.

    def register_kernel(self, name: str, kernel_func: Callable[..., Any]) -> None:
        """Give a kernel or a function a name.

        Raises:
            InvalidConfigurationError: if the name is taken by another, or this cannot be called.
        """
        if self._kernels.get(name, kernel_func) is not kernel_func:
            raise InvalidConfigurationError("name", name, "there is a kernel of this name")
        if not callable(kernel_func):
            raise InvalidConfigurationError("kernel_func", kernel_func, "cannot be called")
        self._kernels[name] = kernel_func

    def get_kernel(self, name: str) -> Callable[..., Any] | None:
        """Return the kernel of a name, None where there is none."""
        return self._kernels.get(name)

    async def launch_kernel(
        self, kernel: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> KernelExecution:
        """Launch a kernel, or call a function, and return the record with its result.

        Args:
            kernel: itself, or its name.
            args: its arguments, after a :class:`KernelLaunchConfig` where one is wanted.
            kwargs: its arguments by name; ``config`` is one of the former.

        Raises:
            InvalidConfigurationError: if there is no such kernel, or it cannot be launched so.
            RuntimeClosed: if the orchestrator was not begun, or has ended.
            TimeoutError: if it took longer than it may.
            Exception: what the kernel raises; the record, with it, is in the history.
        """
        config = KernelLaunchConfig()
        if args and isinstance(args[0], KernelLaunchConfig):
            config, args = args[0], args[1:]
        elif isinstance(kwargs.get("config"), KernelLaunchConfig):
            config = kwargs.pop("config")
        name, function = self._resolved(kernel)
        function = over_grid(name, function, config)
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
            function: a kernel, its name, a function, or a coroutine function.
            args: its arguments; a task in them, or in a list, tuple or dict in them, stands for its
                result and is waited for.
            after: further tasks, or their names, to wait for.
            timeout: seconds that it may take. What runs in the thread of the event loop cannot be
                interrupted; what runs in a thread is no longer waited for.
            in_thread: whether it runs in a thread: plain functions do, unless this is False.
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
        """Forget all tasks of the graph."""
        self._graph = TaskGraph()

    async def run(
        self,
        *targets: GraphTask | str,
        timeout: float | None = None,
        return_exceptions: bool = False,
    ) -> dict[str, Any]:
        """Run the graph and return the results by name; it can be run again.

        When a task fails, those that wait for it are not run, and the others are.

        Args:
            targets: tasks, or their names, that are wanted with all that they wait for; none
                wants all.
            timeout: seconds that all may take together; then what runs is cancelled.
            return_exceptions: puts errors in the places of results, rather than to raise.

        Raises:
            InvalidConfigurationError: if a task is unknown, or tasks wait for one another.
            RuntimeClosed: if the orchestrator was not begun, or has ended.
            TaskFailed: if tasks failed; its ``problems`` tell by name what each raised, and which
                were not run. What the first one raised is its cause.
            TimeoutError: if it took longer than ``timeout``.
        """
        self._check_active("run a graph")
        check_timeout(timeout)
        names = [self._graph.name_of(target) for target in targets]
        results = await self._tracked(within(timeout, self._run(names)))
        failed = {name: r for name, r in results.items() if isinstance(r, _Failure)}
        if failed and not return_exceptions:
            problems = {name: failure.told for name, failure in failed.items()}
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
                # Threads begin before kernels, which hold the loop, so that they overlap.
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
            await asyncio.sleep(0)  # Lets the threads of the others begin.
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
            self._history.append(execution.without_result())

    async def _tracked(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await what :meth:`shutdown` cancels."""
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

    # What it did.

    def get_execution_history(
        self, limit: int | None = None, kernel_name: str | None = None
    ) -> list[KernelExecution]:
        """Return records of the last 1,000 launches and tasks, oldest first, without results.

        Args:
            limit: how many at most, the latest.
            kernel_name: of which kernel or task; None takes all.
        """
        found = [e for e in self._history if kernel_name in (None, e.kernel_name)]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    def clear_execution_history(self) -> None:
        """Forget what was run."""
        self._history.clear()

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
    """Stands where a result would."""

    def __init__(self, error: BaseException, told: str) -> None:
        self.error = error
        self.told = told

    @classmethod
    def not_run(cls, name: str, culprit: str) -> _Failure:
        told = f"was not run, because {culprit!r} failed or was not run"
        return cls(TaskFailed({name: told}), told)


def _outcome(finished: asyncio.Task[Any]) -> Any:
    if finished.cancelled():
        return _Failure(asyncio.CancelledError(), "was cancelled")
    error = finished.exception()
    if error is None:
        return finished.result()
    return _Failure(error, f"{type(error).__name__}: {error}")
