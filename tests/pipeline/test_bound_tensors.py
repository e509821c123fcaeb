"""Bound kernels notice tensors that got other memory, another shape or other strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.errors import ArgumentError

TORCH = "torch is an extra: pip install tikgen[torch]"
CHANGED = "array 'x' was freed, moved or resized since it was bound, and is .*; bind it again"


class StandIn:
    """A tensor of which an engine knows the address only, as that of torch."""

    requires_grad = False

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: f"torch.{self.data.dtype}")

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.data.itemsize for step in self.data.strides)

    def is_contiguous(self) -> bool:
        return bool(self.data.flags.c_contiguous)

    def data_ptr(self) -> int:
        return self.data.ctypes.data

    def element_size(self) -> int:
        return self.data.itemsize

    def nelement(self) -> int:
        return self.data.size


@pytest.fixture(scope="module", params=["stand-in", "torch"])
def tensor(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "stand-in":
        return StandIn
    return pytest.importorskip("torch", reason=TORCH).from_numpy  # type: ignore[no-any-return]


@pytest.fixture
def engine(tensor: Any, ti_arch: str, engine_name: str) -> str:
    if tensor is StandIn and engine_name != "direct-cpu":
        pytest.skip("Taichi takes tensors of torch only")
    if ti_arch != "cpu":
        pytest.skip("tensors in the memory of the processor")
    return engine_name


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def data_of(tensor: Any, array: np.ndarray) -> Any:
    return array if tensor is StandIn else tensor(array)


@pytest.mark.parametrize("engine_name", ["direct-cpu", "taichi", "auto"])
@pytest.mark.parametrize("other", [ones(3, 4), ones(9, 16)[:, ::2], ones(72), ones(9, 8).T.copy()])
@pytest.mark.parametrize("role", ["x", "y"])
def test_another_shape_or_other_strides_are_refused(
    tensor: Any, engine: str, other: np.ndarray, role: str
) -> None:
    kernel = tikgen.build("map", expr="y = x + 41", dim=2, dtype="f32", engine=engine)
    x, y = tensor(ones(9, 8)), tensor(np.zeros((9, 8), np.float32))
    bound = kernel.bind(x, y)
    bound()
    kept = x if role == "x" else y
    before, kept.data = kept.data, data_of(tensor, other)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=CHANGED.replace("'x'", f"'{role}'")):
            bound()
    kept.data = before
    bound()
    assert (np.asarray(y.data) == 42).all()


@pytest.mark.parametrize("engine_name", ["direct-cpu", "taichi", "auto"])
def test_other_memory_of_the_same_layout_is_followed(tensor: Any, engine: str) -> None:
    kernel = tikgen.build("map", expr="y = x + 41", dim=2, dtype="f32", engine=engine)
    x, y = tensor(ones(9, 8)), tensor(np.zeros((9, 8), np.float32))
    bound = kernel.bind(x, y)
    bound()
    x.data = data_of(tensor, 2 * ones(9, 8))
    y.data = data_of(tensor, np.zeros((9, 8), np.float32))
    bound()
    assert (np.asarray(y.data) == 43).all()


@pytest.mark.parametrize("engine_name", ["direct-cpu", "taichi"])
def test_other_memory_is_checked(tensor: Any, engine: str) -> None:
    heat = tikgen.update("u' = u + dt*lap(u)", dim=1, scalars="dt", boundary="clamp", engine=engine)
    u, u_next = tensor(ones(64)), tensor(ones(64))
    bound = heat.bind(u=u, u_next=u_next, dt=0.1)
    bound()
    u_next.data = u.data
    with pytest.raises(ArgumentError, match="share memory"):
        bound()


@pytest.mark.parametrize("engine_name", ["direct-cpu", "taichi"])
def test_another_dtype_is_refused(tensor: Any, engine: str) -> None:
    kernel = tikgen.build("map", expr="x = x + 41", dtype="f32", engine=engine)
    x = tensor(ones(8))
    bound = kernel.bind(x)
    x.data = data_of(tensor, np.ones(8, np.float64))
    with pytest.raises(ArgumentError, match=f"{CHANGED}|array 'x'.*float64"):
        bound()


def test_a_tensor_resized_where_it_is_is_refused(ti_arch: str) -> None:
    torch = pytest.importorskip("torch", reason=TORCH)
    kernel = tikgen.build("map", expr="x = x + 43", dtype="f32")
    x = torch.ones(200)
    bound = kernel.bind(x)
    bound()
    x.resize_(100)
    with pytest.raises(ArgumentError, match=CHANGED):
        bound()
    bound.rebind()
    bound()
    ti.sync()
    assert (x == 87).all()
