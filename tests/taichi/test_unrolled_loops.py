"""Short loops within parallel loops are written out, with the results of the loops."""

from __future__ import annotations

import itertools
import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import given, settings
from hypothesis import strategies as st

import rewriting
import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen.taichi import unrolled_loops

TEXT = """
import taichi as ti

R = 1


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.f32, ndim=2),
    y: ti.types.ndarray(dtype=ti.f32, ndim=2),
    n: ti.i32,
):
{code}
"""
OVER = (
    "for i, j in ti.ndrange((6, x.shape[0] - 6), (6, x.shape[1] - 6)):",
    "for i in range(6, x.shape[0] - 6):\n    for j in range(6, x.shape[1] - 6):",
)
LOOPS = (
    "for a in range(-1, 2):\n    for b in range(3):",
    "for a, b in ti.ndrange((-R, R + 1), (-2, 1)):",
    "for a in range(2 * R + 1):\n    b = a - 1",
    "for b in range(-2, 2):\n    a = n - b",
)
BODIES = (
    "s += x[i + a - 1, j + b] * a",
    "t = x[i + a - 1, j + b]\nif t > b:\n    s += t\nelse:\n    s -= 2 * b",
    "s = ti.max(s, x[i, j + b] / 2 ** 2 + a)",
    "t = a / 2 + b\nt += t\ns += t * x[i - a, j]",
    "t = a + b\nu = 2 * t\ns -= u",
    "y[i, j] += x[i - b, j] - a",
    "for c in range(2):\n    s += c * x[i + b, j + c]\nfor c in range(n):\n    s += c - a",
)


def code_of(over: str, parts: list[tuple[str, str]]) -> str:
    """Return a parallel loop with some short loops one after the other."""
    short = "".join(
        f"{loop}\n{textwrap.indent(body, '    ' * (loop.count(chr(10) + '    for') + 1))}\n"
        for loop, body in parts
    )
    inner = f"s = x[i, j]\n{short}y[i, j] += s\n"
    return f"{over}\n{textwrap.indent(inner, '    ' * (over.count(chr(10)) + 1))}"


def by_python(code: str, x: np.ndarray, y: np.ndarray, n: int) -> None:
    """Run the code of a kernel in Python."""

    def ndrange(*ends: Any) -> Any:
        return itertools.product(*(range(*e) if isinstance(e, tuple) else range(e) for e in ends))

    stand_in = SimpleNamespace(ndrange=ndrange, max=max)
    exec(code, {"ti": stand_in, "R": 1, "x": x, "y": y, "n": n})


@pytest.mark.usefixtures("ti_arch", "without_fast_math")
@settings(max_examples=examples(24, 6))
@given(data=st.data())
def test_results_are_those_of_python(data: st.DataObject) -> None:
    part = st.tuples(st.sampled_from(LOOPS), st.sampled_from(BODIES))
    code = code_of(
        data.draw(st.sampled_from(OVER), label="over"),
        data.draw(st.lists(part, min_size=1, max_size=3), label="loops"),
    )
    shape = data.draw(st.tuples(st.integers(13, 17), st.integers(13, 50)), label="shape")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x, y = rng.integers(-9, 9, (2, *shape)).astype(np.float32)
    expected = y.copy()
    by_python(code, x.astype(np.float64), expected, 2)
    tikgen.from_string(TEXT.format(code=textwrap.indent(code, "    ")))(x, y, 2)
    np.testing.assert_array_equal(y, expected)


def rewritten(code: str, **names: Any) -> str:
    def rewrite(tree: Any, _: Any, found: dict[str, Any]) -> None:
        unrolled_loops.rewrite(tree, found)

    code = f"for i in x:\n{textwrap.indent(code, '    ')}"
    arrays = {"x": (ti.f32, 1), "y": (ti.f32, 2), "z": (ti.i32, 1)}
    return rewriting.rewritten(rewrite, arrays, code, names)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("for a in range(3):\n    x[i] += a", 3),
        ("for a in range(N):\n    x[i] += a", 4),
        ("for a, b in ti.ndrange(3, (1, 3)):\n    x[i] += a * b", 5),
        (
            "if n > 2:\n    for a in range(2):\n        for b in range(5):\n            x[i] += b",
            12,
        ),
        (
            "w = ti.Vector.zero(ti.f32, 9)\nfor q in range(9):\n    w[q] = y[q, i]\nx[i] = w.sum()",
            9,
        ),
        ("for q in range(16):\n    x[i] += y[q, i + q]", 16),
    ],
    ids=str,
)
def test_short_loops_are_written_out(code: str, count: int) -> None:
    made = rewritten(code, N=4)
    assert made.count("for ") == 1
    assert made.count("tikgen_ti.cast(") == count


