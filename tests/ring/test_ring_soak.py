"""The soak test of actors, in a short form, and a proof that it finds errors."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "ring_soak.py"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the soak test."""
    monkeypatch.syspath_prepend(str(SOAK.parent))
    import ring_soak

    return ring_soak


def begin(seconds: float, *options: str) -> subprocess.Popen[str]:
    """Start a soak in a child process."""
    return subprocess.Popen(
        [sys.executable, "-u", str(SOAK), "--seconds", str(seconds), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--host-only",),
        # Making its kernels takes long; test_ring_engines.py accounts for the messages of each.
        pytest.param((), marks=pytest.mark.slow),
    ],
    ids=["host", "all"],
)
def test_every_message_of_a_mixed_load_is_accounted_for(
    options: tuple[str, ...], soak: Any
) -> None:
    running = begin(2, *options)
    try:
        told, _ = running.communicate(timeout=400)
    finally:
        running.kill()
    assert running.returncode == 0, told
    assert "all accounted for" in told and "Traceback" not in told and "never" not in told
    assert all(load in told for load in soak.LOADS)
    assert options or all(load in told for load in soak.KERNEL_LOADS)


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to a child")
def test_an_interrupt_ends_the_soak_with_its_report(tmp_path: Path) -> None:
    running = begin(1000, "--seed", "7", "--host-only")
    try:
        assert running.stdout is not None
        while "begun" not in (line := running.stdout.readline()):
            assert line, "it ended before it began"
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        told, _ = running.communicate(timeout=240)
    finally:
        running.kill()
    assert running.returncode == 0, told
    assert "seed 7" in told and "all accounted for" in told


async def _loses_a_reply(soak: Any, name: str) -> None:
    async def body(ctx: Any, job: Any) -> Any:
        return type(job)(job.n)  # Not twice the number.

    await soak.start(name, body)
    await soak.request(name, name, 3, timeout=5)


async def _counts_wrong(soak: Any, name: str) -> None:
    async def body(ctx: Any, job: Any) -> None:
        ctx.telemetry.messages_processed -= 1

    await soak.start(name, body)
    await soak.runtime.send(name, sys.modules["ring_soak"].Job())
    await asyncio.sleep(0)


async def _leaves_an_exception(soak: Any, name: str) -> None:
    async def bad() -> None:
        raise ValueError("unseen")

    await soak.start(name, lambda ctx, job: None)
    asyncio.ensure_future(bad())  # noqa: RUF006
    await asyncio.sleep(0.05)


async def _fails(soak: Any, name: str) -> None:
    raise KeyError("a load that fails")


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (_loses_a_reply, "misdelivered"),
        (_counts_wrong, "1 came"),
        (_leaves_an_exception, "unseen"),
        (_fails, "a load that fails"),
    ],
)
def test_the_soak_finds_errors(
    load: Any, expected: str, soak: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak.random.Random, "random", lambda self: 0.99)
    found = asyncio.run(asyncio.wait_for(soak.soaked(0.3, 1, {"load": load}), 120))
    assert any(expected in problem for problem in found.problems), found.problems


def test_the_soak_finds_growing_memory(soak: Any) -> None:
    told = soak.Soak.__new__(soak.Soak)
    for growth, is_wrong in ((0, False), (10_000, False), (200_000, True)):
        told.problems = []
        told.memory = [5_000_000 + growth * n for n in range(60)]
        told.check_memory(600.0)
        assert bool(told.problems) is is_wrong


def test_the_soak_reports_no_false_problems(soak: Any) -> None:
    logging.getLogger("tikgen.ring").setLevel(logging.CRITICAL)
    try:
        loads = {name: soak.LOADS[name] for name in ("asking", "flood block", "passing")}
        found = asyncio.run(asyncio.wait_for(soak.soaked(0.5, 3, loads), 120))
    finally:
        logging.getLogger("tikgen.ring").setLevel(logging.NOTSET)
    assert found.problems == []
