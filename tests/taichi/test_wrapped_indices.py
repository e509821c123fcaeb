"""Indices that wrap around are found without a division, with the same results."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
import taichi as ti
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.taichi import wrapped_indices

TEXT = """
import taichi as ti

SIX = 6


@ti.kernel
def wrap(
    x: ti.types.ndarray(dtype=ti.i32, ndim=2),
    y: ti.types.ndarray(dtype=ti.i32, ndim=2),
    z: ti.types.ndarray(dtype=ti.i32, ndim=1),
    rows: ti.i32,
):
    n, m = x.shape[0], x.shape[1]
    for {over}:
        y[i, j] = x[{one}, {other}]
    for k in range(SIX):
        z[k] = 10 * ((k + {step}) % SIX) + (k + {step} + 5) % 6
"""
LOOPS = (
    "i, j in x",
    "i, j in ti.ndrange(rows, m)",
    "i, j in ti.ndrange(n, (1, m - 1))",
    "i, j in ti.ndrange((1, x.shape[0]), x.shape[1])",
)
STEPS = st.integers(-6, 6)


def index(name: str, extent: str, step: int, times: int) -> str:
    sign = "+" if step >= 0 else "-"
    whole = f" + {extent}" * times if times >= 0 else f" - {extent}"
    return f"({name} {sign} {abs(step)}{whole}) % {extent}"


@pytest.mark.usefixtures("ti_arch")
@settings(max_examples=examples(15, 5))
@given(
    over=st.sampled_from(LOOPS),
    steps=st.tuples(STEPS, STEPS),
    times=st.integers(-1, 2),
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9)) | st.just((3, 700)),
)
def test_elements_are_those_of_numpy(
    over: str, steps: tuple[int, int], times: int, shape: tuple[int, int]
) -> None:
    extents = ("rows" if "rows" in over else "n", "x.shape[1]")
    one, other = (index(*each, times) for each in zip("ij", extents, steps, strict=True))
    text = TEXT.format(over=over, one=one, other=other, step=abs(steps[0]))
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    y, z = np.full_like(x, -1), np.zeros(6, np.int32)
    tikgen.from_string(text)(x, y, z, shape[0])
    expected = np.roll(x, (-steps[0], -steps[1]), (0, 1))
    written = y != -1
    np.testing.assert_array_equal(y[written], expected[written])
    left_out = {2: shape[0] * min(2, shape[1]), 3: shape[1]}.get(LOOPS.index(over), 0)
    assert written.sum() == x.size - left_out
    k = np.arange(6) + abs(steps[0])
    np.testing.assert_array_equal(z, 10 * (k % 6) + (k + 5) % 6)


# Of the kernels below.
KERNEL = SimpleNamespace(
    arguments=[
        SimpleNamespace(name="x", annotation=ti.types.ndarray(ti.f32, ndim=2)),
        SimpleNamespace(name="y", annotation=ti.template()),
        SimpleNamespace(name="count", annotation=ti.i32),
        SimpleNamespace(name="natural", annotation=ti.u32),
        SimpleNamespace(name="long", annotation=ti.i64),
        SimpleNamespace(name="real", annotation=ti.f32),
    ]
)


def rewritten(loop: str, code: str, before: str = "n, m = x.shape") -> str:
    head = "def f(x, y, count, natural, long, real)"
    text = f"{head}:\n    {before}\n    {loop}:\n        y[0] = {code}"
    tree = ast.parse(text)
    wrapped_indices.rewrite(tree, KERNEL, {"ti": ti, "SIX": 6})
    return ast.unparse(tree).splitlines()[-1].strip().partition(" = ")[2]


OWN = "wrapped_by_tikgen"


@pytest.mark.parametrize(
    ("loop", "code", "expected"),
    [
        ("for i, j in x", "(i + 1) % n", f"{OWN}(i, 1, x.shape[0])"),
        ("for i, j in x", "(j - 2) % x.shape[1]", f"{OWN}(j, -2, x.shape[1])"),
        ("for i, j in x", "(m + j - 1) % m", f"{OWN}(j, -1, x.shape[1])"),
        ("for i, j in x", "(i + n) % n", "i"),
        ("for i in range(count)", "(i + 4) % count", f"{OWN}(i, 4, count)"),
        ("for i in range(2, n - 1)", "(i + 1) % n", f"{OWN}(i, 1, x.shape[0])"),
        ("for i in range(SIX)", "(i - 1) % SIX", f"{OWN}(i, -1, SIX)"),
        ("for i in range(8)", "(i + 7) % 8", f"{OWN}(i, -1, 8)"),
        ("for i, j in ti.ndrange(n, (1, m))", "(j + 1) % m", f"{OWN}(j, 1, x.shape[1])"),
    ],
)
def test_a_remainder_of_an_index_is_changed(loop: str, code: str, expected: str) -> None:
    assert rewritten(loop, code) == expected


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        # Another extent, or an index that may be beyond it.
        ("for i, j in x", "(i + 1) % m"),
        ("for i in range(n + 1)", "(i + 1) % n"),
        ("for i in range(-1, n)", "(i + 1) % n"),
        ("for i in range(0, n, 2)", "(i + 1) % n"),
        ("for i in range(count, n)", "(i + 1) % n"),
        # The indices of a field may begin below 0.
        ("for i, j in y", "(i + 1) % y.shape[0]"),
        # Other sums, and steps that take longer than a division.
        ("for i, j in x", "(i + j) % n"),
        ("for i, j in x", "(n - i) % n"),
        ("for i, j in x", "2 * i % n"),
        ("for i, j in x", "(i + 5) % n"),
        ("for i in ti.grouped(x)", "(i + 1) % n"),
        ("for i in ti.static(range(n))", "(i + 1) % n"),
    ],
)
def test_other_remainders_stay(loop: str, code: str) -> None:
    assert rewritten(loop, code) == code


@pytest.mark.parametrize(
    "before",
    ["n = 3\n    n = 4", "n = x.shape[0]\n    n += 1", "n = x.shape[0] + 1", "n = count + 1"],
)
def test_names_that_change_are_no_extents(before: str) -> None:
    assert rewritten("for i, j in x", "(i + 1) % n", before) == "(i + 1) % n"


@pytest.mark.parametrize("value", ["natural", "long", "real", "ti.u32(x.shape[0])", "y[0]"])
def test_extents_that_are_no_i32_stay(value: str) -> None:
    assert rewritten(f"for i in range({value})", f"(i - 1) % {value}") == f"(i - 1) % {value}"
    assert rewritten("for i in range(n)", "(i - 1) % n", f"n = {value}") == "(i - 1) % n"
    assert rewritten("for i in range(n)", "(i - 1) % n", f"n: ti.u32 = {value}") == "(i - 1) % n"


@pytest.mark.parametrize(
    "value",
    ["2 * count + 1", "x.shape[0] // 2", "ti.i32(natural)", "ti.max(count, 4)", "int(real)"],
)
def test_variables_of_i32_are_extents(value: str) -> None:
    code = rewritten("for i in range(n)", "(i - 1) % n", f"n = {value}")
    assert code == f"{OWN}(i, -1, n)"


@pytest.mark.arch
@pytest.mark.parametrize("dtype", ["u8", "u32", "i64", "u64"])
def test_a_remainder_is_of_the_type_of_its_extent(ti_arch: str, dtype: str) -> None:
    text = f"""
