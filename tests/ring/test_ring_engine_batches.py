"""Messages of an actor in batches, and where kernels of actors cannot run."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from engine_samples import (
    HELD,
    SECONDS,
    TWICE,
    In,
    Out,
    answers,
    begin,
    run,
    stays,
    twice,
    until,
)
from engine_samples import _brief_proofs as _brief_proofs
from tikgen.errors import UnsupportedOnArch
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelFailed,
)
from tikgen.ring.persistent import words
from tikgen.ring.runtime import RingKernelRuntime

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

# Batches.


def test_queued_messages_go_into_batches_of_max_batch(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_batch=4))
        await runtime.deactivate("a")
        await runtime.send_many("a", [In(x=x) for x in range(10)])
        await runtime.send_many("a", {"x": np.arange(10, 30)})
        await runtime.reactivate("a")
        assert await answers(runtime, "a", 30) == [2 * x + 1 for x in range(30)]
        sizes = actor.telemetry.batch_sizes
        assert (sizes.count, sizes.total, sizes.min, sizes.max) == (4, 30, 2, 20)
        assert actor.telemetry.device_seconds > 0
        assert "device_seconds" in runtime.prometheus()

    run(main)


def test_the_first_message_waits_for_max_delay(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_batch=3, max_delay=SECONDS))
        asked = [asyncio.ensure_future(runtime.send_and_receive("a", In(x=x))) for x in (1, 2)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in asked)
        assert (await runtime.send_and_receive("a", In(x=3))).y == 7
        assert [(await task).y for task in asked] == [3, 5]
        assert (actor.telemetry.batch_sizes.count, actor.telemetry.batch_sizes.max) == (1, 3)
        # A batch does not wait beyond a deadline, or when the actor ends.
        early = await runtime.send_and_receive("a", In(x=5), deadline=0.5)
        assert early.y == 11
        last = asyncio.ensure_future(runtime.send_and_receive("a", In(x=4)))
        await asyncio.sleep(0.01)
        await runtime.terminate("a", SECONDS / 2)
        assert (await last).y == 9

    run(main)


def test_a_batch_that_waits_is_paused_too(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        actor = await begin(runtime, "a", **twice("batch", max_delay=0.5))
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x=1)))
        await until(lambda: actor._context is not None and bool(actor._context.held))
        await runtime.deactivate("a")
        await asyncio.sleep(0.6)
        assert not asked.done() and not actor.telemetry.batch_sizes.count
        await runtime.reactivate("a")
        assert (await asked).y == 3

    run(main)


def test_constants_and_template_names_are_taken(ti_arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        body: dict[str, Any] = {
            "body": "map",
            "params": {"expr": "y = 2*x + shift", "dtype": "i32", "scalars": ("shift",)},
        }
        await begin(runtime, "a", **twice("batch") | body, constants={"shift": 100})
        assert (await runtime.send_and_receive("a", In(x=3))).y == 106
        for wrong, problem in (
            ({}, "'shift' is neither a field nor one of the constants"),
            ({"constants": {"shift": 0.5}}, "takes i32; got 0.5"),
            ({"constants": {"shift": 1, "other": 2}}, "'other' is no argument"),
            ({"constants": {"shift": 1}, "max_delay": -1}, "takes seconds"),
            ({"constants": {"shift": 1}, "max_batch": 0}, "takes an integer from 1"),
        ):
            with pytest.raises(InvalidConfigurationError, match=problem):
                await runtime.launch("b", **twice("batch") | body | wrong)
        with pytest.raises(InvalidConfigurationError, match="takes a kernel, the name"):
            await runtime.launch("b", **twice("batch", body=None))

    run(main)


def test_a_function_is_called_for_messages_alone(ti_arch: str) -> None:
    seen: list[int] = []

    def count(columns: Any) -> Any:
        seen.extend(columns["x"])
        return {"y": np.full(len(columns["x"]), len(seen))}

    async def main(runtime: RingKernelRuntime) -> None:
        types = {"engine": "batch", "input_type": In, "output_type": Out}
        for name, given in (("named", {"body": count}), ("first", {"function": count})):
            seen.clear()
            await begin(runtime, name, **types, **given)
            assert (await runtime.send_and_receive(name, In(x=5))).y == 1
            assert seen == [5]

    run(main)


def test_batches_and_states_are_in_the_trace(ti_arch: str) -> None:
    def fail(columns: Any) -> Any:
        raise ValueError("no")

    async def main(runtime: RingKernelRuntime) -> None:
        await begin(runtime, "a", **twice("batch"))
        types = {"input_type": In, "output_type": Out}
        await begin(runtime, "b", fail, engine="batch", supervision="stop", **types)
        await runtime.send_many("a", {"x": [1, 2, 3]})
        await answers(runtime, "a", 3)
        with pytest.raises(KernelFailed):
            await runtime.send_and_receive("b", In(x=1))

    with tikgen.trace() as trace:
        run(main)
    stages = [event.stage for event in trace.events if event.subject.name == "a"]
    assert stages == ["launched", "active", "terminating", "terminated"]
    failed = [e for e in trace.events if e.subject.name == "b" and e.stage == "batch"]
    assert [e.details["error"] for e in failed] == ["ValueError: no"]
    batches = [tally for tally in trace.launches if tally.subject.name == "a"]
    assert [tally.messages for tally in batches] == [3]


# Unsupported places.


CHILD = """
import asyncio, signal
from tikgen.ring import RingBody, RingKernelRuntime, message
from tikgen.ring.persistent import launch, making

