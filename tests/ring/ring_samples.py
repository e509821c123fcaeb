"""Messages and bodies shared by the tests of actors, and a strict way to run them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

from tikgen.ring import KernelContext, RingKernel, RingKernelRuntime, message


@message
class Note:
    """A number, and a text."""

    n: int = 0
    text: str = ""


@message
class Other:
    """A message of an unexpected type."""

    value: float = 0.0


async def echo(ctx: KernelContext, note: Note) -> Note:
    """Answer with the same number."""
    return note.reply(n=note.n)


async def swallow(ctx: KernelContext, note: Note) -> None:
    """Handle a message without a reply."""


async def fail(ctx: KernelContext, note: Note) -> None:
    """Raise for each message."""
    raise ValueError(f"bad {note.n}")


def play(main: Callable[[], Awaitable[Any]], limit: float = 120.0) -> Any:
    """Run a coroutine for at most ``limit`` seconds.

    Fails if a task is left over, or if an exception was never retrieved.
    """
    told: list[str] = []

    async def watched() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: told.append(f"{context['message']}: {context.get('exception')!r}")
        )
        found = await asyncio.wait_for(main(), limit)
        await turns()
        gc.collect()
        await turns()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left over: {left}"
        return found

    result = asyncio.run(watched())
    gc.collect()
    assert not told, told
    return result


async def turns(count: int = 10) -> None:
    """Let other tasks run a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(is_true: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until a condition holds."""

    async def poll() -> None:
        while not is_true():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), seconds)


async def started(
    runtime: RingKernelRuntime, kernel_id: str, body: Any, **settings: Any
) -> RingKernel:
    """Launch and activate an actor."""
    actor = await runtime.launch(kernel_id, body, **settings)
    await runtime.activate(kernel_id)
    return actor


def check_sums(actor: RingKernel, in_hand: int = 0) -> None:
    """Check that every received message is accounted for."""
    told = actor.telemetry
    where = {
        "processed": told.messages_processed,
        "dropped": told.messages_dropped,
        "expired": told.messages_expired,
        "duplicate": told.messages_duplicate,
        "rejected": told.messages_rejected,
        "queued": actor.mailbox.inbox.size,
        "in hand": in_hand,
    }
    assert told.messages_received == sum(where.values()), (told.messages_received, where)
    assert sum(told.dropped.values()) == told.messages_dropped
    assert told.latencies.count == told.messages_processed


async def error_of(waiting: Awaitable[Any]) -> BaseException | None:
    """Return the error that was raised, or None."""
    try:
        await waiting
    except BaseException as error:
        return error
    return None
