"""Kernels launched by the engine direct-cuda compute what they compute with Taichi."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from compared import TEMPLATES, compare
from conftest import ARCH, init_taichi
from tikgen.dtypes import DType
from tikgen.engines.direct_cuda import Graph, on_stream
from tikgen.errors import ArgumentError, EngineUnavailable

DIRECT = "direct-cuda"
on_cuda = pytest.mark.skipif(ARCH != "cuda", reason="the engine is for cuda")
pytestmark = [pytest.mark.arch, on_cuda]
# Template, parameters, shapes of the arrays and values of the scalars.
WORKS: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("map", {"expr": "z = sqrt(x*x + y*y)*a/(y + 1)", "dtype": "f32"}, ((1001,), (1001,), 2.5)),
    ("map", {"expr": "z = exp(x) - y", "dtype": "f64", "dim": 2}, ((37, 41), (37, 41))),
    ("map", {"expr": "z = 2*x + y", "dtype": "f32"}, ((1,), (1,))),
    ("map", {"expr": "z = 2*x + y", "dtype": "f32"}, ((5_000_011,), (5_000_011,))),
    ("stencil", {"dim": 3, "dtype": "f32"}, ((37, 101, 53),)),
    ("stencil", {"dim": 3, "dtype": "f32", "shape": (64, 64, 64)}, ((64, 64, 64),)),
    ("stencil", {"dim": 2, "dtype": "f64", "boundary": "periodic"}, ((130, 7),)),
    ("transpose", {"perm": (1, 0), "dtype": "f32"}, ((1000, 777),)),
    ("scan", {"dtype": "i64"}, ((1_000_003,),)),
]


def made(name: str, params: dict[str, Any], given: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
    """Return a kernel, random arguments but the last, and an empty array for the last."""
    rng = np.random.default_rng(7)
    kernel = tikgen.build(name, **params)
    dtype = DType(params["dtype"])
    values: list[Any] = []
    for one in given:
        if not isinstance(one, tuple):
            values.append(one)
        elif dtype.is_float:
            values.append((rng.random(one) + 0.5).astype(dtype.numpy))
        else:
            values.append(rng.integers(-9, 9, one).astype(dtype.numpy))
    shape = values[0].shape[::-1] if name == "transpose" else values[0].shape
    return kernel, values, np.zeros(shape, dtype.numpy)


@pytest.fixture
def axpy(ti_arch: str) -> Any:
    return tikgen.build("map", expr="z = a*x + y", dtype="f32").with_engine(DIRECT)


@pytest.fixture
def torch(ti_arch: str) -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_agree_with_their_reference(ti_arch: str, name: str) -> None:
    # Ring waits for messages, and is refused.
    # What LLVM does not inline is given the arguments, as it is where an update has many rules.
    refusals = ["takes fields", "it waits", "its arguments"]
    assert compare(name, DIRECT, 2, refusals) or name == "ring"


@pytest.mark.parametrize(("name", "params", "given"), WORKS)
def test_the_bits_are_those_of_taichi(
    ti_arch: str, name: str, params: dict[str, Any], given: tuple[Any, ...]
) -> None:
    kernel, values, out = made(name, params, given)
    plain, bound = out.copy(), out.copy()
    kernel.with_engine("taichi")(*values, out)
    direct = kernel.with_engine(DIRECT)
    direct(*values, plain)
    direct.bind(*values, bound)()
    assert np.any(out)
    np.testing.assert_array_equal(plain, out)
    np.testing.assert_array_equal(bound, out)


def test_scalars_and_arrays_are_replaced(axpy: Any, torch: Any) -> None:
    x, y, z = (torch.rand(1000, device="cuda") for _ in range(3))
    bound = axpy.bind(2.0, x, y, z)
    bound()
    torch.testing.assert_close(z, 2 * x + y)
    bound(a=-1.0)
    torch.testing.assert_close(z, y - x)
    other = torch.zeros(7, device="cuda")
    bound.rebind(x=x[:7].clone(), y=y[:7].clone(), z=other)
    bound()
    torch.testing.assert_close(other, y[:7] - x[:7])
    assert DIRECT in repr(bound)


def test_arrays_of_taichi_and_of_the_host_are_taken(axpy: Any, rng: np.random.Generator) -> None:
    host = [rng.random(513, np.float32) for _ in range(3)]
    device = [ti.ndarray(ti.f32, 513) for _ in host]
    for array, content in zip(device, host, strict=True):
        array.from_numpy(content)
    expected = 3 * host[0] + host[1]
    axpy.bind(3.0, *device)()
    np.testing.assert_allclose(device[2].to_numpy(), expected, rtol=1e-6)
    host[0].flags.writeable = False
    axpy(3.0, *host)
    np.testing.assert_allclose(host[2], expected, rtol=1e-6)
    axpy(3.0, device[0], host[1], host[1])  # In place, and from both sides.
    np.testing.assert_allclose(host[1], expected, rtol=1e-6)


def test_plain_calls_notice_what_changed(axpy: Any, torch: Any) -> None:
    x, y, z = (torch.rand(1000, device="cuda") for _ in range(3))
    for length in (1000, 1000, 999, 1, 1000):
        values = x[:length], y[:length], z[:length]
        z.zero_(), x.add_(1)
        axpy(2.0, *values)
        torch.testing.assert_close(z[:length], 2 * x[:length] + y[:length])
        assert not z[length:].any()
    host = np.zeros(1000, np.float32)
    axpy(1.0, x, y, host)
    axpy(2.0, x, y, z)
    np.testing.assert_allclose(host, (x + y).cpu().numpy(), rtol=1e-6)
    torch.testing.assert_close(z, 2 * x + y)
    wrong = [x[:5], x.double(), x[::2], x[::2].clone().repeat(2)[::2], x.clone().requires_grad_()]
    for one in wrong:
        with pytest.raises(ArgumentError, match="argument"):
            axpy(2.0, one, y, z)
    with pytest.raises(ArgumentError, match="share memory"):
        axpy(2.0, x[1:], y[1:], x[:-1])


def test_kernels_that_wait_are_refused(ti_arch: str) -> None:
    ring = tikgen.build("ring", handler="y = 2*x", inputs={"x": "f32"}, outputs={"y": "f32"})
    with pytest.raises(EngineUnavailable, match="waits for what others write"):
        ring.with_engine(DIRECT)(np.zeros(128, np.int32), *np.zeros((2, 1), np.float32))


def test_launches_follow_the_stream_of_torch(axpy: Any, torch: Any) -> None:
    x, y, z = (torch.rand(3_000_001, device="cuda") for _ in range(3))
    bound = axpy.bind(1.0, x, y, z)
    expected = x.double()
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(20):
                expected = expected + y
                bound()
                x.copy_(z)
        torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-5)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with on_stream(side):
        bound()
    side.synchronize()
    torch.testing.assert_close(z, x + y)


@pytest.mark.parametrize("of", ["torch", "tikgen"])
def test_launches_are_recorded_in_graphs(axpy: Any, torch: Any, of: str) -> None:
    x, y, z = (torch.rand(1000, device="cuda") for _ in range(3))
    scanned = torch.zeros(1000, device="cuda")
    steps = [axpy.bind(2.0, x, y, z)]
    steps.append(tikgen.build("scan").with_engine(DIRECT).bind(z, scanned))
    for step in steps:
        step()
    expected = scanned.clone()
    scanned.zero_(), z.zero_()
    if of == "torch":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for step in steps:
                step()
        replay = graph.replay
    else:
        replay = Graph(steps)
    torch.cuda.synchronize()
    assert not scanned.any()
    for _ in range(3):
        replay()
    torch.cuda.synchronize()
    assert torch.equal(scanned, expected)
    x.add_(1)
    replay()
    torch.testing.assert_close(scanned[-1], (2 * x + y).sum(), rtol=1e-4, atol=1e-3)


def test_threads_launch_at_once(axpy: Any, torch: Any) -> None:
    x, y = (torch.rand(50_000, device="cuda") for _ in range(2))
    axpy(1.0, x, y, torch.zeros_like(x))
    results: dict[int, Any] = {}

    def launch(number: int) -> None:
        z = torch.zeros_like(x)
        bound = axpy.bind(float(number), x, y, z)
        for _ in range(50):
            bound()
        results[number] = z

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert len(results) == 4
    for number, z in results.items():
        torch.testing.assert_close(z, number * x + y)


def test_memory_that_was_freed_is_refused(axpy: Any, torch: Any) -> None:
    x, y, z = (torch.rand(10, device="cuda") for _ in range(3))
    bound = axpy.bind(1.0, x, y, z)
    bound()
    x.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match="holds no data"):
        bound()
    with pytest.raises(ArgumentError, match="takes a CUDA stream"), on_stream("side"):
        pass


def test_a_new_ti_init_ends_what_was_bound(axpy: Any, rng: np.random.Generator) -> None:
    values = [rng.random(100, np.float32) for _ in range(3)]
    bound = axpy.bind(1.0, *values)
    bound()
    init_taichi()
    with pytest.raises(ArgumentError, match="bind it again"):
        bound()
    axpy.bind(1.0, *values)()
    np.testing.assert_allclose(values[2], values[0] + values[1], rtol=1e-6)


USER = """
import taichi as ti

@ti.kernel
def run(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    BODY
"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in range(x.shape[0]):\n        y[i] = ti.random()", "takes random numbers"),
        ("for i in range(x.shape[0]):\n        print(x[i])", "it prints"),
        ("for i in range(ti.cast(x[0], ti.i32)):\n        y[i] = 1.0", "sizes and scalars"),
    ],
)
def test_what_needs_taichi_is_refused(ti_arch: str, body: str, why: str) -> None:
    kernel = tikgen.from_string(USER.replace("BODY", body)).with_engine(DIRECT)
    with pytest.raises(EngineUnavailable, match=why):
        kernel.bind(np.zeros(3, np.float32), np.zeros(3, np.float32))


def test_a_serial_part_is_launched(ti_arch: str) -> None:
    body = "for i in range(x.shape[0]):\n        y[i] = x[i]\n    y[0] = 7.0"
    x, y = np.ones(300, np.float32), np.zeros(300, np.float32)
    tikgen.from_string(USER.replace("BODY", body)).with_engine(DIRECT)(x, y)
    assert y[0] == 7 and (y[1:] == 1).all()
