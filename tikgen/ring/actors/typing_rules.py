"""The rule that says which messages a queue takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from tikgen.ring.errors import TypeValidationError
from tikgen.ring.messages.base import RingKernelMessage
from tikgen.ring.messages.checks import checker

if TYPE_CHECKING:
    from tikgen.ring.actors.queues import Queues


class TypeRule:
    """Checks that messages are of a type or of a subclass, and that their fields are too.

    Args:
        message_type: the class; None for any message, whose fields are checked if it has types.
        actor: whose they are.
        where: what takes the messages.

    Attributes:
        checkers: for each type that came what tells what is wrong with a message, or None.
    """

    __slots__ = ("_actor", "_type", "_where", "checkers")

    def __init__(self, message_type: type | None, actor: Queues, where: str) -> None:
        self._type = message_type
        self._actor = actor
        self._where = where
        self.checkers: dict[type, Callable[[Any], str | None]] = {}

    def check(self, message: Any) -> None:
        """Raise :class:`TypeValidationError` if a message is not what is taken."""
        check = self.checkers.get(message.__class__) or self._checker_of(message)
        if (problem := check(message)) is not None:
            name = (self._type or type(message)).__name__
            raise self._error(name, f"a wrong one: {problem}")

    def check_all(self, messages: list[Any]) -> None:
        """Raise :class:`TypeValidationError` if one of many messages is not what is taken."""
        kinds = set(map(type, messages))
        if len(kinds) == 1:
            check = self.checkers.get(kinds.pop()) or self._checker_of(messages[0])
            if not any(map(check, messages)):
                return
        for message in messages:
            self.check(message)

    def _checker_of(self, message: Any) -> Callable[[Any], str | None]:
        """Return what checks the fields of messages of a type."""
        kind = type(message)
        if self._type is not None and not isinstance(message, self._type):
            raise self._error(self._type.__name__, kind.__name__)
        found: Callable[[Any], str | None] = _foreign
        if issubclass(kind, RingKernelMessage):
            found = checker(kind)
        elif issubclass(kind, msgspec.Struct):
            own = checker(kind)

            def found(message: Any) -> str | None:
                return own(message) or _foreign(message)

        if len(self.checkers) < 256:
            self.checkers[kind] = found
        return found

    def _error(self, expected: str, actual: str) -> TypeValidationError:
        actor = self._actor
        where, state = self._where, actor.state.name
        return TypeValidationError(expected, actual, where, actor.kernel_id, state)


def _foreign(message: object) -> str | None:
    """Tell what is wrong with an object that is no message of ours, but may look like one."""
    priority = getattr(message, "priority", 128)
    is_number = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= 255:
        return f"'priority' takes a whole number from 0 to 255; got {priority!r:.60}"
    for name in ("message_id", "correlation_id"):
        found = getattr(message, name, None)
        if found is not None and not isinstance(found, UUID):
            return f"{name!r} takes a UUID; got {found!r:.60}"
    return None
