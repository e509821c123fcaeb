"""Load actors in every way at once, with failures, and account for each single message.

    python benchmarks/ring_soak.py --seconds 600

Each kind of load is one function of ``ring_loads``. At the end every request has had exactly
one outcome, every message of every actor was processed, dropped, expired, repeated or rejected,
replies went to their senders, and memory did not grow; otherwise the exit status is 1. Ctrl-C ends
it early.
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
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ring_loads import KERNEL_LOADS, LOADS, Job
from tikgen.ring import RingKernel, RingKernelRuntime
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
Load = Callable[["Soak", str], Awaitable[None]]
# Memory that the last third may have more than the second one, in bytes.
GROWTH = 1 << 20
# Tenths of a second that a load may take longer on a busy machine.
PATIENCE = 2000
# Seconds after which memory has settled.
SETTLED = 60.0


class Soak:
    """What all loads share.

    Attributes:
        runtime: runs the actors.
        rng: draws everything.
        stop: is set when loads are to come to their ends.
        outcomes: how often each load came to what, so far.
        problems: what is wrong, the first of it.
    """

    def __init__(self, runtime: RingKernelRuntime, seed: int) -> None:
        self.runtime = runtime
        self.rng = random.Random(seed)
        self.stop = asyncio.Event()
        self.outcomes: dict[str, Counter[str]] = {}
        self.problems: list[str] = []
        self.memory: list[int] = []
        self.is_cut_short = False
        self._actors: list[RingKernel] = []

    def cut_short(self) -> None:
        """Have loads come to their ends before their time."""
        self.is_cut_short = True
        self.stop.set()

    def problem(self, text: str) -> None:
        """Take note of something that is wrong."""
        if len(self.problems) < 50:
            self.problems.append(text)

    async def start(
        self, kernel_id: str, function: Any, /, *, keep: bool = True, **settings: Any
    ) -> Any:
        """Launch and activate an actor, whose sums are checked at the end."""
        actor = await self.runtime.launch(kernel_id, function, **settings)
        await self.runtime.activate(kernel_id)
        if keep:
            self._actors.append(actor)
        return actor

    async def request(
        self, load: str, kernel_id: str, n: int, *, make: Callable[..., Any] = Job, **options: Any
    ) -> None:
        """Ask an actor that doubles numbers; give up at random; take note of what it came to."""
        counts = self.outcomes[load]
        counts["asked"] += 1
        if "timeout" not in options and self.rng.random() < 0.2:
            options["timeout"] = self.rng.expovariate(500)
        if self.rng.random() < 0.1:
            options["deadline"] = self.rng.expovariate(500)
        task = asyncio.ensure_future(
            self.runtime.send_and_receive(
                kernel_id, make(n, priority=self.rng.randrange(256)), **options
            )
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
        if told.messages_received != sum(parts.values()) or actor.mailbox.inbox.size:
            self.problem(f"actor {actor.kernel_id!r}: {told.messages_received} came, {parts}")

    def check_all(self) -> None:
        """Check every actor and every load; all of them have ended."""
        for actor in self._actors:
            self.check(actor)
        for load, counts in self.outcomes.items():
            others = sum(n for what, n in counts.items() if what not in ("asked", "checked"))
            if "asked" in counts and counts["asked"] != others:
                self.problem(f"{load}: {counts['asked']} asked, {others} outcomes")
            if not sum(counts.values()) and not self.is_cut_short:
                self.problem(f"{load}: did nothing")

    def check_memory(self, seconds: float) -> None:
        """Check that the last third of the time took no more memory than the second one.

        A soak that is short, on a busy machine most of all, still fills its queues and caches.
        """
        third = len(self.memory) // 3
        if third < 3 or seconds < SETTLED:
            return
        middle = statistics.median(self.memory[third : 2 * third])
        last = statistics.median(self.memory[2 * third :])
        if last - middle > GROWTH:
            self.problem(f"memory grew from {middle / 1e6:.2f} to {last / 1e6:.2f} MB")


async def _stop_after(soak: Soak, seconds: float) -> None:
    """Stop the loads after some seconds, and not before each of them did something."""
    for wait in (seconds, *[0.1] * PATIENCE):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(soak.stop.wait(), wait)
        if soak.stop.is_set() or all(sum(c.values()) for c in soak.outcomes.values()):
            break
    soak.stop.set()


async def _watch_memory(soak: Soak, seconds: float) -> None:
    """Note the memory in use, sixty times in all."""
    while not soak.stop.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(soak.stop.wait(), seconds / 60)
        gc.collect()
        soak.memory.append(tracemalloc.get_traced_memory()[0])


async def soaked(seconds: float, seed: int, loads: Mapping[str, Load] = LOADS) -> Soak:
    """Run loads for some seconds, check everything, and return what was found."""
    before = asyncio.all_tasks()
    gc.freeze()  # What was imported is not looked through each time that memory is noted.
    async with RingKernelRuntime() as runtime:
        soak = Soak(runtime, seed)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, told: soak.problem(f"{told['message']}: {told.get('exception')!r}")
        )
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal.SIGINT, soak.cut_short)
        print(f"begun with seed {seed}", flush=True)
        soak.outcomes = {name: Counter() for name in loads}
        stopping = asyncio.ensure_future(_stop_after(soak, seconds))
        tasks = {asyncio.ensure_future(load(soak, name)): name for name, load in loads.items()}
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
        await stopping
    soak.check_all()
    soak.check_memory(seconds)
    left = asyncio.all_tasks() - before
    if left:
        soak.problem(f"{len(left)} tasks are left over")
    return soak


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and told without it")
    parser.add_argument("--host-only", action="store_true", help="no kernels")
    told = parser.parse_args()
    seed = random.randrange(1 << 32) if told.seed is None else told.seed
    logging.getLogger("tikgen.ring").setLevel(logging.CRITICAL)  # Failures are ordered here.
    tracemalloc.start()
    began = time.monotonic()
    loads = dict(LOADS)
    if not told.host_only:
        import taichi as ti

        ti.init(arch=ti.cpu, log_level=ti.ERROR)
        loads |= KERNEL_LOADS
    soak = asyncio.run(soaked(told.seconds, seed, loads))
    for name, counts in soak.outcomes.items():
        print(f"{name:18}", ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items())))
    took = time.monotonic() - began
    memory = ", ".join(
        f"{soak.memory[k * (len(soak.memory) - 1) // 3] / 1e6:.2f}" for k in range(4)
    )
    print(f"{took:.0f} s, seed {seed}; memory at each third: {memory} MB")
    for problem in soak.problems:
        print("PROBLEM", problem)
    print("FAILED" if soak.problems else "all accounted for")
    return bool(soak.problems)


if __name__ == "__main__":
    sys.exit(main())
