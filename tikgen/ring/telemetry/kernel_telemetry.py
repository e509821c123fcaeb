"""What is counted of one actor: messages, latencies, batches, errors, device time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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
    """Counts what one actor does; its counters go up while the actor works.

    One thread counts; any thread may read. Latencies are in nanoseconds, from the moment a message
    was put into the queue until the actor was done with it.

    Attributes:
        kernel_id: the actor.
        messages_received: messages that came into its queue.
        messages_processed: messages it was done with.
        messages_dropped: messages that were lost; ``dropped`` says why.
        messages_expired: messages whose time was over before their turn came.
        messages_duplicate: messages that had come before.
        messages_rejected: messages that were refused: of the wrong type, or no room for them.
        late_replies: replies that came after whoever asked had given up.
        error_count: how often the actor raised.
        restarts: how often it was started again.
        last_error: what it raised last, None if nothing.
        dropped: how many messages were lost, by the reason.
        latencies: of processed messages, in nanoseconds.
        batch_sizes: messages in one launch.
        device_seconds: how long its kernels ran, all together.
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
        """Begin to count.

        Args:
            kernel_id: the actor.
            queue_depth: returns how many messages wait.
        """
        self.kernel_id = kernel_id
        self._depth_of = queue_depth
        self.latencies = Histogram()
        self.batch_sizes = Histogram()
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
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
        """Let the time up to now be all there was, as the actor has ended."""
        self._depth_of = None  # So that numbers that are kept do not keep a queue.
        if self._stopped is None:
            self._stopped = time.perf_counter()

    def ask_depth_of(self, queue_depth: Callable[[], int] | None) -> None:
        """Say what returns how many messages wait."""
        self._depth_of = queue_depth

    def record_message(self, latency_ns: int) -> None:
        """Count a message that the actor is done with.

        Args:
            latency_ns: since it was put into the queue, in nanoseconds.
        """
        self.messages_processed += 1
        self.latencies.record(latency_ns)

    def record_messages(self, latency_ns: int, count: int) -> None:
        """Count several messages that the actor is done with, all of the same latency."""
        self.messages_processed += count
        self.latencies.record_many(latency_ns, count)

    def record_drop(self, reason: str = "dropped", count: int = 1) -> None:
        """Count messages that were lost.

        Args:
            reason: why, such as ``full`` or ``terminated``.
            count: how many.
        """
        self.messages_dropped += count
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def record_error(self, error: BaseException | str) -> None:
        """Count that the actor raised."""
        self.error_count += 1
        is_raised = isinstance(error, BaseException)
        text = text_of(error)
        name = type(error).__name__
        self.last_error = (f"{name}: {text}" if text else name) if is_raised else text

    def record_batch(self, size: int, device_seconds: float = 0.0) -> None:
        """Count a launch.

        Args:
            size: how many messages it took.
            device_seconds: how long it ran.
        """
        self.batch_sizes.record(size)
        self.device_seconds += device_seconds

    @property
    def queue_depth(self) -> int:
        """Return how many messages wait."""
        return self._depth_of() if self._depth_of is not None else 0

    @property
    def uptime_seconds(self) -> float:
        """Return how long was counted."""
        return (time.perf_counter() if self._stopped is None else self._stopped) - self._started

    @property
    def throughput(self) -> float:
        """Return how many messages were processed a second, over all the time."""
        uptime = self.uptime_seconds
        return self.messages_processed / uptime if uptime > 0 else 0.0

    @property
    def total_latency_ns(self) -> int:
        """Return all latencies added up, in nanoseconds."""
        return self.latencies.total

    @property
    def min_latency_ns(self) -> int:
        """Return the shortest latency in nanoseconds, 0 if there was none."""
        return self.latencies.min

    @property
    def max_latency_ns(self) -> int:
        """Return the longest latency in nanoseconds, 0 if there was none."""
        return self.latencies.max

    @property
    def avg_latency_ns(self) -> float:
        """Return the mean latency in nanoseconds, 0 if there was none."""
        return self.latencies.mean

    @property
    def avg_latency_ms(self) -> float:
        """Return the mean latency in milliseconds, 0 if there was none."""
        return self.latencies.mean / 1e6

    def percentile(self, q: float) -> float:
        """Return the latency in nanoseconds that ``q`` percent do not exceed, 0 if there was none.

        Args:
            q: from 0 to 100.

        Raises:
            ValueError: if ``q`` lies outside.
        """
        return self.latencies.percentile(q)

    def to_dict(self) -> dict[str, Any]:
        """Return every figure, as something that JSON can hold."""
        return {
            "kernel_id": self.kernel_id,
            **{name: getattr(self, name) for name in COUNTERS},
            "dropped": self.dropped.copy(),
            "last_error": self.last_error,
            "queue_depth": self.queue_depth,
            "uptime_seconds": self.uptime_seconds,
            "throughput": self.throughput,
            "device_seconds": self.device_seconds,
            "avg_latency_ms": self.avg_latency_ms,
            "min_latency_ns": self.min_latency_ns,
            "max_latency_ns": self.max_latency_ns,
            "latency_ns": self.latencies.to_dict(),
            "batch_sizes": self.batch_sizes.to_dict(),
        }

    def __repr__(self) -> str:
        return (
            f"<RingKernelTelemetry of {self.kernel_id!r}: {self.messages_processed} processed, "
            f"{self.messages_dropped} dropped, {self.error_count} errors>"
        )


def text_of(error: object) -> str:
    """Return what an error says, even where its class cannot tell."""
    try:
        return str(error)
    except Exception:
        return "its text cannot be told"
