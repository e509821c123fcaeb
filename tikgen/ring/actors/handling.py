"""Which messages the body of an actor has in hand, and which requests wait for its replies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tikgen.ring.actors.envelope import EXPIRED, Envelope, settle
from tikgen.ring.errors import ReplyError, RingError

if TYPE_CHECKING:
    from tikgen.ring.actors.actor import RingKernel

_now = time.perf_counter_ns


class Handling:
    """The part of a context that knows what is handled, and who is to be answered.

    Attributes:
        kernel_id: name of the actor.
        telemetry: what is measured of it.
    """

    def __init__(self, actor: RingKernel) -> None:
        self.kernel_id = actor.kernel_id
        self.telemetry = actor.telemetry
        self._actor = actor
        self._record = actor.telemetry.latencies.record
        # What was received last and is not done with, and the requests without a reply.
        self.in_hand: Envelope | None = None
        # What an engine took and has not answered yet.
        self.held: list[Envelope] = []
        self.open: dict[int, Envelope | list[Envelope]] = {}
        self._most_open = 1024

    def answer(self, envelope: Envelope, message: Any) -> None:
        """Hand a reply to whoever waits for it."""
        reply = envelope.reply
        assert reply is not None
        if reply.done():
            self.telemetry.late_replies += 1
        else:
            reply.set_result(message)
        self.telemetry.messages_processed += 1
        self._record(_now() - envelope.sent)
        if self.in_hand is envelope:
            self.in_hand = None

    def _is_late(self, message: Any, to: Any) -> bool:
        """Tell whether a reply is to a request that was answered or given up before."""
        closed = self._actor.closed
        if to is not None:
            return key_of(to) in closed
        return correlation_of(message) in closed

    def fail(self, envelope: Envelope, error: Exception) -> None:
        """Give an error to whoever waits for the reply to a request that is held."""
        self._forget(envelope)
        assert envelope.reply is not None
        settle(envelope.reply, error)
        self.telemetry.record_error(error)
        self._finish(envelope)

    def _forget(self, envelope: Envelope) -> None:
        found = self.open.get(envelope.key)
        if isinstance(found, list):
            found[:] = [other for other in found if other is not envelope]
        if found is envelope or found == []:
            del self.open[envelope.key]

    def _request_of(self, message: Any, to: Any) -> Envelope | None:
        """Take the request that a reply answers; None if it answers none that waits."""
        if to is not None:
            return self._pop(key_of(to))
        correlation = correlation_of(message)
        if correlation is not None:
            return self._pop(correlation)
        (key, found), *others = self.open.items()
        in_hand = self.in_hand
        is_other = in_hand is not None and in_hand.reply is None
        if others or isinstance(found, list) or is_other:
            raise ReplyError(
                self.kernel_id,
                "sent a reply that fits several messages; name the one that it answers: "
                "ctx.send(reply, to=message), or message.reply(...)",
                self._actor.state.name,
            )
        return self._pop(key)

    def _fail_requests(self, message: Any, to: Any, error: RingError) -> None:
        """Give an error to whoever waits for the reply that could not be sent."""
        named = key_of(to) if to is not None else correlation_of(message)
        for key in [*self.open] if named is None else [named]:
            while (envelope := self._pop(key)) is not None:
                self.fail(envelope, error)

    def _pop(self, key: int) -> Envelope | None:
        found = self.open.pop(key, None)
        if found is not None:
            self._actor.close_request(key)
        if isinstance(found, list):  # One message, sent as several requests.
            first = found.pop(0)
            if found:
                self.open[key] = found
            return first
        return found

    def _is_wanted(self, envelope: Envelope) -> bool:
        """Tell whether a message is still to be handled; a request is noted as such."""
        reply = envelope.reply
        if envelope.deadline == EXPIRED:
            return False
        if reply is not None and reply.done():
            self.telemetry.record_drop("given up", envelope.count)
            return False
        if envelope.deadline and _now() > envelope.deadline:
            self._actor.expire(envelope)
            return False
        if reply is not None:
            if len(self.open) >= self._most_open:
                self._forget_given_up()
            key = envelope.key = key_of(envelope.message)
            before = self.open.get(key)
            if before is None:
                self.open[key] = envelope
            else:
                self.open[key] = [*(before if isinstance(before, list) else [before]), envelope]
        return True

    def _forget_given_up(self) -> None:
        """Forget requests that were never answered, and for which nobody waits any more."""
        for key, found in list(self.open.items()):
            if not isinstance(found, list) and found.reply is not None and found.reply.done():
                del self.open[key]
                self._actor.close_request(key)
                self._finish(found)
        self._most_open = max(1024, 2 * len(self.open))

    def finish_in_hand(self) -> None:
        """Count what is in hand as handled: the body has returned, or asks for more."""
        envelope, self.in_hand = self.in_hand, None
        if envelope is not None and envelope.reply is None:
            self._finish(envelope)

    def _finish(self, envelope: Envelope) -> None:
        if envelope.count == 1:
            self.telemetry.record_message(_now() - envelope.sent)
        elif envelope.count:
            self.telemetry.record_messages(_now() - envelope.sent, envelope.count)


def correlation_of(message: Any) -> int | None:
    """Return the number of the request that a reply names, if it names one."""
    found = getattr(message, "correlation_id", None)
    return found.int if found is not None else None


def key_of(message: Any) -> int:
    """Return under which number a request finds its reply."""
    found = getattr(message, "message_id", None)
    return found.int if found is not None else id(message)
