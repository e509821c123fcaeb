"""The slow path of requests: full queues, time-outs, repeated messages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tikgen.ring.actors.mailbox import Mailbox
from tikgen.ring.actors.queues import Envelope, settle
from tikgen.ring.actors.waiting import Clock
from tikgen.ring.errors import MessageDropped, QueueTimeoutError

Reply = asyncio.Future[Any]


async def within(
    reply: Reply, mailbox: Mailbox, timeout: Clock | None, envelope: Envelope | None = None
) -> Any:
    """Wait for a reply within a time-out."""
    if timeout is None and (envelope is None or not envelope.deadline):
        return await reply
    loop = asyncio.get_running_loop()
    timers = []
    if timeout is not None:
        what, state = "waiting for a reply", mailbox.status.state.name
        error = QueueTimeoutError(mailbox.kernel_id, timeout.seconds, what, state)
        timers.append(loop.call_later(timeout.left(), _give_up, reply, error))
    if envelope is not None and envelope.deadline > 0:
        left = (envelope.deadline - time.perf_counter_ns()) * 1e-9
        timers.append(loop.call_later(max(left, 0.0), _expire, envelope, mailbox))
    try:
        return await reply
    finally:
        for timer in timers:
            timer.cancel()


def _give_up(reply: Reply, error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)


def _expire(envelope: Envelope, mailbox: Mailbox) -> None:
    """Expire a request that the body has not received yet."""
    if not envelope.key and envelope.reply is not None and not envelope.reply.done():
        mailbox.expire(envelope)


async def queue_request(mailbox: Mailbox, envelope: Envelope, timeout: Clock | None) -> None:
    """Queue a request, also if the queue is full."""
    assert envelope.reply is not None
    if not await mailbox.put(envelope, None if timeout is None else timeout.left()):
        if envelope.reply.done() and not envelope.reply.cancelled():
            envelope.reply.result()
        raise MessageDropped(mailbox.kernel_id, "its queue was full")


async def send_once(
    mailbox: Mailbox, message: Any, timeout: float | None, deadline: float | None
) -> bool:
    """Send a message that was not sent before; one that cannot be queued may be sent again."""
    envelope = mailbox.envelope(message, None, deadline)
    duplicates = mailbox.duplicates
    assert duplicates is not None
    if duplicates.find(message)[0]:
        mailbox.telemetry.messages_received += 1
        mailbox.telemetry.messages_duplicate += 1
        return False
    duplicates.note(message, None)
    try:
        return await mailbox.put(envelope, timeout)
    except BaseException:
        duplicates.discard(message)
        raise


async def ask_once(
    mailbox: Mailbox, message: Any, timeout: Clock | None, deadline: float | None
) -> Any:
    """Return the reply to a request; a repeated one gets the reply of the first.

    Each caller has its own future, so that a time-out of one does not affect the others.
    """
    duplicates, telemetry = mailbox.duplicates, mailbox.telemetry
    assert duplicates is not None
    shared: Reply = asyncio.get_running_loop().create_future()
    envelope = mailbox.envelope(message, shared, deadline)
    is_known, before = duplicates.find(message)
    if is_known:
        telemetry.messages_received += 1
        telemetry.messages_duplicate += 1
        if before is None:
            raise MessageDropped(
                mailbox.kernel_id, "its id was sent before, without a request for a reply"
            )
        return await within(_own(before), mailbox, timeout)
    duplicates.note(message, shared)
    own = _own(shared)
    try:
        await queue_request(mailbox, envelope, timeout)
    except BaseException as error:
        duplicates.discard(message)
        if not shared.done():
            if not isinstance(error, Exception):
                shared.set_exception(MessageDropped(mailbox.kernel_id, "its first sender gave up"))
            else:
                shared.set_exception(error)
        raise
    return await within(own, mailbox, timeout, envelope)


def _own(shared: Reply) -> Reply:
    """Return a future with the outcome of another one."""
    own: Reply = asyncio.get_running_loop().create_future()

    def copy(done: Reply) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled():
            own.cancel()
        elif error is not None:
            settle(own, error)
        elif not own.done():
            own.set_result(done.result())

    shared.add_done_callback(copy)
    return own
