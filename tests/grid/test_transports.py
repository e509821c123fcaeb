"""Transports beside MPI, and fields on a device: bits are those of one process."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ranks
import tikgen
from cases import CASES
from tikgen.engines import cuda_streams
from tikgen.errors import GridError
from tikgen.grid import gpus, mpi, nccl, processes, torch_distributed
from tikgen.grid.boxes import Message
from tikgen.grid.memory import Host, Memory, TaichiArrays, Tensors

HERE = Path(__file__).parent


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_torch_carries_the_bits_that_mpi_carries(count: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = [
        subprocess.Popen(
            [sys.executable, str(HERE / "by_torch.py"), str(tmp_path), str(rank), str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=300) for process in found]
    assert not any(process.returncode for process in found), "".join(said[-1])[-3000:] + said[0][1]
    assert sum("all is refused" in out for out, _ in said) == count
    lines = [line for line in said[0][0].splitlines() if line.endswith("differs")]
    assert lines
    assert all(line.endswith(": nothing differs") for line in lines), lines


@pytest.mark.parametrize("backend", ["nccl", "gloo", "mpi"])
def test_gpus_of_one_host_compute_the_same_bits(backend: str, ti_arch: str) -> None:
    if ti_arch != "cuda":
        pytest.skip("GPUs are for cuda")
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*torchrun, "--standalone", str(HERE / "on_gpus.py"), backend]
    if backend == "mpi":
        command = ranks.command(2, "on_gpus.py", backend)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "messages by NCCL" in done.stdout or backend != "mpi"
    lines = [line for line in done.stdout.splitlines() if line.endswith("differs")]
    assert len(lines) == 10, done.stdout
    assert all(line.endswith(": nothing differs") for line in lines), lines


@pytest.mark.parametrize("kind", ["taichi", "torch"])
def test_parcels_of_a_device_hold_what_those_of_the_host_hold(
    kind: str, ti_arch: str, rng: np.random.Generator
) -> None:
    memory: Memory = TaichiArrays()
    if kind == "torch":
        pytest.importorskip("torch")
        if ti_arch == "vulkan":
            pytest.skip("tensors of torch lie on the host or on cuda")
        memory = Tensors("cuda:0" if ti_arch == "cuda" else "cpu")
    whole = [rng.random((5, 6, 7), np.float32), rng.random((3, 4)), np.arange(9, dtype=np.int32)]
    apart = [(1, 3), (0, 6), (2, 5)], [(0, 3), (1, 2)], [(3, 8)]
    for chosen in ((0, 1, 2), (1,), (2,)):
        pieces = tuple((number, apart[number]) for number in chosen)
        held = [memory.holding(array) for array in whole]
        others = [memory.holding(np.zeros_like(array)) for array in whole]
        sent = memory.parcel(Message(1, 0, True, pieces), held, False)
        received = memory.parcel(Message(0, 0, False, pieces), others, False)
        on_host = Host().parcel(Message(1, 0, True, pieces), whole, False)
        for parcel in (sent, on_host):
            parcel.pack()
        if mark := memory.mark():
            mark.set()
            mark.wait()
        np.testing.assert_array_equal(sent.buffer, on_host.buffer)
        received.buffer[...] = sent.buffer
        received.unpack()
        for number, (array, other) in enumerate(zip(whole, others, strict=True)):
            wanted = np.zeros_like(array)
            if number in chosen:
                place = tuple(slice(*each) for each in apart[number])
                wanted[place] = array[place]
            everything = (slice(None),) * array.ndim
            np.testing.assert_array_equal(memory.read(other, everything), wanted)


@pytest.mark.usefixtures("without_fast_math")
def test_processes_with_fields_on_the_device_compute_the_same_bits(
    ti_arch: str, tmp_path: Path
) -> None:
    if ti_arch == "cpu":
        pytest.skip("cpu has no device")
    done = ranks.run(2, "on_device.py", str(tmp_path), ti_arch)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("nothing differs") == 2, done.stdout


@pytest.mark.usefixtures("without_fast_math")
def test_one_process_with_fields_on_the_device(ti_arch: str, tmp_path: Path) -> None:
    if ti_arch == "cpu":
        pytest.skip("cpu has no device")
    case = CASES["mixed"]
    grid = tikgen.Grid(case.shape, device=True)
    values = np.random.default_rng(1).random(case.shape, np.float32)
    field = grid.field(values)
    assert not isinstance(field.array, np.ndarray)
    np.testing.assert_array_equal(field.to_numpy(), values)
    field.from_numpy(values + 1)
    np.testing.assert_array_equal(grid.gather(field), values + 1)
    grid.scatter(field, values)
    np.testing.assert_array_equal(grid.gather(field), values)
    if ti_arch == "vulkan":
        with pytest.raises(GridError, match=r"no views; take field\.to_numpy"):
            field.owned[...] = 3
    # Values over a face are taken before each run and after each call.
    boundary = {"x": tikgen.dirichlet("inflow"), "y": "clamp"}
    move = tikgen.update("u' = u[-1, 0]", dim=2, boundary=boundary)
    inflow, other = np.zeros(case.shape[1], np.float32), grid.zeros()
    step = grid.bind(move, u=field, u_next=other, inflow=inflow)
    program = tikgen.Program([step, grid.swap((field, other))], u=field, inflow=inflow)
    inflow[:] = 3
    program.run(2, every=1, call=lambda program: inflow.__iadd__(1))
    assert program["u"][:2, 0].tolist() == [4, 3]
    step()
    assert other.to_numpy()[0, 0] == 5


def test_a_process_chooses_a_gpu_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_numbers", lambda: ["0", "1", "2"])
    for name in gpus._NUMBERS:
        monkeypatch.delenv(name, raising=False)
    for local, visible, chosen in [
        ("1", None, "1"),
        ("4", None, "1"),
        ("1", "7,5", "5"),
        ("0", "GPU-8a", "GPU-8a"),
        ("0", "", None),
    ]:
        monkeypatch.setenv("MPI_LOCALRANKID", local)
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert tikgen.choose_gpu() == chosen
        assert (os.environ.get("CUDA_VISIBLE_DEVICES") or None) == chosen
    monkeypatch.setattr(gpus.runtime, "current_arch", lambda: "cuda")
    with pytest.raises(GridError, match="too late: Taichi uses a GPU already"):
        tikgen.choose_gpu()


def test_processes_of_nccl_that_share_a_gpu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(processes.Alone):
        name, needs_own_gpu = "NCCL", True
        size = 3

        def all(self, value: object, awaited: str = "") -> list[object]:
            return ["one", "other", "one"]

    monkeypatch.setattr(gpus, "gpu_of_torch", lambda: ("here", "one"))
    found = processes.Processes(Shared())
    with pytest.raises(GridError, match="NCCL needs a GPU for each process, and ranks 0 and 2"):
        gpus.check_own_gpu(found)


def test_processes_end_all_without_an_error_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(processes.Alone):
        has_ended = False

        def end(self, status: int) -> None:
            self.has_ended = status == 1

    transport = Ending()
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    processes.Processes(transport).end()
    assert transport.has_ended


def test_processes_of_mpi_take_nccl_if_all_can(monkeypatch: pytest.MonkeyPatch) -> None:
    class Told(mpi.MPITransport):
        size = 2

        def __init__(self, other: tuple[bool, object, object]) -> None:
            self.other = other

        def all(self, value: object, awaited: str = "") -> list[object]:
            return [value, self.other]

    started = ("here 1", object())
    monkeypatch.setattr(nccl, "_can_take_part", lambda domain: True)
    monkeypatch.setattr(nccl, "gpu_of_torch", lambda: ("here", "one"))
    monkeypatch.setattr(nccl, "_started", started)
    domain = tikgen.Grid(8, device=False)._domain
    for other, takes in {
        (True, ("here", "two"), "here 1"): True,
        (True, ("there", "one"), "here 1"): True,
        (False, None, "here 1"): False,
        (True, ("here", "one"), "here 1"): False,
        (True, ("here", "two"), "here 2"): False,
        (True, ("here", "two"), None): False,
    }.items():
        transport = Told(other)
        transport.rank = 0
        monkeypatch.setattr(domain, "processes", processes.Processes(transport))
        assert nccl.carrier_of(domain) is (started[1] if takes else transport)


def test_processes_of_torchrun_name_their_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(GridError, match=r"started 3 processes.*comm=torch.distributed"):
        tikgen.Grid(8)


@pytest.mark.parametrize("name", ["device", "overlap"])
def test_options_are_true_or_false(name: str) -> None:
    with pytest.raises(GridError, match=f"{name} takes True, False or None; got 'yes'"):
        tikgen.Grid(8, **{name: "yes"})


class Recorded:
    """A communicator that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def Dup(self) -> Recorded:  # noqa: N802
        return self

    def Ibarrier(self) -> Any:  # noqa: N802
        from mpi4py import MPI

        return MPI.REQUEST_NULL

    def Get_rank(self) -> int:  # noqa: N802
        return 0

    def Get_size(self) -> int:  # noqa: N802
        return 2

    def Send(self, buffer: Any, _: int) -> None:  # noqa: N802
        self.sent.append(buffer)

    Recv = Send


