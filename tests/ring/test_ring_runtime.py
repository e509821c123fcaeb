"""The lifecycle of actors and runtimes: states, contexts, requests, invalid input."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from ring_samples import (
    Note,
    check_sums,
    echo,
    error_of,
    play,
    started,
    turns,
    until,
)
from tikgen.ring import KernelContext, KernelState, RingKernelRuntime, ring_kernel
from tikgen.ring.errors import (
    KernelAlreadyExistsError,
    KernelFailed,
    KernelNotFoundError,
    KernelStateError,
    KernelTerminated,
    QueueTimeoutError,
    ReplyError,
    RingError,
    RuntimeClosed,
    WrongLoop,
)

# The operations of each state; all others raise KernelStateError and change nothing.
ALLOWED = {
    "LAUNCHED": {"activate"},
    "ACTIVE": {"deactivate", "send", "receive", "ask"},
    "DEACTIVATED": {"reactivate", "send", "receive", "ask"},
    "TERMINATING": {"receive"},
}


@pytest.mark.parametrize("state", ALLOWED)
@pytest.mark.parametrize("operation", ["activate", "deactivate", "reactivate", "send", "ask"])
def test_each_state_refuses_other_operations(state: str, operation: str) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def body(ctx: KernelContext, note: Note) -> None:
            await gate.wait()

        async with RingKernelRuntime() as runtime:
            await runtime.launch("a", body)
            if state != "LAUNCHED":
                await runtime.activate("a")
            if state == "DEACTIVATED":
                await runtime.deactivate("a")
            ending = None
            if state == "TERMINATING":
                await runtime.send("a", Note())
                ending = asyncio.ensure_future(runtime.terminate("a"))
                await turns()
            calls: dict[str, Any] = {
                "send": lambda: runtime.send("a", Note()),
                "ask": lambda: runtime.send_and_receive("a", Note(), timeout=0.01),
            }
            call = calls.get(operation, lambda: getattr(runtime, operation)("a"))
            error = await error_of(call())
            if operation in ALLOWED[state]:
                assert error is None or type(error) is QueueTimeoutError
            else:
                assert isinstance(error, KernelStateError), error
                assert (error.kernel_id, error.current_state) == ("a", state)
                assert runtime.get_kernel_state("a").name == state
            gate.set()
            if ending is not None:
                await ending

    play(main)


def test_a_name_is_taken_until_its_actor_ended() -> None:
    async def once(ctx: KernelContext) -> None:
        await ctx.receive()

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", once)
            error = await error_of(runtime.launch("a", echo))
            assert isinstance(error, KernelAlreadyExistsError) and error.state == "ACTIVE"
            await runtime.send("a", Note())
            await until(lambda: runtime.get_kernel_state("a") is KernelState.TERMINATED)
            assert isinstance(await error_of(runtime.send("a", Note())), KernelTerminated)
            await started(runtime, "a", echo)
            assert (await runtime.send_and_receive("a", Note(3))).n == 3
            both = await asyncio.gather(
                runtime.launch("b", echo), runtime.launch("b", echo), return_exceptions=True
            )
            assert sorted(type(b).__name__ for b in both) == [
                "KernelAlreadyExistsError",
                "RingKernel",
            ]

    play(main)


def test_unknown_names_are_refused_with_suggestions() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "worker", echo)
            for call in (
                runtime.send("worked", Note()),
                runtime.receive("worked"),
                runtime.send_and_receive("worked", Note()),
                runtime.send_many("worked", [Note()]),
                runtime.receive_many("worked"),
                runtime.activate("worked"),
                runtime.terminate("worked"),
                runtime.broadcast(Note(), ["worked"]),
                runtime.launch("no such actor"),
            ):
                error = await error_of(call)
                assert isinstance(error, KernelNotFoundError)
                assert "worke" in str(error) or "no such actor" in str(error)
            for plain in (runtime.get_kernel_state, runtime.get_telemetry):
                with pytest.raises(KernelNotFoundError, match="worker"):
                    plain("worked")

    play(main)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_closed_runtime_refuses_everything(when: str) -> None:
    async def main() -> None:
        runtime = RingKernelRuntime()
        if when == "after":
            async with runtime:
                await started(runtime, "a", echo)
            assert isinstance(await error_of(runtime.start()), RuntimeClosed)
            await runtime.shutdown()
        assert not runtime.is_active and not runtime.kernel_ids
        for call in (
            runtime.launch("a", echo),
            runtime.activate("a"),
            runtime.terminate("a"),
            runtime.send("a", Note()),
            runtime.receive("a"),
            runtime.send_and_receive("a", Note()),
            runtime.send_many("a", [Note()]),
            runtime.receive_many("a"),
            runtime.broadcast(Note()),
            runtime.broadcast(Note(), ["a"]),
            runtime.publish("a", Note()),
            asyncio.to_thread(runtime.barrier, "b", 2),
        ):
            error = await error_of(call)
            assert isinstance(error, RuntimeClosed), call
            assert ("was shut down" if when == "after" else "was not started") in str(error)

    play(main)


def test_another_loop_or_thread_is_refused_with_advice() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)
            barrier = runtime.barrier("here", 1)
            await barrier.wait()
            errors: list[Any] = []

            def elsewhere() -> None:
                for call in (
                    runtime.send,
                    runtime.send_and_receive,
                    lambda name, note: runtime.send_many(name, [note]),
                    lambda name, _: runtime.receive(name),
                    lambda name, _: runtime.receive_many(name),
                    lambda name, _: runtime.activate(name),
                    lambda name, _: runtime.terminate(name),
                    lambda name, _: runtime.launch(name, echo),
                    lambda *_: runtime.shutdown(),
                    lambda *_: runtime.start(),
                    lambda _, note: runtime.broadcast(note),
                    lambda _, note: runtime.publish("nobody.listens", note),
                    lambda name, _: runtime.deactivate(name),
                    lambda name, _: runtime.reactivate(name),
                    lambda *_: actor.deactivate(),
                    lambda *_: actor.terminate(),
                    lambda *_: barrier.wait(),
                    lambda *_: asyncio.to_thread(barrier.reset),
                    lambda *_: asyncio.to_thread(runtime.subscribe, "topic", "a"),
                    lambda *_: asyncio.to_thread(runtime.unsubscribe, "topic", "a"),
                    lambda *_: asyncio.to_thread(runtime.connect, "a", "nobody"),
                    lambda *_: asyncio.to_thread(runtime.connect, "a", None),
                    lambda *_: asyncio.to_thread(runtime.barrier, "b", 2),
                ):
                    errors.append(asyncio.run(error_of(call("a", Note()))))
                loop = runtime.loop
                assert loop is not None
                right = asyncio.run_coroutine_threadsafe(
                    runtime.send_and_receive("a", Note(5)), loop
                )
                errors.append(right.result(5))

            await asyncio.get_running_loop().run_in_executor(None, elsewhere)
            *refused, reply = errors
            assert {type(error) for error in refused} == {WrongLoop} and len(refused) == 23
            assert "run_coroutine_threadsafe" in str(refused[0])
            assert reply.n == 5 and runtime.is_active

    play(main)


async def _in_a_body(runtime: RingKernelRuntime, call: Any) -> None:
    async def body(ctx: KernelContext, note: Note) -> Note:
        await call(ctx)
        return note

    async with runtime.kernel_scope("body", body):
        try:
            await runtime.send_and_receive("body", Note(), timeout=5)
        except KernelFailed as failure:
            assert failure.__cause__ is not None
            raise failure.__cause__ from None


async def _send_columns(runtime: RingKernelRuntime) -> None:
    async with runtime.kernel_scope("once", echo, deduplicate=5):
        await runtime.send_many("once", {"n": [1]})


TIMED_CALLS: dict[str, Any] = {
    "send": lambda r, t: r.send("a", Note(), timeout=t),
    "a request": lambda r, t: r.send_and_receive("a", Note(), timeout=t),
    "send many": lambda r, t: r.send_many("a", [Note()], timeout=t),
    "receive": lambda r, t: r.receive("a", timeout=t),
    "receive many": lambda r, t: r.receive_many("a", timeout=t),
    "terminate": lambda r, t: r.terminate("a", timeout=t),
    "shutdown": lambda r, t: r.shutdown(timeout=t),
    "a barrier": lambda r, t: r.barrier("b", 1).wait(timeout=t),
    "tell": lambda r, t: _in_a_body(r, lambda ctx: ctx.tell("a", Note(), timeout=t)),
    "ask": lambda r, t: _in_a_body(r, lambda ctx: ctx.ask("a", Note(), timeout=t)),
    "receive in a body": lambda r, t: _in_a_body(r, lambda ctx: ctx.receive(timeout=t)),
    "receive many in a body": lambda r, t: _in_a_body(r, lambda ctx: ctx.receive_many(3, t)),
    "a barrier in a body": lambda r, t: _in_a_body(r, lambda ctx: ctx.barrier("b", 1, t)),
}
BAD_CALLS: dict[str, Any] = {
    "send to a list": lambda r: r.send(["a"], Note()),
    "receive from a list": lambda r: r.receive(["a"]),
    "request of a list": lambda r: r.send_and_receive(["a"], Note()),
    "activate a list": lambda r: r.activate(["a"]),
    "broadcast to a text": lambda r: r.broadcast(Note(), "a"),
    "broadcast to a number": lambda r: r.broadcast(Note(), 5),
    "columns without ids": lambda r: _send_columns(r),
    "unknown options": lambda r: r.launch("b", echo, options={"max_batch": 5}),
    "launch a list": lambda r: r.launch(["a"]),
    "launch no name": lambda r: r.launch(" ", echo),
    "launch no function": lambda r: r.launch("b", 5),
    "launch a class": lambda r: r.launch("b", dict),
    "launch without arguments": lambda r: r.launch("b", lambda: None),
    "an unknown engine": lambda r: r.launch("b", echo, engine="hots"),
    "an unknown policy": lambda r: r.launch("b", echo, backpressure="drop"),
    "an unknown setting": lambda r: r.launch("b", echo, queue_sice=5),
    "an unknown supervision": lambda r: r.launch("b", echo, supervision="ignore"),
    "a queue without room": lambda r: r.launch("b", echo, queue_size=0),
    "a queue of text": lambda r: r.launch("b", echo, queue_size="9"),
    "an ageing of text": lambda r: r.launch("b", echo, ageing="fast"),
    "an ageing of 0": lambda r: r.launch("b", echo, ageing=0),
    "a config of text": lambda r: r.launch("b", echo, config="fast"),
    "an input type of text": lambda r: r.launch("b", echo, input_type="Note"),
    "a time-out of text": lambda r: r.send_and_receive("a", Note(), timeout="1"),
    "a time-out that is no number": lambda r: r.send_and_receive("a", Note(), timeout=math.nan),
    "a deadline of text": lambda r: r.send("a", Note(), deadline="1"),
    "a deadline that is no number": lambda r: r.send("a", Note(), deadline=math.nan),
    "receive with a time-out of text": lambda r: r.receive("a", timeout="1"),
    "terminate with a time-out of text": lambda r: r.terminate("a", timeout="1"),
    **{
        f"{how} with a time-out of {wrong!r}": (lambda r, f=call, t=wrong: f(r, t))
        for wrong in (-1, -0.5, math.nan, -math.inf, "1", True, [1])
        for how, call in TIMED_CALLS.items()
    },
    "send many of a number": lambda r: r.send_many("a", 5),
    "send many of columns": lambda r: r.send_many("a", {"n": [1]}),
    "receive none": lambda r: r.receive_many("a", 0),
    "publish under a list": lambda r: r.publish(["a"], Note()),
    "publish under a pattern": lambda r: r.publish("a.*", Note()),
    "a barrier for none": lambda r: r.barrier("b", 0).wait(),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_invalid_input_raises_an_error_of_tikgen_and_changes_nothing(what: str) -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", echo)

            async def call() -> Any:
                return await BAD_CALLS[what](runtime)

            error = await error_of(asyncio.wait_for(call(), 15))
            assert isinstance(error, RingError), repr(error)
            assert len(str(error)) > 20
            assert actor.state is KernelState.ACTIVE and runtime.kernel_ids == ["a"]
            assert (await runtime.send_and_receive("a", Note(1), timeout=5)).n == 1

    play(main)


def test_infinite_deadlines_and_time_outs_are_taken() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo)
            reply = runtime.send_and_receive("a", Note(1), deadline=math.inf, timeout=math.inf)
            found = await error_of(asyncio.wait_for(reply, 15))
            assert found is None or isinstance(found, RingError)

    play(main)


@dataclass
class Foreign:
    """A foreign message with fields that have a meaning in tikgen."""

    message_id: Any = "abc"
    priority: Any = "high"


class Struct(msgspec.Struct):
    """A foreign message whose fields are checked."""

    n: int = 0
    message_id: Any = None


def test_foreign_structs_are_checked() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await started(runtime, "a", echo_of_structs, deduplicate=2)
            assert (await runtime.send_and_receive("a", Struct(3), timeout=2)).n == 3
            assert (await runtime.send_and_receive("a", Struct(3), timeout=2)).n == 3  # No ids.
            for wrong, problem in (
                (Struct("x"), "field 'n' takes int"),  # type: ignore[arg-type]
                (Struct(1, message_id=5), "'message_id' takes a UUID; got 5"),
            ):
                error = await error_of(runtime.send("a", wrong))
                assert problem in str(error)

    async def echo_of_structs(ctx: KernelContext, found: Struct) -> Struct:
        return found

    play(main)


@pytest.mark.parametrize("ask", [False, True])
def test_foreign_objects_are_taken_or_refused(ask: bool) -> None:
    async def mirror(ctx: KernelContext, found: Any) -> Any:
        return found

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", mirror)
            for made in (Foreign(), {"n": 1}, 5, "text", (1, 2), object()):
                if ask:
                    error = await error_of(runtime.send_and_receive("a", made, timeout=2))
                    assert error is None or type(error).__name__ == "TypeValidationError"
                else:
                    error = await error_of(runtime.send("a", made))
                    assert error is None or type(error).__name__ == "TypeValidationError"
            assert (await runtime.send_and_receive("a", Note(1), timeout=2)).n == 1
            assert actor.telemetry.error_count == 0
            check_sums(actor)

    play(main)


def test_the_quick_start_of_pydotcompute_ends_at_once() -> None:
    @ring_kernel(kernel_id="quick start", input_type=Note, output_type=Note)
    async def compute(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            note = await ctx.receive()
            await ctx.send(Note(n=note.n * 2))

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            await runtime.launch("quick start")
            await runtime.activate("quick start")
            await runtime.send("quick start", Note(n=21))
            assert (await runtime.receive("quick start")).n == 42
        assert runtime.terminations[0].reason == "terminated"

    play(main)


def test_a_scope_ends_its_actor_also_when_its_block_raises() -> None:
    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            async with runtime.kernel_scope("a", echo) as actor:
                assert (await runtime.send_and_receive("a", Note(1))).n == 1
            assert actor.state is KernelState.TERMINATED

            async def block() -> None:
                async with runtime.kernel_scope("a", echo):
                    raise ValueError("mine")

            assert "mine" in str(await error_of(block()))
            assert not runtime.kernel_ids

    play(main)


def test_a_body_is_restarted_after_a_time_out_without_an_error() -> None:
    runs: list[str] = []

    async def body(ctx: KernelContext) -> None:
        runs.append("began")
        while not ctx.should_terminate:
            note = await ctx.receive(timeout=0.01)
            await ctx.send(note)

    async def watching(ctx: KernelContext) -> None:
        while not ctx.should_terminate:
            try:
                note = await ctx.receive(timeout=0.01)
            except QueueTimeoutError as error:
                runs.append(error.kernel_id)
            else:
                await ctx.send(note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            actor = await started(runtime, "a", body)
            await until(lambda: len(runs) > 2)
            assert set(runs) == {"began"}
            assert (await runtime.send_and_receive("a", Note(4), timeout=5)).n == 4
            assert (actor.telemetry.error_count, actor.telemetry.restarts) == (0, 0)
            await started(runtime, "watching", watching)
            await until(lambda: "watching" in runs)
            assert (await runtime.send_and_receive("watching", Note(4), timeout=5)).n == 4

    play(main)


def test_actors_ask_and_tell_each_other() -> None:
    async def adder(ctx: KernelContext, note: Note) -> Note:
        found = await ctx.ask("double", Note(note.n), timeout=5)
        assert await ctx.tell("log", Note(found.n))
        return note.reply(n=found.n + 1)

    async def double(ctx: KernelContext, note: Note) -> Note:
        return note.reply(n=2 * note.n)

    logged: list[int] = []

    async def log(ctx: KernelContext, note: Note) -> None:
        logged.append(note.n)

    async def narcissus(ctx: KernelContext, note: Note) -> Any:
        return await ctx.ask("narcissus", note)

    async def main() -> None:
        async with RingKernelRuntime() as runtime:
            for name, body in (("adder", adder), ("double", double), ("log", log)):
                await started(runtime, name, body)
            replies = await asyncio.gather(
                *(runtime.send_and_receive("adder", Note(n)) for n in range(31))
            )
            assert [reply.n for reply in replies] == [2 * n + 1 for n in range(31)]
            await started(runtime, "narcissus", narcissus)
            error = await error_of(runtime.send_and_receive("narcissus", Note()))
            assert isinstance(error, KernelFailed) and isinstance(error.__cause__, ReplyError)
        assert logged == [2 * n for n in range(31)]

    play(main)
