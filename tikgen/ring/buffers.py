"""The public names of :mod:`tikgen.buffers`, as PyDotCompute exports them."""

from tikgen.buffers.accelerator import Accelerator as Accelerator
from tikgen.buffers.accelerator import DeviceProperties as DeviceProperties
from tikgen.buffers.accelerator import DeviceType as DeviceType
from tikgen.buffers.accelerator import get_accelerator as get_accelerator
from tikgen.buffers.buffer_state import BufferState as BufferState
from tikgen.buffers.compute_kernel import kernel as kernel
from tikgen.buffers.launches import KernelExecution as KernelExecution
from tikgen.buffers.launches import KernelLaunchConfig as KernelLaunchConfig
from tikgen.buffers.memory_pool import MemoryPool as MemoryPool
from tikgen.buffers.memory_pool import PoolStatistics as PoolStatistics
from tikgen.buffers.memory_pool import configure_memory_pool as configure_memory_pool
from tikgen.buffers.memory_pool import get_memory_pool as get_memory_pool
from tikgen.buffers.orchestrator import ComputeOrchestrator as ComputeOrchestrator
from tikgen.buffers.unified_buffer import UnifiedBuffer as UnifiedBuffer