@pytest.mark.parametrize(
    "code",
    [
        "for a in range(3):\n    if x[i] > a:\n        break\n    x[i] += a",
        "for a in range(3):\n    if x[i] > a:\n        continue\n    x[i] += a",
        "for a in range(i):\n    x[i] += a",
        "for a in range(28):\n    x[i] += a",
        "for a in range(3):\n    while x[i] > a:\n        x[i] -= 1",
        "for a in range(3):\n    x[i] += a\nelse:\n    x[i] = 0",
        # These names are variables.
        "N = 2\nfor a in range(N):\n    x[i] += a",
        "for a in range(z):\n    x[i] += a",
        # LLVM vectorises these.
        "for a in range(16):\n    x[i] += y[i, a]",
        "w = ti.Vector.zero(ti.f32, 8)\nfor q in range(8):\n    w[q] = y[i, i + q]\nx[i] = w.sum()",
        # A name that may be another before it is assigned.
        "for a in range(3):\n    x[i] += N\n    N = 2",
    ],
    ids=str,
)
def test_other_loops_stay(code: str) -> None:
    loop = rewritten("pass", N=4, z=3).replace("pass", code.replace("\n", "\n    "))
    assert rewritten(code, N=4, z=3) == loop


def test_nests_are_written_out_whole_or_not() -> None:
    inner = "for b in range(5):\n        for c in range(5):\n            x[i] += a * b + c"
    assert rewritten(f"for a in range(3):\n    {inner}").count("for ") == 4
    assert rewritten(f"for a in range(2):\n    {inner}").count("for ") == 1
    # A loop that stays has the short ones within it written out.
    assert rewritten(f"for a in range(n):\n    {inner}").count("for ") == 2


def test_a_variable_of_a_condition_is_no_other_one() -> None:
    turns = "for a in range(3):\n    t += a"
    made = rewritten(f"if (t := x[i]) > 0:\n{textwrap.indent(turns, '    ')}\n{turns}")
    assert made.count("    t += ") == 6


@pytest.mark.parametrize(
    ("body", "most"),
    [("x[i] += a * (a + i) - i // 3", 400), ("if x[i] > a:\n        x[i] += a", 64)],
)
def test_many_loops_are_not_all_written_out(body: str, most: int) -> None:
    """Taichi takes a time that grows with the square of statements and of conditions."""
    loop = f"for a in range(9):\n    {body}\n"
    made = rewritten(loop * 60)
    assert made.count("for ") > 20
    assert 7 * 9 <= made.count("tikgen_ti.cast(") <= most


FUNCTIONS = """
import taichi as ti


@ti.func
def mean(x: ti.template(), i, j):
    s = 0.0
    for a, b in ti.ndrange((-1, 2), (-1, 2)):
        s += x[i + a, j + b]
    return s / 9


@ti.kernel
def work(x: ti.types.ndarray(dtype=ti.f32, ndim=2), y: ti.types.ndarray(dtype=ti.f32, ndim=2)):
    for i, j in ti.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
        y[i, j] = mean(x, i, j)
"""


@pytest.mark.usefixtures("ti_arch")
def test_loops_of_functions_are_written_out() -> None:
    x = np.random.default_rng().integers(-9, 9, (7, 35)).astype(np.float32) * 9
    y = np.zeros_like(x)
    kernel = tikgen.from_string(FUNCTIONS)
    kernel(x, y)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    np.testing.assert_array_equal(y[1:-1, 1:-1], windows.mean((2, 3)))
    if ARCH != "vulkan":  # A loop over a row may be one of the processor.
        assert kernel.ir("chi", x, y).count(" : for in range(") <= (ARCH == "cpu")