def test_messages_are_bytes_as_not_every_mpi_knows_halves() -> None:
    MPI = pytest.importorskip("mpi4py.MPI")  # noqa: N806
    comm = Recorded()
    transport = mpi.MPITransport(comm)
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    transport.send(array, 1)
    transport.receive(array, 1)
    for buffer, datatype in comm.sent:
        assert datatype == MPI.BYTE
        assert np.shares_memory(buffer, array)
        assert buffer.nbytes == array.nbytes


@pytest.mark.parametrize(("in_streams", "points"), [(True, 1 << 20), (False, 1 << 24)])
def test_messages_overlap_from_some_points_on_a_device(
    in_streams: bool, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, overlaps in ((points - 1, False), (points, True)):
        domain = tikgen.Grid(count, device=False)._domain
        assert not domain.overlaps  # On the host.
        domain.__dict__["memory"] = TaichiArrays()
        monkeypatch.setattr(domain, "carrier", types.SimpleNamespace(follows_streams=in_streams))
        assert domain.overlaps is overlaps


def test_graphs_that_hold_messages_end_before_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        closed = ""

        def __init__(self, *kept: object) -> None:
            self.kept = [kept]

        def close(self, why: str) -> None:
            assert not ended
            self.closed = why

    ended: list[object] = []
    distributed = types.ModuleType("distributed")
    distributed.destroy_process_group = ended.append  # type: ignore[attr-defined]
    messages = torch_distributed._StreamBatch(None, [])
    with_some, without = Graph("code", messages), Graph("code")
    monkeypatch.setattr(cuda_streams, "graphs", {with_some, without})
    torch_distributed._close_graphs_first(distributed)
    distributed.destroy_process_group("group")
    assert ended == ["group"]
    assert "was destroyed" in with_some.closed
    assert not without.closed
