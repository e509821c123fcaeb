"""Measures actors beside PyDotCompute and an echo over two queues of asyncio.

``python benchmarks/ring.py`` runs every part in a process of its own, prints the table and writes
it into docs/performance.md: on the processor, or with TIKGEN_TEST_ARCH=cuda on a GPU.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable

from page import Row
from parts import run_parts

ROUNDS = 9
ON_GPU = os.environ.get("TIKGEN_TEST_ARCH") == "cuda"
ARCH = "cuda" if ON_GPU else "cpu"
PEER, ECHO = "PyDotCompute 0.2.0", "asyncio.Queue echo"


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


async def trips(trip: Callable[[], Awaitable[object]], count: int) -> float:
    """Return the median seconds of a round trip."""
    times = []
    clock = time.perf_counter
    for _ in range(count):
        start = clock()
        await trip()
        times.append(clock() - start)
    return median(times)


async def pipelined(
    send: Callable[[], Awaitable[object]], receive: Callable[[], Awaitable[object]], count: int
) -> float:
    """Return the seconds a message where one task sends and another one receives."""

    async def repeat(step: Callable[[], Awaitable[object]]) -> None:
        for _ in range(count):
            await step()

    start = time.perf_counter()
    await asyncio.gather(repeat(send), repeat(receive))
    return (time.perf_counter() - start) / count


def host_asyncio() -> Iterable[Row]:
    """Measure the host engine on the event loop of Python."""
    return asyncio.run(host("asyncio"))


def host_uvloop() -> Iterable[Row]:
    """Measure the host engine on uvloop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(host("uvloop"))


async def host(loop: str) -> list[Row]:
    """Send messages to an actor that echoes them, here and there, in turns."""
    os.environ["PYDOTCOMPUTE_NO_UVLOOP"] = "1"  # It would change the loop of both.
    import pydotcompute as theirs

    from tikgen import ring as ours

    async def echo(ctx: object) -> None:
        while not ctx.should_terminate:
            await ctx.send(await ctx.receive())

    async def echo_many(ctx: object) -> None:
        while not ctx.should_terminate:
            await ctx.send_many(await ctx.receive_many())

    class Number:
        x: float

    a = ours.message(type("Number", (), {"__annotations__": {"x": float}}))
    b = theirs.message(type("Number", (), {"__annotations__": {"x": float}}))
    one, other = a(x=1.0), b(x=1.0)
    there, back = asyncio.Queue(4096), asyncio.Queue(4096)

    async def echo_queue() -> None:
        while True:
            await back.put(await there.get())

    async def queue_trip() -> None:
        await there.put(one)
        await back.get()

    found: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    async with (
        ours.RingKernelRuntime() as runtime,
        theirs.RingKernelRuntime(use_uvloop=False, use_eager_tasks=False) as peer,
        runtime.kernel_scope("echo", echo, input_type=a, output_type=a),
        runtime.kernel_scope("many", echo_many, input_type=a, output_type=a),
    ):
        await peer.launch("echo", echo, input_type=b, output_type=b)
        await peer.activate("echo")
        task = asyncio.ensure_future(echo_queue())

        async def trip() -> None:
            await runtime.send("echo", one)
            await runtime.receive("echo")

        async def peer_trip() -> None:
            await peer.send("echo", other)
            await peer.receive("echo")

        block = [a(x=float(k)) for k in range(1000)]

        async def receive_thousand() -> None:
            left = 1000
            while left:
                left -= len(await runtime.receive_many("many", left))

        for _ in range(ROUNDS):
            note("trip", await trips(trip, 2000))
            note("echo", await trips(queue_trip, 2000))
            note("peer", await trips(peer_trip, 500))
            note("request", await trips(lambda: runtime.send_and_receive("echo", one), 2000))
            note(
                "pipe",
                await pipelined(
                    lambda: runtime.send("echo", one), lambda: runtime.receive("echo"), 10000
                ),
            )
            note(
                "peer pipe",
                await pipelined(
                    lambda: peer.send("echo", other), lambda: peer.receive("echo"), 5000
                ),
            )
            seconds = await pipelined(
                lambda: runtime.send_many("many", block), receive_thousand, 50
            )
            note("many", seconds / 1000)
        task.cancel()
        await peer.terminate("echo", timeout=0.1)

    got = {name: median(times) for name, times in found.items()}
    rows = []
    for what, name in (("send, then receive", "trip"), ("send_and_receive", "request")):
        told = f"round trip p50, {what}, {loop}"
        rows += [Row(told, got[name], ECHO, got["echo"], None, 1.5)]
        rows += [Row(told, got[name], PEER, got["peer"], None, 2 / 3)]
    told = f"pipelined, a message, {loop}"
    rows += [Row(told, got["pipe"], PEER, got["peer pipe"], None, 1 / 2)]
    rows += [Row(f"send_many, receive_many, a message, {loop}", got["many"], most=1e-6)]
    return rows


