"""Telemetry of actors: histograms, counters, sums, Prometheus, GPUs."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

from tikgen.ring.errors import BackendNotAvailableError
from tikgen.ring.telemetry.gpu_monitor import GPUInfo, GPUMonitor
from tikgen.ring.telemetry.histogram import Histogram
from tikgen.ring.telemetry.kernel_telemetry import COUNTERS, RingKernelTelemetry, TelemetryCollector
from tikgen.ring.telemetry.prometheus import _number, prometheus_text

SIZES = (1, 2, 7, 101, 997)
EVIL = 'a"\\\n\x1b[31m[bold]é数'


def values_of(kind: str, size: int, rng: np.random.Generator) -> list[int]:
    """Draw values: few and small, of all magnitudes, or around a microsecond."""
    if kind == "small":
        drawn = rng.integers(0, 40, size)
    elif kind == "wide":
        drawn = np.exp(rng.uniform(0, 42, size)).astype(np.int64)
    else:
        drawn = rng.gamma(2.0, 700.0, size).astype(np.int64)
    return [int(value) for value in drawn]


def filled(values: list[int]) -> Histogram:
    """Return a histogram of the values."""
    made = Histogram()
    for value in values:
        made.record(value)
    return made


@pytest.mark.parametrize("kind", ["small", "wide", "usual"])
@pytest.mark.parametrize("size", SIZES)
def test_the_error_of_percentiles_is_below_one_in_32(
    kind: str, size: int, rng: np.random.Generator
) -> None:
    values = values_of(kind, size, rng)
    made = filled(values)
    for q in (0, 100, 50, 99, 99.9, *rng.uniform(0, 100, 20)):
        true = int(np.percentile(values, q, method="inverted_cdf"))
        found = made.percentile(q)
        if true < 32:
            assert found == true
        else:
            assert abs(found - true) < true / 32
    assert (made.count, made.total) == (size, sum(values))
    assert (made.min, made.max) == (min(values), max(values))
    assert made.mean == pytest.approx(np.mean(values))


def test_buckets_hold_every_value_once(rng: np.random.Generator) -> None:
    values = [*values_of("wide", 997, rng), 31, 32, 33, 63, 64, 2**40 - 1, 2**40]
    made = filled(values)
    below = -1
    for highest, count in made.buckets():
        assert count == sum(below < value <= highest for value in values)
        below = highest
    assert below >= max(values)
    assert len(list(made.buckets())) <= 16 * 62


def test_counting_many_equals_counting_each(rng: np.random.Generator) -> None:
    first, second = values_of("usual", 101, rng), values_of("wide", 7, rng)
    many = Histogram()
    for value in first + second:
        many.record_many(value, 3)
    many.record_many(10**30, 0)
    once = filled(first + second)
    assert [(top, 3 * n) for top, n in once.buckets()] == list(many.buckets())
    assert (many.total, many.min, many.max) == (3 * once.total, once.min, once.max)


def test_an_empty_histogram_has_zeros_and_invalid_values_raise() -> None:
    made = Histogram()
    assert set(made.to_dict().values()) == {0}
    made.record(np.int64(5))
    made.record(7)
    made.record(np.int64(6))  # Within the range so far.
    made.record(2**200)
    before = made.to_dict()
    for wrong, error in ((-1, ValueError), (2.5, TypeError), (6.5, TypeError), ("5", TypeError)):
        with pytest.raises(error):
            made.record(wrong)  # type: ignore[arg-type]
        with pytest.raises(error):
            made.record_many(wrong, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 0 times"):
        made.record_many(3, -1)
    for q in (-0.1, 100.1, math.nan):
        with pytest.raises(ValueError, match="from 0 to 100"):
            made.percentile(q)
    assert made.to_dict() == before
    assert (made.count, made.total, made.max) == (4, 18 + 2**200, 2**200)
    made.reset()
    assert set(made.to_dict().values()) == {0}


def test_a_reset_while_a_value_is_counted_does_no_harm() -> None:
    made = filled([10, 10_000])

    class Interrupted(int):
        """Resets the histogram, as another thread may, when its size is read."""

        def bit_length(self) -> int:
            made.reset()
            return super().bit_length()

    made.record(Interrupted(5000))
    made.record(7)
    assert made.count == 2 and made.percentile(50) == 7


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_figures_can_be_read_while_another_thread_counts() -> None:
    telemetry = RingKernelTelemetry("busy")
    stop = threading.Event()

    def count() -> None:
        value = 1
        while not stop.is_set():
            telemetry.record_message(value)
            value = value * 3 % (2**45 - 55)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(300):
            figures = telemetry.latencies.to_dict()
            assert 0 <= figures["p50"] <= figures["p99"] <= telemetry.max_latency_ns
            json.dumps(telemetry.to_dict())
            if telemetry.messages_processed > 2000:
                telemetry.latencies.reset()  # Begins to grow again.
    finally:
        stop.set()
        thread.join(10)
    assert telemetry.messages_processed > 0


def test_telemetry_counts_what_is_recorded() -> None:
    depth = 3
    telemetry = RingKernelTelemetry("doubler", lambda: depth)
    for latency in (1000, 3000, 2000):
        telemetry.record_message(latency)
    telemetry.record_messages(2000, 5)
    telemetry.record_drop("full", 4)
    telemetry.record_drop("full")
    telemetry.record_drop()
    telemetry.record_error(ValueError("no good"))
    telemetry.record_batch(8, 0.25)
    telemetry.record_batch(2, 0.5)
    telemetry.messages_received += 9
    assert telemetry.messages_processed == telemetry.latencies.count == 8
    assert (telemetry.messages_dropped, telemetry.dropped) == (6, {"full": 5, "dropped": 1})
    assert (telemetry.error_count, telemetry.last_error) == (1, "ValueError: no good")
    assert (telemetry.min_latency_ns, telemetry.max_latency_ns) == (1000, 3000)
    assert telemetry.avg_latency_ms == 0.002
    assert telemetry.percentile(50) == pytest.approx(2000, rel=1 / 32)
    assert (telemetry.batch_sizes.mean, telemetry.device_seconds) == (5, 0.75)
    assert telemetry.queue_depth == 3
    depth = 5
    figures = json.loads(json.dumps(telemetry.to_dict()))
    assert figures["queue_depth"] == 5 and figures["messages_received"] == 9
    assert figures["throughput"] > 0 and figures["latency_ns"]["count"] == 8
    telemetry.record_error("words")
    assert telemetry.last_error == "words"
    telemetry.record_error(KeyError())
    assert telemetry.last_error == "KeyError"
    telemetry.finish()
    ended = telemetry.uptime_seconds
    assert telemetry.queue_depth == 0
    assert ended == telemetry.uptime_seconds > 0
    telemetry.reset()
    assert not any(getattr(telemetry, name) for name in COUNTERS)
    assert telemetry.last_error is None and not telemetry.dropped and not telemetry.latencies.count


def test_the_collector_keeps_the_sums_of_ended_actors() -> None:
    collector = TelemetryCollector()
    first = collector.register_kernel("a", lambda: 2)
    assert collector.register_kernel("a") is first is collector.get_kernel_telemetry("a")
    second = collector.register_kernel("b")
    for each in (first, second, second):
        each.record_message(10)
        each.record_drop()
        each.record_batch(1, 0.5)
    first.record_error("x")
    before = collector.get_summary()
    assert before["kernel_count"] == 2 and before["queue_depth"] == 2
    assert before["total_messages_processed"] == 3 and before["total_errors"] == 1
    assert before["total_messages_dropped"] == 3 and before["total_device_seconds"] == 1.5
    assert before["gpu_utilization"] is None and before["throughput"] > 0
    assert collector.unregister_kernel("a") is first
    assert collector.unregister_kernel("a") is None
    assert collector.get_kernel_telemetry("a") is None
    assert list(collector.get_all_telemetry()) == ["b"]
    again = collector.register_kernel("a")
    assert again is not first and again.messages_processed == 0
    after = collector.get_summary()
    for name in before:
        if name.startswith("total"):
            assert after[name] == before[name], name
    assert after["ended_kernel_count"] == 1 and after["queue_depth"] == 0


def samples_of(text: str) -> dict[str, dict[str, float]]:
    """Return the samples by name and labels, and check the format."""
    found: dict[str, dict[str, float]] = {}
    kind_of: dict[str, str] = {}
    assert text.endswith("\n")
    label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"'
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert (word == "HELP") == (name not in found), line
            found.setdefault(name, {})
            if word == "TYPE":
                assert name not in kind_of and rest in ("counter", "gauge", "histogram")
                kind_of[name] = rest
            continue
        match = re.fullmatch(rf"([a-z_]+)(?:\{{({label}(?:,{label})*)\}})? (\S+)", line)
        assert match, line
        name, labels, value = match.groups()
        family = re.sub("_(bucket|sum|count)$", "", name) if name not in kind_of else name
        assert kind_of[family] == "counter" or not name.endswith("_total")
        samples = found.setdefault(name, {})
        assert (labels or "") not in samples, line
        samples[labels or ""] = float(value)
    return found


def test_prometheus_text_holds_every_figure(rng: np.random.Generator) -> None:
    collector = TelemetryCollector()
    telemetry = collector.register_kernel("a", lambda: 3)
    collector.register_kernel("idle")
    values = [*values_of("wide", 997, rng), 1023, 1024, 2**20 - 1, 2**20]
    for value in values:
        telemetry.record_message(value)
    telemetry.record_drop("full", 2)
    telemetry.messages_dropped += 5
    telemetry.record_batch(17, 0.125)
    gpus = [GPUInfo(0, "H", "u", 100, 40, 60, 0.5, temperature=50.0), GPUInfo(1)]
    found = samples_of(prometheus_text(collector, {"a": "active"}, gpus))
    assert found["tikgen_ring_messages_processed_total"] == {
        'actor="a"': len(values),
        'actor="idle"': 0,
    }
    assert found["tikgen_ring_messages_dropped_total"] == {
        'actor="a",reason="full"': 2,
        'actor="a",reason="other"': 5,
        'actor="idle",reason="other"': 0,
    }
    assert found["tikgen_ring_queue_depth"]['actor="a"'] == 3
    assert found["tikgen_ring_device_seconds_total"]['actor="a"'] == 0.125
    assert found["tikgen_ring_actor_state"] == {'actor="a",state="active"': 1}
    assert found["tikgen_ring_actors"] == {"": 2}
    assert found["tikgen_gpu_utilization_ratio"] == {'gpu="0",name="H",uuid="u"': 0.5}
    buckets = found["tikgen_ring_latency_seconds_bucket"]
    mine = {k: v for k, v in buckets.items() if k.startswith('actor="a"')}
    for labels, count in mine.items():
        bound = float(labels.rpartition("=")[2].strip('"')) * 1e9 + 0.5
        assert count == sum(value <= bound for value in values), labels
    assert list(mine)[-1].endswith('le="+Inf"') and list(mine.values())[-1] == len(values)
    assert found["tikgen_ring_latency_seconds_count"]['actor="a"'] == len(values)
    assert found["tikgen_ring_latency_seconds_sum"]['actor="a"'] == pytest.approx(
        sum(values) * 1e-9
    )
    assert found["tikgen_ring_batch_size_sum"] == {'actor="a"': 17}
    assert samples_of(prometheus_text(TelemetryCollector()))["tikgen_ring_actors"] == {"": 0}


def test_the_parser_of_prometheus_reads_the_text() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    collector = TelemetryCollector()
    collector.register_kernel(EVIL).record_message(5000)
    collector.register_kernel("\ud800")  # Cannot be written as UTF-8.
    text = prometheus_text(collector, {EVIL: "active"}, [GPUInfo(0, 'x"y\\', "u", 5, 1, 4)])
    families = {f.name: f for f in parser.text_string_to_metric_families(text.encode().decode())}
    processed = families["tikgen_ring_messages_processed"]
    assert processed.type == "counter"
    assert {s.labels["actor"]: s.value for s in processed.samples} == {EVIL: 1, "\\ud800": 0}
    assert families["tikgen_ring_latency_seconds"].type == "histogram"
    assert families["tikgen_gpu_memory_total_bytes"].samples[0].labels["name"] == 'x"y\\'


class FakeNvml(types.ModuleType):
    """Replaces pynvml, with two GPUs; the second reports neither load nor power."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.is_running = False
        self.NVML_TEMPERATURE_GPU = 0
        memory = types.SimpleNamespace(total=80, used=20, free=60)
        load = types.SimpleNamespace(gpu=43, memory=7)
        self.nvmlInit = lambda: setattr(self, "is_running", True)
        self.nvmlShutdown = lambda: setattr(self, "is_running", False)
        self.nvmlDeviceGetCount = lambda: 2
        self.nvmlDeviceGetHandleByIndex = lambda index: index
        self.nvmlDeviceGetName = lambda handle: b"Old \xff" if handle else "New"
        self.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
        self.nvmlDeviceGetMemoryInfo = lambda handle: memory
        self.nvmlDeviceGetTemperature = lambda handle, sensor: 51
        self.nvmlDeviceGetUtilizationRates = lambda handle: self._reported(handle, load)
        self.nvmlDeviceGetPowerUsage = lambda handle: self._reported(handle, 233_500)
        self.nvmlDeviceGetPowerManagementLimit = lambda handle: self._reported(handle, 700_000)

    def _reported(self, handle: int, answer: Any) -> Any:
        if handle:
            raise RuntimeError("Not Supported")
        return answer


