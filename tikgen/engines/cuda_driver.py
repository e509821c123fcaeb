"""The part of the CUDA driver's interface that the engine direct-cuda uses."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from tikgen.errors import DeviceError

# Taichi's device: the first that CUDA_VISIBLE_DEVICES leaves.
DEVICE = 0
_ON_DEVICE = 2
_INVALID_CONTEXT, _DEINITIALISED = 201, 4
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
    """Make the primary context that of this thread."""
    check(driver().cuCtxSetCurrent(context()), "cuCtxSetCurrent")


def is_foreign_context(code: Any) -> bool:
    """Return whether a call failed because this thread is in no context, or in another one."""
    if int(code) == _INVALID_CONTEXT:
        return True
    error, current = driver().cuCtxGetCurrent()
    return not error and int(current) != int(context())


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


class Module:
    """PTX that the driver compiled for the device; unloaded with the last reference.

    Args:
        text: the PTX.

    Raises:
        DeviceError: if the driver refuses the text.
    """

    def __init__(self, text: str) -> None:
        enter()
        d = driver()
        (self._module,) = check(d.cuModuleLoadData(text.encode() + b"\0"), "cuModuleLoadData")
        weakref.finalize(self, _unload, self._module).atexit = False

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


def _unload(module: Any) -> None:
    # Launches under way end first; a graph that was captured keeps its own reference.
    driver().cuModuleUnload(module)


class Memory:
    """Memory on the device, freed with the last reference.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        enter()
        (made,) = check(driver().cuMemAlloc(size), "cuMemAlloc")
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


def _free(address: int) -> None:
    driver().cuMemFree(address)


def wait_for(stream: int) -> None:
    """Wait until the launches in a stream have finished."""
    check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize")


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
        mode = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(d.cuStreamBeginCapture(self.stream, mode), "cuStreamBeginCapture")

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
            (self._graph,) = check(d.cuGraphInstantiate(graph, 0), "cuGraphInstantiate")
        finally:
            d.cuGraphDestroy(graph)
        weakref.finalize(self, d.cuGraphExecDestroy, self._graph).atexit = False

    def launch(self, stream: int) -> None:
        """Launch the graph in a stream."""
        check(driver().cuGraphLaunch(self._graph, stream), "cuGraphLaunch")
