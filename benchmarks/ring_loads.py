"""The loads of the soak test: each is one function that runs until the soak is to stop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import tikgen
from tikgen.ring import KernelContext, Supervision, i32, message
from tikgen.ring.errors import BarrierBroken, QueueFullError

if TYPE_CHECKING:
    from ring_soak import Soak

POLICIES = ("block", "reject", "drop_oldest", "drop_newest")
# So often an actor may fail here without being given up.
SHAKY = Supervision("restart", max_restarts=10**9, within=0.1, backoff=1e-4, max_backoff=1e-3)


@message
class Job:
    """A number, of which an actor makes another one."""

    n: int = 0


@message
class Row:
    """A number for a kernel."""

    x: i32


@message
class Doubled:
    """What a kernel makes of it."""

    y: i32

    @property
    def n(self) -> int:
        """Return the number, under the name that it has in a :class:`Job`."""
        return self.y


async def asking(soak: Soak, name: str) -> None:
    """Ask an actor that fails now and then, many requests at a time."""

    async def shaky(ctx: KernelContext, job: Job) -> Job:
        chance = soak.rng.random()
        if chance < 0.02:
            raise ValueError("a failure that was ordered")
        if chance < 0.2:
            await asyncio.sleep(chance * 1e-3)
        return Job(2 * job.n)

    await soak.start(name, shaky, supervision=SHAKY, input_queue_size=16)
    while not soak.stop.is_set():
        count = soak.rng.randrange(1, 40)
        await asyncio.gather(*(soak.request(name, name, n) for n in range(count)))


async def shuffled(soak: Soak, name: str) -> None:
    """Ask an actor that answers in any order, and that fails with what it holds."""

    async def shuffling(ctx: KernelContext) -> None:
        held: list[Job] = []
        while not ctx.should_terminate:
            held += await ctx.receive_many(8)
            soak.rng.shuffle(held)
            if soak.rng.random() < 0.01:
                raise ValueError("a failure that was ordered")
            while held and (len(held) > 4 or soak.rng.random() < 0.8):
                job = held.pop()
                await ctx.send(Job(2 * job.n), to=job)

    await soak.start(name, shuffling, supervision=SHAKY)
    while not soak.stop.is_set():
        count = soak.rng.randrange(1, 40)
        requests = (soak.request(name, name, n, timeout=0.02) for n in range(count))
        await asyncio.gather(*requests)


def flooding(policy: str) -> Callable[[Soak, str], Awaitable[None]]:
    """Return a load of single messages and blocks for a slow actor under one policy."""

    async def flood(soak: Soak, name: str) -> None:
        last, sent = -1, 0
        counts = soak.outcomes[name]

        async def slow(ctx: KernelContext, job: Job) -> None:
            nonlocal last
            if job.n <= last or (policy == "block" and job.n != last + 1):
                soak.problem(f"{name}: {job.n} came after {last}")
            last = job.n
            counts["handled"] += 1
            if job.n % 64 == 0:
                await asyncio.sleep(1e-4)

        actor = await soak.start(name, slow, input_queue_size=32, backpressure=policy)
        while not soak.stop.is_set():
            count = soak.rng.randrange(1, 100)
            jobs = [Job(sent + place) for place in range(count)]
            sent += count
            if soak.rng.random() < 0.5:
                with contextlib.suppress(QueueFullError):
                    await soak.runtime.send_many(name, jobs)
            else:
                for job in jobs:
                    with contextlib.suppress(QueueFullError):
                        await soak.runtime.send(name, job)
            await asyncio.sleep(0)
            while soak.rng.random() < 0.3:
                await asyncio.sleep(1e-4)
        await soak.runtime.terminate(name)
        told = actor.telemetry
        lost = told.messages_dropped + told.messages_rejected
        if sent != counts["handled"] + lost or (policy == "block" and lost):
            soak.problem(f"{name}: sent {sent}, handled {counts['handled']}, lost {lost}")
        counts["lost as told"] = lost

    return flood


async def pausing(soak: Soak, name: str) -> None:
    """Pause an actor while requests come in; it handles nothing meanwhile."""
    seen = 0

    async def body(ctx: KernelContext, job: Job) -> Job:
        nonlocal seen
        seen += 1
        return Job(2 * job.n)

    await soak.start(name, body, input_queue_size=8)
    while not soak.stop.is_set():
        requests = [asyncio.ensure_future(soak.request(name, name, n)) for n in range(12)]
        await asyncio.sleep(soak.rng.expovariate(2000))
        await soak.runtime.deactivate(name)
        before = seen
        await asyncio.sleep(soak.rng.expovariate(500))
        if seen != before:
            soak.problem(f"{name}: {seen - before} messages were handled in a pause")
        await soak.runtime.reactivate(name)
        await asyncio.gather(*requests)


async def ending(soak: Soak, name: str) -> None:
    """End actors amid their requests and launch them anew, under the same name."""

    async def body(ctx: KernelContext, job: Job) -> Job:
        await asyncio.sleep(soak.rng.expovariate(5000))
        return Job(2 * job.n)

    while not soak.stop.is_set():
        actor = await soak.start(name, body, keep=False, input_queue_size=4)
        requests = [asyncio.ensure_future(soak.request(name, name, n)) for n in range(20)]
        await asyncio.sleep(soak.rng.expovariate(300))
        drain = soak.rng.random() < 0.5
        await soak.runtime.terminate(name, soak.rng.expovariate(500), drain=drain)
        await asyncio.gather(*requests)
        soak.check(actor)


async def publishing(soak: Soak, name: str) -> None:
    """Publish under topics; each subscriber gets each message once."""
    counts, taken = soak.outcomes[name], 0

    async def body(ctx: KernelContext, job: Job) -> None:
        counts["handled"] += 1

    patterns = {"all": ["a.**", "a.*.c"], "some": ["a.*.c"], "one": ["a.b.c"], "none": ["b.*"]}
    for who, wanted in patterns.items():
        await soak.start(f"{name} {who}", body, input_queue_size=16)
        for pattern in wanted:
            soak.runtime.subscribe(pattern, f"{name} {who}")
    expected = {"a": 1, "a.b": 1, "a.b.c": 3, "a.x.c": 2, "b.c": 1, "c": 0}
    while not soak.stop.is_set():
        topic = soak.rng.choice(list(expected))
        found = await soak.runtime.publish(topic, Job())
        taken += found
        if found != expected[topic]:
            soak.problem(f"{name}: {topic} went to {found} actors")
        await asyncio.sleep(0)
    for who in patterns:
        await soak.runtime.terminate(f"{name} {who}")
    if counts["handled"] != taken:
        soak.problem(f"{name}: {taken} taken, {counts['handled']} handled")


async def _feed(soak: Soak, kernel_id: str, numbers: range) -> None:
    for n in numbers:
        await soak.runtime.send(kernel_id, Job(n))


async def passing(soak: Soak, name: str) -> None:
    """Send numbers through three connected actors with small queues; they come out in order."""

    async def body(ctx: KernelContext, job: Job) -> Job:
        if job.n % 50 == 0:
            await asyncio.sleep(1e-4)
        return Job(job.n + 1)

    stages = [f"{name} {place}" for place in range(3)]
    for stage in stages:
        await soak.start(stage, body, queue_size=8)
    for source, target in itertools.pairwise(stages):
        soak.runtime.connect(source, target)
    sent = came = 0
    while not soak.stop.is_set():
        count = soak.rng.randrange(1, 60)

        feeding = asyncio.ensure_future(_feed(soak, stages[0], range(sent, sent + count)))
        sent += count
        while came < sent:
            job = await soak.runtime.receive(stages[-1], timeout=60)
            if job.n != came + 3:
                soak.problem(f"{name}: {job.n} came instead of {came + 3}")
            came += 1
            soak.outcomes[name]["passed on"] += 1
        await feeding


async def repeating(soak: Soak, name: str) -> None:
    """Send messages twice; each is handled once, and every request is answered."""
    counts = soak.outcomes[name]

    async def body(ctx: KernelContext, job: Job) -> Job:
        counts["handled"] += 1
        await asyncio.sleep(0)
        return Job(2 * job.n)

    await soak.start(name, body, deduplicate=64, input_queue_size=8)
    sent = 0
    while not soak.stop.is_set():
        job = Job(sent)
        sent += 1
        requests = (soak.runtime.send_and_receive(name, job) for _ in range(3))
        if [reply.n for reply in await asyncio.gather(*requests)] != [2 * job.n] * 3:
            soak.problem(f"{name}: another reply than that to {job.n}")
    if counts["handled"] != sent:
        soak.problem(f"{name}: {sent} messages, {counts['handled']} handled")


async def meeting(soak: Soak, name: str) -> None:
    """Let actors wait for each other at a barrier again and again."""
    rounds = [0, 0, 0]

    async def body(ctx: KernelContext) -> None:
        place = int(ctx.kernel_id[-1])
        while not soak.stop.is_set():
            await asyncio.sleep(soak.rng.expovariate(2000))
            try:
                await ctx.barrier(name, 3, timeout=60)
            except BarrierBroken:
                if not soak.stop.is_set():
                    soak.problem(f"{name}: the barrier broke")
                return
            rounds[place] += 1
            soak.outcomes[name]["rounds"] += 1
            if max(rounds) - min(rounds) > 1:
                soak.problem(f"{name}: {rounds} rounds")

    for place in range(3):
        await soak.start(f"{name} {place}", body)
    await soak.stop.wait()


async def _ask_rows(soak: Soak, name: str) -> None:
    count = soak.rng.randrange(1, 40)
    requests = [asyncio.ensure_future(soak.request(name, name, n, make=Row)) for n in range(count)]
    if soak.rng.random() < 0.3:
        await asyncio.sleep(soak.rng.expovariate(2000))
        await soak.runtime.deactivate(name)
        await asyncio.sleep(soak.rng.expovariate(500))
        await soak.runtime.reactivate(name)
    if soak.rng.random() < 0.9:
        await asyncio.gather(*requests)


async def _send_columns(soak: Soak, name: str) -> None:
    count, first = soak.rng.randrange(1, 1000), soak.rng.randrange(1 << 20)
    sent = np.arange(first, first + count, dtype=np.int32)
    taken = await soak.runtime.send_many(name, {"x": sent})
    came: list[Any] = []
    while sum(map(len, came)) < count:
        found = await soak.runtime.receive_many(name, timeout=60)
        came.append(found["y"] if isinstance(found, dict) else [row.y for row in found])
    if taken != count or not np.array_equal(np.concatenate(came), 2 * sent):
        soak.problem(f"{name}: other rows came than those of {count} that were sent")
    soak.outcomes[name]["checked"] += count


def computing(**settings: Any) -> Callable[[Soak, str], Awaitable[None]]:
    """Return a load of requests and columns for an actor whose body is a kernel."""

    async def compute(soak: Soak, name: str) -> None:
        if settings["engine"] == "batch":
            settings["body"] = tikgen.build("map", expr="y = 2*x", dtype="i32")
        while not soak.stop.is_set():
            actor = await soak.start(
                name, None, keep=False, input_type=Row, output_type=Doubled, **settings
            )
            for _ in range(soak.rng.randrange(1, 40)):
                await soak.rng.choice([_ask_rows, _send_columns])(soak, name)
                if soak.stop.is_set():
                    break
            requests = asyncio.gather(*(soak.request(name, name, n, make=Row) for n in range(20)))
            await asyncio.sleep(soak.rng.expovariate(1000))
            await soak.runtime.terminate(name, drain=soak.rng.random() < 0.5)
            await requests
            soak.check(actor)

    return compute


LOADS: dict[str, Callable[[Soak, str], Awaitable[None]]] = {
    "asking": asking,
    "shuffled": shuffled,
    **{f"flood {policy}": flooding(policy) for policy in POLICIES},
    "pausing": pausing,
    "ending": ending,
    "publishing": publishing,
    "passing": passing,
    "repeating": repeating,
    "meeting": meeting,
}
# These need Taichi, and a persistent kernel a core of its own.
KERNEL_LOADS: dict[str, Callable[[Soak, str], Awaitable[None]]] = {
    "batch": computing(engine="batch", max_batch=64, max_delay=0.0005),
    "persistent": computing(engine="persistent", handler="y = 2*x", arch="cpu", capacity=64),
}
