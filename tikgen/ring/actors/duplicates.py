"""Finds messages that came before, by their ids."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any


class Duplicates:
    """Remembers the ids of the last messages, and what became of the requests among them.

    Args:
        window: how many ids it remembers.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._seen: OrderedDict[int, asyncio.Future[Any] | None] = OrderedDict()

    def find(self, message: Any) -> tuple[bool, asyncio.Future[Any] | None]:
        """Tell whether a message came before, and what its reply is or will be, if it has one."""
        key = _key(message)
        if key is None or key not in self._seen:
            return False, None
        return True, self._seen[key]

    def note(self, message: Any, reply: asyncio.Future[Any] | None) -> None:
        """Remember a message that was taken."""
        key = _key(message)
        if key is None:
            return
        self._seen[key] = reply
        if len(self._seen) > self._window:
            self._seen.popitem(last=False)

    def forget(self, message: Any) -> None:
        """Forget a message that was not handled after all: it may come again."""
        key = _key(message)
        if key is not None:
            self._seen.pop(key, None)


def _key(message: Any) -> int | None:
    found = getattr(message, "message_id", None)
    return found.int if found is not None else None
