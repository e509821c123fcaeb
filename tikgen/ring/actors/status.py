"""What the parts of an actor share: its state, its end, and the runtime."""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from tikgen.ring.actors.queues import raised
from tikgen.ring.errors import KernelFailed, KernelStateError, KernelTerminated
from tikgen.ring.telemetry.kernel_telemetry import TelemetryCollector


class KernelState(enum.Enum):
    """The state of an actor.

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
        processed: number of messages that it had handled.
        dropped: messages that it did not handle, in the order of the queue.
        unreceived: replies that were never received.
        reason: why it ended.
        stopped: whether body and kernel have ended; False if one ignored the request to end.
    """

    kernel_id: str
    processed: int
    dropped: tuple[Any, ...] = field(default=(), repr=False)
    unreceived: tuple[Any, ...] = field(default=(), repr=False)
    reason: str = "terminated"
    stopped: bool = False


class Status:
    """The state of one actor, shared by its parts.

    Attributes:
        kernel_id: name of the actor.
        state: its current state.
        is_taking: whether it takes messages.
        is_ending: whether its body is to return once nothing is left to handle.
        error: the failure that ended it, if any.
        termination: how it ended; None before that.
        task: the task that runs its body.
    """

    def __init__(self, kernel_id: str) -> None:
        self.kernel_id = kernel_id
        self.state = KernelState.CREATED
        self.is_taking = self.is_ending = False
        self.error: KernelFailed | None = None
        self.termination: Termination | None = None
        self.task: asyncio.Task[None] | None = None

    def enter(self, state: KernelState) -> None:
        """Change the state."""
        self.state = state
        self.is_taking = state in TAKING

    def is_current(self) -> bool:
        """Return whether the running task is the body of this actor."""
        return self.task is not None and self.task is asyncio.current_task()

    def check_taking(self, operation: str = "take a message") -> None:
        """Raise unless the actor takes messages."""
        if not self.is_taking:
            self.refuse(operation)

    def check_replying(self) -> None:
        """Raise unless more replies may come."""
        if self.termination is not None or self.state not in REPLYING:
            self.refuse("receive a reply")

    def refuse(self, operation: str) -> NoReturn:
        """Raise the error of an operation that the current state does not allow."""
        if self.termination is not None:
            if self.error is not None:
                raise raised(self.error)
            problem = f"cannot {operation}: {self.termination.reason}"
            raise KernelTerminated(self.kernel_id, problem, "TERMINATED")
        hint = "activate it first" if self.state is KernelState.LAUNCHED else ""
        raise KernelStateError(self.kernel_id, self.state.name, operation, hint)


class System(Protocol):
    """A runtime, as its actors see it.

    Attributes:
        collector: the telemetry of every actor.
    """

    collector: TelemetryCollector

    async def send(self, kernel_id: str, message: Any, **options: Any) -> bool:
        """Put a message into an actor's queue."""
        ...

    async def send_many(self, kernel_id: str, messages: Any, **options: Any) -> int:
        """Put messages into an actor's queue."""
        ...

    async def send_and_receive(self, kernel_id: str, message: Any, **options: Any) -> Any:
        """Return the reply of an actor."""
        ...

    async def publish(self, topic: str, message: Any) -> int:
        """Send a message to every subscriber of a topic."""
        ...

    async def wait_at(self, name: str, parties: int, timeout: float | None, member: str) -> int:
        """Wait at a barrier, which breaks when the member ends."""
        ...

    def escalate(self, failure: KernelFailed) -> None:
        """End every actor because of one that failed."""
        ...

    def ended(self, end: Termination, before: Termination | None = None) -> None:
        """Record the end of an actor, or replace the record ``before``."""
        ...
