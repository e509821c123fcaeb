"""The telemetry of all actors of a runtime, and what it adds up to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tikgen.ring.telemetry.gpu_monitor import GPUMonitor
from tikgen.ring.telemetry.kernel_telemetry import COUNTERS, RingKernelTelemetry

# The names of PyDotCompute where it has one.
_TOTALS = {name: f"total_{name}" for name in COUNTERS} | {
    "error_count": "total_errors",
    "restarts": "total_restarts",
    "late_replies": "total_late_replies",
}


class TelemetryCollector:
    """Holds the telemetry of actors, and the sums of those that have ended."""

    def __init__(self, gpu_monitor: GPUMonitor | None = None) -> None:
        """Begin with no actor.

        Args:
            gpu_monitor: what to ask for the load of GPUs; NVML is not touched without one.
        """
        self.gpu_monitor = gpu_monitor
        self._living: dict[str, RingKernelTelemetry] = {}
        self._ended_kernels = 0
        self._ended: dict[str, int] = dict.fromkeys(COUNTERS, 0)
        self._ended_device_seconds = 0.0
        self._started = time.perf_counter()

    def register_kernel(
        self, kernel_id: str, queue_depth: Callable[[], int] | None = None
    ) -> RingKernelTelemetry:
        """Return what counts for an actor, the same one each time until it is unregistered.

        Args:
            kernel_id: the actor.
            queue_depth: returns how many messages wait.
        """
        found = self._living.get(kernel_id)
        if found is None:
            found = self._living[kernel_id] = RingKernelTelemetry(kernel_id, queue_depth)
        elif queue_depth is not None:
            found.ask_depth_of(queue_depth)
        return found

    def unregister_kernel(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Let an actor go that has ended: its numbers stay in the totals.

        Returns:
            its telemetry, whose time stands still from now on; None if it is not known.
        """
        ended = self._living.pop(kernel_id, None)
        if ended is not None:
            ended.finish()
            self._ended_kernels += 1
            self._ended_device_seconds += ended.device_seconds
            for name in COUNTERS:
                self._ended[name] += getattr(ended, name)
        return ended

    def get_kernel_telemetry(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Return the telemetry of an actor, None if it is not known or has ended."""
        return self._living.get(kernel_id)

    def get_all_telemetry(self) -> dict[str, RingKernelTelemetry]:
        """Return the telemetry of each actor that has not ended, by its id."""
        return self._living.copy()

    def total(self, counter: str) -> int:
        """Return a counter added up over all actors, also those that have ended.

        Args:
            counter: its name in :class:`RingKernelTelemetry`, such as ``messages_processed``.
        """
        living: int = sum(getattr(each, counter) for each in self._all())
        return self._ended[counter] + living

    def get_summary(self) -> dict[str, Any]:
        """Return sums over all actors, also those that have ended, as something JSON can hold.

        ``gpu_utilization`` is a share from 0 to 1, None where there is no GPU that can be asked.
        """
        actors = self._all()
        uptime = self.uptime_seconds
        processed = self.total("messages_processed")
        return {
            "kernel_count": len(actors),
            "ended_kernel_count": self._ended_kernels,
            **{total: self.total(name) for name, total in _TOTALS.items()},
            "total_device_seconds": self.device_seconds,
            "queue_depth": sum(each.queue_depth for each in actors),
            "uptime_seconds": uptime,
            "throughput": processed / uptime if uptime > 0 else 0.0,
            "gpu_utilization": self._gpu_utilization(),
        }

    @property
    def ended_kernel_count(self) -> int:
        """Return how many actors have ended."""
        return self._ended_kernels

    @property
    def device_seconds(self) -> float:
        """Return how long kernels of all actors ran, also of those that have ended."""
        return self._ended_device_seconds + sum(each.device_seconds for each in self._all())

    @property
    def uptime_seconds(self) -> float:
        """Return how long was counted."""
        return time.perf_counter() - self._started

    def reset_all(self) -> None:
        """Begin to count anew, for every actor, and forget those that have ended."""
        for each in self._all():
            each.reset()
        self._ended_kernels = 0
        self._ended = dict.fromkeys(COUNTERS, 0)
        self._ended_device_seconds = 0.0
        self._started = time.perf_counter()

    def _all(self) -> list[RingKernelTelemetry]:
        # Copied in one step, since other threads may look while actors come and go.
        return list(self._living.values())

    def _gpu_utilization(self) -> float | None:
        monitor = self.gpu_monitor
        if monitor is None or not monitor.is_available:
            return None
        return monitor.get_gpu_info().utilization_gpu
