"""The part of the CUDA driver's interface that the engine direct-cuda uses."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Iterator
from typing import Any

from tikgen.errors import DeviceError

# Taichi's device: the first that CUDA_VISIBLE_DEVICES leaves.
DEVICE = 0
_ON_DEVICE = 2
# Streams that the driver makes itself: legacy, per thread.
_GIVEN_STREAMS = (0, 1, 2)


@functools.cache
def driver() -> Any:
    """Return the module of bindings."""
    from cuda.bindings import driver as found

    return found


@functools.cache
def problem() -> str:
    """Return why no kernel can be launched here, or an empty string."""
    try:
        d = driver()
    except ImportError as error:
        return f"cuda-bindings is missing; pip install tikgen[cuda] ({error})"
    try:
        check(d.cuInit(0), "cuInit")
        (count,) = check(d.cuDeviceGetCount(), "cuDeviceGetCount")
    except DeviceError as error:
        return str(error)
    except Exception as error:  # The bindings find no library, each version in its own words.
        return f"there is no CUDA driver ({str(error).splitlines()[0]})"
    return "" if count else "the CUDA driver has no device"


def check(result: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Return the results of a call to the driver.

    Raises:
        DeviceError: if the driver refused it.
    """
    if result[0]:
        raise DeviceError(what, _described(result[0]))
    return result[1:]


def _described(code: Any) -> str:
    error, text = driver().cuGetErrorString(code)
    words = "" if error or text is None else f", {text.decode()}"
    return f"{getattr(code, 'name', code)}{words}"


@functools.cache
def context() -> Any:
    """Return the primary context, which Taichi, torch and CuPy share."""
    d = driver()
    check(d.cuInit(0), "cuInit")
    return check(d.cuDevicePrimaryCtxRetain(DEVICE), "cuDevicePrimaryCtxRetain")[0]


def enter() -> None:
    """Make the primary context that of this thread, if it has none.

    Raises:
        DeviceError: if it is in another one.
    """
    d = driver()
    (current,) = check(d.cuCtxGetCurrent(), "cuCtxGetCurrent")
    if not int(current or 0):
        check(d.cuCtxSetCurrent(context()), "cuCtxSetCurrent")
    elif int(current) != int(context()):
        raise DeviceError(
            "a call",
            "this thread is in the context of another library, and not in the primary context, "
            "which Taichi and torch share",
        )


def has_no_context() -> bool:
    """Return whether this thread is in no context yet."""
    return not int(check(driver().cuCtxGetCurrent(), "cuCtxGetCurrent")[0] or 0)


@functools.cache
def capability() -> tuple[int, int]:
    """Return the compute capability of the device."""
    names = ("MAJOR", "MINOR")
    major, minor = (attribute(f"COMPUTE_CAPABILITY_{name}") for name in names)
    return major, minor


