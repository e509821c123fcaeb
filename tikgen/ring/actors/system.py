"""What actors use of the runtime to which they belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tikgen.ring.actors.actor import RingKernel
    from tikgen.ring.actors.barriers import Barrier
    from tikgen.ring.actors.states import Termination
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

    def barrier(self, name: str, parties: int) -> Barrier:
        """Return a barrier."""
        ...

    def escalate(self, failure: KernelFailed) -> None:
        """End everything because of an actor that failed."""
        ...

    def ended(self, actor: RingKernel, before: Termination | None = None) -> None:
        """Take note that an actor has ended, or what more is known than ``before``."""
        ...
