"""Bound kernels: launches over a cached context are correct in every situation."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.errors import ArgumentError

SHAPE = (4, 7)


@pytest.fixture
def kernel(ti_arch: str) -> tikgen.Kernel:
    return tikgen.build("stencil", dim=2, unroll=1, update=True, boundary="zero")


def made(storage: str, values: np.ndarray) -> Any:
    if storage == "numpy":
        return values.copy()
    if storage == "torch":
        torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
        return torch.from_numpy(values.copy())
    if storage == "field":
        array = ti.field(ti.f32, values.shape)
    else:
        array = ti.ndarray(ti.f32, values.shape)
    array.from_numpy(values)
    return array


def seen(array: Any) -> np.ndarray:
    ti.sync()
    return (
        array.copy()
        if isinstance(array, np.ndarray)
        else np.asarray(array.to_numpy() if hasattr(array, "to_numpy") else array.numpy())
    )


@pytest.mark.parametrize("storage", ["numpy", "ndarray", "torch", "field"])
def test_scalars_can_be_reset_and_arrays_rebound(
    ti_arch: str, rng: np.random.Generator, storage: str
) -> None:
    kernel = tikgen.build(
        "stencil",
        dim=2,
        unroll=1,
        update=True,
        boundary="zero",
        storage="field" if storage == "field" else "ndarray",
    )
    x, other = rng.random((2, *SHAPE), dtype=np.float32)
    poison = np.full(SHAPE, np.nan, np.float32)
    x_in, y_out = made(storage, x), made(storage, poison)
    bound = kernel.bind(x_in, y_out, scale=0.5)
    bound()
    np.testing.assert_allclose(seen(y_out), kernel.reference(x, poison, 0.5), atol=1e-5)
    for scale in (0.25, -2):
        bound(scale=scale)
        np.testing.assert_allclose(seen(y_out), kernel.reference(x, poison, scale), atol=1e-4)
    bound()
    np.testing.assert_allclose(seen(y_out), kernel.reference(x, poison, -2), atol=1e-4)
    y_new = made(storage, poison)
    bound.rebind(x=made(storage, other), y=y_new)
    gc.collect()
    bound(scale=1.0)
    np.testing.assert_allclose(seen(y_new), kernel.reference(other, poison, 1.0), atol=1e-5)
    np.testing.assert_allclose(seen(y_out), kernel.reference(x, poison, -2), atol=1e-4)


def test_it_launches_over_a_cached_context(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    x = made("ndarray", rng.random(SHAPE, dtype=np.float32))
    y = made("ndarray", np.zeros(SHAPE, np.float32))
    assert "cached context" in repr(kernel.bind(x, y, 1.0))


def test_plain_calls_and_bound_calls_mix_on_one_array(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    start = rng.random(SHAPE, dtype=np.float32)
    x, y = made("ndarray", start), made("ndarray", np.zeros(SHAPE, np.float32))
    forth, back = kernel.bind(x, y, 0.1), kernel.bind(y, x, 0.1)
    expected = start
    for _ in range(3):
        forth()
        kernel(y, x, 0.1)
        forth()
        back()
        for _ in range(4):
            expected = kernel.reference(expected, expected, 0.1).astype(np.float32)
    np.testing.assert_allclose(seen(x), expected, atol=1e-5)


def test_each_thread_has_its_own_context(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    x = rng.random(SHAPE, dtype=np.float32)
    bounds = []
    for _ in range(4):
        y = np.full(SHAPE, np.nan, np.float32)
        bounds.append((kernel.bind(x, y, 0.0), y))
    errors = []

    def work(index: int) -> None:
        try:
            bound, y = bounds[index]
            for scale in (0.5, 1.0, float(index)):
                bound(scale=scale)
            ti.sync()
            np.testing.assert_allclose(y, kernel.reference(x, y, index), atol=1e-4)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    bound, y = bounds[0]  # Bound here, last used there: this thread sees the newest scalar.
    bound(scale=3.0)
    np.testing.assert_allclose(seen(y), kernel.reference(x, y, 3.0), atol=1e-4)


def test_bad_arguments_are_refused_and_the_old_ones_stay(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    x = rng.random(SHAPE, dtype=np.float32)
    y = np.full(SHAPE, np.nan, np.float32)
    with pytest.raises(ArgumentError, match="takes dtype f32"):
        kernel.bind(x.astype(np.float64), y, 1.0)
    bound = kernel.bind(x, y, 1.0)
    with pytest.raises(ArgumentError, match="has no scalar argument 'a'; it takes scale"):
        bound(a=1.0)
    with pytest.raises(ArgumentError, match="'scale' takes a number of dtype f32; got str"):
        bound(scale="fast")
    with pytest.raises(ArgumentError, match=r"'y' takes shape \(n0, n1\)"):
        bound.rebind(y=np.zeros((2, 2), np.float32))
    with pytest.raises(ArgumentError, match="has no argument 'z'"):
        bound.rebind(z=y)
    with pytest.raises(ArgumentError, match="share memory"):
        bound.rebind(y=x)
    bound()
    np.testing.assert_allclose(seen(y), kernel.reference(x, y, 1.0), atol=1e-5)


def test_bound_arrays_and_their_owners_cannot_be_resized(kernel: tikgen.Kernel) -> None:
    owner = np.ones((2, *SHAPE), np.float32)
    y, z = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    bound = kernel.bind(owner[1], y, 1.0)
    bound.rebind(y=z)
    bound()
    for array in (owner, z):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize((1, 1), refcheck=False)
    del bound
    gc.collect()
    z.resize((1, 1), refcheck=False)
    assert z.shape == (1, 1)


def test_after_ti_init_it_raises(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    from conftest import init_taichi

    x, y = rng.random(SHAPE, dtype=np.float32), np.zeros(SHAPE, np.float32)
    bound = kernel.bind(x, y, 1.0)
    bound()
    init_taichi()
    with pytest.raises(ArgumentError, match=r"was bound before the last ti.init; bind it again"):
        bound()
    with pytest.raises(ArgumentError, match="bind it again"):
        bound.rebind(x=x)


def test_a_kernel_that_returns_a_value_is_called_plainly(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef twice(a: ti.i32) -> ti.i32:\n    return a + a\n"
    )
    bound = kernel.bind(4)
    assert "plain calls" in repr(bound)
    assert bound() == 8
    assert bound(a=5) == 10
    assert kernel(6) == 12


def test_unknown_arguments_are_passed_plainly(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        "def fill(n: ti.template(), x: ti.types.ndarray(dtype=ti.i32, ndim=1), a: ti.i32):\n"
        "    for i in range(x.shape[0]):\n        x[i] = a + n\n"
    )
    x = np.zeros(4, np.int32)
    bound = kernel.bind(5, x, 3)
    assert "plain calls" in repr(bound)
    bound()
    np.testing.assert_array_equal(x, 8)
    bound(a=1)
    np.testing.assert_array_equal(x, 6)


def test_either_all_scalars_are_kept_or_none(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    x, y = rng.random(SHAPE, dtype=np.float32), np.zeros(SHAPE, np.float32)
    bound = kernel.bind(x, y, 1.0)
    bound()
    with pytest.raises(ArgumentError, match="no scalar argument"):
        bound(scale=9.0, other=1.0)
    bound()
    np.testing.assert_allclose(seen(y), kernel.reference(x, y, 1.0), atol=1e-5)


def test_a_scalar_set_in_one_thread_reaches_the_others(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    x, y = rng.random(SHAPE, dtype=np.float32), np.zeros(SHAPE, np.float32)
    bound = kernel.bind(x, y, 1.0)
    bound()
    other = threading.Thread(target=lambda: bound(scale=2.0))
    other.start()
    other.join()
    bound()
    np.testing.assert_allclose(seen(y), kernel.reference(x, y, 2.0), atol=1e-4)


def test_after_clear_it_raises(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    x, y = rng.random(SHAPE, dtype=np.float32), np.zeros(SHAPE, np.float32)
    bound = kernel.bind(x, y, 1.0)
    tikgen.clear()
    with pytest.raises(ArgumentError, match="was unloaded; build and bind it again"):
        bound()
    with pytest.raises(ArgumentError, match="was unloaded; build it again"):
        kernel(x, y, 1.0)


def test_the_option_auto_works_on_every_arch(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="y = x + 23", dtype="f32", engine="auto")
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    bound = kernel.bind(x, y)
    for call in (bound, lambda: kernel(x, y)):
        y.fill(0)
        call()
        assert (y == 24).all()
    assert (kernel.engine, bound.engine) == ("taichi", "taichi")
    problem = {"vulkan": "there is none beside Taichi for vulkan"}.get(
        ti_arch, "after 500 launches"
    )
    assert problem in kernel.why or "missing" in kernel.why
