"""The state of all actors at one moment, for the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.ring.telemetry.gpu_monitor import GPUInfo
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry


@dataclass(frozen=True)
class KernelRow:
    """One actor at one moment.

    Attributes:
        engine: name of its engine.
        state: its state in lower case, such as ``active``.
        p50_ns: median latency in nanoseconds, None without any message.
        p99_ns: latency in nanoseconds that 1 of 100 messages exceeds, None without any message.
        batch_size: mean number of messages in one launch, None without any launch.

    The other attributes are those of :class:`RingKernelTelemetry`.
    """

    kernel_id: str
    engine: str = ""
    state: str = ""
    queue_depth: int = 0
    messages_received: int = 0
    messages_processed: int = 0
    throughput: float = 0.0
    p50_ns: float | None = None
    p99_ns: float | None = None
    messages_dropped: int = 0
    error_count: int = 0
    restarts: int = 0
    batch_size: float | None = None
    device_seconds: float = 0.0
    last_error: str | None = None

    @classmethod
    def of(cls, telemetry: RingKernelTelemetry, engine: str = "", state: str = "") -> KernelRow:
        """Return the row of an actor."""
        latencies, batches = telemetry.latencies, telemetry.batch_sizes
        p50, p99 = latencies.percentiles(50, 99) if latencies.count else (None, None)
        copied = {name: getattr(telemetry, name) for name in _COPIED}
        mean = batches.mean if batches.max > 0 else None
        return cls(engine=engine, state=state, p50_ns=p50, p99_ns=p99, batch_size=mean, **copied)


_COPIED = [n for n in KernelRow.__dataclass_fields__ if hasattr(RingKernelTelemetry, n)]


@dataclass(frozen=True)
class Snapshot:
    """All actors at one moment.

    Attributes:
        kernels: the actors, in the order in which they are shown.
        gpus: the state of the GPUs.
        seconds: age of the runtime.
    """

    kernels: tuple[KernelRow, ...] = ()
    gpus: Sequence[GPUInfo] = ()
    seconds: float = 0.0

    def rates_since(self, earlier: Snapshot | None) -> dict[str, float]:
        """Return messages handled per second since an earlier moment, by actor.

        An actor that was launched or reset since has its mean rate.
        """
        before = (
            {row.kernel_id: row.messages_processed for row in earlier.kernels} if earlier else {}
        )
        passed = self.seconds - earlier.seconds if earlier else 0.0
        rates = {}
        for row in self.kernels:
            done = row.messages_processed - before.get(row.kernel_id, row.messages_processed + 1)
            rates[row.kernel_id] = done / passed if done >= 0 and passed > 0 else row.throughput
        return rates
