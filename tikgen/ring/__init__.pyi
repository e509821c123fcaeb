from . import errors
from .actors.actor import RingKernel
from .actors.barriers import Barrier
from .actors.context import KernelContext
from .actors.states import KernelState, Termination
from .actors.supervision import Supervision
from .buffers.accelerator import Accelerator, get_accelerator
from .buffers.buffer_state import BufferState
from .buffers.devices import DeviceProperties, DeviceType
from .buffers.executions import KernelExecution, KernelLaunchConfig
from .buffers.memory_pool import MemoryPool, configure_memory_pool, get_memory_pool
from .buffers.orchestrator import ComputeOrchestrator
from .buffers.pool_statistics import PoolStatistics
from .buffers.unified_buffer import UnifiedBuffer
from .compute_kernel import kernel
from .definition import Definition, RingKernelConfig, ring_kernel
from .messages.base import RingKernelMessage, deserialize_message, message
from .messages.columns import (
    Column,
    columns_of,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    vector,
)
from .persistent.handler import RingBody
from .persistent.ring import PersistentRing
from .runtime import RingKernelRuntime
from .telemetry.gpu_monitor import GPUMonitor
from .telemetry.kernel_telemetry import RingKernelTelemetry

__all__ = [
    "Accelerator",
    "Barrier",
    "BufferState",
    "Column",
    "ComputeOrchestrator",
    "Definition",
    "DeviceProperties",
    "DeviceType",
    "GPUMonitor",
    "KernelContext",
    "KernelExecution",
    "KernelLaunchConfig",
    "KernelState",
    "MemoryPool",
    "PersistentRing",
    "PoolStatistics",
    "RingBody",
    "RingKernel",
    "RingKernelConfig",
    "RingKernelMessage",
    "RingKernelRuntime",
    "RingKernelTelemetry",
    "Supervision",
    "Termination",
    "UnifiedBuffer",
    "columns_of",
    "configure_memory_pool",
    "deserialize_message",
    "errors",
    "f16",
    "f32",
    "f64",
    "get_accelerator",
    "get_memory_pool",
    "i8",
    "i16",
    "i32",
    "i64",
    "kernel",
    "message",
    "ring_kernel",
    "u8",
    "u16",
    "u32",
    "u64",
    "vector",
]
