"""Kernels from strings."""

from __future__ import annotations

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen.errors import (
    ArgumentError,
    KernelCompileError,
    ParameterError,
    RenderError,
    TemplateError,
)

TEXT = """\
import taichi as ti


@ti.kernel
def add(
    x: ti.types.ndarray(dtype=ti.{{ dtype }}, ndim=1),
    y: ti.types.ndarray(dtype=ti.{{ dtype }}, ndim=1),
    a: ti.f32,
):
    for i in range(x.shape[0]):
        #% for _ in range(times)
        y[i] += a * x[i]
        #% endfor
"""


def test_it_runs_and_accepts_read_only_inputs(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.from_string(TEXT, dtype=ti.f32, times=3)
    assert str(kernel.signature) == "x: f32[x_0], y: f32[y_0] -> updated, a: f32"
    x = rng.random(5, dtype=np.float32)
    x.flags.writeable = False
    y = np.ones(5, np.float32)
    kernel(x, y, 2.0)
    np.testing.assert_allclose(y, 1 + 6 * x, rtol=1e-5)
    y.flags.writeable = False
    with pytest.raises(tikgen.TikgenError, match="'y' is read-only"):
        kernel(x, y, 2.0)


def test_arguments_without_types_are_passed_unchecked(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef fill(x: ti.types.ndarray(), f: ti.template()):\n"
        "    for i in range(x.shape[0]):\n        x[i] = f[None]\n"
    )
    field, x = ti.field(ti.i32, ()), np.zeros(3, np.int32)
    field[None] = 7
    kernel(x, field)
    np.testing.assert_array_equal(x, 7)


def test_arrays_of_vectors_have_the_shape_of_their_elements(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        "def double(x: ti.types.ndarray(dtype=ti.math.vec3, ndim=1)):\n"
        "    for i in x:\n        x[i] = 2 * x[i]\n"
    )
    x = np.ones((4, 3), np.float32)
    kernel(x)
    assert (x == 2).all()
    kernel(ti.Vector.ndarray(3, ti.f32, 4))
    wrong = {
        r"takes shape \(x_0, 3\); got \(4, 2\)": x[:, :2].copy(),
        r"takes shape \(x_0, 3\); got \(3,\)": x[0],
        r"takes shape \(x_0, 3\); got \(1, 4, 3\)": x[None],
        "is not C-contiguous; pass np.ascontiguousarray": x[::2],
        "takes a NumPy array, a ti.ndarray or a torch tensor; got list": [[1, 2, 3]],
        r"takes shape \(x_0,\) with elements of shape \(3,\); got \(4,\) with \(2,\)": (
            ti.Vector.ndarray(2, ti.f32, 4)
        ),
    }
    for problem, value in wrong.items():
        for use in (kernel, kernel.bind):
            with pytest.raises(ArgumentError, match=f"argument 'x' {problem}"):
                use(value)


def test_arrays_of_any_number_of_axes_have_the_dtype(ti_arch: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef double(x: ti.types.ndarray(dtype=ti.f32)):\n"
        "    for at in ti.grouped(x):\n        x[at] = 2 * x[at]\n"
    )
    for shape in ((4,), (2, 3)):
        x = np.ones(shape, np.float32)
        kernel(x)
        assert (x == 2).all()
    with pytest.raises(ArgumentError, match="argument 'x' takes dtype f32; got float64"):
        kernel(np.ones(4))


def test_what_a_text_may_write_is_told_so(ti_arch: str) -> None:
    kernel, x = tikgen.from_string(TEXT, dtype="f32", times=1), np.ones(5, np.float32)
    with pytest.raises(ArgumentError, match="share memory, and the kernel may write to 'y'"):
        kernel(x[1:], x[:-1], 1.0)


@pytest.mark.parametrize(
    "value", ["a; import os", "x\ny", "__import__('os')", "ti.init()", object(), b"x", "lambda: 0"]
)
def test_values_that_could_carry_code_are_refused(value: object) -> None:
    with pytest.raises(ParameterError, match="'v' takes a number, a dtype, an identifier"):
        tikgen.from_string("{{ v }}\n", v=value)


@pytest.mark.parametrize("text", ["", "  \n", None, b"x", 3])
def test_invalid_texts_are_refused(text: object) -> None:
    with pytest.raises(RenderError, match="takes a non-empty text"):
        tikgen.from_string(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["p", "schedule", "arguments"])
def test_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' has a reserved name; these are arch"):
        tikgen.from_string(TEXT, **{"dtype": "f32", "times": 1, name: 1})


def test_tuples_of_values_are_taken() -> None:
    text = TEXT.replace("range(times)", "times")
    source = tikgen.from_string(text, dtype="f32", times=(1, ("a", 2.5))).source
    assert source.text.count("y[i] += a * x[i]") == 2
    assert str(source) == source.text
    with pytest.raises(ParameterError, match="'times' takes a number"):
        tikgen.from_string(text, dtype="f32", times=(1, (b"x",)))


def test_what_is_no_reduction_is_refused() -> None:
    for expr, problem in (("sum(x", "cannot be used: .*not arithmetic"), ("y = x", "assigns y")):
        with pytest.raises(ParameterError, match=f"'expr' {problem}"):
            tikgen.reduce(expr)


def test_names_that_are_not_given_are_reported() -> None:
    with pytest.raises(RenderError, match="undefined name among times"):
        tikgen.from_string(TEXT, dtype="f32")


def test_a_text_must_define_one_kernel() -> None:
    with pytest.raises(KernelCompileError, match=r"must define one @ti.kernel.*it defines none"):
        tikgen.from_string("a = 1\n")
    method = "class C:\n    @ti.kernel\n    def go(self, x: ti.i32):\n        pass\n"
    with pytest.raises(KernelCompileError, match=r"none; methods such as C\.go are not taken"):
        tikgen.from_string(f"import taichi as ti\n{method}")


def test_annotations_that_are_text_are_told_of() -> None:
    text = "from __future__ import annotations\nimport taichi as ti\n"
    kernel = "@ti.kernel\ndef go(x: ti.i32):\n    pass\n"
    with pytest.raises(KernelCompileError, match=r"argument 0\).*ti\.i32; .*remove that import"):
        tikgen.from_string(text + kernel)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.zeros(3), r"got numpy\.ndarray; declare f: ti\.types\.ndarray\(\)"),
        ([1, 2], "got list, which has no hash; pass a tuple"),
        ({}, "got dict, which has no hash"),
    ],
)
def test_what_no_template_argument_takes_is_refused(value: object, told: str) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef fill(f: ti.template()):\n"
        "    for i in range(3):\n        f[i] = 1\n"
    )
    for call in (kernel, lambda given: kernel.bind(given)()):
        with pytest.raises(ArgumentError, match=rf"'f' is a ti\.template\(\).*{told}"):
            call(value)


