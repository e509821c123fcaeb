"""The slots of a ring: columns of numbers, written and read one message or many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.errors import ColumnError
from tikgen.template.argument_checks import hidden_problem


class Slots:
    """Columns of as many slots, a power of two, in memory that a kernel shares.

    Attributes:
        names: the names of the columns, in order.
        dtypes: their dtypes.
        limits: the greatest numbers that go in unseen.
        arrays: the columns.
        views: the same, quicker to write and read one number at a time.
    """

    def __init__(self, kernel_id: str, dtypes: Mapping[str, DType], arrays: Sequence[Any]) -> None:
        self.names = tuple(dtypes)
        self.dtypes = tuple(dtypes.values())
        # Beyond these, floats would become infinite in silence.
        self.limits = tuple(
            float(np.finfo(d.numpy).max) if d.is_float and d.bits < 64 else float("inf")
            for d in self.dtypes
        )
        self._kernel_id = kernel_id
        self.move_to(arrays)

    @property
    def only(self) -> Any:
        """Return the view of the only column; None if there are others, or it gives no numbers."""
        is_one = len(self.views) == 1 and type(self.views[0]) is memoryview
        return self.views[0] if is_one else None

    def move_to(self, arrays: Sequence[Any]) -> None:
        """Use other arrays of the same shapes and dtypes."""
        self.arrays = tuple(arrays)
        # A memoryview cannot index numbers of 16 bits.
        self.views: tuple[Any, ...] = tuple(
            array if array.dtype == np.float16 else memoryview(array) for array in arrays
        )

    def write(self, slot: int, values: Sequence[Any]) -> None:
        """Put the values of one message into a slot.

        Raises:
            ColumnError: if a value does not fit its column, or there are too many or too few.
        """
        if len(values) != len(self.views):
            self._refuse_count(len(values))
        for place, view in enumerate(self.views):
            value, limit = values[place], self.limits[place]
            try:
                if not -limit <= value <= limit:
                    raise OverflowError
                view[slot] = value
            except (TypeError, ValueError, OverflowError):
                self._write_other(place, slot, value)

    def _write_other(self, place: int, slot: int, value: Any) -> None:
        """Put what is no number of Python's into a column, or say what is wrong with it."""
        array, dtype = self.arrays[place], self.dtypes[place]
        found = np.asarray(value)
        fits = found.ndim == 0 and (found.dtype.kind in "iub" or found.dtype.kind == "f")
        if fits and not dtype.is_float:
            fits = found.dtype.kind != "f" and dtype.lowest <= int(found) <= dtype.highest
        if not fits:
            problem = f"takes a number that {dtype} holds; got {value!r:.60}"
            raise ColumnError(self.names[place], problem, self._kernel_id)
        with np.errstate(over="ignore"):
            array[slot] = found
        if dtype.is_float and np.isinf(array[slot]) and not np.isinf(found):
            problem = f"takes a number that {dtype} holds; got {value!r:.60}"
            raise ColumnError(self.names[place], problem, self._kernel_id)

    def _refuse_count(self, count: int) -> None:
        listed = ", ".join(self.names)
        problem = f"is one of {len(self.names)} ({listed}); got {count} values"
        raise ColumnError(self.names[0], problem, self._kernel_id)

    def checked(self, columns: Mapping[str, Any]) -> tuple[list[Any], int]:
        """Return the columns of many messages in order, and how many messages they are.

        Raises:
            ColumnError: if a column is missing, unknown, of another length or of no fitting dtype.
        """
        if not isinstance(columns, Mapping):
            problem = f"takes part in a dict of columns; got {type(columns).__name__}"
            raise ColumnError(self.names[0], problem, self._kernel_id)
        if unknown := [name for name in columns if name not in self.names]:
            problem = f"is unknown; there are {', '.join(self.names)}"
            raise ColumnError(str(unknown[0]), problem, self._kernel_id)
        found: list[Any] = []
        for name, dtype in zip(self.names, self.dtypes, strict=True):
            if name not in columns:
                raise ColumnError(name, "is missing", self._kernel_id)
            if problem := hidden_problem(name, columns[name]):
                raise ColumnError(name, problem, self._kernel_id)
            array = np.asarray(columns[name])
            if array.dtype != dtype.numpy:
                array = self._converted(name, dtype, array)
            if array.ndim != 1 or (found and array.shape != found[0].shape):
                wanted = f"{found[0].size} numbers" if found else "one axis"
                problem = f"takes {wanted}; got the shape {array.shape}"
                raise ColumnError(name, problem, self._kernel_id)
            found.append(array)
        return found, found[0].size

    def _converted(self, name: str, dtype: DType, array: Any) -> Any:
        is_number = array.dtype.kind in ("iubf" if dtype.is_float else "iub")
        if not is_number or array.dtype == np.longdouble:
            problem = f"takes numbers of {dtype}; got {array.dtype}"
            raise ColumnError(name, problem, self._kernel_id)
        if not dtype.is_float and array.size:
            low, high = int(array.min()), int(array.max())
            if low < dtype.lowest or high > dtype.highest:
                problem = f"takes numbers of {dtype}; got {low if low < dtype.lowest else high}"
                raise ColumnError(name, problem, self._kernel_id)
        with np.errstate(over="ignore"):
            return array.astype(dtype.numpy)

    def write_many(self, start: int, columns: Sequence[Any], count: int) -> None:
        """Put the first messages of checked columns into the slots from ``start`` on."""
        for array, column in zip(self.arrays, columns, strict=True):
            first = min(count, array.size - start)
            array[start : start + first] = column[:first]
            if first < count:
                array[: count - first] = column[first:count]

    def read(self, slot: int) -> Any:
        """Return the value of a slot; a tuple where there are several columns, or None."""
        views = self.views
        if len(views) == 1:
            value = views[0][slot]
            return value if type(value) in (int, float) else value.item()
        if not views:
            return None
        return tuple(
            view[slot] if type(view) is memoryview else view[slot].item() for view in views
        )

    def read_many(self, start: int, count: int) -> dict[str, Any]:
        """Return copies of the columns from a slot on."""
        found = {}
        for name, array in zip(self.names, self.arrays, strict=True):
            first = min(count, array.size - start)
            copy = np.empty(count, array.dtype)
            copy[:first] = array[start : start + first]
            if first < count:
                copy[first:] = array[: count - first]
            found[name] = copy
        return found
