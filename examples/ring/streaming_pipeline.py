"""A stream of measurements through two stages: normalise with parallel workers, then classify.

The first stage is Python, the second a kernel that takes what has come in one launch. Topics say
who gets what, a full queue makes those before it wait, and a slow listener loses what it cannot
take, and only it. Give an arch as argument: cpu, vulkan or cuda.
"""

import asyncio
import sys

import numpy as np
import numpy.typing as npt
import taichi as ti

import tikgen
from tikgen.ring import RingKernelRuntime, f32, message, ring_kernel

ARCH = sys.argv[1] if len(sys.argv) > 1 else "cpu"
WORKERS, COUNT, SAMPLES = 3, 3000, 256
LIMIT = 3.0


@message
class Recording:
    number: int
    samples: npt.NDArray[np.float32]


@message
class Features:
    """A normalised recording, with mean 0 and deviation 1."""

    number: f32  # All numbers of the kernel have one dtype; integers up to 2^24 are exact.
    peak: f32
    energy: f32


@message
class Verdict:
    item: f32
    score: f32
    alarm: f32


@message
class Alarm:
    number: int
    score: float


def features(samples):
    wide = samples.astype(np.float64)
    normal = (wide - wide.mean()) / wide.std()
    return np.abs(normal).max(), (np.diff(normal) ** 2).mean()


# Stage one. Each worker is an actor with this body, which computes in a thread.
async def normalise(ctx, recording):
    peak, energy = await asyncio.to_thread(features, recording.samples)
    return Features(number=recording.number, peak=peak, energy=energy)


# Stage two, on the device: a message is a row, and queued rows go into one launch.
classify = tikgen.build(
    "map",
    expr=f"item = number; score = peak / sqrt(energy); alarm = where(score > {LIMIT}, 1, 0)",
    arch=ARCH,
)


@ring_kernel(kernel_id="log", input_type=Alarm)
async def log(ctx, alarm):
    alarms[alarm.number] = alarm.score


# It gets every recording, and is too slow: missed ones are counted, and no sender waits for it.
@ring_kernel(kernel_id="spy", input_type=Recording, queue_size=16, backpressure="drop_oldest")
async def spy(ctx, recording):
    await asyncio.sleep(0.001)


alarms = {}


async def produce(runtime, recordings):
    for number, samples in enumerate(recordings):
        topic = f"recordings.{number % WORKERS}"
        assert await runtime.publish(topic, Recording(number=number, samples=samples)) == 2


async def collect(runtime):
    found = {}
    while len(found) < COUNT:
        for verdict in await runtime.receive_many("classify", timeout=60):
            found[int(verdict.item)] = verdict.score
            if verdict.alarm:
                alarm = Alarm(number=int(verdict.item), score=verdict.score)
                await runtime.publish(f"alarms.{int(verdict.item)}", alarm)
    return found


async def main():
    ti.init(arch=getattr(ti, ARCH), log_level=ti.ERROR)
    rng = np.random.default_rng()
    recordings = rng.standard_normal((COUNT, SAMPLES), dtype=np.float32)
    loud = rng.choice(COUNT, 20, replace=False)
    recordings[loud, rng.integers(0, SAMPLES, 20)] = 20

    async with RingKernelRuntime() as runtime:
        await runtime.launch(
            "classify",
            engine="batch",
            body=classify,
            input_type=Features,
            output_type=Verdict,
            queue_size=512,
            max_batch=256,
        )
        workers = [f"worker{k}" for k in range(WORKERS)]
        for k, name in enumerate(workers):
            await runtime.launch(
                name, normalise, input_type=Recording, output_type=Features, queue_size=32
            )
            runtime.subscribe(f"recordings.{k}", name)
            runtime.connect(name, "classify")  # Replies go there directly.
        for name, pattern in (("spy", "recordings.*"), ("log", "alarms.**")):
            await runtime.launch(name)
            runtime.subscribe(pattern, name)
        for name in runtime.kernel_ids:
            await runtime.activate(name)

        _, found = await asyncio.gather(produce(runtime, recordings), collect(runtime))

        all_telemetry = runtime.get_all_telemetry()
        for name, telemetry in all_telemetry.items():
            print(
                f"{name:9} {telemetry.messages_processed:5} processed, "
                f"{telemetry.messages_dropped:5} dropped, median "
                f"{telemetry.percentile(50) / 1e6:.2f} ms"
            )
        batches = all_telemetry["classify"].batch_sizes
        print(f"{batches.count} launches for {COUNT} messages, {batches.max:.0f} at most in one")

    # The same without actors.
    exact = {
        number: peak / np.sqrt(energy)
        for number, (peak, energy) in enumerate(map(features, recordings))
    }
    error = max(abs(found[number] / score - 1) for number, score in exact.items())
    print(f"{len(alarms)} alarms; largest relative error {error:.1e}")

    # Only the spy missed recordings, and each of them is counted.
    assert sorted(found) == sorted(exact)
    assert error < 1e-5
    assert set(loud) <= set(alarms) == {number for number, score in found.items() if score > LIMIT}
    missed = all_telemetry["spy"]
    assert missed.messages_received == COUNT
    assert missed.messages_processed + missed.messages_dropped == COUNT
    assert sum(all_telemetry[name].messages_processed for name in workers) == COUNT


asyncio.run(main())