import taichi as ti


@ti.kernel
def wrap(y: ti.types.ndarray(dtype=ti.i64, ndim=1), n: ti.{dtype}):
    for i in range(ti.i32(n)):
        y[i] = (i - 1) % n
    for i in range(n):
        y[i + 7] = (i - 1) % n
"""
    y = np.zeros(14, np.int64)
    tikgen.from_string(text)(y, 7)
    bits = {"u32": 32, "u64": 64}.get(dtype)
    first = (2**bits - 1 if bits else -1) % 7
    np.testing.assert_array_equal(y, [first, *range(6)] * 2)


def test_an_index_that_is_assigned_stays() -> None:
    code = textwrap.dedent(
        """
        def f(x, y):
            for i, j in x:
                i += 7
                y[0] = (i + 1) % x.shape[0]
        """
    )
    tree = ast.parse(code)
    wrapped_indices.rewrite(tree, KERNEL, {"ti": ti})
    assert ast.unparse(tree) == ast.unparse(ast.parse(code))


@pytest.mark.arch
def test_indices_of_a_field_with_an_offset_begin_below_0(ti_arch: str) -> None:
    text = """
import taichi as ti


@ti.kernel
def wrap(f: ti.template(), y: ti.types.ndarray(dtype=ti.i32, ndim=1)):
    for i in f:
        y[i + 3] = (i + 1) % f.shape[0]
"""
    y = np.zeros(5, np.int32)
    tikgen.from_string(text)(ti.field(ti.i32, 5, offset=-3), y)
    np.testing.assert_array_equal(y, (np.arange(-3, 2) + 1) % 5)
