"""The base class of messages, and the decorator that makes messages of classes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload
from uuid import UUID

import msgspec

from tikgen.ring.errors import MessageSerializationError, MessageTypeError, MessageValueError
from tikgen.ring.messages import conversion, wire
from tikgen.ring.messages.annotations import resolve_annotations

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: object) -> Callable[[T], T]:
        """Declare for type checkers that a decorator makes dataclasses."""
        return lambda decorated: decorated


import itertools
import os

import numpy as np

_COUNT = 256  # One identifier costs about 0.3 us; uuid.uuid4 takes 2.9 us.
_ARRAY_HEADER = b"\xdc" + _COUNT.to_bytes(2, "big")
_BINARY_OF_16_BYTES = (0xC4, 16)
_read_uuids = msgspec.msgpack.Decoder(list[UUID]).decode
_block: list[UUID] = []


def _next_block() -> list[UUID]:
    """Return random UUIDs of version 4, made by a MessagePack decoder without ``__init__``."""
    global _block
    packets = np.empty((_COUNT, 18), np.uint8)
    packets[:, :2] = _BINARY_OF_16_BYTES
    packets[:, 2:] = np.frombuffer(os.urandom(16 * _COUNT), np.uint8).reshape(_COUNT, 16)
    packets[:, 8] = packets[:, 8] & 0x0F | 0x40  # The version.
    packets[:, 10] = packets[:, 10] & 0x3F | 0x80  # The variant.
    _block = _read_uuids(_ARRAY_HEADER + packets.tobytes())
    return _block


def _discard_block() -> None:
    """Discard the ids of the parent process: a child makes its own."""
    _block.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_block)

# Iterators of C only: threads may share them, and no bytecode runs for each id.
new_message_id: Callable[[], UUID] = itertools.chain.from_iterable(iter(_next_block, None)).__next__


class _NoDataclass:
    """Raises when ``dataclass`` is applied to a message; hidden otherwise."""

    def __get__(self, message: object, owner: type) -> NoReturn:
        code = sys._getframe(1).f_code
        if (code.co_filename, code.co_name) == (dataclasses.__file__, "_process_class"):
            raise MessageTypeError(
                "a class that derives from RingKernelMessage is a message already, with __init__ "
                "and all: leave out @dataclass; or decorate a class that derives from nothing "
                "with @message, above @dataclass if there is one"
            )
        raise AttributeError("__dataclass_fields__")


T = TypeVar("T")
M = TypeVar("M", bound="RingKernelMessage")


class RingKernelMessage(
    msgspec.Struct,
    kw_only=True,
    weakref=True,
    forbid_unknown_fields=True,
    tag=wire.tag_of_type_in_the_making,
    tag_field=wire.TAG_FIELD,
):
    """The base of every message; derive from it, or decorate a class with :func:`message`.

    Args:
        message_id: a unique id, made for each message.
        priority: 0 to 255; the message with the highest priority is handled first.
        correlation_id: the ``message_id`` of the message that this one answers.

    Raises:
        MessageValueError: if the priority is not in 0 to 255.
    """

    __dataclass_fields__ = _NoDataclass()  # Read by `dataclass`.

    message_id: UUID = msgspec.field(default_factory=new_message_id)
    priority: int = 128
    correlation_id: UUID | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        resolve_annotations(cls, sys._getframe(1))
        wire.remember(cls)

    def __post_init__(self) -> None:
        if self.priority not in _PRIORITIES:
            raise MessageValueError(f"priority takes 0 to 255; got {self.priority!r}")

    def serialize(self) -> bytes:
        """Return the message as MessagePack.

        Raises:
            MessageSerializationError: if MessagePack cannot hold a field.
        """
        try:
            return wire.encode(self)
        except Exception as error:  # TypeError, OverflowError, RecursionError, a user's own ...
            raise MessageSerializationError(type(self), error) from error

    @classmethod
    def deserialize(cls: type[M], data: bytes) -> M:
        """Return a message of this type, or of a subclass, from bytes.

        Args:
            data: the result of :meth:`serialize`. Arrays in the message are read-only views of it.

        Raises:
            MessageDeserializationError: if ``data`` hold no such message.
        """
        found: M = wire.decode(data, cls)
        return found

    def with_correlation(self: M, correlation_id: UUID) -> M:
        """Return a copy with another ``correlation_id``."""
        return msgspec.structs.replace(self, correlation_id=correlation_id)

    @overload
    def reply(self, *, response_class: type[M], **fields: Any) -> M: ...

    @overload
    def reply(self: M, *, response_class: None = None, **fields: Any) -> M: ...

    def reply(self, *, response_class: type[Any] | None = None, **fields: Any) -> Any:
        """Return a message that answers this one.

        Args:
            response_class: the type of the reply, by default of this message.
            fields: the fields of the reply.
        """
        return (response_class or type(self))(correlation_id=self.message_id, **fields)


_PRIORITIES = range(256)


def deserialize_message(data: bytes) -> RingKernelMessage:
    """Return a message of any type that is defined in this process, from bytes.

    Raises:
        MessageDeserializationError: if ``data`` hold no such message.
    """
    return RingKernelMessage.deserialize(data)


@overload
def message(cls: type[T]) -> type[T]: ...


@overload
def message(cls: None = None) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(msgspec.field,))
def message(cls: type[T] | None = None) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a message type of an annotated class, a dataclass or a ``msgspec.Struct``.

    The type derives from :class:`RingKernelMessage`, with the fields, defaults, methods and
    attributes of the class. Its own fields may be passed by position.

    Args:
        cls: the class; without it, a decorator is returned.

    Raises:
        MessageTypeError: if the class has its own ``__init__``, a mutable default, or a field with
            a name that messages need.
    """
    if cls is None:
        return message
    if not isinstance(cls, type):
        raise MessageTypeError(f"@message takes a class; got {cls!r:.60}")
    if issubclass(cls, RingKernelMessage):
        return cls
    made: type[T] = conversion.message_type(cls, RingKernelMessage)
    return made
