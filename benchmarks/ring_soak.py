"""Load actors in every way at once, with failures, and account for each single message.

    python benchmarks/ring_soak.py --seconds 600

Each kind of load is one function of ``LOADS``. At the end every request has had exactly one outcome,
every message of every actor was processed, dropped, expired, repeated or rejected, replies went to
whoever asked, and memory did not grow; otherwise the exit status is 1. Ctrl-C ends it early.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import random
import signal
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from tikgen.ring import KernelContext, RingKernel, RingKernelRuntime, Supervision, message
from tikgen.ring.errors import (
    BarrierBroken,
    KernelFailed,
    KernelNotFoundError,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
)

# What a request or a message may come to beside its reply; anything else is a fault.
REGULAR = (
    KernelFailed,
    KernelNotFoundError,
    KernelStateError,
    KernelTerminated,
    MessageDropped,
    QueueFullError,
    QueueTimeoutError,
    BarrierBroken,
)
POLICIES = ("block", "reject", "drop_oldest", "drop_newest")
# So often an actor may fail here without being given up.
SHAKY = Supervision("restart", max_restarts=10**9, within=0.1, backoff=1e-4, max_backoff=1e-3)
# Memory that the last third may have more than the second one, in bytes.
GROWTH = 1 << 20


@message
class Job:
    """A number, of which an actor makes another one."""

    n: int = 0


class Soak:
    """What all loads share.

    Attributes:
        runtime: runs the actors.
        rng: draws everything.
        stop: is set when loads are to come to their ends.
        outcomes: how often each load came to what.
        problems: what is wrong, the first of it.
    """

    def __init__(self, runtime: RingKernelRuntime, seed: int) -> None:
        self.runtime = runtime
        self.rng = random.Random(seed)
        self.stop = asyncio.Event()
        self.outcomes: dict[str, Counter[str]] = {}
        self.problems: list[str] = []
        self.memory: list[int] = []
        self._actors: list[RingKernel] = []

    def problem(self, text: str) -> None:
        """Take note of something that is wrong."""
        if len(self.problems) < 50:
            self.problems.append(text)

    async def start(self, kernel_id: str, body: Any, *, keep: bool = True, **settings: Any) -> Any:
        """Launch and activate an actor, whose sums are checked at the end."""
        actor = await self.runtime.launch(kernel_id, body, **settings)
        await self.runtime.activate(kernel_id)
        if keep:
            self._actors.append(actor)
        return actor

    async def request(self, load: str, kernel_id: str, n: int, **options: Any) -> None:
        """Ask an actor that doubles numbers; give up at random; take note of what it came to."""
        counts = self.outcomes[load]
        counts["asked"] += 1
        if "timeout" not in options and self.rng.random() < 0.2:
            options["timeout"] = self.rng.expovariate(500)
        if self.rng.random() < 0.1:
            options["deadline"] = self.rng.expovariate(500)
        task = asyncio.ensure_future(
            self.runtime.send_and_receive(kernel_id, Job(n, priority=self.rng.randrange(256)), **options)
        )
        if self.rng.random() < 0.1:
            await asyncio.wait({task}, timeout=self.rng.expovariate(1000))
            task.cancel()
        done, _ = await asyncio.wait({task}, timeout=60)
        if not done:
            counts["hangs"] += 1
            task.cancel()
            self.problem(f"{load}: a request hangs for 60 s")
            return
        if task.cancelled():
            counts["cancelled"] += 1
        elif (error := task.exception()) is not None:
            counts[type(error).__name__] += 1
            if not isinstance(error, REGULAR):
                self.problem(f"{load}: {error!r}")
        else:
            counts["answered"] += 1
            if task.result().n != 2 * n:
                self.problem(f"{load}: asked {n}, got {task.result().n}: misdelivered")

    def check(self, actor: RingKernel) -> None:
        """Check that every message of an actor that has ended is accounted for."""
        told = actor.telemetry
        parts = {
            "processed": told.messages_processed,
            "dropped": told.messages_dropped,
            "expired": told.messages_expired,
            "duplicate": told.messages_duplicate,
            "rejected": told.messages_rejected,
        }
        if actor.termination is None or not actor.termination.stopped:
            self.problem(f"actor {actor.kernel_id!r} did not stop: {actor!r}")
        if told.messages_received != sum(parts.values()) or actor.inbox.size:
            self.problem(f"actor {actor.kernel_id!r}: {told.messages_received} came, {parts}")

    def check_all(self) -> None:
        """Check every actor and every load; all of them have ended."""
        for actor in self._actors:
            self.check(actor)
        for load, counts in self.outcomes.items():
            others = sum(n for what, n in counts.items() if what not in ("asked", "checked"))
            if "asked" in counts and counts["asked"] != others:
                self.problem(f"{load}: {counts['asked']} asked, {others} outcomes")
            if not sum(counts.values()):
                self.problem(f"{load}: did nothing")

    def check_memory(self) -> None:
        """Check that the last third of the time took no more memory than the second one."""
        third = len(self.memory) // 3
        if third < 3:
            return
        middle = statistics.median(self.memory[third : 2 * third])
        last = statistics.median(self.memory[2 * third :])
        if last - middle > GROWTH:
            self.problem(f"memory grew from {middle / 1e6:.2f} to {last / 1e6:.2f} MB")


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
    """Ask an actor that answers in any order, of an own body, which fails and loses what it holds."""

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


async def passing(soak: Soak, name: str) -> None:
    """Send numbers through three connected actors with small queues; they come out in order."""

    async def body(ctx: KernelContext, job: Job) -> Job:
        if job.n % 50 == 0:
            await asyncio.sleep(1e-4)
        return Job(job.n + 1)

    stages = [f"{name} {place}" for place in range(3)]
    for stage in stages:
        await soak.start(stage, body, queue_size=8)
    for source, target in zip(stages, stages[1:], strict=False):
        soak.runtime.connect(source, target)
    sent = came = 0
    while not soak.stop.is_set():
        count = soak.rng.randrange(1, 60)

        async def feed(first: int = sent, count: int = count) -> None:
            for n in range(first, first + count):
                await soak.runtime.send(stages[0], Job(n))

        feeding = asyncio.ensure_future(feed())
        sent += count
        while came < sent:
            job = await soak.runtime.receive(stages[-1], timeout=60)
            if job.n != came + 3:
                soak.problem(f"{name}: {job.n} came in the place of {came + 3}")
            came += 1
        await feeding
    soak.outcomes[name]["passed on"] = came


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
            if max(rounds) - min(rounds) > 1:
                soak.problem(f"{name}: {rounds} rounds")

    for place in range(3):
        await soak.start(f"{name} {place}", body)
    await soak.stop.wait()
    soak.outcomes[name]["rounds"] = sum(rounds)


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


async def _watch_memory(soak: Soak, seconds: float) -> None:
    """Note the memory in use, sixty times in all."""
    while not soak.stop.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(soak.stop.wait(), seconds / 60)
        gc.collect()
        soak.memory.append(tracemalloc.get_traced_memory()[0])


async def soaked(seconds: float, seed: int, loads: dict[str, Any] = LOADS) -> Soak:
    """Run loads for some seconds, check everything, and return what was found."""
    async with RingKernelRuntime() as runtime:
        soak = Soak(runtime, seed)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, told: soak.problem(f"{told['message']}: {told.get('exception')!r}")
        )
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, soak.stop.set)
        loop.call_later(seconds, soak.stop.set)
        soak.outcomes = {name: Counter() for name in loads}
        tasks = {
            asyncio.ensure_future(load(soak, name)): name for name, load in loads.items()
        }
        watching = asyncio.ensure_future(_watch_memory(soak, seconds))
        done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        soak.stop.set()
        if late:
            ended, late = await asyncio.wait(late, timeout=90)
            done |= ended
        for task in done:
            if (error := task.exception()) is not None:
                soak.problem(f"{tasks[task]}: {error!r}")
        for task in late:
            task.cancel()
            soak.problem(f"{tasks[task]}: does not come to an end")
        await watching
    soak.check_all()
    soak.check_memory()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        soak.problem(f"{len(left)} tasks are left over")
    return soak


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and told without it")
    told = parser.parse_args()
    seed = random.randrange(1 << 32) if told.seed is None else told.seed
    logging.getLogger("tikgen.ring").setLevel(logging.CRITICAL)  # Failures are ordered here.
    tracemalloc.start()
    began = time.monotonic()
    soak = asyncio.run(soaked(told.seconds, seed))
    for name, counts in soak.outcomes.items():
        print(f"{name:18}", ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    took = time.monotonic() - began
    memory = ", ".join(f"{soak.memory[k * (len(soak.memory) - 1) // 3] / 1e6:.2f}" for k in range(4))
    print(f"{took:.0f} s, seed {seed}; memory at each third: {memory} MB")
    for problem in soak.problems:
        print("PROBLEM", problem)
    print("FAILED" if soak.problems else "all accounted for")
    return bool(soak.problems)


if __name__ == "__main__":
    sys.exit(main())
