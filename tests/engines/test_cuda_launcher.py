"""What the engine direct-cuda passes to the CUDA driver, and what it refuses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_cuda import FOREIGN, PRIMARY, FakeDriver, OnDevice, install
from tikgen.dtypes import DType
from tikgen.engines import cuda_driver, cuda_streams, direct_cuda
from tikgen.errors import ArgumentError, DeviceError

PTX = Path(__file__).parent / "ptx"
F32 = DType.f32
KINDS: dict[str, list[Any]] = {
    "map-0": [(F32, None), (F32, 1), (F32, 1), (F32, 1)],
    "stencil-0": [(F32, 3), (F32, 3)],
    "stencil-2": [(DType.f64, 2), (DType.f64, 2)],
    "scan-0": [(F32, 1), (F32, 1), (F32, 1)],
    "gemm-0": [(F32, 2), (F32, 2), (F32, 2), (F32, None), (F32, None)],
}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    made = FakeDriver()
    install(monkeypatch, made)
    monkeypatch.setattr(cuda_streams, "_look_for_torch", lambda: 0)
    yield made


def code(name: str, exact: bool = False) -> direct_cuda.Code:
    text = (PTX / f"{name}.ptx").read_text()
    assert direct_cuda.text_problem(text, KINDS[name]) == ""
    making = direct_cuda.begin(lambda: text, KINDS[name], "", name)
    making.wait(60)
    content = making.result()
    assert content == direct_cuda.machine_code(text, KINDS[name])
    return direct_cuda.load(content, KINDS[name], exact)


def test_arguments_are_passed_by_value(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    x, y, z = (OnDevice(fake, address, 1000) for address in (4096, 8192, 12288))
    launcher.set_all([2.5, x, y, z])
    launcher.launch()
    name, blocks, block, stream, passed = fake.launched.pop()
    assert name.endswith("_kernel_0_range_for") and (block, stream) == (512, 0)
    # A constant number of blocks, of which no more are launched than run at once.
    assert blocks == 10 * 2048 // 512
    assert struct.unpack("=f4xi4xQi4xQi4xQ", passed[:56]) == (
        *(2.5, 1000, 4096, 1000, 8192, 1000, 12288),
    )
    launcher.scalar_setter(0, True, True)(-1.0)
    launcher.set_array(1, OnDevice(fake, 16384, 7))
    launcher.launch()
    assert struct.unpack("=f4xi4xQ", fake.launched[0][4][:24]) == (-1.0, 7, 16384)


def test_changes_of_the_same_arrays_are_noticed(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    values = [1.0, *(OnDevice(fake, 4096 * n, 9) for n in (1, 2, 3))]
    for _ in range(2):
        launcher.set_all(values)
        launcher.launch()
    values[1].shape = (7,)
    launcher.set_all(values)
    launcher.launch()
    values[2].move(fake, 40960)
    launcher.set_all(values)
    launcher.launch()
    launcher.scalar_setter(0, True, True)(3.0)
    launcher.launch()
    launcher.set_all(values)
    launcher.launch()
    passed = [struct.unpack("=f4xi4xQi4xQ", one[4][:40]) for one in fake.launched]
    assert passed[0] == passed[1] == (1.0, 9, 4096, 9, 8192)
    assert passed[2:4] == [(1.0, 7, 4096, 9, 8192), (1.0, 7, 4096, 9, 40960)]
    assert passed[4:] == [(3.0, 7, 4096, 9, 40960), (1.0, 7, 4096, 9, 40960)]


def test_a_tensor_that_is_set_again_has_its_new_shape(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    x = OnDevice(fake, 4096, 9)
    launcher.set_all([1.0, x, *(OnDevice(fake, 4096 * n, 9) for n in (2, 3))])
    x.shape = (7,)
    launcher.set_array(1, x)
    launcher.launch()
    assert struct.unpack("=f4xi4xQ", fake.launched[0][4][:24]) == (1.0, 7, 4096)


def test_large_arrays_are_given_more_blocks(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    arrays = [OnDevice(fake, 4096 * n, 100_000) for n in range(1, 4)]
    launcher.set_all([1.0, *arrays])
    launcher.launch()
    assert fake.launched[0][1] == -(-3 * 400_000 // (8 * 512))
    launcher.set_all([1.0, *(OnDevice(fake, 4096 * n, 10**7) for n in range(1, 4))])
    launcher.launch()
    assert fake.launched[1][1] == 8448  # All that the loop has.


def test_threads_of_a_plain_loop_do_several_iterations(fake: FakeDriver) -> None:
    """Four of them, but where some of the 160 blocks that run at once would have none."""
    launcher = code("stencil-2").launcher()
    for shape, blocks in (((100, 128), 100), ((200, 128), 160), ((1000, 512), 1000)):
        launcher.set_all([OnDevice(fake, 4096 * n, *shape) for n in (1, 2)])
        launcher.launch()
        assert fake.launched.pop()[1:3] == (blocks, 128)


def test_loop_bounds_are_computed_on_the_host(fake: FakeDriver) -> None:
    launcher = code("gemm-0").launcher()
    m, n, k = 300, 500, 20
    arrays = (OnDevice(fake, 4096, m, k), OnDevice(fake, 8192, k, n), OnDevice(fake, 12288, m, n))
    launcher.set_all([*arrays, 1.0, 0.0])
    launcher.launch()
    # Tiles of 128 x 128, a block of 256 threads each.
    assert [(blocks, block) for _, blocks, block, _, _ in fake.launched] == [(3 * 4, 256)]
    behind = launcher.arguments.raw[56:80]
    assert struct.unpack("=6i", behind) == (3 * 4 * 256, 4 * 256, m - 1, n - 1, m, n)


def test_each_task_is_launched_in_turn(fake: FakeDriver) -> None:
    made = code("scan-0")
    launcher = made.launcher()
    arrays = [OnDevice(fake, 4096 * n, 1000) for n in (1, 2)]
    launcher.set_all([*arrays, made.scratch(F32, (4096,))])
    launcher.launch()
    assert [name[-11:] for name, *_ in fake.launched] == [f"{n}_range_for" for n in range(3)]


def test_a_stream_that_shares_scratch_waits_for_the_last_one(fake: FakeDriver) -> None:
    made = code("scan-0")
    launcher = made.launcher()
    arrays = [OnDevice(fake, 4096 * n, 1000) for n in (1, 2)]
    launcher.set_all([*arrays, made.scratch(F32, (4096,))])
    launcher.launch()
    assert not fake.waits
    with direct_cuda.on_stream(7):
        launcher.launch()
        launcher.launch()
    assert fake.waits == [(7, 0)]
    assert {stream for *_, stream, _ in fake.launched} == {0, 7}


def test_nothing_is_compiled_beside_arrays_that_fill_the_device(fake: FakeDriver) -> None:
    fake.free = 3 * 10**9
    with pytest.raises(ValueError, match=r"3\.0 GB of free memory, and less than 4\.0 GB"):
        direct_cuda.begin(lambda: "", KINDS["map-0"], "", "map")


def test_exact_launches_keep_to_the_stream_of_taichi(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_streams, "_look_for_torch", lambda: 7)
    arrays = [OnDevice(fake, 4096 * n, 5) for n in (1, 2, 3)]
    for exact in (False, True):
        launcher = code("map-0", exact).launcher()
        launcher.set_all([1.0, *arrays])
        launcher.launch()
        with direct_cuda.on_stream(9):
            launcher.launch()
    assert [stream for *_, stream, _ in fake.launched] == [7, 9, 0, 9]


def test_arrays_of_the_host_are_copied(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    x, z = np.arange(9, dtype=np.float32), np.zeros(9, np.float32)
    x.flags.writeable = False
    launcher.set_all([1.0, x, x, z])
    launcher.launch()
    at, same, out = (struct.unpack_from("=Q", fake.launched[0][4], n)[0] for n in (16, 32, 48))
    assert at == same != out
    assert at != x.ctypes.data and fake._memory[at].raw[:36] == x.tobytes()
    fake._memory[out].raw = np.full(9, 3, np.float32).tobytes()
    launcher._staged[3][0].write(z.ctypes.data, 0)
    assert (z == 3).all()


def test_memory_for_arrays_of_the_host_is_kept(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    x, y, z = (np.arange(9, dtype=np.float32) for _ in range(3))
    launcher.set_all([1.0, x, y, z])
    launcher.launch()
    launcher.set_all([2.0, x, y, np.zeros(9, np.float32)])
    launcher.launch()
    launcher.set_all([2.0, y, y, z])
    launcher.launch()
    first, second, third = (struct.unpack_from("=QQQQ", one[4], 16) for one in fake.launched)
    assert first == second and len(set(first[::2])) == 2
    x, y, z = (struct.unpack_from("=Q", fake.launched[2][4], at)[0] for at in (16, 32, 48))
    assert x == y != z and {x, z} <= {*fake._memory}
    assert len(fake._memory) <= 4 and third != first


def test_an_array_that_was_resized_is_refused(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    x, y, z = (np.arange(9, dtype=np.float32) for _ in range(3))
    launcher.set_all([1.0, x, y, z])
    launcher.launch()
    x.resize(10_000, refcheck=False)
    with pytest.raises(ArgumentError, match="array 1 was resized"):
        launcher.launch()


def test_a_graph_records_launches(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    launcher.set_all([1.0, *(OnDevice(fake, 4096 * n, 5) for n in (1, 2, 3))])
    graph = direct_cuda.Graph([launcher.launch, launcher.launch])
    assert [stream for *_, stream, _ in fake.launched] == [99, 99]
    assert cuda_streams.current_stream() == 0 and not fake.capturing
    graph()
    assert fake.launched[-1][0] == "graph"
    with pytest.raises(ArgumentError, match="launch 1 launches nothing by the engine"):
        direct_cuda.Graph([launcher.launch, lambda: None])
    with pytest.raises(ArgumentError, match="at least one"):
        direct_cuda.Graph([])
    launcher.set_all([1.0, *(np.zeros(5, np.float32) for _ in range(3))])
    with pytest.raises(ArgumentError, match="which no graph can copy"):
        direct_cuda.Graph([launcher.launch])
    assert not fake.capturing and cuda_streams.local.recorded is None


def test_a_graph_keeps_what_others_launch_until_it_is_closed(fake: FakeDriver) -> None:
    message = object()
    graph = direct_cuda.Graph([lambda: cuda_streams.keep(message)])
    cuda_streams.keep(object())  # Nothing is being recorded.
    assert graph.kept == [(message,)] and graph in cuda_streams.graphs
    graph.close("it is over")
    graph.close("for good")
    assert not graph.kept
    with pytest.raises(DeviceError, match="it is over"):
        graph()


@pytest.mark.parametrize(
    ("owner", "problem"),
    [
        ((1, PRIMARY), "is on cuda:1, and Taichi on cuda:0"),
        ((0, FOREIGN), "belongs to another context"),
        (None, "was freed"),
    ],
)
def test_memory_that_the_device_cannot_use_is_refused(
    fake: FakeDriver, owner: Any, problem: str
) -> None:
    launcher = code("map-0").launcher()
    bad = OnDevice(fake, 4096, 5, owner=owner)
    if owner is None:
        del fake.owner[4096]
    good = [OnDevice(fake, 4096 * n, 5) for n in (2, 3)]
    with pytest.raises(ArgumentError, match=f"map: array 1 .*{problem}"):
        launcher.set_all([1.0, bad, *good])
    with pytest.raises(ArgumentError, match=problem):
        launcher.set_array(1, bad)


def test_a_thread_without_a_context_enters_that_of_torch(fake: FakeDriver) -> None:
    launcher = code("map-0").launcher()
    launcher.set_all([1.0, *(OnDevice(fake, 4096 * n, 5) for n in (1, 2, 3))])
    fake.current = 0
    launcher.launch()
    assert fake.current == PRIMARY and len(fake.launched) == 1
    fake.current = FOREIGN
    with pytest.raises(DeviceError, match="context of another library"):
        launcher.launch()
    fake.current, fake.refused = PRIMARY, 700
    with pytest.raises(DeviceError, match="refused the launch of map: 700, as the test wants it"):
        launcher.launch()


def test_streams_of_others_are_refused(fake: FakeDriver) -> None:
    class Stream:
        def __init__(self, handle: int) -> None:
            self.ptr = handle

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self.ptr

    with direct_cuda.on_stream(Stream(5)):
        assert cuda_streams.current_stream() == 5
        with direct_cuda.on_stream(0):
            assert cuda_streams.current_stream() == 0
    with (
        pytest.raises(ArgumentError, match="another device or context"),
        direct_cuda.on_stream(Stream(100)),
    ):
        pass
    with (
        pytest.raises(ArgumentError, match="takes a CUDA stream; got str"),
        direct_cuda.on_stream("main"),
    ):
        pass


def test_the_driver_may_refuse_the_code(fake: FakeDriver) -> None:
    content = b'{"ptx": "rubbish", "size": 8, "numbers": [], "tasks": []}'
    with pytest.raises(DeviceError, match="refused cuModuleLoadData: 218"):
        direct_cuda.load(content, KINDS["map-0"])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> None:
    assert cuda_driver.problem() == ""
    monkeypatch.setattr(fake, "cuDeviceGetCount", lambda: (0, 0), raising=False)
    assert cuda_driver.problem() == "the CUDA driver has no device"
    monkeypatch.setattr(fake, "cuInit", lambda _: (100,), raising=False)
    assert "refused cuInit: 100" in cuda_driver.problem()

    def broken(_: int) -> Any:
        raise RuntimeError("libcuda.so is missing\nmore")

    monkeypatch.setattr(fake, "cuInit", broken, raising=False)
    assert cuda_driver.problem() == "there is no CUDA driver (libcuda.so is missing)"

    def absent() -> Any:
        raise ImportError("No module named 'cuda'")

    monkeypatch.setattr(cuda_driver, "driver", absent)
    assert "pip install tikgen[cuda]" in cuda_driver.problem()
