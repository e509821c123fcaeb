"""Names of PyDotCompute that tikgen lacks, and the replacement of each."""

from __future__ import annotations

_ERRORS = "the exceptions are in tikgen.ring.errors, under the same names"
_PERSISTENT = "use engine='persistent', or PersistentRing without an event loop"
_QUEUES = "every actor has queues; see queue_size=, backpressure=, ageing= and priority"
_LOOP = "the runtime works on any event loop: uvloop.run(main()), or asyncio.run(main())"
_BUFFERS = "messages carry arrays without copying them"
_BACKENDS = "ti.init(arch=...) chooses where kernels run; Accelerator lists the devices"
_COMPILER = "tikgen.build and tikgen.from_string make kernels, and cache them in a store"
_CHECKS = "settings and messages are always checked"
_REGISTRY = "ring_kernel registers an actor for runtime.launch(name), which also takes a function"

_INSTEAD = {
    _ERRORS: (
        "exceptions PyDotComputeError KernelError KernelNotFoundError KernelStateError "
        "KernelAlreadyExistsError MessageError MessageSerializationError "
        "MessageDeserializationError QueueError QueueFullError QueueTimeoutError BufferError "
        "BufferNotAllocatedError BufferSyncError BackendError BackendNotAvailableError CUDAError "
        "MetalError MSLCompilationError CompilationError KernelCompilationError ValidationError "
        "InvalidConfigurationError TypeValidationError"
    ),
    _PERSISTENT: (
        "ThreadedRingKernel ThreadedKernelContext ThreadedKernelConfig ThreadedKernelState "
        "ThreadedKernelPool CythonRingKernel CythonKernelContext CythonKernelConfig "
        "CythonKernelState is_cython_kernel_available"
    ),
    _QUEUES: (
        "MessageQueue FastMessageQueue RingBuffer PriorityBand SyncQueue SPSCQueue "
        "BackpressureStrategy"
    ),
    _LOOP: (
        "install_uvloop install_eager_task_factory is_uvloop_available is_uvloop_installed "
        "is_eager_tasks_installed get_loop_info create_optimized_loop optimize_current_loop"
    ),
    _BUFFERS: "BufferRegistry BufferHandle get_buffer_registry register_buffer get_buffer "
    "release_buffer",
    "any message may hold arrays: @message": "ArrayMessage array_message",
    "`kernel` makes a kernel of a function of Taichi code, for every arch": "gpu_kernel",
    "tikgen.from_string makes a kernel of a text, for every arch": "cuda_source",
    _BACKENDS: (
        "Backend BackendType CPUBackend CUDABackend MetalBackend cuda_available metal_available"
    ),
    _COMPILER: "KernelCompiler KernelCache KernelRegistry get_kernel_registry",
    _CHECKS: (
        "validate_message validate_config validate_queue_size validate_grid_size "
        "validate_block_size validate_priority validate_backpressure_strategy RuntimeValidator "
        "get_validator"
    ),
    "ring_kernel takes all settings": "RingKernelBuilder",
    "runtime.kernel_scope launches, activates and ends an actor": "managed_kernel",
    _REGISTRY: (
        "register_ring_kernel get_registered_kernel get_ring_kernel_meta is_ring_kernel "
        "get_message_type"
    ),
    "runtime.collector has the telemetry of all actors": "TelemetryCollector GPUInfo",
    "everything is in tikgen.ring itself": "core ring_kernels decorators backends compilation",
}
_BY_NAME = {name: text for text, names in _INSTEAD.items() for name in names.split()}


def check_elsewhere(name: str) -> None:
    """Raise ImportError with the replacement of a name of PyDotCompute.

    The message of an AttributeError would not show in ``from tikgen.ring import name``.
    """
    if name in _BY_NAME:
        raise ImportError(f"tikgen.ring has no {name}: {_BY_NAME[name]}", name=name) from None
