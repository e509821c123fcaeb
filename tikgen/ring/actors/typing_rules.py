"""The rule that says which messages a queue takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tikgen.ring.errors import TypeValidationError
from tikgen.ring.messages.checks import checker


class TypeRule:
    """Checks that messages are of a type or of a subclass, and that their fields are too.

    Args:
        message_type: the class; None for any message, whose fields are checked if it has types.
        kernel_id: the actor.
        where: what takes the messages.
    """

    __slots__ = ("_checkers", "_kernel_id", "_type", "_where")

    def __init__(self, message_type: type | None, kernel_id: str, where: str) -> None:
        self._type = message_type
        self._kernel_id = kernel_id
        self._where = where
        self._checkers: dict[type, Callable[[Any], str | None]] = {}

    def check(self, message: Any) -> None:
        """Raise :class:`TypeValidationError` if a message is not what is taken."""
        check = self._checkers.get(message.__class__) or self._checker_of(message)
        if (problem := check(message)) is not None:
            name = (self._type or type(message)).__name__
            raise TypeValidationError(name, f"a wrong one: {problem}", self._where, self._kernel_id)

    def _checker_of(self, message: Any) -> Callable[[Any], str | None]:
        """Return what checks the fields of messages of a type."""
        kind = type(message)
        if self._type is not None and not isinstance(message, self._type):
            raise TypeValidationError(
                self._type.__name__, kind.__name__, self._where, self._kernel_id
            )
        found = checker(kind) if issubclass(kind, msgspec.Struct) else _nothing_wrong
        if len(self._checkers) < 256:
            self._checkers[kind] = found
        return found


def _nothing_wrong(message: object) -> None:
    """Take a message whose type says nothing about its fields."""