@functools.cache
def attribute(name: str) -> int:
    """Return an attribute of the device."""
    d = driver()
    which = getattr(d.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(check(d.cuDeviceGetAttribute(which, DEVICE), "cuDeviceGetAttribute")[0])


def free_memory() -> int:
    """Return how many bytes of the device's memory are free."""
    enter()
    return int(check(driver().cuMemGetInfo(), "cuMemGetInfo")[0])


@contextlib.contextmanager
def unrestricted() -> Iterator[None]:
    """Enter the primary context; allow calls that must not be part of a graph being recorded."""
    enter()
    exchange = driver().cuThreadExchangeStreamCaptureMode
    (mode,) = check(exchange(_capture_mode("RELAXED")), "cuThreadExchangeStreamCaptureMode")
    try:
        yield
    finally:
        exchange(mode)


def _capture_mode(name: str) -> Any:
    return getattr(driver().CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{name}")


class Module:
    """PTX that the driver compiled for the device.

    It stays loaded: graphs that others recorded may launch it.

    Args:
        text: the PTX.

    Raises:
        DeviceError: if the driver refuses the text.
    """

    def __init__(self, text: str) -> None:
        with unrestricted():
            found = driver().cuModuleLoadData(text.encode() + b"\0")
        (self._module,) = check(found, "cuModuleLoadData")

    def function(self, name: str) -> Any:
        """Return an entry of the text."""
        return check(
            driver().cuModuleGetFunction(self._module, name.encode()), "cuModuleGetFunction"
        )[0]

    def resident_blocks(self, function: Any, block: int) -> int:
        """Return how many blocks of an entry the device holds at once."""
        ask = driver().cuOccupancyMaxActiveBlocksPerMultiprocessor
        (count,) = check(ask(function, block, 0), "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return max(1, int(count)) * attribute("MULTIPROCESSOR_COUNT")


class Memory:
    """Memory on the device, freed with the last reference.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        with unrestricted():
            (made,) = check(driver().cuMemAlloc(max(1, size)), "cuMemAlloc")
        self.address = int(made)
        self.size = size
        weakref.finalize(self, _free, self.address).atexit = False

    def read(self, address: int, stream: int) -> None:
        """Copy into it from memory of the host."""
        copy = driver().cuMemcpyHtoDAsync
        check(copy(self.address, address, self.size, stream), "cuMemcpyHtoDAsync")

    def write(self, address: int, stream: int) -> None:
        """Copy it into memory of the host."""
        copy = driver().cuMemcpyDtoHAsync
        check(copy(address, self.address, self.size, stream), "cuMemcpyDtoHAsync")


class Scratch(Memory):
    """An array of zeros on the device, for a kernel to work in.

    Args:
        shape: its extents.
        itemsize: bytes of an element.
    """

    def __init__(self, shape: tuple[int, ...], itemsize: int) -> None:
        super().__init__(math.prod(shape) * itemsize)
        self.shape = shape
        with unrestricted():
            check(driver().cuMemsetD8(self.address, 0, self.size), "cuMemsetD8")
            wait_for(0)  # Launches in other streams do not wait for the default one.


def _free(address: int) -> None:
    with contextlib.suppress(DeviceError), unrestricted():
        driver().cuMemFree(address)


def wait_for(stream: int) -> None:
    """Wait until the launches in a stream have finished."""
    check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize")


def wait_for_all() -> None:
    """Wait until the launches in all streams have finished."""
    enter()
    check(driver().cuCtxSynchronize(), "cuCtxSynchronize")


# Addresses without a problem, so that the next call need not ask the driver.
usable: set[int] = set()
_MOST_USABLE = 65536


def keep_usable(address: int) -> None:
    """Keep an address that has no :func:`memory_problem`."""
    if len(usable) >= _MOST_USABLE:
        usable.clear()
    usable.add(address)


def memory_problem(address: int) -> str:
    """Return why the device cannot use memory at an address, or an empty string."""
    d = driver()
    kinds = d.CUpointer_attribute
    error, kind = d.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
    if error or int(kind) != _ON_DEVICE:
        return "is in no memory of a CUDA device, or was freed"
    error, device = d.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    if not error and int(device) != DEVICE:
        return f"is on cuda:{int(device)}, and Taichi on cuda:{DEVICE}"
    # Pools of memory belong to no context.
    error, owner = d.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_CONTEXT, address)
    if not error and int(owner or 0) not in (0, int(context())):
        return "belongs to another context than that of Taichi and torch"
    return ""


def stream_problem(stream: int) -> str:
    """Return why no kernel can be launched in a stream, or an empty string."""
    if stream in _GIVEN_STREAMS:
        return ""
    error, owner = driver().cuStreamGetCtx(stream)[:2]
    if error:
        return f"is no stream ({_described(error)})"
    return "" if int(owner) == int(context()) else "belongs to another device or context"


def let_wait(stream: int, other: int) -> None:
    """Let later launches in a stream wait for what was launched in another one so far."""
    d = driver()
    (event,) = check(d.cuEventCreate(d.CUevent_flags.CU_EVENT_DISABLE_TIMING), "cuEventCreate")
    try:
        check(d.cuEventRecord(event, other), "cuEventRecord")
        check(d.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent")
    finally:
        d.cuEventDestroy(event)


def is_capturing(stream: int) -> bool:
    """Return whether launches in a stream are recorded for a graph instead of run."""
    (status,) = check(driver().cuStreamIsCapturing(stream), "cuStreamIsCapturing")
    return bool(int(status))


class CapturedGraph:
    """What was launched in a stream of its own while it was recorded."""

    def __init__(self) -> None:
        enter()
        d = driver()
        flags = d.CUstream_flags.CU_STREAM_NON_BLOCKING
        (made,) = check(d.cuStreamCreate(flags), "cuStreamCreate")
        self.stream = int(made)
        self._graph: Any = None
        weakref.finalize(self, d.cuStreamDestroy, made).atexit = False

    def begin(self) -> None:
        """Record what this thread launches in the stream, instead of running it."""
        d = driver()
        found = d.cuStreamBeginCapture(self.stream, _capture_mode("THREAD_LOCAL"))
        check(found, "cuStreamBeginCapture")

    def discard(self) -> None:
        """End recording, and discard what was recorded."""
        d = driver()
        error, graph = d.cuStreamEndCapture(self.stream)
        if not error and graph is not None:
            d.cuGraphDestroy(graph)

    def end(self) -> None:
        """End recording, and make a graph of what was recorded."""
        d = driver()
        (graph,) = check(d.cuStreamEndCapture(self.stream), "cuStreamEndCapture")
        try:
            # What was launched in a stream of high priority, as messages are, keeps it.
            flag = d.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
            (made,) = check(d.cuGraphInstantiate(graph, int(flag)), "cuGraphInstantiate")
        finally:
            d.cuGraphDestroy(graph)
        self._graph = made
        self._destroy = weakref.finalize(self, d.cuGraphExecDestroy, made)
        self._destroy.atexit = False

    def close(self) -> None:
        """Destroy the graph."""
        self._destroy()

    def launch(self, stream: int) -> None:
        """Launch the graph in a stream."""
        check(driver().cuGraphLaunch(self._graph, stream), "cuGraphLaunch")
