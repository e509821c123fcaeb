"""Converts messages to columns of numbers, one array a field, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, get_args, get_origin
from uuid import UUID

import msgspec
import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.errors import ColumnError, MessageTypeError, MessageValueError
from tikgen.ring.messages.base import RingKernelMessage
from tikgen.ring.messages.checks import resolved_annotations
from tikgen.ring.messages.rules import Rule, is_integer, is_real
from tikgen.template.argument_checks import hidden_problem

i8 = Annotated[int, DType.i8]
i16 = Annotated[int, DType.i16]
i32 = Annotated[int, DType.i32]
i64 = Annotated[int, DType.i64]
u8 = Annotated[int, DType.u8]
u16 = Annotated[int, DType.u16]
u32 = Annotated[int, DType.u32]
u64 = Annotated[int, DType.u64]
f16 = Annotated[float, DType.f16]
f32 = Annotated[float, DType.f32]
f64 = Annotated[float, DType.f64]

_DTYPES = {float: DType.f32, int: DType.i32, bool: DType.u8}
_BASE_FIELDS = frozenset(RingKernelMessage.__struct_fields__)
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Column:
    """A field of a message type, as an array.

    Attributes:
        name: the field's name.
        dtype: the type of the numbers.
        length: 0 for one number a message, n for a vector of n numbers.
    """

    name: str
    dtype: DType
    length: int = 0

    def shape(self, count: int) -> tuple[int, ...]:
        """Return the shape of the column of ``count`` messages."""
        return (count, self.length) if self.length else (count,)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{f'[{self.length}]' if self.length else ''}"


@dataclass(frozen=True)
class Vector:
    """An annotation of fields that hold a vector."""

    dtype: DType
    length: int

    def ring_rule(self) -> Rule:
        """Return the rule of the field: it takes an array with one axis, a list or a tuple."""
        is_number = is_real if self.dtype.is_float else is_integer

        def test(value: Any) -> bool:
            if isinstance(value, np.ndarray):
                kinds = "fiu" if self.dtype.is_float else "iu"
                return value.shape == (self.length,) and value.dtype.kind in kinds
            is_sequence = isinstance(value, (list, tuple))
            return is_sequence and len(value) == self.length and all(map(is_number, value))

        return Rule(f"a vector of {self.length} {self.dtype}", test=test)


def vector(dtype: Any, length: int) -> Any:
    """Return the annotation of a field that holds a vector.

    Args:
        dtype: :data:`f32` and the like, or an argument of ``DType.parse``.
        length: the number of elements, from 1.

    Raises:
        ConversionError: if there is no such dtype.
        MessageValueError: if the length is below 1.
    """
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise MessageValueError(f"vector: length takes an integer from 1; got {length!r}")
    return Annotated[Any, Vector(_dtype(dtype), length)]


def _dtype(annotation: Any) -> DType:
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, DType):
                return extra
        annotation = get_args(annotation)[0]
    if isinstance(annotation, type) and annotation in _DTYPES:
        return _DTYPES[annotation]
    return DType.parse(annotation)


def columns_of(message_type: type[Any]) -> tuple[Column, ...]:
    """Return the columns of a message type, one for each of its own fields, in order.

    A plain ``float`` is f32, a plain ``int`` is i32, ``bool`` is u8.

    Raises:
        ColumnError: if a field holds neither a number nor a vector of known length.
        MessageTypeError: if it is no message type.
    """
    if not (isinstance(message_type, type) and issubclass(message_type, msgspec.Struct)):
        raise MessageTypeError(f"columns_of takes a message type; got {message_type!r:.60}")
    found = message_type.__dict__.get("_ring_columns")
    if found is None:
        annotations = resolved_annotations(message_type)
        found = tuple(
            _column(name, annotation)
            for name, annotation in annotations.items()
            if name not in _BASE_FIELDS
        )
        type.__setattr__(message_type, "_ring_columns", found)
    columns: tuple[Column, ...] = found
    return columns


def _column(name: str, annotation: Any) -> Column:
    for extra in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(extra, Vector):
            return Column(name, extra.dtype, extra.length)
    try:
        return Column(name, _dtype(annotation))
    except (ValueError, TypeError):
        raise ColumnError(
            name,
            f"cannot hold {str(annotation).replace('typing.', '')}; a batch takes float, int, "
            "bool, f32 and the other dtypes, and vector(f32, 3)",
        ) from None


def pack(
    messages: Sequence[Any],
    columns: Iterable[Column],
    arrays: MutableMapping[str, np.ndarray[Any, Any]],
) -> None:
    """Write the fields of messages into the first rows of arrays."""
    if not messages:
        return
    for column in columns:
        values = list(map(attrgetter(column.name), messages))
        numbers = _vectors(column, values) if column.length else _numbers(column, values)
        arrays[column.name][: len(messages)] = _fitting(column, numbers)


def _numbers(column: Column, values: list[Any]) -> np.ndarray[Any, Any]:
    """Return numbers in a dtype that holds every number of the column's dtype."""
    kinds = set(map(type, values))
    is_float = column.dtype.is_float
    if not (kinds <= {float, int} if is_float else kinds == {int}):
        values = [_number(column, value) for value in values]
    if column.dtype is DType.u64 and min(values) < 0:
        raise _too_large(column, min(values))
    wide: Any = np.float64 if is_float else np.uint64 if column.dtype is DType.u64 else np.int64
    try:
        return np.fromiter(values, wide, len(values))
    except OverflowError:
        raise _too_large(column, max(values, key=abs)) from None


