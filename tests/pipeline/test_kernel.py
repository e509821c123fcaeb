"""Calls of a kernel: accepted arguments, and errors for others."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, KernelCompileError, UnsupportedOnArch


@pytest.fixture
def kernel(ti_arch: str) -> tikgen.Kernel:
    return tikgen.build("stencil", dim=2, unroll=1, loop="rows", update=True)


def arrays(rng: np.random.Generator, shape: tuple[int, ...] = (5, 6)) -> tuple[Any, Any]:
    return rng.random(shape, dtype=np.float32), np.full(shape, np.nan, np.float32)


def test_positional_and_named_calls_agree_with_the_reference(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    x, y = arrays(rng)
    expected = kernel.reference(x, y, 0.5)
    before = x.copy()
    kernel(x, y, 0.5)
    named = np.full_like(y, np.nan)
    kernel(scale=0.5, y=named, x=x)
    np.testing.assert_array_equal(y, named)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(y[1:-1, 1:-1], expected[1:-1, 1:-1], atol=1e-5)
    assert np.isnan(y[0]).all()
    assert np.isnan(y[:, -1]).all()


def test_ndarrays_and_fields(ti_arch: str, rng: np.random.Generator) -> None:
    x, y = arrays(rng)
    expected = tikgen.build("stencil", dim=2, unroll=1).reference(x, y)
    x_nd, y_nd = ti.ndarray(ti.f32, x.shape), ti.ndarray(ti.f32, x.shape)
    x_nd.from_numpy(x)
    y_nd.from_numpy(y)
    tikgen.build("stencil", dim=2, unroll=1)(x_nd, y_nd)
    np.testing.assert_allclose(y_nd.to_numpy(), expected, atol=1e-5)
    x_field, y_field = ti.field(ti.f32, x.shape), ti.field(ti.f32, x.shape)
    x_field.from_numpy(x)
    y_field.from_numpy(y)
    tikgen.build("stencil", dim=2, unroll=1, storage="field")(x_field, y_field)
    np.testing.assert_allclose(y_field.to_numpy(), expected, atol=1e-5)


def test_torch_tensors(ti_arch: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
    kernel = tikgen.build("stencil", dim=2, unroll=1)
    x, y = arrays(rng)
    expected = kernel.reference(x, y)
    result = torch.from_numpy(y.copy())
    kernel(torch.from_numpy(x), result)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-5)
    square = torch.zeros(6, 6)
    for bad, message in (
        (torch.zeros(6, 6).double(), "takes dtype f32; got f64"),
        (square.t()[:, 1:], "not contiguous"),
        (torch.zeros(6, 6, requires_grad=True), "requires a gradient"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kernel(bad, square)
    with pytest.raises(ArgumentError, match="share memory"):
        kernel(square, square.numpy())


BAD_CALLS = {
    "dtype": (lambda x, y: (x.astype("f8"), y, 1.0), "'x' takes dtype f32 (float32); got float64"),
    "byte order": (lambda x, y: (x.astype(">f4"), y, 1.0), "'x' takes dtype f32"),
    "ndim": (lambda x, y: (x[0].copy(), y, 1.0), "'x' takes 2 axes (n0, n1); got shape (6,)"),
    "shape": (
        lambda x, y: (x, np.zeros((5, 7), "f4"), 1.0),
        "'y' takes shape (n0, n1) where n0 = 5, n1 = 6; got (5, 7)",
    ),
    "strides": (lambda x, y: (x[:, ::2], y, 1.0), "'x' is not C-contiguous (strides (24, 8))"),
    "fortran": (lambda x, y: (np.asfortranarray(x), y, 1.0), "'x' is not C-contiguous"),
    "empty": (lambda x, y: (x[:0], y[:0], 1.0), "'x' is empty (shape (0, 6))"),
    "aliased": (lambda x, y: (x, x, 1.0), "'y' and 'x' share memory"),
    "overlapping": (lambda x, y: (x[1:], x[:-1], 1.0), "'y' and 'x' share memory"),
    "list": (lambda x, y: ([[1.0]], y, 1.0), "takes a NumPy array, a ti.ndarray or a torch"),
    "text for scalar": (lambda x, y: (x, y, "1"), "'scale' takes a number of dtype f32; got str"),
    "bool for scalar": (lambda x, y: (x, y, True), "'scale' takes a number of dtype f32; got bool"),
    "too few": (lambda x, y: (x, y), "argument scale is missing"),
    "too many": (lambda x, y: (x, y, 1.0, 2.0), "takes 3 arguments"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_arguments_are_refused_before_the_launch(
    kernel: tikgen.Kernel, rng: np.random.Generator, case: str
) -> None:
    make, message = BAD_CALLS[case]
    x, y = arrays(rng)
    kept = x.copy(), y.copy()
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kernel(*make(x, y))
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])


def test_truth_values_have_a_view_of_bytes(ti_arch: str) -> None:
    kernel = tikgen.update("u' = u + 1", dim=1, mask="solid")
    u = np.zeros(3, np.float32)
    with pytest.raises(ArgumentError, match=r"u8 \(uint8\); got bool; pass solid.view\(np.uint8\)"):
        kernel(u=u, u_next=u.copy(), solid=np.ones(3, bool))


def test_names_are_checked(kernel: tikgen.Kernel, rng: np.random.Generator) -> None:
    x, y = arrays(rng)
    with pytest.raises(ArgumentError, match="has no argument 'z'; it takes x: f32"):
        kernel(x, z=y)
    with pytest.raises(ArgumentError, match="'x' is given twice"):
        kernel(x, y, 1.0, x=x)


def test_read_only_outputs_are_refused_and_read_only_inputs_are_fine(
    kernel: tikgen.Kernel, rng: np.random.Generator
) -> None:
    x, y = arrays(rng)
    x.flags.writeable = False
    kernel(x, y, 1.0)
    y.flags.writeable = False
    with pytest.raises(ArgumentError, match="'y' is read-only, and the kernel writes to it"):
        kernel(x, y, 1.0)


def test_integer_scalars_must_fit(ti_arch: str) -> None:
    kernel = tikgen.build("stencil", dim=1, dtype="i32", update=True)
    x, y = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    kernel(x, y, np.int64(3))
    with pytest.raises(ArgumentError, match=r"got the float 1\.5"):
        kernel(x, y, 1.5)
    with pytest.raises(ArgumentError, match="from -2147483648 to 2147483647; got 4294967296"):
        kernel(x, y, 2**32)


def test_stale_arrays_and_fields_are_refused(ti_arch: str) -> None:
    from conftest import init_taichi

    array, field = ti.ndarray(ti.f32, 5), ti.field(ti.f32, 5)
    fresh_kernel = tikgen.build("stencil", dim=1)
    field_kernel = tikgen.build("stencil", dim=1, storage="field")
    init_taichi()
    with pytest.raises(ArgumentError, match=r"'x' was made before the last ti.init and is stale"):
        fresh_kernel(array, np.zeros(5, np.float32))
    with pytest.raises(ArgumentError, match=r"'y' was made before the last ti.init and is stale"):
        field_kernel(ti.field(ti.f32, 5), field)
    with pytest.raises(ArgumentError, match=r"'x' takes a ti.field of scalars; got numpy.ndarray"):
        field_kernel(np.zeros(5, np.float32), ti.field(ti.f32, 5))
    with pytest.raises(ArgumentError, match=r"'x' takes dtype f32; got i32"):
        field_kernel(ti.field(ti.i32, 5), ti.field(ti.f32, 5))


def test_a_kernel_has_its_parameters_source_and_signature(kernel: tikgen.Kernel) -> None:
    assert kernel.params["dim"] == 2
    assert kernel.problem.update is True  # type: ignore[attr-defined]
    assert kernel.schedule.unroll == 1  # type: ignore[attr-defined]
    assert kernel.template.name == "stencil"
    assert kernel.digest == kernel.source.digest
    assert kernel.workspace == ()
    assert str(kernel.signature) == "x: f32[n0, n1], y: f32[n0, n1] -> written, scale: f32"
    for part in ("<Kernel stencil(dim=2", "takes x: f32[n0, n1]", kernel.digest[:16]):
        assert part in repr(kernel)


def test_a_compile_error_shows_rendered_line_template_line_and_parameters(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        "def f(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):\n"
        "    #% for u in range(n)\n"
        "    x[{{ u }}] = undefined_thing\n"
        "    #% endfor\n",
        n=2,
    )
    with pytest.raises(KernelCompileError) as caught:
        kernel(np.zeros(3, np.float32))
    message = str(caught.value)
    assert "undefined_thing" in message
    assert "template: one_off/kernel.py.j2:7" in message
    assert "rendered: 9: x[0] = undefined_thing" in message
    assert "parameters: n=2" in message


def test_an_arch_that_lacks_a_feature_is_refused(ti_arch: str, tmp_path: Any) -> None:
    from test_render import CODE, folder_with

    code = CODE + '\n    def unsupported(self, p, arch):\n        return "it needs magic"\n'
    template = tikgen.load_template(folder_with(tmp_path, code=code, name="magic"))
    with pytest.raises(UnsupportedOnArch, match=f"not supported on {ti_arch}: it needs magic"):
        tikgen.build(template)


def test_vector_arrays_and_fields_are_refused(ti_arch: str) -> None:
    kernel = tikgen.build("stencil", dim=1)
    y = np.zeros(5, np.float32)
    with pytest.raises(ArgumentError, match=r"takes a NumPy array, a ti.ndarray or a torch tensor"):
        kernel(ti.Vector.ndarray(2, ti.f32, 5), y)
    with pytest.raises(ArgumentError, match=r"takes a ti.field of scalars"):
        tikgen.build("stencil", dim=1, storage="field")(
            ti.Vector.field(2, ti.f32, 5), ti.field(ti.f32, 5)
        )


def test_a_field_without_a_shape_is_refused(ti_arch: str) -> None:
    kernel = tikgen.build("stencil", dim=1, storage="field")
    loose = ti.field(ti.f32)
    with pytest.raises(ArgumentError, match="'x' is a field that is not placed; give it a shape"):
        kernel(loose, ti.field(ti.f32, 5))
    ti.root.dense(ti.i, 5).place(loose)
    kernel(loose, ti.field(ti.f32, 5))


def test_integers_that_exceed_every_float_are_refused(kernel: tikgen.Kernel) -> None:
    x, y = np.zeros((3, 3), np.float32), np.zeros((3, 3), np.float32)
    with pytest.raises(ArgumentError, match="got an integer beyond every float"):
        kernel(x, y, 10**400)


@pytest.mark.parametrize(("dtype", "lowest"), [("f32", r"up to 3\.40282e\+38"), ("i64", "-9")])
@pytest.mark.usefixtures("ti_arch")
def test_large_integers_are_told_by_their_size(dtype: str, lowest: str) -> None:
    kernel = tikgen.build("map", expr="z = a * x", dtype=dtype, scalars=("a",))
    x = np.ones(3, DType(dtype).numpy)
    for value, shown in ((10**40, r"1e\+40"), (10**5000, "an integer beyond every float")):
        with pytest.raises(ArgumentError, match=f"{lowest}.*; got {shown}$"):
            kernel(a=value, x=x, z=np.zeros_like(x))
    if dtype == "i64":
        with pytest.raises(ArgumentError, match=r"got 9223372036854775808$"):
            kernel(a=2**63, x=x, z=np.zeros_like(x))


@pytest.mark.parametrize(("dtype", "most"), [("f16", 65504.0), ("f32", 3.4028235e38)])
def test_scalars_that_a_dtype_does_not_hold_are_refused(
    dtype: str, most: float, ti_arch: str
) -> None:
    if dtype == "f16" and ti_arch == "vulkan":
        pytest.skip("no f16")
    kernel = tikgen.build("map", expr="z = where(x > 0, a, x)", dtype=dtype, scalars=("a",))
    x, z = np.ones((2, 3), tikgen.DType(dtype).numpy)
    bound = kernel.bind(a=0.5, x=x, z=z)
    for number in (1e300, -1e300, 2 * most, np.float64(2 * most), 10**60):
        with pytest.raises(ArgumentError, match=f"'a' takes a number of dtype {dtype}, up to "):
            kernel(a=number, x=x, z=z)
        with pytest.raises(ArgumentError, match=f"'a' takes a number of dtype {dtype}, up to "):
            bound(a=number)
    for number in (most, -most, np.inf, np.float64(most)):
        kernel(a=number, x=x, z=z)
        assert (z == tikgen.DType(dtype).numpy.type(number)).all()


def test_two_outputs_may_not_be_one_array(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.elementwise("u = x + 1; v = x + 2")
    x, y = rng.random((2, 6), dtype=np.float32)
    with pytest.raises(ArgumentError, match="share memory"):
        kernel(x, y, y)
    kernel(x, x, y)  # An output may be an input.


def test_the_reference_checks_its_arguments(kernel: tikgen.Kernel) -> None:
    x = np.ones((4, 5), np.float32)
    with pytest.raises(ArgumentError, match="has no argument 'bogus'"):
        kernel.reference(x, scale=1.0, bogus=3)
    with pytest.raises(ArgumentError, match="'x' is given twice"):
        kernel.reference(x, scale=1.0, x=x)
    with pytest.raises(ArgumentError, match="'scale' takes a number of dtype f32; got None"):
        kernel.reference(x)
    with pytest.raises(ArgumentError, match="argument 'x' is missing"):
        kernel.reference(y=x, scale=1.0)
    with pytest.raises(ArgumentError, match="takes 2 axes"):
        kernel.reference(x[0], scale=1.0)
    array = ti.ndarray(ti.f32, x.shape)
    array.fill(1.0)
    np.testing.assert_array_equal(
        kernel.reference(array, scale=2.0), kernel.reference(x, scale=2.0)
    )


def test_8_threads_may_make_the_first_launches(ti_arch: str, rng: np.random.Generator) -> None:
    tikgen.clear()
    x = rng.random(40, dtype=np.float32)
    interior = tikgen.build("stencil", dim=1)
    interior(x, x.copy())  # The first launch belongs to the thread that called ti.init.
    if ti_arch == "cuda":  # There the workspace has to be made in this thread, too.
        for chunks in range(1, 9):
            tikgen.build("reduce", op="sum", chunks=chunks)(x, np.zeros(1, np.float32))
    barrier = threading.Barrier(8)
    errors = []

    def work(number: int) -> None:
        try:
            reduce = tikgen.build("reduce", op="sum", chunks=number + 1)
            smooth = tikgen.build("stencil", dim=1, points={(0,): 1.0, (1,): number + 1.0})
            barrier.wait()
            for _ in range(3):
                out, y = np.zeros(1, np.float32), np.full_like(x, np.nan)
                reduce(x, out)
                smooth(x, y)
                np.testing.assert_allclose(out[0], x.sum(), rtol=1e-4)
                np.testing.assert_allclose(y[:-1], x[:-1] + (number + 1) * x[1:], rtol=1e-5)
                assert np.isnan(y[-1])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
