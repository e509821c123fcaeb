"""What all actors were doing at one moment: what the live view draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.ring.telemetry.gpu_monitor import GPUInfo
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry


@dataclass(frozen=True)
class KernelRow:
    """One actor at one moment.

    Attributes:
        kernel_id: the actor.
        engine: what runs it, such as ``async`` or ``batch``.
        state: where it is in its life, such as ``active``.
        queue_depth: messages that wait.
        messages_received: messages that came into its queue.
        messages_processed: messages it was done with.
        throughput: messages processed a second, over all its time.
        p50_ns: median latency in nanoseconds, None if there was none.
        p99_ns: latency in nanoseconds that 1 of 100 messages exceeds, None if there was none.
        messages_dropped: messages that were lost.
        error_count: how often it raised.
        restarts: how often it was started again.
        batch_size: mean of the messages in one launch, None if there was none.
        device_seconds: how long its kernels ran.
        last_error: what it raised last, None if nothing.
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
        """Return the row of an actor from its telemetry as it is now."""
        latencies, batches = telemetry.latencies, telemetry.batch_sizes
        p50, p99 = latencies.percentiles(50, 99)
        has_latencies = latencies.count > 0
        return cls(
            kernel_id=telemetry.kernel_id,
            engine=engine,
            state=state,
            queue_depth=telemetry.queue_depth,
            messages_received=telemetry.messages_received,
            messages_processed=telemetry.messages_processed,
            throughput=telemetry.throughput,
            p50_ns=p50 if has_latencies else None,
            p99_ns=p99 if has_latencies else None,
            messages_dropped=telemetry.messages_dropped,
            error_count=telemetry.error_count,
            restarts=telemetry.restarts,
            batch_size=batches.mean if batches.max > 0 else None,
            device_seconds=telemetry.device_seconds,
            last_error=telemetry.last_error,
        )


@dataclass(frozen=True)
class Snapshot:
    """All actors at one moment.

    Attributes:
        kernels: the actors, in the order in which they are shown.
        gpus: what GPUs are doing.
        seconds: how long the runtime has run.
    """

    kernels: tuple[KernelRow, ...] = ()
    gpus: Sequence[GPUInfo] = ()
    seconds: float = 0.0

    def rates_since(self, earlier: Snapshot | None) -> dict[str, float]:
        """Return messages processed a second since an earlier moment, by the actor's id.

        An actor that was not there then, or has counted anew, has its rate over all its time.
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
