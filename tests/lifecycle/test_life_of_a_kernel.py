"""The examples of Taichi's document "Life of a Taichi kernel": a trace shows what it says.

Without ``from __future__ import annotations``, which spoils the annotations of kernels.
"""

import secrets
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen.lifecycle.history import Life
from tikgen.lifecycle.trace import Trace

INSTANCE = ["instantiate", "ast", "compile"]


def make_add() -> Any:
    @ti.kernel
    def add(tensor: ti.template(), delta: ti.i32):  # type: ignore[valid-type]
        for i in tensor:
            tensor[i] += delta

    return add


@pytest.fixture
def x(ti_arch: str) -> Any:
    return ti.field(ti.f32, shape=128)


@pytest.fixture
def y(ti_arch: str) -> Any:
    return ti.field(ti.f32, shape=16)


def stages(trace: Trace, name: str = "add") -> list[str]:
    """Return the stages of a kernel in the order in which they happened."""
    return [event.stage for event in trace.events if event.subject.name == name]


def launches(trace: Trace, name: str = "add") -> int:
    return sum(each.count for each in trace.launches if each.subject.name == name)


def signatures(trace: Trace, name: str = "add") -> list[str]:
    return [
        event.details["signature"]
        for event in trace.events
        if event.stage == "instantiate" and event.subject.name == name
    ]


def implicit(trace: Trace) -> list[Life]:
    return [life for life in trace.kernels if life.subject.origin == "taichi"]


def test_the_decorator_registers_and_compiles_nothing(ti_arch: str) -> None:
    with tikgen.trace(all_kernels=True) as t:
        make_add()
    assert stages(t) == ["register"]
    assert launches(t) == 0
    (life,) = t.kernels
    assert life.subject.origin == "script"
    assert life.subject.file == __file__


def test_the_first_call_instantiates_compiles_and_launches(x: Any) -> None:
    add = make_add()
    with tikgen.trace(all_kernels=True) as t:
        add(x, 42)
    assert stages(t) == INSTANCE
    assert launches(t) == 1
    assert (x.to_numpy() == 42).all()


def test_a_call_with_the_same_signature_reuses_what_was_compiled(x: Any) -> None:
    add = make_add()
    with tikgen.trace(all_kernels=True) as t:
        add(x, 42)
        add(x, 1)
    assert stages(t) == INSTANCE
    assert launches(t) == 2
    with tikgen.trace(all_kernels=True) as again:
        add(x, 1)
    assert stages(again) == []
    assert launches(again) == 1


def test_another_field_has_another_signature_and_a_new_instance(x: Any, y: Any) -> None:
    add = make_add()
    with tikgen.trace(all_kernels=True) as t:
        add(x, 42)
        add(y, 42)
    assert stages(t) == INSTANCE * 2
    assert launches(t) == 2
    assert signatures(t) == [
        f"tensor: f32 field ({size},) at {id(field):#x}, delta: i32"
        for size, field in ((128, x), (16, y))
    ]
    numbers = [e.details["number"] for e in t.events if e.stage == "instantiate"]
    assert numbers == [0, 1]


def test_to_numpy_instantiates_an_implicit_kernel_once(x: Any) -> None:
    x.fill(secrets.randbelow(100))
    with tikgen.trace(all_kernels=True) as t:
        first = x.to_numpy()
    assert [event.stage for event in t.events] == INSTANCE
    (life,) = implicit(t)
    assert life.name == "tensor_to_ext_arr"
    assert life.launches is not None
    assert life.launches.count == 1
    with tikgen.trace(all_kernels=True) as again:
        second = x.to_numpy()
    assert again.events == ()
    assert [life.name for life in implicit(again)] == ["tensor_to_ext_arr"]
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_filling_a_field_instantiates_an_implicit_kernel_once(y: Any, library: str) -> None:
    values: Any = np.random.default_rng().random(16, dtype=np.float32)
    if library == "torch":
        values = pytest.importorskip("torch").from_numpy(values)
    fill = getattr(y, f"from_{library}")
    with tikgen.trace(all_kernels=True) as t:
        fill(values)
    assert [event.stage for event in t.events] == INSTANCE
    assert [life.name for life in implicit(t)] == ["ext_arr_to_tensor"]
    with tikgen.trace(all_kernels=True) as again:
        fill(values)
    assert again.events == ()
    assert launches(again, "ext_arr_to_tensor") == 1
    np.testing.assert_array_equal(y.to_numpy(), values)


def test_foreign_kernels_are_recorded_only_with_all_kernels(x: Any) -> None:
    add = make_add()
    with tikgen.trace() as t:
        add(x, 42)
        x.to_numpy()
    assert t.kernels == ()


def test_the_trace_shows_the_origin_of_the_code(ti_arch: str) -> None:
    constant = secrets.randbits(24)

    def make() -> Any:
        @ti.kernel
        def put(a: ti.types.ndarray(ti.i32, ndim=1)):  # type: ignore[valid-type]
            for i in range(a.shape[0]):
                a[i] = constant

        return put

    def compile_status(put: Any) -> str:
        array = ti.ndarray(ti.i32, 4)
        with tikgen.trace(all_kernels=True) as t:
            put(array)
        assert (array.to_numpy() == constant).all()
        (event,) = (e for e in t.events if e.stage == "compile" and e.subject.name == "put")
        assert event.details["arch"] == ti_arch
        return str(event.details["cache"])

    put = make()
    assert compile_status(put) == "compiled"
    assert compile_status(make()) == "memory"
    init_taichi()
    assert compile_status(put) == "disk"
