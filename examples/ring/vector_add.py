"""The sum of two vectors by a coroutine, by a kernel in batches, and by a persistent kernel.

Give an arch as argument: cpu, vulkan or cuda.
"""

import asyncio
import sys
import time

import numpy as np
import numpy.typing as npt
import taichi as ti

import tikgen
from tikgen.errors import UnsupportedOnArch
from tikgen.ring import PersistentRing, RingKernelRuntime, f32, message, ring_kernel

ARCH = sys.argv[1] if len(sys.argv) > 1 else "cpu"
N = 200_003


# On the host a message may hold whole vectors, which are not copied.
@message
class Vectors:
    a: npt.NDArray[np.float32]
    b: npt.NDArray[np.float32]


@message
class Sum:
    c: npt.NDArray[np.float32]


# For a kernel a message is a row of numbers. Many of them are columns.
@message
class Pair:
    a: f32
    b: f32


@message
class Total:
    c: f32


add = tikgen.build("map", expr="c = a + b", scalars=(), arch=ARCH)


@ring_kernel(kernel_id="host", input_type=Vectors, output_type=Sum)
async def add_vectors(ctx):
    while not ctx.should_terminate:
        request = await ctx.receive()
        c = np.empty_like(request.a)
        add(request.a, request.b, c)
        await ctx.send(Sum(c=c), to=request)


ring_kernel(
    kernel_id="batch",
    engine="batch",
    body=add,
    input_type=Pair,
    output_type=Total,
    queue_size=1 << 16,
)


async def on_host(runtime, a, b):
    reply = await runtime.send_and_receive("host", Vectors(a=a, b=b), timeout=60)
    return reply.c


async def in_batches(runtime, a, b):
    # One row is a request like any other.
    one = await runtime.send_and_receive("batch", Pair(a=1.0, b=2.0), timeout=60)
    assert one.c == 3

    # The queues hold fewer rows than there are: send and receive concurrently.
    sending = asyncio.ensure_future(runtime.send_many("batch", {"a": a, "b": b}))
    parts = []
    while sum(map(len, parts)) < a.size:
        columns = await runtime.receive_many("batch", a.size, timeout=60)
        parts.append(columns["c"])
    assert await sending == a.size
    return np.concatenate(parts)


def on_a_kernel_that_stays(a, b):
    pair, total = {"a": "f32", "b": "f32"}, {"c": "f32"}
    with PersistentRing("adder", pair, total, "c = a + b", arch=ARCH, capacity=1 << 16) as ring:
        assert ring.call(1.0, 2.0) == 3
        begun = time.perf_counter()
        parts, sent, taken = [], 0, 0
        while taken < a.size:
            sent += ring.push_columns({"a": a[sent:], "b": b[sent:]}) if sent < a.size else 0
            parts.append(ring.take()["c"])
            taken += parts[-1].size
        return np.concatenate(parts), time.perf_counter() - begun


def report(name, found, a, b, seconds):
    error = np.abs(found - (a.astype(np.float64) + b)).max()
    print(f"{name:10} {a.size / seconds / 1e6:7.1f} M additions/s, error {error:.1e}")
    assert error < 1e-6


async def main():
    ti.init(arch=getattr(ti, ARCH), log_level=ti.ERROR)
    rng = np.random.default_rng()
    a, b = rng.standard_normal((2, N), dtype=np.float32)

    async with RingKernelRuntime() as runtime:
        for name, run in (("host", on_host), ("batch", in_batches)):
            await runtime.launch(name)
            await runtime.activate(name)
            await run(runtime, a, b)  # Compiles the kernels.
            begun = time.perf_counter()
            found = await run(runtime, a, b)
            report(name, found, a, b, time.perf_counter() - begun)
        for name, telemetry in runtime.get_all_telemetry().items():
            median = telemetry.percentile(50) / 1e6
            print(f"{name}: {telemetry.messages_processed} messages, median {median:.2f} ms")
        assert runtime.get_telemetry("batch").messages_processed == 2 * (N + 1)

    try:
        found, seconds = on_a_kernel_that_stays(a, b)
        report("persistent", found, a, b, seconds)
    except UnsupportedOnArch as error:  # Vulkan has no persistent kernels.
        print(error)


asyncio.run(main())
