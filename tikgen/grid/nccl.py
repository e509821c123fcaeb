"""NCCL beside MPI: messages from GPU to GPU between processes that MPI started."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import socket
import sys
from typing import Any

from tikgen.grid.domain import Domain
from tikgen.grid.gpus import gpu_of_torch
from tikgen.grid.memory import Tensors
from tikgen.grid.mpi import MPITransport
from tikgen.grid.processes import Processes
from tikgen.grid.torch_distributed import TorchTransport
from tikgen.grid.transports import Carrier

# A name of the process group of torch that was started here, which no other has, and its messages.
_started: tuple[str, TorchTransport] | None = None


def carrier_of(domain: Domain) -> Carrier:
    """Return what carries messages of fields: NCCL where MPI takes no memory of their GPUs.

    All processes must call it. Each needs torch and a GPU of its own, and no process may be idle.
    """
    processes = domain.processes
    if processes.size == 1 or not isinstance(processes.transport, MPITransport):
        return processes.transport
    can = _can_take_part(domain)
    told = processes.all((can, gpu_of_torch() if can else None, _started and _started[0]))
    can_all, gpus, groups = zip(*told, strict=True)
    if not all(can_all) or len({*gpus}) < len(gpus) or len({*groups}) > 1:
        return processes.transport
    if _started is None and (problem := _start(processes, len({host for host, _ in gpus}) == 1)):
        if processes.rank == 0:
            print(f"tikgen: messages go through the host: {problem}", file=sys.stderr, flush=True)
        return processes.transport
    assert _started is not None
    return _started[1]


def _can_take_part(domain: Domain) -> bool:
    """Return whether the fields of this process lie on a GPU that MPI does not take, and NCCL may.

    NCCL connects those that take part in its first messages, and waits for all others.
    """
    processes = domain.processes
    if not isinstance(domain.memory, Tensors) or processes.transport.takes_device:
        return False
    distributed = importlib.import_module("torch.distributed")
    if not distributed.is_available() or not distributed.is_nccl_available():
        return False
    is_of_others = distributed.is_initialized() and _started is None
    return not is_of_others and domain.decomposition.count == processes.size


def _start(processes: Processes, is_one_host: bool) -> str:
    """Start a process group of torch; return why that failed, on all processes."""
    global _started
    torch = importlib.import_module("torch")
    distributed = torch.distributed
    host = "127.0.0.1" if is_one_host else socket.gethostname()
    problem, store, made = "", None, None
    if processes.rank == 0:
        try:
            store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        except (OSError, RuntimeError) as error:
            problem = str(error)
    problem, host, port = processes.shared((problem, host, store.port if store else 0))
    if problem:
        return str(problem)
    try:
        if store is None:
            store = distributed.TCPStore(host, port, is_master=False)
        distributed.init_process_group(
            "nccl",
            store=store,
            rank=processes.rank,
            world_size=processes.size,
            device_id=torch.device("cuda:0"),
        )
        made = TorchTransport(distributed)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problems := [str(each) for each in processes.all(problem) if each]:
        _end(distributed)
        return problems[0]
    assert made is not None
    _started = f"{host} {port}", made
    atexit.register(_end, distributed)
    return ""


def _end(distributed: Any) -> None:
    if distributed.is_initialized():
        with contextlib.suppress(RuntimeError, ValueError):
            distributed.destroy_process_group()
