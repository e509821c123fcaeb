"""The transport torch.distributed: NCCL between GPUs, gloo between hosts."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.engines import cuda_streams
from tikgen.errors import GridError
from tikgen.grid.boxes import Message
from tikgen.grid.transports import Requests, Transport

NDArray = npt.NDArray[Any]


def is_group(comm: Any) -> bool:
    """Return whether something is the module ``torch.distributed``, or a process group of it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None:
        return False
    return comm is distributed or isinstance(comm, getattr(distributed, "ProcessGroup", ()))


class TorchTransport(Transport):
    """Messages of a process group of torch.

    With the backend NCCL, messages stay on the GPUs, and gloo carries what belongs to the host.

    Args:
        comm: the module ``torch.distributed``, whose default group is meant, or a process group.

    Raises:
        GridError: if there is no process group, or it has another backend.
    """

    def __init__(self, comm: Any) -> None:
        torch = sys.modules["torch"]
        self._torch, self._distributed = torch, torch.distributed
        if not torch.distributed.is_initialized():
            raise GridError(
                "torch.distributed has no process group yet; call "
                "torch.distributed.init_process_group('nccl') or ('gloo') first"
            )
        group = torch.distributed.group.WORLD if comm is torch.distributed else comm
        self._group = group
        backend = str(torch.distributed.get_backend_config(group))
        if "nccl" not in backend and "gloo" not in backend:
            raise GridError(f"the backends nccl and gloo of torch.distributed work; got {backend}")
        self.takes_device = self.needs_own_gpu = self.follows_streams = "nccl" in backend
        self.name = "NCCL" if self.takes_device else "gloo"
        self.rank = torch.distributed.get_rank(group)
        self.size = torch.distributed.get_world_size(group)
        self._ranks = torch.distributed.get_process_group_ranks(group)
        self._host = group
        if self.takes_device:
            self._host, self._group = _own_groups(group)
            _close_graphs_first(torch.distributed)

    def all(self, value: Any, awaited: str = "") -> list[Any]:
        """Return the values that the processes have, in their order."""
        found: list[Any] = [None] * self.size
        self._distributed.all_gather_object(found, value, group=self._host)
        return found

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""
        found = [value]
        self._distributed.broadcast_object_list(found, self._ranks[0], group=self._host)
        return found[0]

    def all_bytes(self, own: NDArray, every: NDArray, awaited: str = "") -> None:
        """Write the bytes that each process has behind each other into ``every``."""
        parts = list(self._tensor(every).view(self.size, -1))
        self._distributed.all_gather(parts, self._tensor(own), group=self._host)

    def send(self, array: NDArray, other: int) -> None:
        """Send a contiguous array of the host to another process."""
        self._distributed.send(self._tensor(array), self._ranks[other], group=self._host)

    def receive(self, array: NDArray, other: int) -> None:
        """Receive a contiguous array of the host from another process."""
        self._distributed.recv(self._tensor(array), self._ranks[other], group=self._host)

    def requests(self, messages: Sequence[tuple[Message, Any]]) -> Requests:
        """Return messages that can be repeated; NCCL matches those of two processes by order."""
        ordered = sorted(messages, key=lambda pair: (pair[0].tag, pair[0].is_sent))
        operations = []
        for message, buffer in ordered:
            act = self._distributed.isend if message.is_sent else self._distributed.irecv
            on_device = hasattr(buffer, "data_ptr")
            tensor = buffer if on_device else self._tensor(buffer)
            group = self._group if on_device else self._host
            other = self._ranks[message.other]
            operations.append(
                self._distributed.P2POp(act, tensor, other, group=group, tag=message.tag)
            )
        return (_StreamBatch if self.follows_streams else _Batch)(self._torch, operations)

    def _tensor(self, array: NDArray) -> Any:
        """Return a tensor of the bytes of a contiguous array."""
        return self._torch.from_numpy(array.reshape(-1).view(np.uint8))

    def end(self, status: int) -> None:
        """End this process with an exit status; the others find their connections closed."""
        os._exit(status)


class _Batch:
    """Messages that torch.distributed starts together.

    Args:
        torch: the module.
        operations: what to send and to receive.
    """

    def __init__(self, torch: Any, operations: list[Any]) -> None:
        self._torch, self._operations = torch, operations
        self._works: list[Any] = []

    def start(self) -> None:
        """Begin to send and to receive."""
        if self._operations:
            self._works = self._torch.distributed.batch_isend_irecv(self._operations)

    def wait(self) -> None:
        """Wait until all is sent and received."""
        for work in self._works:
            work.wait()
        self._works = []


class _StreamBatch(_Batch):
    """Messages of NCCL, which are part of the stream in which kernels are launched."""

    def start(self) -> None:
        """Have the stream send and receive beside what it does next."""
        with self._in_stream():
            super().start()

    def wait(self) -> None:
        """Have the stream wait until all is sent and received."""
        with self._in_stream():
            super().wait()

    @contextlib.contextmanager
    def _in_stream(self) -> Iterator[None]:
        """Have torch use the stream of launches, which is that of a graph being recorded."""
        cuda = self._torch.cuda
        cuda_streams.keep(self)
        if (stream := cuda_streams.local.stream) is None:
            yield
            return
        with cuda.stream(cuda.ExternalStream(stream)):
            yield


@functools.cache
def _own_groups(group: Any) -> tuple[Any, Any]:
    """Return a group of gloo and one of NCCL with the processes of a group; all of them ask."""
    distributed = sys.modules["torch"].distributed
    ranks = distributed.get_process_group_ranks(group)
    here = {"ranks": ranks, "use_local_synchronization": True}
    host = distributed.new_group(backend="gloo", **here)
    if len(ranks) < distributed.get_world_size():
        return host, group  # NCCL may split that of all processes, which takes all of them.
    # Messages that travel beside a kernel would wait until it leaves multiprocessors idle.
    first = distributed.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    device = distributed.new_group(backend="nccl", pg_options=first, **here)
    return host, device


@functools.cache
def _close_graphs_first(distributed: Any) -> None:
    """Have torch end NCCL after the graphs that hold messages; it would wait for them forever."""
    destroy = distributed.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> None:
        for graph in list(cuda_streams.graphs):
            if any(isinstance(each, _StreamBatch) for held in graph.kept for each in held):
                graph.close("its messages are those of a process group that was destroyed")
        destroy(*args, **kwargs)

    distributed.destroy_process_group = destroy_process_group
