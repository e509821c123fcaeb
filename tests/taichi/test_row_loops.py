"""Loops over all elements of arrays run by rows on cpu, and compute the same."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen.taichi import row_loops

pytestmark = [pytest.mark.arch, pytest.mark.skipif(ARCH != "cpu", reason="they are for cpu")]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

TEXT = """
import taichi as ti


@ti.kernel
def walk(
    x: ti.types.ndarray(dtype=ti.i32, ndim={ndim}),
    y: ti.types.ndarray(dtype=ti.i32, ndim={ndim}),
):
    {before}
    for {indices} in {over}:
        {body}
"""
NAMES = "abcd"


def kernel_of(ndim: int, over: str, body: str, before: str = "pass", indices: str = "") -> Any:
    names = indices or ", ".join(NAMES[:ndim])
    return tikgen.from_string(
        TEXT.format(ndim=ndim, before=before, indices=names, over=over, body=body)
    ).with_engine("direct-cpu")


def is_rewritten(kernel: Any) -> bool:
    """Return whether the loop of a kernel becomes a loop by rows."""
    primal = kernel.loaded.function._primal
    tree = ast.parse(textwrap.dedent(inspect.getsource(primal.func)))
    before = ast.dump(tree)
    changes = row_loops.rewrite(tree, primal)
    assert changes is (ast.dump(tree) != before)
    return changes


def margins(ndim: int) -> tuple[str, tuple[slice, ...]]:
    """Return a loop over the elements that are not at a side, and where they lie."""
    bounds = ", ".join(f"(1, x.shape[{axis}] - 1)" for axis in range(ndim))
    return f"ti.ndrange({bounds})", (slice(1, -1),) * ndim


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
@pytest.mark.parametrize("over", ["x", "ndrange", "inside"])
def test_each_element_is_computed_once(ndim: int, over: str, ti_arch: str) -> None:
    extents = ", ".join(f"x.shape[{axis}]" for axis in range(ndim))
    loop, where = margins(ndim) if over == "inside" else (over, (slice(None),) * ndim)
    loop = f"ti.ndrange({extents})" if over == "ndrange" else loop
    own = ", ".join(NAMES[:ndim])
    linear = "+".join(f"{7**k}*{name}" for k, name in enumerate(NAMES[:ndim]))
    kernel = kernel_of(ndim, loop, f"y[{own}] += x[{own}] + {linear}")
    assert is_rewritten(kernel)

    @settings(max_examples=examples(40, 15))
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        long = data.draw(st.sampled_from([1, 2, 3, 511, 512, 513, 514, 515, 1024, 2000]))
        shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=ndim, max_size=ndim))
        shape[data.draw(st.integers(0, ndim - 1))] = long
        x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        y = np.full_like(x, 5)
        expected = y.copy()
        places = sum(7**k * index for k, index in enumerate(np.indices(shape)))
        expected[where] += (x + places)[where].astype(np.int32)
        kernel(x, y)
        np.testing.assert_array_equal(y, expected)

    compare()


def test_extents_may_have_names_and_bodies_may_go_on(ti_arch: str) -> None:
    body = "if (a + b) % 3 == 0:\n            continue\n        y[a, b] = x[a, b]"
    extents = "n = x.shape[0]\n    m = x.shape[1] - 1"
    kernel = kernel_of(2, "ti.ndrange(n, (2, m))", body, extents)
    assert is_rewritten(kernel)
    x = np.arange(1, 7 * 1500 + 1, dtype=np.int32).reshape(7, 1500)
    y = np.zeros_like(x)
    kernel(x, y)
    a, b = np.indices(x.shape)
    np.testing.assert_array_equal(y, np.where(((a + b) % 3 != 0) & (b >= 2) & (b < 1499), x, 0))


def test_a_serial_loop_keeps_its_order(ti_arch: str) -> None:
    serial = "ti.loop_config(serialize=True)"
    kernel = kernel_of(2, "x", "y[0, 0] = y[0, 0] * 3 + x[a, b]", serial)
    assert is_rewritten(kernel)
    x = np.random.default_rng(1).integers(0, 99, (3, 700), np.int32)
    y = np.zeros_like(x)
    kernel(x, y)
    expected = 0
    for number in x.ravel():
        expected = (expected * 3 + int(number)) % 2**32
    assert int(y[0, 0]) % 2**32 == expected


@pytest.mark.parametrize(
    ("over", "body", "before", "indices"),
    [
        ("ti.ndrange(x.shape[0] // 2, x.shape[1])", "y[a, b] = 1", "pass", ""),
        ("ti.ndrange(8, 64)", "y[a, b] = 1", "pass", ""),
        ("ti.ndrange(n, x.shape[1])", "y[a, b] = 1", "n = x.shape[0]\n    n = 1", ""),
        ("ti.ndrange((x[0, 0], x.shape[0]), x.shape[1])", "y[a, b] = 1", "pass", ""),
        ("ti.grouped(x)", "y[a] = 1", "pass", "a"),
        ("x", "for a in range(2):\n            y[a, b] = 1", "pass", ""),
        ("x", "y[a, b] = 1", "a = 1", ""),
        ("x", "tikgen_row = 1\n        y[a, b] = tikgen_row", "pass", ""),
        ("x", "y[a, b] = 1", "ti.block_local(x)", ""),
        ("x", "break", "pass", ""),
        ("range(x.shape[0])", "y[a, 0] = 1", "pass", "a"),
    ],
)
def test_other_loops_stay(over: str, body: str, before: str, indices: str, ti_arch: str) -> None:
    assert not is_rewritten(kernel_of(2, over, body, before, indices))


def test_a_kernel_that_prints_needs_taichi(ti_arch: str, capfd: pytest.CaptureFixture[str]) -> None:
    body = "y[a, b] = x[a, b]\n        if a + b == 0:\n            print('here')"
    kernel = kernel_of(2, "x", body)
    assert is_rewritten(kernel)
    with pytest.raises(tikgen.errors.EngineUnavailable, match="it prints"):
        kernel.compile()


def test_an_error_in_the_body_names_its_line(ti_arch: str) -> None:
    kernel, x = kernel_of(2, "x", "y[a, b] = missing"), np.zeros((2, 2), np.int32)
    with pytest.raises(tikgen.errors.KernelCompileError, match=r"y\[a, b\] = missing"):
        kernel(x, x.copy())
