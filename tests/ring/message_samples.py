"""Messages for tests."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID, uuid4

import numpy as np
import numpy.typing as npt

from tikgen.ring.messages.base import (
    message,
)
from tikgen.ring.messages.columns import f32, i8, vector


@message
class Request:
    """A request."""

    a: float
    b: int = 2
    names: list[str] = field(default_factory=list)
    unit: ClassVar[str] = "m"

    def doubled(self) -> float:
        return self.a * 2


@message
class Derived(Request):
    c: str = "c"


@message
@dataclass
class AsPeer:
    value: float
    message_id: UUID = field(default_factory=uuid4)
    priority: int = 128
    correlation_id: UUID | None = None

    def __repr__(self) -> str:
        return f"AsPeer of {self.value}"


class Colour(enum.Enum):
    red = 1


@message
class Everything:
    n: Request | None = None
    tags: set[str] = field(default_factory=set)
    pair: tuple[int, str] = (1, "a")
    colour: Colour = Colour.red
    when: datetime.datetime = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
    who: UUID = UUID(int=5)
    either: int | str | None = None
    data: bytes = b"\0\1"
    table: dict[str, list[float]] = field(default_factory=dict)
    array: np.ndarray | None = None
    anything: Any = None


@message
class Arrays:
    x: np.ndarray
    y: npt.NDArray[np.float32] | None = None


@message
class Vectors:
    v: vector(f32, 3)
    k: i8 = 0
