"""What a runtime tells of its actors: telemetry, Prometheus text, and a live view."""

from __future__ import annotations

from collections.abc import Callable

from tikgen.ring.errors import RuntimeClosed
from tikgen.ring.routing import Routing
from tikgen.ring.telemetry.collector import TelemetryCollector
from tikgen.ring.telemetry.gpu_monitor import GPUMonitor
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry
from tikgen.ring.telemetry.snapshot import KernelRow, Snapshot


class Observing(Routing):
    """The part of a runtime that tells what is going on.

    Attributes:
        collector: the telemetry of every actor.
    """

    def __init__(self, enable_telemetry: bool) -> None:
        super().__init__()
        self.collector = TelemetryCollector()
        self._has_telemetry = enable_telemetry

    def get_telemetry(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Return what was measured of an actor, None without telemetry."""
        return self._known(kernel_id).telemetry if self._has_telemetry else None

    def get_all_telemetry(self) -> dict[str, RingKernelTelemetry]:
        """Return what was measured, by actor."""
        return self.collector.get_all_telemetry() if self._has_telemetry else {}

    def get_summary(self) -> dict[str, object]:
        """Return totals over all actors, those that have ended included."""
        return self.collector.get_summary()

    def snapshot(self) -> Snapshot:
        """Return what every actor is doing now."""
        rows = tuple(
            KernelRow.of(actor.telemetry, actor.engine.name, actor.state.name.lower())
            for actor in list(self._actors.values())
        )
        monitor = self._monitor()
        return Snapshot(rows, monitor.get_all_gpu_info(), self.collector.uptime_seconds)

    def prometheus(self) -> str:
        """Return everything as text that Prometheus reads."""
        from tikgen.ring.telemetry.prometheus import prometheus_text

        states = {name: actor.state.name.lower() for name, actor in self._actors.items()}
        return prometheus_text(self.collector, states, self._monitor().get_all_gpu_info())

    async def dashboard(
        self, refresh: float = 0.5, *, until: Callable[[], bool] | None = None
    ) -> None:
        """Show what every actor is doing, live in a terminal, until the runtime ends.

        Args:
            refresh: seconds between two looks.
            until: tells when to stop earlier.

        Raises:
            RuntimeClosed: if the runtime is not active.
        """
        from tikgen.ring.telemetry.live_view import show

        if not self.is_active:
            raise RuntimeClosed("show a dashboard", True)

        def is_over() -> bool:
            return not self.is_active or (until is not None and until())

        await show(self.snapshot, refresh, is_over)

    def _monitor(self) -> GPUMonitor:
        """Return what asks GPUs, made when it is first needed."""
        if self.collector.gpu_monitor is None:
            self.collector.gpu_monitor = GPUMonitor()
        return self.collector.gpu_monitor
