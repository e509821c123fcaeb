"""The telemetry of actors in the text format of Prometheus.

Format: "Exposition formats", text format 0.0.4 (https://prometheus.io/docs/instrumenting/
exposition_formats/); names follow "Metric and label naming" there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from tikgen.ring.telemetry.gpu_monitor import GPUInfo
from tikgen.ring.telemetry.histogram import Histogram
from tikgen.ring.telemetry.kernel_telemetry import RingKernelTelemetry, TelemetryCollector

# Just below powers of two, where the buckets of a histogram end: the counts are exact.
_LATENCIES_NS = [2**power - 1 for power in range(10, 36)]
_BATCH_SIZES = [2**power - 1 for power in range(1, 17)]
_NANOSECOND = 1e-9

_COUNTERS: tuple[tuple[str, str, Callable[[RingKernelTelemetry], float]], ...] = (
    ("messages_received", "Messages that were sent to the actor.", lambda t: t.messages_received),
    ("messages_processed", "Messages that the actor has handled.", lambda t: t.messages_processed),
    ("messages_expired", "Messages past their deadline.", lambda t: t.messages_expired),
    ("messages_duplicate", "Messages that were sent before.", lambda t: t.messages_duplicate),
    ("messages_rejected", "Messages for which there was no room.", lambda t: t.messages_rejected),
    ("late_replies", "Replies that came too late.", lambda t: t.late_replies),
    ("errors", "How often the actor raised.", lambda t: t.error_count),
    ("restarts", "How often the actor was restarted.", lambda t: t.restarts),
    ("device_seconds", "Total time of the kernels of the actor.", lambda t: t.device_seconds),
)
_GPU_GAUGES: tuple[tuple[str, str, Callable[[GPUInfo], float | None]], ...] = (
    ("utilization_ratio", "Share of time in which a kernel ran.", lambda g: g.utilization_gpu),
    ("memory_used_bytes", "Memory in use.", lambda g: g.memory_used if g.memory_total else None),
    ("memory_total_bytes", "Memory of the GPU.", lambda g: g.memory_total or None),
    ("temperature_celsius", "Temperature.", lambda g: g.temperature),
    ("power_watts", "Power drawn.", lambda g: g.power_usage),
)

_Sample = tuple[str, Mapping[str, str], float]


def prometheus_text(
    collector: TelemetryCollector,
    states: Mapping[str, str] | None = None,
    gpus: Iterable[GPUInfo] = (),
) -> str:
    """Return the telemetry of every actor in the text format of Prometheus."""
    lines: list[str] = []
    actors = [({"actor": name}, t) for name, t in sorted(collector.get_all_telemetry().items())]
    for name, meaning, value_of in _COUNTERS:
        samples = [("_total", labels, value_of(each)) for labels, each in actors]
        lines += _family(f"tikgen_ring_{name}", "counter", meaning, samples)
    dropped = [
        ("_total", {**labels, "reason": reason}, count)
        for labels, each in actors
        for reason, count in sorted(_dropped(each).items())
    ]
    lines += _family(
        "tikgen_ring_messages_dropped", "counter", "Messages that were discarded.", dropped
    )
    depths = [("", labels, each.queue_depth) for labels, each in actors]
    lines += _family("tikgen_ring_queue_depth", "gauge", "Queued messages.", depths)
    uptimes = [("", labels, each.uptime_seconds) for labels, each in actors]
    lines += _family("tikgen_ring_uptime_seconds", "gauge", "Time since the launch.", uptimes)
    current = [
        ("", {"actor": name, "state": state}, 1) for name, state in sorted((states or {}).items())
    ]
    lines += _family("tikgen_ring_actor_state", "gauge", "1 for the current state.", current)
    lines += _family("tikgen_ring_actors", "gauge", "Actors.", [("", {}, len(actors))])
    ended: list[_Sample] = [("_total", {}, collector.ended_kernel_count)]
    lines += _family("tikgen_ring_actors_ended", "counter", "Actors that ended.", ended)
    latencies = [
        sample
        for labels, each in actors
        for sample in _histogram(labels, each.latencies, _LATENCIES_NS, _NANOSECOND)
    ]
    meaning = "Time from the queue until it was handled."
    lines += _family("tikgen_ring_latency_seconds", "histogram", meaning, latencies)
    sizes = [
        sample
        for labels, each in actors
        if each.batch_sizes.max  # Few actors take batches.
        for sample in _histogram(labels, each.batch_sizes, _BATCH_SIZES, 1)
    ]
    lines += _family("tikgen_ring_batch_size", "histogram", "Messages in one launch.", sizes)
    lines += _gpu_lines(list(gpus))
    return "".join(f"{line}\n" for line in lines)


def _gpu_lines(gpus: Iterable[GPUInfo]) -> Iterator[str]:
    for name, meaning, value_of in _GPU_GAUGES:
        samples = [
            ("", {"gpu": str(each.index), "name": each.name, "uuid": each.uuid}, value)
            for each in gpus
            if (value := value_of(each)) is not None
        ]
        yield from _family(f"tikgen_gpu_{name}", "gauge", meaning, samples)


def _dropped(telemetry: RingKernelTelemetry) -> dict[str, int]:
    """Return the number of discarded messages by reason, with one reason at least."""
    found = telemetry.dropped.copy()
    rest = telemetry.messages_dropped - sum(found.values())
    if rest > 0 or not found:
        found["other"] = found.get("other", 0) + max(rest, 0)
    return found


def _histogram(
    labels: Mapping[str, str], histogram: Histogram, bounds: Iterable[int], unit: float
) -> Iterator[_Sample]:
    """Yield cumulative counts up to each bound, the sum and the count."""
    total = histogram.total
    found = list(histogram.buckets())  # Read once, so that the samples agree.
    seen, place = 0, 0
    for bound in bounds:
        while place < len(found) and found[place][0] <= bound:
            seen += found[place][1]
            place += 1
        yield "_bucket", {**labels, "le": _number(float(f"{bound * unit:.12g}"))}, seen
    count = seen + sum(each for _, each in found[place:])
    yield "_bucket", {**labels, "le": "+Inf"}, count
    yield "_sum", labels, total * unit
    yield "_count", labels, count


def _family(name: str, kind: str, meaning: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """Yield the lines of one metric, none without a sample."""
    lines = [f"{name}{suffix}{_labels(labels)} {_number(v)}" for suffix, labels, v in samples]
    if lines:
        # In this format a counter has the name of its samples.
        full = f"{name}_total" if kind == "counter" else name
        yield f"# HELP {full} {meaning}"
        yield f"# TYPE {full} {kind}"
        yield from lines


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    # Half of a surrogate pair cannot be written as UTF-8.
    clean = text.encode(errors="backslashreplace").decode()
    return clean.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
