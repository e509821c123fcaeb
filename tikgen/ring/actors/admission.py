"""Which messages a queue takes: of the right type, and not sent before."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from tikgen.ring.actors.status import Status
from tikgen.ring.errors import TypeValidationError
from tikgen.ring.messages.base import RingKernelMessage
from tikgen.ring.messages.checks import checker


class TypeRule:
    """Checks that messages are of a type or of a subclass, and that their fields fit.

    Attributes:
        checkers: by the type of a message, a function that returns its problem or None.
    """

    __slots__ = ("_status", "_type", "_where", "checkers")

    def __init__(self, message_type: type | None, status: Status, where: str) -> None:
        self._type = message_type
        self._status = status
        self._where = where
        self.checkers: dict[type, Callable[[Any], str | None]] = {}

    def check(self, message: Any) -> None:
        """Raise :class:`TypeValidationError` if a message does not fit."""
        check = self.checkers.get(message.__class__) or self._checker_of(message)
        if (problem := check(message)) is not None:
            name = (self._type or type(message)).__name__
            raise self._error(name, f"a wrong one: {problem}")

    def check_all(self, messages: list[Any]) -> None:
        """Raise :class:`TypeValidationError` if one of many messages does not fit."""
        kinds = set(map(type, messages))
        if len(kinds) == 1:
            check = self.checkers.get(kinds.pop()) or self._checker_of(messages[0])
            if not any(map(check, messages)):
                return
        for message in messages:
            self.check(message)

    def _checker_of(self, message: Any) -> Callable[[Any], str | None]:
        kind = type(message)
        if self._type is not None and not isinstance(message, self._type):
            raise self._error(self._type.__name__, kind.__name__)
        found: Callable[[Any], str | None] = _problem_of_foreign
        if issubclass(kind, RingKernelMessage):
            found = checker(kind)
        elif issubclass(kind, msgspec.Struct):
            own = checker(kind)

            def found(message: Any) -> str | None:
                return own(message) or _problem_of_foreign(message)

        if len(self.checkers) < 256:
            self.checkers[kind] = found
        return found

    def _error(self, expected: str, actual: str) -> TypeValidationError:
        status = self._status
        name = status.state.name
        return TypeValidationError(expected, actual, self._where, status.kernel_id, name)


def _problem_of_foreign(message: object) -> str | None:
    """Return the problem of an object that is no message but may look like one, or None."""
    priority = getattr(message, "priority", 128)
    is_number = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= 255:
        return f"'priority' takes a whole number from 0 to 255; got {priority!r:.60}"
    for name in ("message_id", "correlation_id"):
        found = getattr(message, name, None)
        if found is not None and not isinstance(found, UUID):
            return f"{name!r} takes a UUID; got {found!r:.60}"
    return None


class Duplicates:
    """The ids of the last messages, and the replies to the requests among them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._seen: OrderedDict[int, asyncio.Future[Any] | None] = OrderedDict()

    def find(self, message: Any) -> tuple[bool, asyncio.Future[Any] | None]:
        """Return whether a message was sent before, and the future of its reply, if any."""
        key = id_of(message)
        if key is None or key not in self._seen:
            return False, None
        return True, self._seen[key]

    def note(self, message: Any, reply: asyncio.Future[Any] | None) -> None:
        """Keep the id of a message that was taken."""
        key = id_of(message)
        if key is None:
            return
        self._seen[key] = reply
        if len(self._seen) > self._window:
            self._seen.popitem(last=False)

    def discard(self, message: Any) -> None:
        """Remove the id of a message that was not handled: it may be sent again."""
        key = id_of(message)
        if key is not None:
            self._seen.pop(key, None)


def id_of(message: Any, name: str = "message_id") -> int | None:
    """Return an id of a message as a number; None if it has none."""
    found = getattr(message, name, None)
    return found.int if found is not None else None
