"""Many messages as columns, in one block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tikgen.ring.errors import ColumnError
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
            start, stop, step = key.indices(self.count)
            if step != 1:
                raise IndexError("a part of a block of messages has step 1")
            return self.part(start, max(start, stop))
        place = key + self.count if key < 0 else key
        if not 0 <= place < self.count:
            raise IndexError(f"place {key} of a block of {self.count} messages")
        return self.messages(place, 1)[0]

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
    given: Mapping[str, Any],
    columns: tuple[Column, ...],
    message_type: type[Any],
    kernel_id: str,
) -> Columns:
    """Return columns that a caller brings, checked, as a block that the caller cannot change.

    Raises:
        ColumnError: if they do not fit, with the actor's ``kernel_id``.
    """
    try:
        arrays, count = check_columns(given, columns)
    except ColumnError as error:
        problem = str(error).partition(f"{error.column!r} ")[2]
        raise ColumnError(error.column, problem, kernel_id) from None
    if not isinstance(given, Columns):
        arrays = {
            name: array.copy() if np.may_share_memory(array, given[name]) else array
            for name, array in arrays.items()
        }
    return Columns(arrays, columns, message_type, count)
