from . import errors as errors
from .actors.actor import RingKernel as RingKernel
from .actors.context import KernelContext as KernelContext
from .actors.status import KernelState as KernelState
from .actors.status import Termination as Termination
from .actors.supervision import Supervision as Supervision
from .buffers import Accelerator as Accelerator
from .buffers import BufferState as BufferState
from .buffers import ComputeOrchestrator as ComputeOrchestrator
from .buffers import DeviceProperties as DeviceProperties
from .buffers import DeviceType as DeviceType
from .buffers import KernelExecution as KernelExecution
from .buffers import KernelLaunchConfig as KernelLaunchConfig
from .buffers import MemoryPool as MemoryPool
from .buffers import PoolStatistics as PoolStatistics
from .buffers import UnifiedBuffer as UnifiedBuffer
from .buffers import configure_memory_pool as configure_memory_pool
from .buffers import get_accelerator as get_accelerator
from .buffers import get_memory_pool as get_memory_pool
from .buffers import kernel as kernel
from .definition import Definition as Definition
from .definition import RingKernelConfig as RingKernelConfig
from .definition import ring_kernel as ring_kernel
from .messages.base import RingKernelMessage as RingKernelMessage
from .messages.base import deserialize_message as deserialize_message
from .messages.base import message as message
from .messages.columns import Column as Column
from .messages.columns import columns_of as columns_of
from .messages.columns import f16 as f16
from .messages.columns import f32 as f32
from .messages.columns import f64 as f64
from .messages.columns import i8 as i8
from .messages.columns import i16 as i16
from .messages.columns import i32 as i32
from .messages.columns import i64 as i64
from .messages.columns import u8 as u8
from .messages.columns import u16 as u16
from .messages.columns import u32 as u32
from .messages.columns import u64 as u64
from .messages.columns import vector as vector
from .persistent.handler import RingBody as RingBody
from .persistent.ring import PersistentRing as PersistentRing
from .routing import Barrier as Barrier
from .runtime import RingKernelRuntime as RingKernelRuntime
from .telemetry.gpu_monitor import GPUMonitor as GPUMonitor
from .telemetry.kernel_telemetry import RingKernelTelemetry as RingKernelTelemetry

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