def test_an_error_while_loading_is_located() -> None:
    with pytest.raises(RenderError) as caught:
        tikgen.from_string("import taichi as ti\n\nb = missing + 1\n")
    assert "NameError" in str(caught.value)
    assert "template: one_off/kernel.py.j2:3" in str(caught.value)


def test_there_is_no_reference() -> None:
    kernel = tikgen.from_string(TEXT, dtype="f32", times=1)
    with pytest.raises(TemplateError, match="has no reference"):
        kernel.reference(1)


def test_a_stale_field_in_an_unknown_argument_is_refused(ti_arch: str) -> None:
    from conftest import init_taichi

    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef fill(f: ti.template()):\n"
        "    for i in range(3):\n        f[i] = 1\n"
    )
    field, vectors = ti.field(ti.i32, 3), ti.Vector.field(2, ti.i32, 3)
    kernel(field)
    init_taichi()
    for stale in (field, vectors):
        with pytest.raises(ArgumentError, match=r"'f' was made before the last ti\.init"):
            kernel(stale)
    fresh = ti.Vector.field(2, ti.i32, 3)
    kernel(fresh)
    assert (fresh.to_numpy() == 1).all()


def test_an_error_for_a_value_of_a_template_argument_is_explained(
    ti_arch: str,
) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        "def pick(n: ti.template(), x: ti.types.ndarray(dtype=ti.i32, ndim=1)):\n"
        "    for i in range(x.shape[0]):\n"
        "        if ti.static(n == 1):\n            x[i] = n\n"
        "        else:\n            x[i] = missing\n"
    )
    x = np.zeros(2, np.int32)
    kernel(1, x)
    with pytest.raises(KernelCompileError, match="missing"):
        kernel(2, x)


def test_numpy_numbers_are_numbers() -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\ndef f():\n    a = {{ n }}\n", n=np.int64(3)
    )
    assert "a = 3" in kernel.source.text


def test_comments_in_strings_belong_to_the_code() -> None:
    text = 'import taichi as ti\n\nTABLE = """\n{} one\n"""\nN = TABLE.count("#")\n\n\n'
    text += "@ti.kernel\ndef count() -> ti.i32:\n    return N\n"
    assert tikgen.from_string(text.format("#")) is not tikgen.from_string(text.format("-"))


def test_names_may_be_of_any_letters(ti_arch: str) -> None:
    # PTX has letters of ASCII only.
    kernel_name = "size" if ti_arch == "cuda" else "größe"
    kernel = tikgen.from_string(
        "import taichi as ti\n\n\n@ti.kernel\n"
        f"def {kernel_name}(ж: ti.types.ndarray(ti.f32, ndim=1)):\n"
        "    for i in ж:\n        ж[i] = 2 * ж[i]\n"
    )
    ж = np.ones(3, np.float32)
    kernel(ж)
    assert (ж == 2).all()
    with pytest.raises(ArgumentError, match="argument 'ж' takes 1 axis"):
        kernel(np.ones((2, 2), np.float32))


def test_one_offs_cannot_be_ejected() -> None:
    kernel = tikgen.from_string(TEXT, dtype="f32", times=1)
    with pytest.raises(TemplateError, match="has no reference to eject"):
        kernel.eject()


def test_parameters_that_the_text_does_not_use_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"'tmies' is unknown\. Did you mean 'times'"):
        tikgen.from_string(TEXT, dtype="f32", times=1, tmies=2)