def messages() -> Iterable[Row]:
    """Construct and encode messages."""
    os.environ["PYDOTCOMPUTE_NO_UVLOOP"] = "1"
    import pydotcompute as theirs

    from tikgen import ring as ours

    class Request:
        values: list[float]
        name: str

    def request() -> type:  # A class of its own for each.
        return type("Request", (), {"__annotations__": dict(Request.__annotations__)})

    kinds = {"ours": ours.message(request()), "theirs": theirs.message(request())}
    values = [1.0, 2.0, 3.0]
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, kind in kinds.items():
            start = time.perf_counter()
            for _ in range(5000):
                kind(values=values, name="a").serialize()
            found.setdefault(name, []).append((time.perf_counter() - start) / 5000)
    yield Row(
        "constructing and encoding a message",
        median(found["ours"]),
        PEER,
        median(found["theirs"]),
        None,
        1 / 3,
    )


def idle() -> Iterable[Row]:
    """Start a thousand actors that do nothing, and shut them down."""
    from tikgen.ring import RingKernelRuntime

    async def wait(ctx: object) -> None:
        while not ctx.should_terminate:
            await ctx.receive()

    async def main() -> float:
        start = time.perf_counter()
        async with RingKernelRuntime() as runtime:
            for number in range(1000):
                await runtime.launch(f"idle{number}", wait)
                await runtime.activate(f"idle{number}")
        return time.perf_counter() - start

    seconds = median(asyncio.run(main()) for _ in range(3))
    yield Row("1,000 idle actors, started and shut down", seconds, most=2.0)


def number_types() -> tuple[type, type]:
    """Return a message with a number x, and one with a number y."""
    from tikgen.ring import f32, message

    return (
        message(type("In", (), {"__annotations__": {"x": f32}})),
        message(type("Out", (), {"__annotations__": {"y": f32}})),
    )


async def columns(runtime: object, kernel_id: str, size: int, blocks: int) -> float:
    """Return the seconds a message where NumPy columns go in and out, all of them checked."""
    import numpy as np

    x = np.random.default_rng().random(size, dtype=np.float32)
    expected = 2 * x + 1

    async def feed() -> None:
        for _ in range(blocks):
            await runtime.send_many(kernel_id, {"x": x})

    async def drain() -> None:
        got = 0
        while got < blocks * size:
            part = await runtime.receive_many(kernel_id, 1 << 22)
            place = got % size
            assert np.array_equal(part["y"], expected[place : place + part.count])
            got += part.count

    start = time.perf_counter()
    await asyncio.gather(feed(), drain())
    return (time.perf_counter() - start) / (blocks * size)


