"""Kernels over buffers; graphs of tasks: order, concurrency, errors, time-outs."""

import asyncio
import contextvars
import functools
import threading
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.buffers.buffer_state import BufferState
from tikgen.buffers.compute_kernel import kernel
from tikgen.buffers.function_source import tree_of, written_names
from tikgen.buffers.launches import KernelLaunchConfig
from tikgen.buffers.orchestrator import ComputeOrchestrator
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.errors import ArgumentError, TaichiNotInitialised
from tikgen.ring.errors import (
    BackendNotAvailableError,
    InvalidConfigurationError,
    RuntimeClosed,
    TaskFailed,
)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(main, 60)

    return asyncio.run(limited())


@kernel
def add(a, b, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + b[i]


@kernel
def scale(x, factor: float):
    for i in range(x.shape[0]):
        x[i] *= factor


# The decorator.


@pytest.mark.parametrize("size", [1, 31, 1009])
def test_a_kernel_takes_buffers_and_arrays(
    ti_arch: str, rng: np.random.Generator, size: int
) -> None:
    a, b = (rng.random(size, dtype=np.float32) for _ in range(2))
    left, right, out = UnifiedBuffer(size), UnifiedBuffer(size), UnifiedBuffer(size).allocate()
    left.copy_from(a)
    right.copy_from(b)
    add(left, b=right, out=out)
    np.testing.assert_array_equal(out.host, a + b)
    plain = np.zeros(size, np.float32)
    add(left, b, plain)
    np.testing.assert_array_equal(plain, a + b)
    # Arrays that are only read are not copied back, and nothing is copied twice.
    assert left.state is BufferState.SYNCHRONIZED
    assert (left.transfers.to_device, out.transfers.to_device, out.transfers.to_host) == (1, 0, 1)
    scale(left, 2.0)
    assert left.state is BufferState.DEVICE_DIRTY
    np.testing.assert_allclose(left.host, 2 * a)


def test_closures_have_separate_kernels(ti_arch: str) -> None:
    def adder(amount: int) -> Any:
        @kernel
        def add_amount(x):
            for i in range(x.shape[0]):
                x[i] += amount

        return add_amount

    one, ten = adder(1), adder(10)
    buffer = UnifiedBuffer(7, np.int32).allocate()
    for expected, add_amount in ((1, one), (11, ten), (12, one), (22, ten)):
        add_amount(buffer)
        assert (buffer.host == expected).all()
    assert one.compiled is not ten.compiled


def test_kernels_of_taichi_and_of_tikgen_are_taken(ti_arch: str, rng: np.random.Generator) -> None:
    @ti.kernel
    def double(x: ti.types.ndarray(), y: ti.types.ndarray()):  # type: ignore[valid-type]
        for i in range(x.shape[0]):
            y[i] = 2 * x[i]

    data = rng.random(37, dtype=np.float32)
    x, y = UnifiedBuffer(37), UnifiedBuffer(37).allocate()
    x.copy_from(data)
    kernel(double)(x, y)
    np.testing.assert_array_equal(y.host, 2 * data)
    assert kernel(double).written == {"y"}
    built = tikgen.build("stencil", dim=1, dtype="f32", boundary="periodic")
    made = kernel(name="waves")(built)
    made(x, y=y)
    np.testing.assert_allclose(y.host, built.reference(data), rtol=1e-4, atol=1e-4)
    assert (made.name, made.written, x.state) == ("waves", {"y"}, BufferState.SYNCHRONIZED)


def test_annotations_and_defaults_are_kept(ti_arch: str) -> None:
    @kernel
    def fill(x: np.ndarray, n: "int", value: ti.f32 = 3.0):
        for i in range(n):
            x[i] = value

    x = UnifiedBuffer(5).allocate()
    fill(x, 2)
    np.testing.assert_array_equal(x.host, [3, 3, 0, 0, 0])
    fill(x, n=5, value=1.5)
    assert (x.host == 1.5).all()


def test_invalid_arguments_of_a_kernel_raise(ti_arch: str) -> None:
    buffer = UnifiedBuffer(3).allocate()
    for args, kwargs, match in (
        ((buffer,), {}, "arguments b, out are missing; it takes a, b, out"),
        ((buffer,) * 4, {}, "got 4 arguments"),
        ((buffer,) * 3, {"c": 1}, "argument 'c' is unknown"),
        ((buffer,) * 3, {"a": buffer}, "argument 'a' is given twice"),
        ((buffer, buffer, 3), {}, "argument 'out' takes an array; got int 3. Annotate"),
        ((buffer, np.zeros(0, np.float32), buffer), {}, "argument 'b' is empty"),
    ):
        with pytest.raises(ArgumentError, match=match):
            add(*args, **kwargs)
    with pytest.raises(ArgumentError, match="'factor' takes a number; got a UnifiedBuffer"):
        scale(buffer, buffer)
    with buffer.on_host(), pytest.raises(Exception, match="a block writes to the host"):
        add(buffer, buffer, buffer)
    for wrong in (3, "text", asyncio.sleep, ti.cpu):
        with pytest.raises(InvalidConfigurationError, match="takes a function"):
            kernel(wrong)  # type: ignore[call-overload]
    with pytest.raises(InvalidConfigurationError, match="takes one of auto, cpu"):
        kernel(device="tpu")
    with pytest.raises(InvalidConfigurationError, match="'rest' must be an ordinary one"):
        kernel(lambda *rest: None)(buffer)


def test_a_kernel_for_another_arch_is_refused(ti_arch: str) -> None:
    other = "vulkan" if ti_arch == "cpu" else "cpu"
    buffer = UnifiedBuffer(3).allocate()
    with pytest.raises(BackendNotAvailableError, match=f"{other} .* ti.init chose {ti_arch}"):
        kernel(device=other)(scale.function)(buffer, 2.0)
    assert kernel(device=ti_arch, name="mine")(scale.function).name == "mine"
    is_fast = bool(ti.cfg.fast_math)
    kernel(fastmath=is_fast)(scale.function)(buffer, 2.0)
    with pytest.raises(InvalidConfigurationError, match="fast_math"):
        kernel(fastmath=not is_fast)(scale.function)(buffer, 2.0)


def test_a_kernel_without_ti_init_raises() -> None:
    from conftest import init_taichi

    ti.reset()
    try:
        with pytest.raises(TaichiNotInitialised, match="add"):
            add(np.ones(3), np.ones(3), np.ones(3))
    finally:
        init_taichi()


def test_arrays_count_as_written_unless_proved_otherwise() -> None:
    def body(a, b, c, d, e, f, g, h):
        for i in range(a.shape[0]):
            v = b[i] + ti.sqrt(c[i])
            d[i] += v
            ti.atomic_add(e[i], v)
            helper(f[i])  # type: ignore[name-defined] # noqa: F821
            alias = g
            alias[i] = h[i]

    assert written_names(tree_of(body), "abcdefgh") == {"d", "e", "f", "g"}
    assert written_names(tree_of(len), "xy") == {"x", "y"}


# Single launches.


def test_launches_leave_records(ti_arch: str) -> None:
    async def main() -> None:
        buffer = UnifiedBuffer(5).fill(3)
        async with ComputeOrchestrator() as orchestrator:
            orchestrator.register_kernel("scale", scale)
            done = await orchestrator.launch_kernel("scale", KernelLaunchConfig(), buffer, 2.0)
            assert done.success
            assert (buffer.host == 6).all()
            assert (done.kernel_name, done.error) == ("scale", None)
            assert done.duration_ms > 0
            total = await orchestrator.launch_kernel(np.sum, buffer.host)
            assert total.result == 30
            answer = await orchestrator.launch_kernel(asyncio.sleep, 0, "slept")
            assert answer.result == "slept"
            with pytest.raises(ZeroDivisionError):
                await orchestrator.launch_kernel(lambda: 1 / 0)
            history = orchestrator.get_execution_history()
            assert [e.success for e in history] == [True, True, True, False]
            assert all(e.result is None for e in history)
            assert isinstance(history[-1].error, ZeroDivisionError)
            assert orchestrator.get_execution_history(limit=0) == []
            assert len(orchestrator.get_execution_history(kernel_name="scale")) == 1
            assert orchestrator.get_execution_history(limit=2) == history[-2:]
        assert not orchestrator.is_active

    run(main())


def test_invalid_launches_are_refused(ti_arch: str) -> None:
    async def main() -> None:
        orchestrator = ComputeOrchestrator()
        with pytest.raises(RuntimeClosed, match="was not started"):
            await orchestrator.launch_kernel(len, [])
        async with orchestrator:
            orchestrator.register_kernel("scale", scale)
            orchestrator.register_kernel("scale", scale)
            with pytest.raises(InvalidConfigurationError, match="there is a kernel of this name"):
                orchestrator.register_kernel("scale", add)
            with pytest.raises(InvalidConfigurationError, match="Did you mean 'scale'"):
                await orchestrator.launch_kernel("scael")
            with pytest.raises(InvalidConfigurationError, match="cannot be called"):
                await orchestrator.launch_kernel(3)  # type: ignore[arg-type]
            with pytest.raises(InvalidConfigurationError, match="Taichi chooses grids"):
                await orchestrator.launch_kernel(scale, KernelLaunchConfig(grid_size=4))
            with pytest.raises(TimeoutError, match=r"longer than 0\.02 s"):
                await orchestrator.launch_kernel(
                    asyncio.sleep, KernelLaunchConfig(timeout=0.02), 30
                )
        with pytest.raises(RuntimeClosed, match="was shut down"):
            await orchestrator.run()
        for wrong in ({"grid_size": 0}, {"block_size": (2, -1)}, {"timeout": -1}, {"timeout": "1"}):
            with pytest.raises(InvalidConfigurationError):
                KernelLaunchConfig(**wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidConfigurationError, match="max_threads"):
            ComputeOrchestrator(max_threads=0)

    run(main())


# Graphs.


def test_results_are_passed_to_dependent_tasks(ti_arch: str, rng: np.random.Generator) -> None:
    async def main() -> None:
        data = rng.random(101, dtype=np.float32)
        x, out = UnifiedBuffer(101), UnifiedBuffer(101).allocate()

        async def fetch() -> np.ndarray:
            await asyncio.sleep(0)
            return data

        @ti.kernel
        def negate(y: ti.types.ndarray()):  # type: ignore[valid-type]
            for i in range(y.shape[0]):
                y[i] = -y[i]

        async with ComputeOrchestrator() as orchestrator:
            fetched = orchestrator.add("fetch", fetch)
            loaded = orchestrator.add("load", x.copy_from, fetched)
            added = orchestrator.add("add", add, x, x, out, after=loaded)
            orchestrator.add("negate", negate, out, after=["add"])
            read = orchestrator.add("read", lambda: out.host.copy(), after="negate")
            both = orchestrator.add("both", lambda parts: parts, {"all": [read, (fetched, 1)]})
            for _ in range(2):  # A graph can be run again.
                results = await orchestrator.run()
                assert list(results) == ["fetch", "load", "add", "negate", "read", "both"]
                np.testing.assert_array_equal(results["read"], -2 * data)
                assert results["both"]["all"][0] is results["read"]
                assert results["both"]["all"][1] == (data, 1)
            assert list(await orchestrator.run(added)) == ["fetch", "load", "add"]
            assert both.name in repr(both)

    run(main())


def test_tasks_of_random_graphs_run_in_order(rng: np.random.Generator) -> None:
    async def main() -> None:
        for _ in range(20):
            count = int(rng.integers(1, 12))
            waits = {
                f"t{i}": [f"t{j}" for j in range(i) if rng.random() < 0.4] for i in range(count)
            }
            finished: list[str] = []

            def work(name: str, needs: list[str], finished: list[str] = finished) -> str:
                assert set(needs) <= set(finished)
                finished.append(name)
                return name

            async with ComputeOrchestrator(max_threads=3) as orchestrator:
                for name in rng.permutation(list(waits)):  # Names may precede their tasks.
                    orchestrator.add(str(name), work, str(name), waits[name], after=waits[name])
                results = await orchestrator.run()
            assert results == {name: name for name in waits}
            assert sorted(finished) == sorted(waits)

    run(main())


def test_functions_and_coroutines_overlap() -> None:
    async def main() -> None:
        # Each waits for the others: run sequentially, they would break the barrier.
        barrier = threading.Barrier(3, timeout=30)

        async def meet() -> int:
            return await asyncio.get_running_loop().run_in_executor(None, barrier.wait)

        async with ComputeOrchestrator(max_threads=2) as orchestrator:
            orchestrator.add("first", barrier.wait)
            orchestrator.add("second", barrier.wait)
            orchestrator.add("third", meet)
            assert sorted((await orchestrator.run()).values()) == [0, 1, 2]

    run(main())


def test_kernels_run_in_the_thread_of_the_loop_and_functions_in_others(ti_arch: str) -> None:
    async def main() -> None:
        variable = contextvars.ContextVar("variable", default="lost")
        variable.set("kept")
        here = threading.get_ident()
        where = functools.partial(lambda: (threading.get_ident(), variable.get()))
        async with ComputeOrchestrator() as orchestrator:
            orchestrator.add("thread", where)
            orchestrator.add("loop", where, in_thread=False)
            results = await orchestrator.run()
            assert results["thread"][0] != here
            assert results["loop"][0] == here
            assert results["thread"][1] == results["loop"][1] == "kept"
            with pytest.raises(InvalidConfigurationError, match="in_thread"):
                orchestrator.add("kernel", scale, UnifiedBuffer(3).allocate(), 2.0, in_thread=True)

    run(main())


def test_errors_skip_dependent_tasks_only() -> None:
    async def main() -> None:
        ran: list[str] = []

        def stop() -> None:
            raise StopIteration  # A future could not hold it.

        async with ComputeOrchestrator() as orchestrator:
            bad = orchestrator.add("bad", lambda: 1 / 0)
            worse = orchestrator.add("worse", ran.append, bad)
            orchestrator.add("worst", ran.append, "worst", after=worse)
            orchestrator.add("stop", stop)
            orchestrator.add("fine", lambda: 5)
            with pytest.raises(TaskFailed) as caught:
                await orchestrator.run()
            assert set(caught.value.problems) == {"bad", "worse", "worst", "stop"}
            assert "ZeroDivisionError: division by zero" in caught.value.problems["bad"]
            assert "not run, because 'bad' failed" in caught.value.problems["worse"]
            assert "because 'worse'" in caught.value.problems["worst"]
            assert "StopIteration" in caught.value.problems["stop"]
            assert isinstance(caught.value.__cause__, ZeroDivisionError | RuntimeError)
            assert not ran
            results = await orchestrator.run(return_exceptions=True)
            assert results["fine"] == 5
            assert isinstance(results["bad"], ZeroDivisionError)
            assert isinstance(results["worse"], TaskFailed)
            assert await orchestrator.run("fine") == {"fine": 5}

    run(main())


def test_invalid_graphs_are_refused() -> None:
    async def main() -> None:
        async with ComputeOrchestrator() as orchestrator, ComputeOrchestrator() as other:
            assert await orchestrator.run() == {}
            a = orchestrator.add("a", len, [])
            with pytest.raises(InvalidConfigurationError, match="there is a task of this name"):
                orchestrator.add("a", len, [])
            with pytest.raises(InvalidConfigurationError, match="of another graph"):
                other.add("b", len, a)
            with pytest.raises(InvalidConfigurationError, match="takes tasks"):
                orchestrator.add("b", len, after=[3])  # type: ignore[list-item]
            with pytest.raises(InvalidConfigurationError, match="Did you mean 'a'"):
                await orchestrator.run("aa")
            with pytest.raises(InvalidConfigurationError, match="takes a text"):
                orchestrator.add("", len)
            with pytest.raises(InvalidConfigurationError, match="timeout"):
                orchestrator.add("b", len, timeout=0)
            orchestrator.add("b", len, [], after="c")
            with pytest.raises(InvalidConfigurationError, match="no such task"):
                await orchestrator.run()
            orchestrator.add("c", len, [], after="d")
            orchestrator.add("d", len, [], after="b")
            with pytest.raises(InvalidConfigurationError, match=r"(b|c|d) -> (b|c|d) -> (b|c|d)"):
                await orchestrator.run()
            assert await orchestrator.run("a") == {"a": 0}
            orchestrator.clear()
            assert await orchestrator.run() == {}
            with pytest.raises(InvalidConfigurationError, match="was cleared"):
                orchestrator.add("e", len, a)

    run(main())


def test_time_outs_end_tasks_and_runs() -> None:
    async def main() -> None:
        cancelled: list[str] = []
        release = threading.Event()

        async def wait_long(name: str) -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(name)
                raise

        try:
            async with ComputeOrchestrator() as orchestrator:
                orchestrator.add("slow", wait_long, "slow", timeout=0.05)
                orchestrator.add("thread", release.wait, 50, timeout=0.05)
                orchestrator.add("fine", lambda: 1)
                results = await orchestrator.run(return_exceptions=True)
                assert isinstance(results["slow"], TimeoutError)
                assert isinstance(results["thread"], TimeoutError)
                assert results["fine"] == 1
                assert cancelled == ["slow"]
                orchestrator.clear()
                orchestrator.add("long", wait_long, "long")
                with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"):
                    await orchestrator.run(timeout=0.05)
                assert cancelled == ["slow", "long"]
        finally:
            release.set()

    run(main())


def test_cancellation_and_shutdown_end_running_tasks() -> None:
    async def main() -> None:
        started, cancelled = asyncio.Event(), []

        async def wait_long() -> None:
            started.set()
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                cancelled.append(1)
                raise

        orchestrator = ComputeOrchestrator()
        await orchestrator.initialize()
        orchestrator.add("long", wait_long)
        task = asyncio.ensure_future(orchestrator.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled == [1]
        started.clear()
        task = asyncio.ensure_future(orchestrator.run())
        await started.wait()
        await orchestrator.shutdown()
        with pytest.raises(RuntimeClosed):
            await task
        assert cancelled == [1, 1]
        await orchestrator.shutdown()

    run(main())  # Within a minute: it does not wait for a task of 1,000 s.
