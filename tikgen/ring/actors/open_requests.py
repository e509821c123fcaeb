"""The requests that a body has taken and not answered yet, by the ids of their messages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tikgen.ring.actors.admission import id_of
from tikgen.ring.actors.mailbox import Mailbox
from tikgen.ring.actors.queues import EXPIRED, Envelope, settle
from tikgen.ring.errors import ReplyError, RingError

_now = time.perf_counter_ns


class OpenRequests:
    """Matches replies with the requests of one run of a body.

    Attributes:
        by_key: the requests; a list where one message was sent as several requests.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._telemetry = mailbox.telemetry
        self.by_key: dict[int, Envelope | list[Envelope]] = {}
        self._most_open = 1024

    def admit(self, envelope: Envelope) -> bool:
        """Return whether a message is still to be handled; a request is kept until its reply."""
        reply = envelope.reply
        if envelope.deadline == EXPIRED:
            return False
        if reply is not None and reply.done():
            self._telemetry.record_drop("given up", envelope.count)
            return False
        if envelope.deadline and _now() > envelope.deadline:
            self._mailbox.expire(envelope)
            return False
        if reply is not None:
            if len(self.by_key) >= self._most_open:
                self._discard_cancelled()
            key = envelope.key = key_of(envelope.message)
            before = self.by_key.get(key)
            if before is None:
                self.by_key[key] = envelope
            else:
                self.by_key[key] = [*(before if isinstance(before, list) else [before]), envelope]
        return True

    def _discard_cancelled(self) -> None:
        """Discard unanswered requests for which no caller waits any more."""
        for key, found in list(self.by_key.items()):
            if not isinstance(found, list) and found.reply is not None and found.reply.done():
                del self.by_key[key]
                self._mailbox.close_request(key)
                self._telemetry.record_message(_now() - found.sent)
        self._most_open = max(1024, 2 * len(self.by_key))

    def match(self, message: Any, to: Any, in_hand: Envelope | None) -> Envelope | None:
        """Remove and return the request that a reply answers; None if it answers none."""
        key = _key_named(message, to)
        if key is not None:
            return self.pop(key)
        (key, found), *others = self.by_key.items()
        is_other = in_hand is not None and in_hand.reply is None
        if others or isinstance(found, list) or is_other:
            raise ReplyError(
                self._mailbox.kernel_id,
                "sent a reply that fits several messages; name the one that it answers: "
                "ctx.send(reply, to=message), or message.reply(...)",
                self._mailbox.status.state.name,
            )
        return self.pop(key)

    def is_late(self, message: Any, to: Any) -> bool:
        """Return whether a reply names a request that is closed already."""
        return _key_named(message, to) in self._mailbox.closed

    def pop(self, key: int) -> Envelope | None:
        """Remove and return a request by its key."""
        found = self.by_key.pop(key, None)
        if found is not None:
            self._mailbox.close_request(key)
        if isinstance(found, list):
            first = found.pop(0)
            if found:
                self.by_key[key] = found
            return first
        return found

    def remove(self, envelope: Envelope) -> None:
        """Remove a request, which stays open for its reply."""
        found = self.by_key.get(envelope.key)
        if isinstance(found, list):
            found[:] = [other for other in found if other is not envelope]
        if found is envelope or found == []:
            del self.by_key[envelope.key]

    def answer(self, envelope: Envelope, message: Any) -> None:
        """Give a reply to the caller of a request."""
        reply = envelope.reply
        assert reply is not None
        if reply.done():
            self._telemetry.late_replies += 1
        else:
            reply.set_result(message)
        self._telemetry.record_message(_now() - envelope.sent)

    def fail(self, envelope: Envelope, error: Exception) -> None:
        """Give an error to the caller of a request."""
        self.remove(envelope)
        assert envelope.reply is not None
        settle(envelope.reply, error)
        self._telemetry.record_error(error)
        self._telemetry.record_message(_now() - envelope.sent)

    def fail_named(self, message: Any, to: Any, error: RingError) -> None:
        """Give an error to the callers whose reply could not be sent."""
        named = _key_named(message, to)
        for key in [*self.by_key] if named is None else [named]:
            while (envelope := self.pop(key)) is not None:
                self.fail(envelope, error)

    def discard_all(self, error: Exception) -> list[Envelope]:
        """Remove every request, give its caller an error, and return them."""
        lost = []
        for key, found in list(self.by_key.items()):
            self._mailbox.close_request(key)
            lost += found if isinstance(found, list) else [found]
        for envelope in lost:
            reply: asyncio.Future[Any] | None = envelope.reply
            assert reply is not None
            settle(reply, error)
        self.by_key.clear()
        return lost


def _key_named(message: Any, to: Any) -> int | None:
    """Return the key of the request that a reply names, if it names one."""
    return key_of(to) if to is not None else id_of(message, "correlation_id")


def key_of(message: Any) -> int:
    """Return the key under which a request is open."""
    found = id_of(message)
    return found if found is not None else id(message)
