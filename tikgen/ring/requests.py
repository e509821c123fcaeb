"""Requests that cannot go the quick way: full queues, time-outs, messages that came before."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tikgen.ring.actors.envelope import Envelope
from tikgen.ring.actors.mailbox import Mailbox
from tikgen.ring.actors.waiting import Clock
from tikgen.ring.errors import MessageDropped, QueueTimeoutError

Reply = asyncio.Future[Any]


async def within(
    reply: Reply, mailbox: Mailbox, timeout: Clock | None, envelope: Envelope | None = None
) -> Any:
    """Wait for a reply; nobody waits for it any more once time is up.

    Args:
        reply: what is waited for.
        mailbox: of the actor that is to send it.
        timeout: None for as long as it takes.
        envelope: the request, where it has a deadline by which it has to be handled.

    Raises:
        DeadlineExceeded: if the request was not handled by its deadline.
        QueueTimeoutError: if the reply did not come in time.
    """
    if timeout is None and (envelope is None or not envelope.deadline):
        return await reply
    loop = asyncio.get_running_loop()
    timers = []
    if timeout is not None:
        error = QueueTimeoutError(
            mailbox.kernel_id, timeout.seconds, "waiting for a reply", mailbox.status.state.name
        )
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
    """Let a request expire that nobody has begun to handle."""
    if not envelope.key and envelope.reply is not None and not envelope.reply.done():
        mailbox.expire(envelope)


async def queue_request(mailbox: Mailbox, envelope: Envelope, timeout: Clock | None) -> None:
    """Put a request into a queue that may be full.

    Raises:
        MessageDropped: if the policy of the queue dropped it.
        QueueFullError: if there is no room, and the policy is to reject.
        QueueTimeoutError: if there was no room in time.
    """
    assert envelope.reply is not None
    if not await mailbox.put(envelope, None if timeout is None else timeout.left()):
        if envelope.reply.done() and not envelope.reply.cancelled():
            envelope.reply.result()
        raise MessageDropped(mailbox.kernel_id, "its queue was full")


async def send_once(
    mailbox: Mailbox, message: Any, timeout: float | None, deadline: float | None
) -> bool:
    """Send a message, unless it came before; what cannot be queued may come again."""
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
    """Return the reply to a request; one that came before gets the reply of the first.

    Each caller waits for a future of its own, so that one who gives up takes no reply from others.

    Raises:
        MessageDropped: if it came before as a message without a reply.
    """
    duplicates, telemetry = mailbox.duplicates, mailbox.telemetry
    assert duplicates is not None
    loop = asyncio.get_running_loop()
    shared: Reply | None = loop.create_future()
    envelope = mailbox.envelope(message, shared, deadline)
    is_known, before = duplicates.find(message)
    if is_known:
        telemetry.messages_received += 1
        telemetry.messages_duplicate += 1
        if before is None:
            raise MessageDropped(mailbox.kernel_id, "its id came before, with no reply asked for")
        return await within(_own(before), mailbox, timeout)
    assert shared is not None
    duplicates.note(message, shared)
    own = _own(shared)
    try:
        await queue_request(mailbox, envelope, timeout)
    except BaseException as error:
        duplicates.discard(message)
        if not shared.done():
            shared.set_exception(
                error
                if isinstance(error, Exception)
                else MessageDropped(mailbox.kernel_id, "whoever sent it first gave up")
            )
        raise
    return await within(own, mailbox, timeout, envelope)


def _own(shared: Reply) -> Reply:
    """Return a future that gets what another one gets."""
    own: Reply = asyncio.get_running_loop().create_future()

    def copy(done: Reply) -> None:
        error = None if done.cancelled() else done.exception()
        if own.done():
            return
        if done.cancelled():
            own.cancel()
        elif error is not None:
            own.set_exception(error)
            own.exception()
        else:
            own.set_result(done.result())

    shared.add_done_callback(copy)
    return own
