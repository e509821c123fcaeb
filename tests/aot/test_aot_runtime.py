"""Running a bundle: what its kernels, graphs and fields compute, and what their calls refuse."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aot_samples import DTYPES
from conftest import ARCH
from runtime_samples import BUNDLE_ARCH, ON_HOST, poison, values
from runtime_samples import bundle as bundle
from runtime_samples import runtime as runtime
from tikgen.aot.running.c_engine import Engine
from tikgen.dtypes import DType
from tikgen.errors import (
    ArgumentError,
    UnknownEntry,
    UnsupportedOnArch,
)

pytestmark = pytest.mark.arch


@pytest.fixture(params=["numpy", "device"])
def given(request: pytest.FixtureRequest, runtime: Any) -> Callable[[Any], Any]:
    """Give what makes an argument of a NumPy array: it itself, or an array on the device."""
    return runtime.array if request.param == "device" else lambda array: array


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_by_value_and_in_arrays(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator, dtype: str
) -> None:
    extreme = {
        "i64": -(2**40) - 3,
        "u64": 2**63 + 5,
        "u32": 2**32 - 2,
        "i8": -3,
        "f64": 0.1,
        "f16": 1.5,
    }
    a = extreme.get(dtype, 3)
    x, y = values(rng, 37, dtype), values(rng, 37, dtype)
    expected = DType(dtype).numpy.type(a) * x + y
    out = given(y.copy())
    runtime[f"axpy_{dtype}"](a, given(x), out)
    bound = 0 if not DType(dtype).is_float else 8 * DType(dtype).eps
    np.testing.assert_allclose(np.asarray(out), expected, rtol=bound, atol=4 * bound)


def test_floats_beyond_their_dtype_are_refused(runtime: Any) -> None:
    for dtype, value in (("f16", 1e6), ("f32", -1e300), ("f16", -(10**6)), ("f32", 10**40)):
        x = np.ones(3, DType(dtype).numpy)
        y = np.zeros_like(x)
        with pytest.raises(ArgumentError, match=f"'a' takes a number of dtype {dtype}, up to "):
            runtime[f"axpy_{dtype}"](value, x, y)
        runtime[f"axpy_{dtype}"](np.sign(value) * np.inf, x, y)
        np.testing.assert_array_equal(y, np.full(3, np.sign(value) * np.inf))


def test_arguments_by_name_and_in_another_order(runtime: Any, rng: np.random.Generator) -> None:
    x, y = values(rng, 5), values(rng, 5)
    expected = 2 * x + y
    runtime.kernels["axpy_f32"](y=y, a=2.0, x=x)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 1), (3, 5), (7, 11)])
def test_what_a_kernel_leaves_alone_keeps_its_value(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x, y = values(rng, shape), poison(shape)
    y[0] = 9
    out = given(y)
    runtime.halve(given(x), out)
    np.testing.assert_array_equal(np.asarray(out), [y[0] * 0 + 9, *(x[1:] / 2)])


def test_arrays_of_vectors(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator
) -> None:
    x, y = values(rng, (11, 3)), given(poison(11))
    runtime.weigh(given(x), y)
    np.testing.assert_allclose(np.asarray(y), x @ np.float32([1, 2, 3]), rtol=1e-5, atol=1e-5)
    with pytest.raises(
        ArgumentError, match=re.escape("'x' takes shape (n, 3) where n = 11; got (11, 2)")
    ):
        runtime.weigh(np.zeros((11, 2), "f4"), y)


def test_workspaces_follow_the_sizes_and_begin_at_zero(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator
) -> None:
    for count in (*range(1, 19), 301, 2):  # More sizes than are kept.
        x, y = values(rng, count), given(poison(1))
        runtime.total(given(x), y)
        np.testing.assert_allclose(np.asarray(y)[0], x.sum(dtype="f8"), rtol=1e-4, atol=1e-4)


def test_graphs(runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator) -> None:
    for count in (13, 1, 13):
        x, y = values(rng, count), values(rng, count)
        out = given(y.copy())
        runtime.graphs["twice"](a=3.0, x=given(x), y=out)
        np.testing.assert_allclose(np.asarray(out), y + 30 * x, rtol=1e-5, atol=1e-5)


def test_fields_are_shared_by_kernels_whatever_else_was_loaded(
    runtime: Any, rng: np.random.Generator
) -> None:
    runtime.prepare("axpy_f32", "twice", "grow")
    field, heat = runtime.fields["heat"], values(rng, (5, 3))
    field.from_numpy(heat)
    runtime.grow(2.0)
    runtime.grow(by=0.5)
    np.testing.assert_allclose(field.to_numpy(), heat + 2.5, rtol=1e-6)
    with pytest.raises(ArgumentError, match=re.escape("takes shape (5, 3); got (3, 5)")):
        field.from_numpy(heat.T)


def test_families_choose_by_dtype_and_by_baked_sizes(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator
) -> None:
    assert runtime.select("axpy", 2.0, *[np.zeros(3, "f8")] * 2).name == "axpy_f64"
    for shape, factor in (((5, 7), -0.5), ((7, 5), 0.5)):
        x, y = values(rng, shape), given(poison(shape))
        runtime.families["halve"](given(x), y=y)
        np.testing.assert_array_equal(np.asarray(y)[1:], factor * x[1:])
    with pytest.raises(ArgumentError) as caught:
        runtime.families["axpy"](1, np.zeros((2, 2), "f4"), np.zeros((2, 2), "f4"))
    assert "no kernel suits (int, float32[2, 2], float32[2, 2])" in str(caught.value)
    assert "axpy_i8(a: i8, x: i8[n]" in str(caught.value)
    with pytest.raises(ArgumentError, match="'y' and 'x' share memory"):
        runtime.families["axpy"](1.0, *[np.zeros(3, "f4")] * 2)


def test_device_arrays_stay_on_the_device(
    runtime: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = values(rng, 53), values(rng, 53)
    on_device = runtime.array(x), runtime.array(y)

    def refuse(*_: object) -> None:
        pytest.fail("something was copied, or waited for")

    with monkeypatch.context() as patch:
        for name in ("copy_in", "copy_out", "wait"):
            patch.setattr(Engine, name, refuse)
        for _ in range(3):
            runtime.axpy_f32(1.0, *on_device)
    np.testing.assert_allclose(on_device[1].to_numpy(), y + 3 * x, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(on_device[0].to_numpy(), x)


@pytest.mark.skipif(not ON_HOST, reason="the memory of the processor is no other's")
def test_host_arrays_are_used_where_they_are(
    runtime: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    imported = Engine.import_host
    monkeypatch.setattr(Engine, "import_host", lambda *a: seen.append(a[1:]) or imported(*a))
    x, y = values(rng, 1031), values(rng, 1031)
    expected = y + x
    runtime.axpy_f32(1.0, x, y)
    assert seen == [(x.ctypes.data, x.nbytes), (y.ctypes.data, y.nbytes)]
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_mixed_host_and_device_arrays(runtime: Any, rng: np.random.Generator) -> None:
    device = runtime.array(np.zeros(19, "f4"))
    total = np.zeros(19, "f4")
    for _ in range(3):  # A copy of a host array must not change under a launch before.
        x = values(rng, 19)
        total += x
        runtime.axpy_f32(1.0, x, device)
    host = np.ones(19, "f4")
    runtime.axpy_f32(2.0, device, host)
    np.testing.assert_allclose(host, 1 + 2 * total, rtol=1e-5, atol=1e-4)


def test_bound_calls(runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator) -> None:
    x, y = values(rng, 23), values(rng, 23)
    out = given(y.copy())
    bound = runtime.axpy_f32.bind(a=1.0, x=given(x), y=out)
    runtime.axpy_f32(100.0, np.zeros(23, "f4"), np.zeros(23, "f4"))  # Keeps its own arguments.
    bound()
    bound()
    np.testing.assert_allclose(np.asarray(out), y + 2 * x, rtol=1e-5, atol=1e-5)
    if isinstance(out, np.ndarray) and ARCH == "cpu":
        with pytest.raises(ValueError, match="cannot resize"):
            out.resize(1, refcheck=False)
    elif isinstance(out, np.ndarray):  # Copied to the device at each call, which checks it.
        out.resize(1, refcheck=False)
        with pytest.raises(ArgumentError):
            bound()
    else:
        out.close()
        with pytest.raises(ArgumentError, match="was closed"):
            bound()


def test_bound_calls_keep_what_they_were_given(runtime: Any, rng: np.random.Generator) -> None:
    x = values(rng, 4099)
    out = runtime.empty(1, "f32")
    bound = runtime.total.bind(runtime.array(x), out)
    gc.collect()
    others = [runtime.array(poison(4099)) for _ in range(8)]  # Would take freed memory.
    bound()
    np.testing.assert_allclose(out.to_numpy()[0], x.sum(dtype="f8"), rtol=1e-4, atol=1e-2)
    assert len(others) == 8


BAD_CALLS: dict[str, tuple[Callable[[Any, Any, Any], tuple[Any, ...]], str]] = {
    "dtype": (
        lambda r, x, y: (1.0, x.astype("f8"), y),
        "'x' takes dtype f32 (float32); got float64",
    ),
    "dtype on the device": (
        lambda r, x, y: (1.0, r.array(x.astype("f8")), y),
        "'x' takes dtype f32; got f64",
    ),
    "byte order": (lambda r, x, y: (1.0, x.astype(">f4"), y), "'x' takes dtype f32"),
    "ndim": (lambda r, x, y: (1.0, x[None], y), "'x' takes 1 axis (n,); got shape (1, 6)"),
    "ndim on the device": (
        lambda r, x, y: (1.0, r.array(x[None]), y),
        "'x' takes 1 axis (n,); got shape (1, 6)",
    ),
    "shape": (
        lambda r, x, y: (1.0, x, np.zeros(7, "f4")),
        "'y' takes shape (n,) where n = 6; got (7,)",
    ),
    "shape on the device": (
        lambda r, x, y: (1.0, x, r.zeros(7, "f32")),
        "'y' takes shape (n,) where n = 6; got (7,)",
    ),
    "strides": (lambda r, x, y: (1.0, x[::2], y[::2]), "'x' is not C-contiguous (strides (8,))"),
    "empty": (lambda r, x, y: (1.0, x[:0], y[:0]), "'x' is empty (shape (0,))"),
    "aliased": (lambda r, x, y: (1.0, x, x), "'y' and 'x' share memory"),
    "overlapping": (lambda r, x, y: (1.0, x[1:], x[:-1]), "'y' and 'x' share memory"),
    "aliased on the device": (lambda r, x, y: (1.0, *[r.array(x)] * 2), "'y' and 'x' share memory"),
    "list": (lambda r, x, y: (1.0, [1.0], y), "takes a NumPy array or a DeviceArray; got list"),
    "text for scalar": (lambda r, x, y: ("1", x, y), "'a' takes a number of dtype f32; got str"),
    "bool for scalar": (lambda r, x, y: (True, x, y), "'a' takes a number of dtype f32; got bool"),
    "array for scalar": (
        lambda r, x, y: (r.array(x), x, y),
        "'a' takes a number of dtype f32; got tikgen.aot.running.device_array.DeviceArray",
    ),
    "too few": (lambda r, x, y: (1.0, x), "argument y is missing; it takes a: f32, x: f32[n]"),
    "too many": (lambda r, x, y: (1.0, x, y, y), "takes 3 arguments"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_arguments_are_refused_before_the_launch(
    runtime: Any, rng: np.random.Generator, case: str
) -> None:
    make, message = BAD_CALLS[case]
    x, y = values(rng, 6), values(rng, 6)
    kept = x.copy(), y.copy()
    for call in (runtime.axpy_f32, runtime.axpy_f32.bind):
        with pytest.raises(ArgumentError, match=re.escape(message)):
            call(*make(runtime, x, y))
    np.testing.assert_array_equal([x, y], kept)


def test_numbers_must_fit_their_dtype(runtime: Any) -> None:
    x, y = np.ones(3, "u1"), np.ones(3, "u1")
    with pytest.raises(ArgumentError, match="dtype u8, from 0 to 255; got -1"):
        runtime.axpy_u8(-1, x, y)
    with pytest.raises(ArgumentError, match=r"got the float 1\.5"):
        runtime.axpy_u8(1.5, x, y)
    runtime.axpy_u8(np.int64(254), x, y)
    np.testing.assert_array_equal(y, [255] * 3)


def test_read_only_arrays_and_outputs_in_the_place_of_inputs(
    runtime: Any, given: Callable[[Any], Any], rng: np.random.Generator
) -> None:
    x = values(rng, 9)
    x.setflags(write=False)
    with pytest.raises(ArgumentError, match="'y' is read-only"):
        runtime.double(np.zeros(9, "f4"), x)
    y = given(x.copy())
    runtime.double(y, y)
    np.testing.assert_array_equal(np.asarray(y), 2 * x)


def test_arrays_say_what_they_take(runtime: Any, rng: np.random.Generator) -> None:
    array = runtime.array(values(rng, (3, 5), "i64"))
    assert (array.shape, array.dtype, array.ndim, len(array)) == ((3, 5), DType.i64, 2, 3)
    assert (array.size, array.nbytes) == (15, 120)
    fortran = np.asfortranarray(values(rng, (3, 5), "i64"))
    array.from_numpy(fortran)
    np.testing.assert_array_equal(array, fortran)
    array.fill(-7)
    assert (array.to_numpy() == -7).all()
    for wrong in ("x", None, 1.5, 2**63, float("nan"), 1e300, [1, 2, 3, 4, 5]):
        with pytest.raises(ArgumentError, match="of i64 cannot hold"):
            array.fill(wrong)
    with pytest.raises(ArgumentError, match="of f16 cannot hold 70000"):
        runtime.empty(3, "f16").fill(70_000)
    assert (runtime.zeros((2, 2), np.float64).to_numpy() == 0).all()
    with pytest.raises(ArgumentError, match=re.escape("takes shape (3, 5); got (5, 3)")):
        array.from_numpy(fortran.T)
    with pytest.raises(ArgumentError, match="takes a NumPy array of dtype int64; got float32"):
        array.from_numpy(np.zeros((3, 5), "f4"))
    for shape in (0, -1, (3, 0), 2.5, "x", (1 << 20, 1 << 20), None, (True,)):
        with pytest.raises(ArgumentError, match="takes a shape of positive integers"):
            runtime.empty(shape, "f32")
    with pytest.raises(ArgumentError, match="'c8' is not one of"):
        runtime.empty(3, "c8")
    masked = np.ma.masked_less(np.arange(4.0, dtype="f4"), 2)
    heat = runtime.fields["heat"]
    for take in (runtime.array, runtime.zeros(4, "f32").from_numpy, heat.from_numpy):
        with pytest.raises(ArgumentError, match="is a masked array, and a kernel knows no masks"):
            take(masked)
    if runtime.arch != "cuda":
        with pytest.raises(UnsupportedOnArch, match=r"mapped memory .*only cuda has it"):
            runtime.mapped(3, "f32")


def test_a_runtime_lists_its_contents(runtime: Any) -> None:
    assert "axpy_f32" in runtime.kernels
    assert "axpy_f3" not in runtime.kernels
    assert runtime.kernels.get("axpy_f3") is None
    assert "axpy_f32(a: f32, x: f32[n], y: f32[n] -> updated)" in repr(runtime)
    assert {"twice", "axpy_f32", "close"} <= set(dir(runtime))
    assert runtime.arch == BUNDLE_ARCH
    assert "axpy_f32" in runtime._repr_html_()
    for use in (lambda: runtime["axpy_f3"], lambda: runtime.fields["axpy_f3"]):
        with pytest.raises(UnknownEntry, match=r"has no (kernel or graph|field) 'axpy_f3'"):
            use()
    assert repr(runtime.twice).startswith("<graph twice(")
    assert repr(runtime.axpy_f32).startswith("<kernel axpy_f32(a: f32, x: f32[n]")
    family = next(f for f in runtime.families.values() if len(f.kernels) == 1)
    assert repr(family) == f"<family {family.name}: {family.kernels[0].name}>"
    with pytest.raises(ArgumentError, match=f"{family.kernels[0].name}.* is missing"):
        family()
    with pytest.raises(AttributeError, match="Did you mean 'axpy_f32'"):
        runtime.axpy_f3  # noqa: B018