def test_the_figures_of_gpus_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    with GPUMonitor() as monitor:
        assert monitor.is_available and monitor.device_count == 2
        new, old = monitor.get_all_gpu_info()
        assert new == GPUInfo(0, "New", "GPU-0", 80, 20, 60, 0.43, 0.07, 51.0, 233.5, 700.0)
        assert (old.name, old.utilization_gpu, old.power_usage) == (
            "Old \N{REPLACEMENT CHARACTER}",
            None,
            None,
        )
        assert monitor.get_memory_info(1) == {"used": 20, "free": 60, "total": 80}
        with pytest.raises(BackendNotAvailableError, match="there are 2"):
            monitor.get_gpu_info(2)
        assert TelemetryCollector(monitor).get_summary()["gpu_utilization"] == 0.43
    assert not fake.is_running and not monitor.is_available
    monitor.shutdown()


def test_without_gpus_nothing_raises_and_the_problem_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in GPUMonitor().problem
    for name, reply, problem in (
        ("nvmlInit", fail, "Driver Not Loaded"),
        ("nvmlDeviceGetCount", fail, "Driver Not Loaded"),
        ("nvmlDeviceGetCount", lambda: 0, "no GPU"),
    ):
        fake = FakeNvml()
        setattr(fake, name, reply)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        monitor = GPUMonitor()
        assert not monitor.is_available and problem in monitor.problem
        assert not fake.is_running and problem in repr(monitor)
        assert monitor.get_gpu_info() == GPUInfo(0) and monitor.get_all_gpu_info() == []
        assert TelemetryCollector(monitor).get_summary()["gpu_utilization"] is None


def test_numbers_that_are_not_finite_have_names_in_prometheus() -> None:
    shown = [_number(value) for value in (math.nan, math.inf, -math.inf, 2, 0.5)]
    assert shown == ["NaN", "+Inf", "-Inf", "2", "0.5"]