def _number(column: Column, value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)) and column.dtype is DType.u8:
        return int(value)
    if not (is_real if column.dtype.is_float else is_integer)(value):
        raise ColumnError(column.name, f"takes {column.dtype}; got {value!r:.60}")
    return value.item() if isinstance(value, np.generic) else value


def _vectors(column: Column, values: list[Any]) -> np.ndarray[Any, Any]:
    """Return vectors as rows; see :func:`_numbers`."""
    for value in values:
        if not isinstance(value, (np.ndarray, list, tuple)):
            raise ColumnError(column.name, f"takes a vector; got {value!r:.60}")
        if isinstance(value, np.ndarray) and value.ndim != 1:
            raise ColumnError(column.name, f"takes a vector; got an array of shape {value.shape}")
        if isinstance(value, np.ma.MaskedArray):
            raise ColumnError(column.name, "takes a vector; got a masked array")
        if len(value) != column.length:
            raise ColumnError(
                column.name, f"takes vectors of {column.length} numbers; got one of {len(value)}"
            )
    if all(isinstance(value, np.ndarray) for value in values):
        stacked = np.concatenate(values)
        if any(value.dtype != stacked.dtype for value in values) or stacked.dtype.kind not in "fiu":
            stacked = _numbers(column, [number for value in values for number in value.tolist()])
        elif not column.dtype.is_float and stacked.dtype.kind == "f":
            raise ColumnError(column.name, f"takes {column.dtype}; got {stacked.dtype}")
    else:
        stacked = _numbers(column, list(chain.from_iterable(values)))
    return stacked.reshape(len(values), column.length)


