"""Programs for PyDotCompute: its quick start, its names, its exceptions."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tikgen.ring
from ring_samples import echo
from tikgen.errors import KernelCompileError, TikgenError
from tikgen.ring import RingKernelMessage, errors, message, ring_kernel
from tikgen.ring.elsewhere import _BY_NAME
from tikgen.ring.errors import InvalidConfigurationError

# The program of its page "Quick Start", without comments.
QUICK_START = """\
import asyncio
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from pydotcompute import RingKernelRuntime, ring_kernel, message

@message
@dataclass
class GreetRequest:
    name: str = ""
    message_id: UUID = field(default_factory=uuid4)
    priority: int = 128
    correlation_id: UUID | None = None

@message
@dataclass
class GreetResponse:
    greeting: str = ""
    message_id: UUID = field(default_factory=uuid4)
    priority: int = 128
    correlation_id: UUID | None = None

@ring_kernel(kernel_id="greeter")
async def greeter_actor(ctx):
    print("[greeter] Actor started!")

    while not ctx.should_terminate:
        if not ctx.is_active:
            await ctx.wait_active()
            continue

        try:
            request = await ctx.receive(timeout=0.1)
            greeting = f"Hello, {request.name}! Welcome to PyDotCompute."
            response = GreetResponse(
                greeting=greeting,
                correlation_id=request.message_id,
            )
            await ctx.send(response)

        except Exception:
            continue

    print("[greeter] Actor terminated.")

async def main():
    async with RingKernelRuntime() as runtime:
        await runtime.launch("greeter")
        await runtime.activate("greeter")
        await asyncio.sleep(0.1)
        await runtime.send("greeter", GreetRequest(name="Developer"))
        response = await runtime.receive("greeter", timeout=60.0)
        print(f"\\n>>> {response.greeting}\\n")

    print("=== Done! ===")

if __name__ == "__main__":
    asyncio.run(main())
"""

# The exports of the modules of version 0.2.0.
NAMES = {
    "": "Accelerator UnifiedBuffer BufferState MemoryPool ComputeOrchestrator RingKernelRuntime "
    "RingKernelMessage kernel gpu_kernel ring_kernel message",
    "ring_kernels": "RingKernel KernelState ArrayMessage array_message MessageQueue "
    "FastMessageQueue RingBuffer PriorityBand BufferRegistry BufferHandle get_buffer_registry "
    "register_buffer get_buffer release_buffer RingKernelTelemetry GPUMonitor install_uvloop "
    "install_eager_task_factory is_uvloop_available is_uvloop_installed is_eager_tasks_installed "
    "get_loop_info create_optimized_loop optimize_current_loop ThreadedRingKernel "
    "ThreadedKernelContext ThreadedKernelConfig ThreadedKernelState ThreadedKernelPool SyncQueue "
    "SPSCQueue CythonRingKernel CythonKernelContext CythonKernelConfig CythonKernelState "
    "is_cython_kernel_available",
    "ring_kernels, by module": "RingKernelConfig KernelContext managed_kernel register_ring_kernel "
    "get_registered_kernel BackpressureStrategy get_message_type deserialize_message GPUInfo "
    "TelemetryCollector",
    "core, by module": "DeviceType DeviceProperties get_accelerator cuda_available metal_available "
    "PoolStatistics get_memory_pool configure_memory_pool KernelLaunchConfig KernelExecution",
    "decorators": "validate_message validate_config validate_queue_size validate_grid_size "
    "validate_block_size validate_priority validate_backpressure_strategy RuntimeValidator "
    "get_validator get_ring_kernel_meta is_ring_kernel RingKernelBuilder cuda_source "
    "KernelRegistry get_kernel_registry",
    "backends": "Backend BackendType CPUBackend CUDABackend MetalBackend",
    "compilation": "KernelCache KernelCompiler",
}
EXCEPTIONS = """
    PyDotComputeError KernelError KernelNotFoundError KernelStateError KernelAlreadyExistsError
    MessageError MessageSerializationError MessageDeserializationError QueueError QueueFullError
    QueueTimeoutError BufferError BufferNotAllocatedError BufferSyncError BackendError
    BackendNotAvailableError CUDAError MetalError MSLCompilationError CompilationError
    KernelCompilationError ValidationError InvalidConfigurationError TypeValidationError
"""


def test_the_quick_start_of_pydotcompute_prints_its_output(tmp_path: Path) -> None:
    program = QUICK_START.replace("from pydotcompute import", "from tikgen.ring import")
    (tmp_path / "hello_actor.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "hello_actor.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [
        "[greeter] Actor started!",
        "",
        ">>> Hello, Developer! Welcome to PyDotCompute.",
        "",
        "[greeter] Actor terminated.",
        "=== Done! ===",
        "",
    ]


@pytest.mark.parametrize("module", NAMES)
def test_each_name_exists_or_its_import_names_the_replacement(module: str) -> None:
    for name in NAMES[module].split():
        if name in tikgen.ring.__all__:
            continue
        with pytest.raises(ImportError, match=rf"tikgen\.ring has no {name}: \S+") as caught:
            exec(f"from tikgen.ring import {name}")
        assert caught.value.name == name and len(str(caught.value)) > 40 + len(name)
        assert caught.value.__suppress_context__


def test_replaced_names_do_not_exist() -> None:
    assert not set(_BY_NAME) & set(tikgen.ring.__all__)
    for name in _BY_NAME:  # A module of that name would hide the replacement.
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"tikgen.ring.{name}")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from tikgen.ring import nothing")
    assert not hasattr(tikgen.ring, "nothing")
    exec("from tikgen.ring import errors, runtime, routing")


def test_the_exceptions_of_pydotcompute_are_errors_of_tikgen() -> None:
    for name in EXCEPTIONS.split():
        assert issubclass(getattr(errors, name), TikgenError), name
    assert issubclass(errors.BackendNotAvailableError, errors.BackendError)
    assert issubclass(errors.InvalidConfigurationError, errors.ValidationError)
    assert issubclass(errors.TypeValidationError, errors.ValidationError)
    assert issubclass(errors.KernelFailed, errors.PyDotComputeError)
    assert issubclass(KernelCompileError, errors.CompilationError)


def test_dataclass_on_a_message_raises_with_advice() -> None:
    @message
    class Made:
        n: int = 0

    for base in (RingKernelMessage, Made):
        for decorate in (dataclass, dataclass(), dataclass(frozen=True)):
            with pytest.raises(TypeError, match=r"is a message already.*leave out @dataclass"):
                decorate(type("Request", (base,), {"__annotations__": {"x": int}, "x": 0}))

    class Right(RingKernelMessage):
        x: int = 0

    @message
    @dataclass
    class Also:
        x: int = 0

    assert Right(x=1).x == Also(x=1).x == 1
    assert not hasattr(Right, "__dataclass_fields__")


@pytest.mark.parametrize("name", ["grid_size", "block_size"])
def test_the_size_of_a_grid_belongs_to_a_schedule(name: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="schedule") as caught:
        ring_kernel(kernel_id="a", auto_register=False, **{name: 4})(echo)
    assert "queue_size" not in str(caught.value)