def batch() -> Iterable[Row]:
    """Send columns, and messages, through a map kernel."""
    import taichi as ti

    import tikgen
    from tikgen.ring import RingKernelRuntime

    ti.init(arch=getattr(ti, ARCH), log_level=ti.ERROR)
    into, out = number_types()
    body = tikgen.build("map", expr="y = 2*x + 1")
    settings = {"engine": "batch", "body": body, "input_queue_size": 1 << 20}

    async def main() -> tuple[float, float, float]:
        async with (
            RingKernelRuntime() as runtime,
            runtime.kernel_scope("line", input_type=into, output_type=out, **settings),
        ):
            block = [into(x=float(k)) for k in range(4096)]

            async def receive_all() -> None:
                left = len(block)
                while left:
                    left -= len(await runtime.receive_many("line", left))

            in_columns, as_objects, alone = [], [], []
            for _ in range(ROUNDS):
                in_columns.append(await columns(runtime, "line", 65536, 20))
                seconds = await pipelined(lambda: runtime.send_many("line", block), receive_all, 5)
                as_objects.append(seconds / len(block))
                alone.append(await trips(lambda: runtime.send_and_receive("line", into(x=1.0)), 50))
            return median(in_columns), median(as_objects), median(alone)

    in_columns, as_objects, alone = asyncio.run(main())
    yield Row(f"batch on {ARCH}: columns of 65,536, a message", in_columns, most=0.5e-6)
    yield Row(f"batch on {ARCH}: message objects, send_many, a message", as_objects)
    yield Row(f"batch on {ARCH}: a request alone, max_delay 1 ms, p50", alone)


def persistent() -> Iterable[Row]:
    """Send messages through a kernel that stays on the device."""
    import numpy as np

    from tikgen.ring import RingKernelRuntime

    into, out = number_types()
    settings = {"engine": "persistent", "handler": "y = 2*x + 1", "arch": ARCH}
    settings |= {"capacity": 1 << 15, "input_queue_size": 1 << 20}

    async def main() -> dict[str, float]:
        found: dict[str, list[float]] = {}
        async with (
            RingKernelRuntime() as runtime,
            runtime.kernel_scope("line", input_type=into, output_type=out, **settings) as actor,
        ):
            ring = actor.engine.ring
            x = np.random.default_rng().random(65536, dtype=np.float32)
            one = into(x=3.0)
            for _ in range(ROUNDS):
                times = []
                for number in range(2000):
                    start = time.perf_counter()
                    y = ring.call(float(number))
                    times.append(time.perf_counter() - start)
                    assert y == 2 * number + 1
                found.setdefault("sync", []).append(median(times))
                found.setdefault("asyncio", []).append(
                    await trips(lambda: runtime.send_and_receive("line", one), 2000)
                )
                found.setdefault("sync columns", []).append(_through(ring, x))
                found.setdefault("columns", []).append(await columns(runtime, "line", 65536, 20))
        return {name: median(times) for name, times in found.items()}

    got = asyncio.run(main())
    sync, loop, batches = (40e-6, 40e-6, 1 / 3e6) if ON_GPU else (5e-6, 30e-6, 1e-7)
    told = f"persistent on {ARCH}"
    yield Row(f"{told}: round trip p50, synchronous client", got["sync"], most=sync)
    yield Row(f"{told}: round trip p50, asyncio", got["asyncio"], most=loop)
    name = f"{told}: NumPy batches, a message"
    yield Row(f"{name}, synchronous client", got["sync columns"], most=batches)
    yield Row(f"{name}, asyncio", got["columns"], most=batches)


def _through(ring: object, x: object) -> float:
    """Return the seconds a message for a block that goes through a ring and is checked."""
    import numpy as np

    expected, repeats = 2 * x + 1, 20
    size = len(x)
    sent = got = 0
    start = time.perf_counter()
    while got < repeats * size:
        if sent < repeats * size:
            sent += ring.push_columns({"x": x[sent % size :]})
        y = ring.take()["y"]
        place = got % size
        first = y[: size - place]
        assert np.array_equal(first, expected[place : place + len(first)])
        assert np.array_equal(y[len(first) :], expected[: len(y) - len(first)])
        got += len(y)
    return (time.perf_counter() - start) / got


if __name__ == "__main__":
    ON_DEVICE = ("batch", "persistent")
    PARTS = ON_DEVICE if ON_GPU else ("host_asyncio", "host_uvloop", "messages", "idle", *ON_DEVICE)
    run_parts("ring-gpu" if ON_GPU else "ring", PARTS, globals())
