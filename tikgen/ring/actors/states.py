"""The states of an actor, and how it came to its end."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class KernelState(enum.Enum):
    """What an actor is doing.

    CREATED, LAUNCHED (has its resources, takes no messages), ACTIVE, DEACTIVATED (takes messages
    and handles none), TERMINATING (handles what is queued, takes nothing new), TERMINATED.
    """

    CREATED = enum.auto()
    LAUNCHED = enum.auto()
    ACTIVE = enum.auto()
    DEACTIVATED = enum.auto()
    TERMINATING = enum.auto()
    TERMINATED = enum.auto()


# States in which an actor takes messages.
TAKING = (KernelState.ACTIVE, KernelState.DEACTIVATED)
# States in which replies may come.
REPLYING = (*TAKING, KernelState.TERMINATING)


@dataclass(frozen=True)
class Termination:
    """How an actor ended.

    Attributes:
        kernel_id: the actor.
        processed: messages that it had handled by then.
        dropped: messages that it did not handle, in the order in which they would have come.
        unreceived: replies that nobody had received.
        reason: why it ended.
        stopped: whether body and kernel have ended; False if one went on although it was told to.
    """

    kernel_id: str
    processed: int
    dropped: tuple[Any, ...] = field(default=(), repr=False)
    unreceived: tuple[Any, ...] = field(default=(), repr=False)
    reason: str = "terminated"
    stopped: bool = False