making.PROOFS = 2
launch._LAST_SECONDS = 0.2
signal.signal(signal.SIGINT, signal.default_int_handler)  # The shell may ignore it.

@message
class In:
    x: int

@message
class Out:
    y: int

async def main():
    async with RingKernelRuntime() as runtime:
        actor = await runtime.launch(
            "a", engine="persistent", handler=RingBody({text!r}, params={params!r}),
            state={{"count": 0}}, input_type=In, output_type=Out, arch={arch!r}, capacity=64,
        )
        await runtime.activate("a")
        assert (await runtime.send_and_receive("a", In(x=1))).y == 3
        asked = asyncio.ensure_future(runtime.send_and_receive("a", In(x={held})))
        while not actor.engine.ring.pending:
            await asyncio.sleep(0)
        print("busy", flush=True)
        if {is_interrupted}:
            await asked
        else:
            print(await runtime.terminate("a", timeout=0.01), flush=True)
            print(type(asked.exception()).__name__, flush=True)

asyncio.run(main())
"""


@pytest.mark.some
@stays
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("is_interrupted", [True, False])
def test_a_process_ends_while_its_kernel_is_busy(is_interrupted: bool) -> None:
    if ARCH != "cpu" and not is_interrupted:
        pytest.skip("the driver waits for what runs on a GPU")
    params = TWICE.params | ({} if ARCH == "cpu" else {"gate": words.COMMAND})
    text = CHILD.format(
        text=TWICE.text, params=params, arch=ARCH, held=HELD, is_interrupted=is_interrupted
    )
    child = subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        while "busy" not in (line := child.stdout.readline()):
            assert line, "it ended by itself"
        if is_interrupted:
            child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=SECONDS)
    finally:
        child.kill()
    if is_interrupted:
        assert child.returncode != 0 and "KeyboardInterrupt" in errors, errors
    else:
        assert child.returncode == 0 and "not done within 0.01 s" in out, errors
        assert out.endswith("KernelTerminated\n")


def test_a_batch_without_ti_init_raises() -> None:
    text = """
import asyncio
import taichi as ti
from tikgen.ring import RingKernelRuntime, message

@message
class In:
    x: int

@message
class Out:
    y: int

@ti.kernel
def twice(x: ti.types.ndarray(dtype=ti.i32, ndim=1), y: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in x:
        y[i] = 2 * x[i]

async def main():
    async with RingKernelRuntime() as runtime:
        await runtime.launch("a", engine="batch", body=twice, input_type=In, output_type=Out)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "TaichiNotInitialised" in done.stderr and "ti.init" in done.stderr


@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_on_vulkan_the_error_recommends_the_batch_engine(arch: str) -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
            await runtime.launch("a", **twice("persistent", arch=arch))
        assert runtime.kernel_ids == []

    run(main)


def test_invalid_persistent_settings_are_refused() -> None:
    async def main(runtime: RingKernelRuntime) -> None:
        for wrong, error, problem in (
            ({"capacity": 1000}, InvalidConfigurationError, "power of two"),
            ({"watchdog": -1}, InvalidConfigurationError, "takes seconds"),
            ({"state": {"count": "a"}}, InvalidConfigurationError, "takes a number"),
            ({"max_batch": 3}, InvalidConfigurationError, "max_batch"),
        ):
            with pytest.raises(error, match=problem):
                await runtime.launch("a", **twice("persistent", **wrong))
        with pytest.raises(InvalidConfigurationError, match="and no function"):
            await runtime.launch("a", lambda ctx: None, **twice("persistent"))

    run(main)
