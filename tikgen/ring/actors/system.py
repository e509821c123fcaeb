"""The methods of a runtime that its actors use."""

from __future__ import annotations

from typing import Any, Protocol

from tikgen.ring.actors.status import Termination
from tikgen.ring.errors import KernelFailed
from tikgen.ring.telemetry.collector import TelemetryCollector


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
