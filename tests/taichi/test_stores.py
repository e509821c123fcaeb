"""Vectors where Taichi needs numbers, and indices outside of them: LLVM would end the process."""

from typing import Any

import numpy as np
import pytest
import taichi as ti

from tikgen.errors import KernelCompileError
from tikgen.live import Loader

pytestmark = [pytest.mark.usefixtures("ti_arch"), pytest.mark.once]

TEXT = """
@ti.kernel
def step(x: ti.types.ndarray(ti.f32, 1), v: ti.types.ndarray(ti.math.vec2, 1)):
    for i in range(x.shape[0]):
        {}
"""


def launched(line: str) -> tuple[Any, Any]:
    """Return the arrays after a launch of a kernel with such a line: ones before, and vectors."""
    module = Loader().load(TEXT.format(line), "step")
    x, v = np.ones(3, np.float32), ti.Vector.ndarray(2, ti.f32, 3)
    v.fill(1.0)
    module.step(x, v)
    return x[0], v.to_numpy()[0].tolist()


@pytest.mark.filterwarnings("ignore:Casting range_for boundary")
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("x[i] = [1, 2] * x[i]", "cannot assign '[Tensor (2) f32]' to 'f32'"),
        ("x[i] *= ti.Vector([1.0, 2.0])", "cannot assign '[Tensor (2) f32]' to 'f32'"),
        ("x[i] = ti.Matrix([[1], [2]])", "cannot assign '[Tensor (2, 1) i32]' to 'f32'"),
        ("v[i][0] = v[i]", "cannot assign '[Tensor (2) f32]' to 'f32'"),
        ("a: ti.f32 = v[i]; x[i] = a", "cannot assign '[Tensor (2) f32]' to 'f32'"),
        ("v[i] += [1.0, 2.0, 3.0]", "cannot assign '[Tensor (3) f32]' to '[Tensor (2) f32]'"),
        ("ti.atomic_max(v[i], ti.Vector([1.0]))", "cannot assign '[Tensor (1) f32]' to"),
        ("x[i] = ti.Vector([1, 2])[5]", "index 5 is out of bounds for axis 0 with size 2"),
        ("v[i][2] = 1.0", "index 2 is out of bounds for axis 0 with size 2"),
        ("x[i] = ti.Matrix.zero(ti.f32, 2, 3)[1, 3]", "index 3 is out of bounds for axis 1 with"),
        ("v[i] = [v[i][j + 1] for j in ti.static(range(2))]", "index 2 is out of bounds"),
        ("v[i][0:3] = ti.Vector([1, 2, 3])", "index 2 is out of bounds for axis 0 with size 2"),
        ("for _ in range(ti.Vector([1, 2])): x[i] += 1", "range takes integers; got '[Tensor (2)"),
    ],
)
def test_misuse_of_a_vector_is_refused_with_the_line(line: str, problem: str) -> None:
    with pytest.raises(KernelCompileError) as caught:
        launched(line)
    told = str(caught.value)
    assert problem in told
    assert "line 5, in step" in told


@pytest.mark.parametrize(
    ("line", "x", "v"),
    [
        ("v[i] = x[i] + 1", 1, [2, 2]),
        ("v[i] += 3", 1, [4, 4]),
        ("v[i] += [1, 2]", 1, [2, 3]),
        ("v[i] = [5, 6]; v[i].yx = v[i].xy; x[i] = v[i][0]", 6, [6, 5]),
        ("m = ti.Matrix.zero(ti.f32, 2, 3); m[:, 1] = v[i] * 4; x[i] += m[1, 1]", 5, [1, 1]),
    ],
)
def test_vectors_and_numbers_go_into_vectors(line: str, x: float, v: list[float]) -> None:
    assert launched(line) == (x, v)


def test_a_plain_kernel_gets_the_error_of_taichi() -> None:
    @ti.kernel
    def plain(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        for i in range(x.shape[0]):  # type: ignore[attr-defined]
            x[i] = [1, 2]  # type: ignore[index]

    with pytest.raises(ti.TaichiTypeError, match=r"cannot assign '\[Tensor \(2\) i32\]' to 'f32'"):
        plain(np.ones(3, np.float32))
