"""Kernels that are actors, and helpers of their tests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import tikgen
from conftest import ARCH
from tikgen.ring.messages.base import message
from tikgen.ring.persistent import lifetime as life
from tikgen.ring.persistent import making, words
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.runtime import RingKernelRuntime

# A limit that is never reached, also on a busy machine.
SECONDS = 300.0
# A value that keeps the kernel of `TWICE` busy until an unused control word is not 0.
HELD = 77_777
GATE = words.COMMAND + 8

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")
both = pytest.mark.parametrize("engine", ["batch", pytest.param("persistent", marks=stays)])


@message
class In:
    x: int


@message
class Out:
    y: int


@message
class Text:
    text: str


@message
class Flagged:
    flag: bool
    y: int = 0


# One kernel for all tests, because making it takes some seconds.
TWICE = RingBody(
    """
    y = 2 * x + 1
    is_let_go = 0
    while x == {{ held }} and is_let_go == 0:
        #% if is_atomic
        is_let_go = ti.atomic_add(control[{{ gate }}], ring_zero)
        #% else
        ti.simt.grid.memfence()
        is_let_go = control[{{ gate }}]
        #% endif
    count = count + 1
    """,
    params={"held": HELD, "gate": GATE, "is_atomic": ARCH != "cuda"},
)


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "PROOFS", 2)


def run(main: Callable[[RingKernelRuntime], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a runtime, within bounded time, and check for leftovers."""

    async def limited() -> None:
        async with RingKernelRuntime() as runtime:
            try:
                await asyncio.wait_for(main(runtime), SECONDS)
            finally:
                for ring in [*life._rings]:
                    ring._words[GATE] = 1

    asyncio.run(limited())
    end = time.monotonic() + SECONDS
    while any(thread.name.startswith("tikgen-ring-") for thread in threading.enumerate()):
        assert time.monotonic() < end, "a kernel runs on"
        time.sleep(0.01)


def twice(engine: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of an actor that answers y = 2*x + 1."""
    made: dict[str, Any] = {"engine": engine, "input_type": In, "output_type": Out}
    if engine == "persistent":
        made |= {"handler": TWICE, "state": {"count": 0}, "arch": ARCH, "capacity": 64}
    else:
        made |= {"body": tikgen.build("map", expr="y = 2*x + 1", dtype="i32")}
    return made | settings


async def begin(
    runtime: RingKernelRuntime, kernel_id: str, function: Any = None, **settings: Any
) -> Any:
    actor = await runtime.launch(kernel_id, function, **settings)
    await runtime.activate(kernel_id)
    return actor


def let_go(actor: Any) -> None:
    """Release the kernel that was sent ``HELD``."""
    actor.engine.ring._words[GATE] = 1


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def answers(runtime: RingKernelRuntime, kernel_id: str, count: int) -> list[Any]:
    """Return the next replies: numbers, or errors in their place."""
    found: list[Any] = []
    while len(found) < count:
        replies = await runtime.receive_many(kernel_id)
        if isinstance(replies, dict):
            found += replies["y"].tolist()
        else:
            found += [r if isinstance(r, Exception) else r.y for r in replies]
    return found
