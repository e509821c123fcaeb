"""Streams and graphs of the engine direct-cuda."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tikgen.engines import cuda_driver
from tikgen.errors import ArgumentError, DeviceError


class _Local(threading.local):
    """What a thread chose: a stream, and a list that holds the arrays of each recorded launch."""

    stream: int | None = None
    recorded: list[Any] | None = None


local = _Local()
# Those that exist.
graphs: weakref.WeakSet[Graph] = weakref.WeakSet()
_torch: Callable[[int], int] | None = None


def current_stream() -> int:
    """Return the stream in which this thread launches.

    It is that of :func:`on_stream`, else torch's current one, else the default stream, in which
    Taichi launches. Torch's current stream is the default stream unless it was changed.
    """
    if local.stream is not None:
        return local.stream
    if _torch is not None:
        return _torch(cuda_driver.DEVICE)
    return _look_for_torch()


def taichi_stream() -> int:
    """Return the stream of :func:`on_stream`, else the default stream, in which Taichi launches."""
    return local.stream or 0


def keep(*held: Any) -> None:
    """Have the graph that is being recorded, if one is, keep what its launches use."""
    if local.recorded is not None:
        local.recorded.append(held)


def _look_for_torch() -> int:
    global _torch
    torch = sys.modules.get("torch")
    # While torch is being imported it has no attribute cuda.
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return 0
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # type: ignore[union-attr]
    _torch = quick or (lambda device: int(cuda.current_stream(device).cuda_stream))
    return _torch(cuda_driver.DEVICE)


def wait_for_current() -> None:
    """Wait until the launches in this thread's stream have finished."""
    cuda_driver.enter()
    cuda_driver.wait_for(current_stream())


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Launch kernels of the engine direct-cuda in a stream, within a ``with`` statement.

    Args:
        stream: a stream of torch, CuPy or cuda-core, or the address of one.

    Raises:
        ArgumentError: if it is no stream, or one of another device or context.
    """
    handle = _handle(stream)
    cuda_driver.enter()
    if problem := cuda_driver.stream_problem(handle):
        raise ArgumentError("on_stream", f"the stream {problem}")
    before, local.stream = local.stream, handle
    try:
        yield
    finally:
        local.stream = before


def _handle(stream: Any) -> int:
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    raise ArgumentError("on_stream", f"takes a CUDA stream; got {type(stream).__name__}")


class Graph:
    """Launches that a GPU repeats with a single call.

    Args:
        launches: kernels bound with the engine direct-cuda, or functions that launch such kernels,
            or :func:`keep` what else they launch in the current stream, and do nothing else on the
            device. Each is called once, and not run but recorded, with the arguments that it has
            now. The graph keeps their arrays.

    Attributes:
        kept: what its launches use.

    Raises:
        ArgumentError: if one of them launches nothing by direct-cuda, or takes NumPy arrays.
        DeviceError: if the driver refuses to record it.
    """

    def __init__(self, launches: Sequence[Callable[[], Any]]) -> None:
        if not launches:
            raise ArgumentError("Graph", "takes at least one launch")
        self._graph = cuda_driver.CapturedGraph()
        self.kept: list[Any] = []
        self._closed = ""
        before, local.stream = local.stream, self._graph.stream
        local.recorded, above = self.kept, local.recorded
        self._graph.begin()
        try:
            for number, launch in enumerate(launches):
                so_far = len(self.kept)
                launch()
                if len(self.kept) == so_far:
                    problem = f"launch {number} launches nothing by the engine 'direct-cuda'"
                    raise ArgumentError("Graph", problem)
        except BaseException:
            self._graph.discard()
            raise
        finally:
            local.stream, local.recorded = before, above
        self._graph.end()
        graphs.add(self)

    def close(self, why: str) -> None:
        """Free it; ``why`` is what a later launch says."""
        if not self._closed:
            self._closed = why
            self._graph.close()
            self.kept.clear()

    def __call__(self) -> None:
        """Launch all of it once, in the current stream."""
        if self._closed:
            raise DeviceError("a graph", self._closed)
        stream = current_stream()
        try:
            self._graph.launch(stream)
        except DeviceError:
            cuda_driver.enter()  # In a new thread there is no context.
            self._graph.launch(stream)
