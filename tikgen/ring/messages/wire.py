"""Writes messages as MessagePack, and reads each as its own type."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec
import numpy as np

from tikgen.dtypes import DType
from tikgen.ring.errors import MessageDeserializationError
from tikgen.ring.messages.annotations import array_dtype, unaliased

TAG_FIELD = "__type__"
_TYPES = (*(member.numpy for member in DType), np.dtype(bool))
_CODE_OF = {dtype: code for code, dtype in enumerate(_TYPES, 1)}
_SHAPED = 64  # Added to the code of an array that is not 1-D: its shape precedes its data.

_known: weakref.WeakValueDictionary[str, type[Any]] = weakref.WeakValueDictionary()
_naming = threading.local()


def remember(message_type: type[Any]) -> None:
    """Register a type that is being made, for messages with its tag.

    A later type with the same module and qualified name replaces it, as a notebook cell does.
    """
    _naming.tag = f"{message_type.__module__}:{message_type.__qualname__}"
    _known[_naming.tag] = message_type


def tag_of_type_in_the_making(name: str) -> str:
    """Return the tag of the type registered last; msgspec passes only its name."""
    tag = str(vars(_naming).pop("tag", name))
    return tag if tag.endswith(name) else name


def _numbers(value: object) -> Any:
    """Convert arrays and NumPy numbers for MessagePack; the ``enc_hook`` of msgspec."""
    if isinstance(value, np.ndarray):
        return _extension(value)
    if isinstance(value, np.generic) and value.dtype.newbyteorder("=") in _CODE_OF:
        return value.item()
    raise TypeError(f"objects of type {type(value).__name__} have no form in MessagePack")


def _extension(array: np.ndarray[Any, Any]) -> msgspec.msgpack.Ext:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask; send x.filled(...), or x.data")
    code = _CODE_OF.get(array.dtype.newbyteorder("="))
    if code is None:
        known = ", ".join(map(str, _TYPES))
        raise TypeError(f"arrays of dtype {array.dtype} are not sent; only {known}")
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if array.ndim == 1:
        return msgspec.msgpack.Ext(code, plain.view(np.uint8).data)
    shape = np.array([array.ndim, *array.shape], "<u8").tobytes()
    return msgspec.msgpack.Ext(code + _SHAPED, shape + plain.tobytes())


def _array(code: int, data: memoryview) -> np.ndarray[Any, Any]:
    """Return a read-only view of an array in received bytes; the ``ext_hook`` of msgspec."""
    is_shaped = code > _SHAPED
    code -= _SHAPED * is_shaped
    if not 1 <= code <= len(_TYPES):
        raise ValueError(f"extension {code} is not one of tikgen's")
    shape: tuple[int, ...] = (-1,)
    if is_shaped:
        ndim = int.from_bytes(data[:8], "little")
        if ndim > 32 or len(data) < 8 * (ndim + 1):
            raise ValueError("an array has no whole shape")
        shape = tuple(np.frombuffer(data[8 : 8 * (ndim + 1)], "<u8").tolist())
        data = data[8 * (ndim + 1) :]
    view = np.frombuffer(data, _TYPES[code - 1]) if len(data) else np.empty(0, _TYPES[code - 1])
    if code == len(_TYPES) and np.any(view.view(np.uint8) > 1):
        raise ValueError("an array of bool holds other bytes than 0 and 1")
    view = view.reshape(shape)
    view.flags.writeable = False
    return view


def _own(annotation: Any, value: object) -> object:
    """Check the dtype of an array; the ``dec_hook`` of msgspec, for types it does not know."""
    annotation = unaliased(annotation)
    wanted = array_dtype(annotation)
    if (get_origin(annotation) or annotation) is not np.ndarray:
        raise NotImplementedError(f"{annotation!r} cannot be read from MessagePack")
    if not isinstance(value, np.ndarray):
        raise ValueError(f"Expected `array`, got `{type(value).__name__}`")
    if wanted is not None and value.dtype != wanted:
        raise ValueError(f"Expected `array of {wanted}`, got `array of {value.dtype}`")
    return value


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(
    enc_hook=_numbers, uuid_format="bytes"
).encode
_read_raw_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode


def _has_own_rule(annotation: Any) -> bool:
    extras = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return any(isinstance(extra, DType) or hasattr(extra, "ring_rule") for extra in extras)


class Reader:
    """Reads messages of one type, with all fields required."""

    def __init__(self, message_type: type[Any]) -> None:
        config = message_type.__struct_config__
        if config.array_like:
            raise TypeError(f"{message_type.__name__}: messages are not written with array_like")
        self.fields = {TAG_FIELD, *message_type.__struct_encode_fields__}
        self.may_lack_fields = config.omit_defaults
        # The first bytes of every message of this type, and of no other.
        count = msgspec.msgpack.encode(dict.fromkeys(map(str, range(len(self.fields)))))
        header = count[: 1 if len(self.fields) < 16 else 3]
        parts = (TAG_FIELD, config.tag)
        self.beginning = header + b"".join(map(msgspec.msgpack.encode, parts))
        self.read = msgspec.msgpack.Decoder(message_type, dec_hook=_own, ext_hook=_array).decode
        if any(_has_own_rule(field.type) for field in msgspec.structs.fields(message_type)):
            self._read_unchecked, self.read = self.read, self._read_checked
            self._message_type = message_type

    def _read_checked(self, data: Any) -> Any:
        """Read a message with annotations that msgspec does not know, such as vectors."""
        from tikgen.ring.messages.checks import checker

        found = self._read_unchecked(data)
        problem = checker(self._message_type)(found)
        if problem is not None:
            raise ValueError(problem)
        return found

    def missing(self, fields: dict[str, msgspec.Raw]) -> list[str]:
        """Return the names of missing fields."""
        return [] if self.may_lack_fields else sorted(self.fields - set(fields))


def reader(message_type: type[Any]) -> Reader:
    """Return the reader of a type."""
    found = message_type.__dict__.get("_ring_reader")
    if found is None:
        found = Reader(message_type)
        type.__setattr__(message_type, "_ring_reader", found)
    return cast(Reader, found)


def decode(data: Any, expected: type[Any]) -> Any:
    """Return a message of the expected type, or of a subclass, from bytes or a buffer.

    Arrays in the message are views of ``data``.
    """
    try:
        own = reader(expected)
        raw = data if type(data) is bytes else memoryview(data)[: len(own.beginning)].tobytes()
        if raw.startswith(own.beginning):
            return own.read(data)
        return _decode_other(data, expected, own)
    except MessageDeserializationError:
        raise
    except Exception as error:  # Any error of invalid bytes and annotations.
        raise MessageDeserializationError(expected, error) from error


def _type_of(tag: str) -> type[Any] | None:
    named_so = (known for known in _known.values() if known.__struct_config__.tag == tag)
    return _known.get(tag) or next(named_so, None)


def _decode_other(data: Any, expected: type[Any], own: Reader) -> Any:
    fields = _read_raw_fields(data)
    if TAG_FIELD not in fields:
        raise MessageDeserializationError(expected, f"they hold no {TAG_FIELD!r}")
    tag = msgspec.msgpack.decode(fields[TAG_FIELD], type=str)
    actual = expected if tag == expected.__struct_config__.tag else _type_of(tag)
    if actual is None:
        raise MessageDeserializationError(expected, f"no message type {tag!r} is defined here")
    if not issubclass(actual, expected):
        raise MessageDeserializationError(expected, f"they hold a message of type {tag!r}")
    its_reader = own if actual is expected else reader(actual)
    missing = its_reader.missing(fields)
    if missing:
        raise MessageDeserializationError(expected, f"fields are missing: {', '.join(missing)}")
    return its_reader.read(data)
