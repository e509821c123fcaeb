"""Many messages as columns, in one block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.ring.messages.columns import Column, check_columns, unpack

Array = np.ndarray[Any, Any]


class Columns(dict[str, Array]):
    """Messages as a dict of arrays; a slice of it is a block again, a place of it a message.

    Attributes:
        message_type: the class of the messages.
        count: how many they are.
    """

    __slots__ = ("columns", "count", "message_type")

    def __init__(
        self,
        arrays: Mapping[str, Array],
        columns: tuple[Column, ...],
        message_type: type[Any],
        count: int,
    ) -> None:
        super().__init__(arrays)
        self.columns = columns
        self.message_type = message_type
        self.count = count

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.count)
            return self.part(start, stop)
        return self.messages(key, 1)[0]

    def part(self, start: int, stop: int) -> Columns:
        """Return the messages from one place to another, without copying them."""
        arrays = {name: array[start:stop] for name, array in self.items()}
        return Columns(arrays, self.columns, self.message_type, stop - start)

    def messages(self, start: int = 0, count: int | None = None) -> list[Any]:
        """Return messages as objects."""
        left = self.count - start if count is None else count
        return unpack(self, self.columns, self.message_type, start, left)

    def __repr__(self) -> str:
        return f"<{self.count} {self.message_type.__name__} as columns {', '.join(self)}>"


def own_columns(
    given: Mapping[str, Any], columns: tuple[Column, ...], message_type: type[Any]
) -> Columns:
    """Return columns that a caller brings, checked, as a block that the caller cannot change.

    Raises:
        ColumnError: if they do not fit.
    """
    arrays, count = check_columns(given, columns)
    if not isinstance(given, Columns):
        arrays = {
            name: array.copy() if np.may_share_memory(array, given[name]) else array
            for name, array in arrays.items()
        }
    return Columns(arrays, columns, message_type, count)
