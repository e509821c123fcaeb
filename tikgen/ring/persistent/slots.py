"""The slots of a ring: columns of numbers, written and read one message or many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import LibraryError
from tikgen.ring.errors import BackendNotAvailableError, ColumnError
from tikgen.ring.messages.columns import Column, check_columns

if TYPE_CHECKING:
    from tikgen.aot import Runtime


class Slots:
    """Columns with a slot for each message, a power of two, in memory shared with a kernel.

    Attributes:
        columns: names and dtypes of the columns, in order.
        limits: the greatest finite numbers of the columns.
        arrays: the columns.
        views: the same, faster for single numbers.
    """

    def __init__(self, kernel_id: str, dtypes: Mapping[str, DType], arrays: Sequence[Any]) -> None:
        self.columns = tuple(Column(name, dtype) for name, dtype in dtypes.items())
        # Beyond these, floats would silently become infinite.
        self.limits = tuple(
            float(np.finfo(d.numpy).max) if d.is_float and d.bits < 64 else float("inf")
            for d in dtypes.values()
        )
        self._kernel_id = kernel_id
        self.move_to(arrays)

    @property
    def only(self) -> Any:
        """Return the view of the only column; None for several, or where it needs conversion."""
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
        """Write the values of one message into a slot."""
        if len(values) != len(self.views):
            names = ", ".join(column.name for column in self.columns)
            problem = f"is one of {len(self.columns)} ({names}); got {len(values)} values"
            raise ColumnError(self.columns[0].name, problem, self._kernel_id)
        for place, view in enumerate(self.views):
            value, limit = values[place], self.limits[place]
            try:
                if not -limit <= value <= limit:
                    raise OverflowError
                view[slot] = value
            except (TypeError, ValueError, OverflowError):
                self._write_other(place, slot, value)

    def _write_other(self, place: int, slot: int, value: Any) -> None:
        """Write what is no number of Python, or raise."""
        dtype, found = self.columns[place].dtype, np.asarray(value)
        fits = found.ndim == 0 and found.dtype.kind in ("iubf" if dtype.is_float else "iub")
        if fits and not dtype.is_float:
            fits = dtype.lowest <= int(found) <= dtype.highest
        if fits:
            with np.errstate(over="ignore"):
                written = found.astype(dtype.numpy)
            fits = not (dtype.is_float and np.isinf(written) and not np.isinf(found))
        if not fits:
            problem = f"takes a number that {dtype} holds; got {value!r:.60}"
            raise ColumnError(self.columns[place].name, problem, self._kernel_id)
        self.arrays[place][slot] = written

    def checked(self, columns: Mapping[str, Any]) -> tuple[list[Any], int]:
        """Return the columns of many messages in order, and the number of messages."""
        try:
            found, count = check_columns(columns, self.columns)
        except ColumnError as error:
            raise error.of(self._kernel_id) from None
        return list(found.values()), count

    def write_many(self, start: int, columns: Sequence[Any], count: int) -> None:
        """Write the first messages of checked columns into the slots from ``start``."""
        for array, column in zip(self.arrays, columns, strict=True):
            first = min(count, array.size - start)
            array[start : start + first] = column[:first]
            if first < count:
                array[: count - first] = column[first:count]

    def read(self, slot: int) -> Any:
        """Return the value of a slot; a tuple for several columns, None for none."""
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
        """Return copies of the columns from a slot."""
        found = {}
        for column, array in zip(self.columns, self.arrays, strict=True):
            first = min(count, array.size - start)
            found[column.name] = np.concatenate(
                (array[start : start + first], array[: count - first])
            )
        return found


_LINE = 64


class SharedMemory:
    """Allocates arrays that this process and a running kernel of a runtime share."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._is_mapped = runtime.arch == "cuda"

    def allocate(self, dtype: DType, count: int) -> tuple[Any, Any]:
        """Return an array of zeros, and the argument that the kernel takes for it."""
        if self._is_mapped:
            try:
                return self._runtime.mapped(count, dtype)
            except LibraryError as error:
                raise BackendNotAvailableError("cuda", str(error)) from None
        size = count * dtype.numpy.itemsize
        buffer = np.zeros(size + _LINE, np.uint8)
        start = -buffer.ctypes.data % _LINE
        array = buffer[start : start + size].view(dtype.numpy)
        return array, array

    def own(self, array: Any) -> Any:
        """Return the array, or a copy of it if its memory belongs to the runtime."""
        return array.copy() if self._is_mapped else array
