"""The documentation of actors: the README of PyDotCompute, and every page of docs/actors."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.ring import BufferState, RingKernelRuntime, ring_kernel

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "actors").glob("*.md"))
WORDS = {word for page in PAGES for word in re.findall(r"\w+", page.read_text(encoding="utf-8"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

# The blocks of PyDotCompute's README, word for word.
QUICK_START = """\
import asyncio
from pydotcompute import RingKernelRuntime, ring_kernel, message

# Define message types
@message
class ComputeRequest:
    values: list[float]

@message
class ComputeResponse:
    result: float

# Define a ring kernel actor
@ring_kernel(
    kernel_id="compute",
    input_type=ComputeRequest,
    output_type=ComputeResponse,
)
async def compute_actor(ctx):
    while not ctx.should_terminate:
        msg = await ctx.receive()
        result = sum(msg.values)
        await ctx.send(ComputeResponse(result=result))

# Use the runtime
async def main():
    async with RingKernelRuntime() as runtime:
        await runtime.launch("compute")
        await runtime.activate("compute")

        await runtime.send("compute", ComputeRequest(values=[1.0, 2.0, 3.0]))
        response = await runtime.receive("compute")

        print(f"Result: {response.result}")  # 6.0

asyncio.run(main())
"""

UNIFIED_BUFFER = """\
from pydotcompute import UnifiedBuffer
import numpy as np

buffer = UnifiedBuffer((1000,), dtype=np.float32)
buffer.allocate()

# Write on host
buffer.host[:] = np.random.randn(1000)
buffer.mark_host_dirty()

# Access on device (auto-syncs)
await buffer.ensure_on_device()
device_data = buffer.device
"""

RING_KERNELS = """\
@ring_kernel(kernel_id="processor", queue_size=4096)
async def processor(ctx):
    while not ctx.should_terminate:
        msg = await ctx.receive(timeout=0.1)
        # Process message
        await ctx.send(response)
"""

LIFECYCLE = """\
async with RingKernelRuntime() as runtime:
    # Phase 1: Launch (allocate resources)
    await runtime.launch("my_kernel")

    # Phase 2: Activate (start processing)
    await runtime.activate("my_kernel")

    # Use the kernel...

    # Deactivate (pause) or Terminate (cleanup)
    await runtime.deactivate("my_kernel")
    await runtime.reactivate("my_kernel")
"""


def ours(block: str) -> str:
    return block.replace("from pydotcompute import", "from tikgen.ring import")


async def run_block(block: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a block that may have ``await`` at its top level, and return its names."""
    code = compile(block, "<block>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.isawaitable(made):
        await asyncio.wait_for(made, 60)
    return names


def run_python(text: str, folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("[Taichi]")]


def test_the_quick_start_prints_its_result_and_exits(tmp_path: Path) -> None:
    assert run_python(ours(QUICK_START), tmp_path) == ["Result: 6.0"]


def test_the_buffer_example_copies_data_to_the_device(ti_arch: str) -> None:
    names = asyncio.run(run_block(ours(UNIFIED_BUFFER), {}))
    buffer, on_device = names["buffer"], names["device_data"].to_numpy()
    assert buffer.state is BufferState.SYNCHRONIZED
    assert on_device.shape == (1000,)
    assert len(np.unique(on_device)) > 900
    np.testing.assert_array_equal(on_device, buffer.host)
    assert (buffer.transfers.to_device, buffer.transfers.to_host) == (1, 0)
    buffer.free()


def test_the_buffer_example_runs_without_ti_init(tmp_path: Path) -> None:
    block = ours(UNIFIED_BUFFER)
    (tmp_path / "page.py").write_text(block + "print(type(device_data).__name__)", "utf-8")
    assert run_python(PROGRAM, tmp_path) == ["ScalarNdarray"]


def test_the_ring_kernel_example_survives_time_outs() -> None:
    block = RING_KERNELS.replace("# Process message", "response = ('seen', msg)")
    assert block != RING_KERNELS

    async def main() -> None:
        await run_block(block, {"ring_kernel": ring_kernel})
        async with RingKernelRuntime() as runtime:
            actor = await runtime.launch("processor")
            assert actor.config.input_queue_size == 4096
            await runtime.activate("processor")
            await runtime.send("processor", 1)
            assert await runtime.receive("processor") == ("seen", 1)
            await asyncio.sleep(0.25)  # Two time-outs without a message.
            await runtime.send("processor", 2)
            assert await runtime.receive("processor") == ("seen", 2)
            telemetry = runtime.get_telemetry("processor")
            assert telemetry is not None
            assert (telemetry.messages_processed, telemetry.error_count) == (2, 0)

    asyncio.run(asyncio.wait_for(main(), 120))


def test_the_lifecycle_example_runs_through_its_phases() -> None:
    @ring_kernel(kernel_id="my_kernel")
    async def my_kernel(ctx: Any, message: Any) -> Any:
        return message

    with tikgen.trace() as trace:
        asyncio.run(run_block(LIFECYCLE, {"RingKernelRuntime": RingKernelRuntime}))
    stages = [event.stage for event in trace.events if event.subject.name == "my_kernel"]
    expected = ["launched", "active", "deactivated", "active", "terminating", "terminated"]
    assert stages == expected


PROGRAM = """
import ast, asyncio, inspect
text = open("page.py", encoding="utf-8").read()
code = compile(text, "page.py", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def main():
    made = eval(code, {"__name__": "page"})
    if inspect.isawaitable(made):
        await made
asyncio.run(main())
"""


@pytest.mark.some
@pytest.mark.parametrize(
    "page",
    [
        # Making its kernels takes long, and test_ring_engines.py and test_ring_persistent.py do it.
        pytest.param(page, marks=pytest.mark.slow) if page.stem == "engines" else page
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_the_blocks_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    program = "\n".join(CODE.findall(page.read_text(encoding="utf-8")))
    # Taichi reads the source of a kernel from its file.
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    printed = run_python(PROGRAM, tmp_path)
    wanted = re.findall(r"print\(.*\)(?:  |\n *)# (.*)$", program, re.MULTILINE)
    assert len(wanted) > 3
    assert printed == wanted


def test_the_pages_name_everything_public() -> None:
    import tikgen.ring
    from tikgen.ring import errors
    from tikgen.ring.definition import BACKPRESSURE, ENGINE_OPTIONS, RingKernelConfig

    options = {name for names in ENGINE_OPTIONS.values() for name in names}
    fields = set(RingKernelConfig.__dataclass_fields__)
    own = {n for n, k in vars(errors).items() if getattr(k, "__module__", "") == errors.__name__}
    wanted = {*tikgen.ring.__all__, *options, *fields, *ENGINE_OPTIONS, *BACKPRESSURE, *own}
    assert wanted - WORDS == set()


def test_the_readme_example_of_actors_prints_what_it_shows(tmp_path: Path) -> None:
    program = next(code for code in CODE.findall(README) if "tikgen.ring" in code)
    printed = run_python(program, tmp_path)
    assert printed == re.findall(r"print\(.*\)  # (.*)$", program, re.MULTILINE) != []
