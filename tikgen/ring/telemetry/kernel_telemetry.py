"""The counters of actors, and their sums."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tikgen.ring.telemetry.gpu_monitor import GPUMonitor
from tikgen.ring.telemetry.histogram import Histogram

COUNTERS = (
    "messages_received",
    "messages_processed",
    "messages_dropped",
    "messages_expired",
    "messages_duplicate",
    "messages_rejected",
    "late_replies",
    "error_count",
    "restarts",
)


class RingKernelTelemetry:
    """Counts what one actor does; one thread counts, and any thread may read.

    Args:
        kernel_id: the actor.
        queue_depth: returns the number of queued messages.

    Attributes:
        kernel_id: the actor.
        messages_received: messages that were sent to it.
        messages_processed: messages that it has handled.
        messages_dropped: messages that were discarded; ``dropped`` has the reasons.
        messages_expired: messages that were not handled before their deadline.
        messages_duplicate: messages that were sent before.
        messages_rejected: messages for which there was no room.
        late_replies: replies whose caller had stopped waiting.
        error_count: how often the actor raised.
        restarts: how often it was restarted.
        last_error: the last error that it raised, None if it never did.
        dropped: number of discarded messages by reason.
        latencies: of handled messages, in nanoseconds from the queue until they were handled.
        batch_sizes: number of messages in one launch.
        device_seconds: total time of its kernels.
    """

    __slots__ = (
        *COUNTERS,
        "_depth_of",
        "_started",
        "_stopped",
        "batch_sizes",
        "device_seconds",
        "dropped",
        "kernel_id",
        "last_error",
        "latencies",
    )

    messages_received: int
    messages_processed: int
    messages_dropped: int
    messages_expired: int
    messages_duplicate: int
    messages_rejected: int
    late_replies: int
    error_count: int
    restarts: int

    def __init__(self, kernel_id: str = "", queue_depth: Callable[[], int] | None = None) -> None:
        self.kernel_id = kernel_id
        self._depth_of = queue_depth
        self.latencies = Histogram()
        self.batch_sizes = Histogram()
        self.reset()

    def reset(self) -> None:
        """Set every counter to zero."""
        for name in COUNTERS:
            setattr(self, name, 0)
        self.latencies.reset()
        self.batch_sizes.reset()
        self.dropped: dict[str, int] = {}
        self.device_seconds = 0.0
        self.last_error: str | None = None
        self._started = time.perf_counter()
        self._stopped: float | None = None

    def finish(self) -> None:
        """Stop the clock of an actor that has ended."""
        self._depth_of = None  # A record that is kept must not keep a queue.
        if self._stopped is None:
            self._stopped = time.perf_counter()

    def record_message(self, latency_ns: int) -> None:
        """Count a handled message, with its latency in nanoseconds."""
        self.messages_processed += 1
        self.latencies.record(latency_ns)

    def record_messages(self, latency_ns: int, count: int) -> None:
        """Count several handled messages of one latency in nanoseconds."""
        self.messages_processed += count
        self.latencies.record_many(latency_ns, count)

    def record_drop(self, reason: str = "dropped", count: int = 1) -> None:
        """Count discarded messages, with the reason."""
        self.messages_dropped += count
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def record_error(self, error: BaseException | str) -> None:
        """Count an error that the actor raised."""
        self.error_count += 1
        text = text_of(error)
        if isinstance(error, BaseException):
            name = type(error).__name__
            text = f"{name}: {text}" if text else name
        self.last_error = text

    def record_batch(self, size: int, device_seconds: float = 0.0) -> None:
        """Count a launch over ``size`` messages that took so many seconds."""
        self.batch_sizes.record(size)
        self.device_seconds += device_seconds

    @property
    def queue_depth(self) -> int:
        """Return the number of queued messages."""
        return self._depth_of() if self._depth_of is not None else 0

    @property
    def uptime_seconds(self) -> float:
        """Return the time since its launch, in seconds."""
        return (time.perf_counter() if self._stopped is None else self._stopped) - self._started

    @property
    def throughput(self) -> float:
        """Return the mean number of messages handled per second."""
        uptime = self.uptime_seconds
        return self.messages_processed / uptime if uptime > 0 else 0.0

    @property
    def min_latency_ns(self) -> int:
        """Return the shortest latency in nanoseconds, 0 if there was none."""
        return self.latencies.min

    @property
    def max_latency_ns(self) -> int:
        """Return the longest latency in nanoseconds, 0 if there was none."""
        return self.latencies.max

    @property
    def avg_latency_ms(self) -> float:
        """Return the mean latency in milliseconds, 0 if there was none."""
        return self.latencies.mean / 1e6

    def percentile(self, q: float) -> float:
        """Return the latency in nanoseconds that ``q`` percent do not exceed, 0 if there was none.

        Raises:
            ValueError: if ``q`` is not from 0 to 100.
        """
        return self.latencies.percentile(q)

    def to_dict(self) -> dict[str, Any]:
        """Return every figure, as a dict for JSON."""
        names = ("queue_depth", "uptime_seconds", "throughput", "device_seconds", "last_error")
        more = ("avg_latency_ms", "min_latency_ns", "max_latency_ns")
        return {
            **{name: getattr(self, name) for name in ("kernel_id", *COUNTERS, *names, *more)},
            "dropped": self.dropped.copy(),
            "latency_ns": self.latencies.to_dict(),
            "batch_sizes": self.batch_sizes.to_dict(),
        }

    def __repr__(self) -> str:
        return (
            f"<RingKernelTelemetry of {self.kernel_id!r}: {self.messages_processed} processed, "
            f"{self.messages_dropped} dropped, {self.error_count} errors>"
        )


def text_of(error: object) -> str:
    """Return the text of an error, even if its class fails to produce one."""
    try:
        return str(error)
    except Exception:
        return "its text cannot be read"


# PyDotCompute's names where it has one.
_TOTALS = {name: f"total_{name}" for name in COUNTERS} | {
    "error_count": "total_errors",
    "restarts": "total_restarts",
    "late_replies": "total_late_replies",
}
_SUMMED = (*COUNTERS, "device_seconds")


class TelemetryCollector:
    """Holds the telemetry of actors, and the sums of those that have ended.

    Args:
        gpu_monitor: reports the load of GPUs; without one NVML is not used.

    Attributes:
        ended_kernel_count: number of actors that have ended.
    """

    def __init__(self, gpu_monitor: GPUMonitor | None = None) -> None:
        self.gpu_monitor = gpu_monitor
        self._living: dict[str, RingKernelTelemetry] = {}
        self.ended_kernel_count = 0
        self._ended: dict[str, float] = dict.fromkeys(_SUMMED, 0)
        self._started = time.perf_counter()

    def register_kernel(
        self, kernel_id: str, queue_depth: Callable[[], int] | None = None
    ) -> RingKernelTelemetry:
        """Return the telemetry of an actor, the same one until it is unregistered.

        Args:
            kernel_id: the actor.
            queue_depth: returns the number of queued messages.
        """
        found = self._living.get(kernel_id)
        if found is None:
            found = self._living[kernel_id] = RingKernelTelemetry(kernel_id, queue_depth)
        return found

    def unregister_kernel(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Remove an actor that has ended, and return its telemetry; it stays in the sums."""
        ended = self._living.pop(kernel_id, None)
        if ended is not None:
            ended.finish()
            self.ended_kernel_count += 1
            for name in _SUMMED:
                self._ended[name] += getattr(ended, name)
        return ended

    def get_kernel_telemetry(self, kernel_id: str) -> RingKernelTelemetry | None:
        """Return the telemetry of an actor, None if it is unknown or has ended."""
        return self._living.get(kernel_id)

    def get_all_telemetry(self) -> dict[str, RingKernelTelemetry]:
        """Return the telemetry of each actor that has not ended, by name."""
        return self._living.copy()

    def get_summary(self) -> dict[str, Any]:
        """Return sums over all actors, including those that have ended, as a dict for JSON.

        ``gpu_utilization`` is a share from 0 to 1, None without a GPU that reports it.
        """
        # Copied in one step: other threads may read while actors come and go.
        actors = list(self._living.values())
        totals = {n: self._ended[n] + sum(getattr(a, n) for a in actors) for n in _SUMMED}
        uptime = self.uptime_seconds
        monitor = self.gpu_monitor
        gpu = monitor.get_gpu_info() if monitor is not None else None
        return {
            "kernel_count": len(actors),
            "ended_kernel_count": self.ended_kernel_count,
            **{total: totals[name] for name, total in _TOTALS.items()},
            "total_device_seconds": totals["device_seconds"],
            "queue_depth": sum(each.queue_depth for each in actors),
            "uptime_seconds": uptime,
            "throughput": totals["messages_processed"] / uptime if uptime > 0 else 0.0,
            "gpu_utilization": gpu.utilization_gpu if gpu is not None else None,
        }

    @property
    def uptime_seconds(self) -> float:
        """Return the time since it was made, in seconds."""
        return time.perf_counter() - self._started