def _fitting(column: Column, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return numbers in the column's dtype, if they fit."""
    dtype = column.dtype
    if not dtype.is_float:
        if numbers.dtype != dtype.numpy and numbers.size:
            for number in (int(numbers.min()), int(numbers.max())):
                if not int(dtype.lowest) <= number <= int(dtype.highest):
                    raise _too_large(column, number)
        return numbers.astype(dtype.numpy, copy=False)
    with np.errstate(over="ignore"):
        fitting = numbers.astype(dtype.numpy, copy=False)
    if not np.isfinite(fitting).all():
        overflown = np.isinf(fitting) & ~np.isinf(numbers)
        if overflown.any():
            raise _too_large(column, numbers[overflown][0])
    return fitting


def _too_large(column: Column, number: Any) -> ColumnError:
    dtype = column.dtype
    most = np.finfo(dtype.numpy).max if dtype.is_float else dtype.highest
    least = -most if dtype.is_float else dtype.lowest
    return ColumnError(
        column.name, f"takes {dtype}, which is {least} to {most}; got {number!s:.60}"
    )


def unpack(
    arrays: Arrays,
    columns: Sequence[Column],
    message_type: type[Any],
    start: int,
    count: int,
    *,
    correlations: Iterable[UUID | None] | None = None,
) -> list[Any]:
    """Return messages with fields from arrays."""
    annotations = resolved_annotations(message_type)
    fields = [
        _field_values(column, arrays[column.name][start : start + count], annotations[column.name])
        for column in columns
    ]
    names = tuple(column.name for column in columns)
    rows: Iterable[tuple[Any, ...]] = zip(*fields, strict=True) if fields else [()] * count
    ids = [None] * count if correlations is None else list(correlations)
    pairs = zip(rows, ids, strict=True)
    if names == message_type.__match_args__[: len(names)]:
        return [message_type(*row, correlation_id=key) for row, key in pairs]
    return [
        message_type(**dict(zip(names, row, strict=True)), correlation_id=key) for row, key in pairs
    ]


def _field_values(column: Column, array: np.ndarray[Any, Any], annotation: Any) -> Iterable[Any]:
    if column.length:
        return list(array.copy())
    values: list[Any] = (array != 0 if annotation is bool else array).tolist()
    return values


def check_columns(
    columns: Mapping[str, Any], expected: Sequence[Column]
) -> tuple[dict[str, np.ndarray[Any, Any]], int]:
    """Return the columns of a caller as contiguous arrays of the right dtypes.

    Arrays that fit are not copied. Integers may become floats, and wide numbers narrow ones, where
    each one fits; floats never become integers.
    """
    names = [column.name for column in expected]
    if not isinstance(columns, Mapping):
        raise ColumnError(names[0] if names else "", f"needs a dict of arrays; got {columns!r:.60}")
    for name in columns:
        if name not in names:
            raise ColumnError(str(name), f"is not known; known are {', '.join(names) or 'none'}")
    found: dict[str, np.ndarray[Any, Any]] = {}
    count = -1
    for column in expected:
        if column.name not in columns:
            raise ColumnError(column.name, "is missing")
        array = _own_array(column, columns[column.name])
        if count >= 0 and len(array) != count:
            problem = f"has {len(array)} messages, and column {names[0]!r} has {count}"
            raise ColumnError(column.name, problem)
        count = len(array)
        found[column.name] = array
    return found, max(count, 0)


def _own_array(column: Column, given: Any) -> np.ndarray[Any, Any]:
    if problem := hidden_problem(column.name, given):
        raise ColumnError(column.name, problem)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ColumnError(column.name, f"cannot be made an array: {error}") from None
    if array.ndim != (2 if column.length else 1) or (
        column.length and array.shape[1] != column.length
    ):
        wanted = f"(n, {column.length})" if column.length else "(n,)"
        raise ColumnError(column.name, f"takes an array of shape {wanted}; got {array.shape}")
    kinds = "fiub" if column.dtype.is_float else "iub"
    if array.dtype.kind not in kinds and array.size:
        raise ColumnError(column.name, f"takes {column.dtype}; got {array.dtype}")
    if array.dtype == np.bool_ or not array.size:
        array = array.astype(column.dtype.numpy)
    if array.dtype != column.dtype.numpy:
        array = _fitting(column, array)
    return np.require(array, column.dtype.numpy, ["C", "A"])


Array = np.ndarray[Any, Any]


class Columns(dict[str, Array]):
    """Messages as a dict of arrays; a slice is another block, an index a message.

    Attributes:
        message_type: the class of the messages.
        count: number of messages.
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
        """Return a range of the messages, without copying them."""
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
    """Return the columns of a caller as a block, checked, and copied unless they are one."""
    try:
        arrays, count = check_columns(given, columns)
    except ColumnError as error:
        raise error.of(kernel_id) from None
    if not isinstance(given, Columns):
        arrays = {
            name: array.copy() if np.may_share_memory(array, given[name]) else array
            for name, array in arrays.items()
        }
    return Columns(arrays, columns, message_type, count)
