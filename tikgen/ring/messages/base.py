"""The base class of messages, and the decorator that makes messages of plain classes."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload
from uuid import UUID

import msgspec

from tikgen.ring.errors import MessageSerializationError
from tikgen.ring.messages import conversion, wire
from tikgen.ring.messages.annotations import resolve_annotations
from tikgen.ring.messages.ids import new_message_id

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: object) -> Callable[[T], T]:
        """Tell type checkers, and only them, that a decorator makes dataclasses."""
        return lambda decorated: decorated


class _NoDataclass:
    """Tells whoever makes a dataclass of a message what to write; nobody else sees it."""

    def __get__(self, message: object, owner: type) -> NoReturn:
        code = sys._getframe(1).f_code
        if (code.co_filename, code.co_name) == (dataclasses.__file__, "_process_class"):
            raise TypeError(
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
    """Is the base of every message; derive from it, or decorate a class with :func:`message`.

    Args:
        message_id: what a reply names in its ``correlation_id``; made for each message.
        priority: 0 to 255; of the messages that wait, those with the highest go first.
        correlation_id: the ``message_id`` of the message that this one answers.

    Raises:
        ValueError: if the priority is not in 0 to 255.
    """

    __dataclass_fields__ = _NoDataclass()  # What `dataclass` asks the bases of a class for.

    message_id: UUID = msgspec.field(default_factory=new_message_id)
    priority: int = 128
    correlation_id: UUID | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        resolve_annotations(cls, sys._getframe(1))
        wire.remember(cls)

    def __post_init__(self) -> None:
        if self.priority not in _PRIORITIES:
            raise ValueError(f"priority takes 0 to 255; got {self.priority!r}")

    def serialize(self) -> bytes:
        """Return the message as MessagePack.

        Raises:
            MessageSerializationError: if a field holds what MessagePack cannot.
        """
        try:
            return wire.encode(self)
        except Exception as error:  # TypeError, OverflowError, RecursionError, a user's own ...
            raise MessageSerializationError(type(self), error) from error

    @classmethod
    def deserialize(cls: type[M], data: bytes) -> M:
        """Return the message of this type, or of one derived from it, that ``data`` hold.

        Args:
            data: what :meth:`serialize` returned. Arrays in the message are read-only views of it.

        Raises:
            MessageDeserializationError: if ``data`` hold no such message.
        """
        found: M = wire.decode(data, cls)
        return found

    def with_correlation(self: M, correlation_id: UUID) -> M:
        """Return a copy that answers the message ``correlation_id``."""
        return msgspec.structs.replace(self, correlation_id=correlation_id)

    @overload
    def reply(self, *, response_class: type[M], **fields: Any) -> M: ...

    @overload
    def reply(self: M, *, response_class: None = None, **fields: Any) -> M: ...

    def reply(self, *, response_class: type[Any] | None = None, **fields: Any) -> Any:
        """Return a message that answers this one.

        Args:
            response_class: the reply's type; this message's if left out.
            fields: the reply's fields.
        """
        return (response_class or type(self))(correlation_id=self.message_id, **fields)


_PRIORITIES = range(256)


def deserialize_message(data: bytes) -> RingKernelMessage:
    """Return the message that ``data`` hold, of whatever type it is.

    Args:
        data: what :meth:`RingKernelMessage.serialize` returned.

    Raises:
        MessageDeserializationError: if ``data`` hold no message of a type that is defined here.
    """
    return RingKernelMessage.deserialize(data)


@overload
def message(cls: type[T]) -> type[T]: ...


@overload
def message(cls: None = None) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(msgspec.field,))
def message(cls: type[T] | None = None) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a message type of an annotated class, a dataclass or a ``msgspec.Struct``.

    What it returns derives from :class:`RingKernelMessage` and has the class's fields, defaults,
    methods and attributes. The class's own fields may be passed by position.

    Args:
        cls: the class. Without it, a decorator is returned.

    Raises:
        TypeError: if the class cannot be a message: it has an ``__init__`` of its own, a mutable
            default, or takes a name that messages need.
    """
    if cls is None:
        return message
    if not isinstance(cls, type):
        raise TypeError(f"@message takes a class; got {cls!r:.60}")
    if issubclass(cls, RingKernelMessage):
        return cls
    made: type[T] = conversion.message_type(cls, RingKernelMessage)
    return made
