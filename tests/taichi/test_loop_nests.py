"""Nested loops run in parallel as a whole on GPUs, where their order does not matter."""

from __future__ import annotations

import ast
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
from tikgen.taichi import loop_nests, wrapped_indices

on_gpu = pytest.mark.skipif(ARCH == "cpu", reason="threads of a processor take whole rows")
TEXT = """
import taichi as ti


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.f32, ndim=3),
    y: ti.types.ndarray(dtype=ti.f32, ndim=3),
    z: ti.types.ndarray(dtype=ti.i32, ndim=1),
    m: ti.i32,
):
    n = x.shape[0]
    {loops}
"""
RANGES = ("1, n", "1, x.shape[1] - 1", "2, m", "1, x.shape[2] - 2", "1, ti.min(m, 5)", "1, 3")
OUTER = "for i in range(1, n):\n    for j in range(1, x.shape[1] - 1):\n        "
IF = """s = x[i - 1, j, k] + x[i, j - 1, k]
if s > 0:
    y[i, j, k] = s
else:
    y[i, j, k] -= 1"""
SUM = """s = 0.0
for c in range(m):
    if c > j:
        break
    s += x[c, j, k]
y[i, j, k] = s"""
BODIES = (
    "y[i, j, k] = 2 * x[i, j, k]",
    IF,
    SUM,
    "if k == 2:\n    continue\ny[i, j, k] = ti.sqrt(abs(x[i, j, k])) + y[i, j, k]",
    "y[i, j, k] = x[i, j, k]\nz[0] += k\nti.atomic_max(z[1], i + j)",
    "v = ti.Vector([1.0, 2.0])\nv[0] = x[i, j, k]\ny[i, j, k] = v[0] + v[1]",
)


def rewritten(loops: str) -> str:
    """Return the loops of a kernel, rewritten, with the names that they would have in a text."""
    text = TEXT.format(loops=textwrap.indent(loops, "    ").lstrip())
    tree = ast.parse(text[text.index("@ti.kernel") :])
    loop_nests.rewrite(tree, {"ti": ti})
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    code = "\n".join(ast.unparse(one) for one in function.body[1:])
    for name, own in (("range", "ti.ndrange"), ("cast", "ti.cast"), ("index", "ti.i32")):
        code = code.replace(f"tikgen_nest_{name}", own)
    return code


def nest(ranges: tuple[str, ...], body: str) -> str:
    loops = ""
    for depth, (name, ends) in enumerate(zip("ijk", ranges, strict=False)):
        loops += "    " * depth + f"for {name} in range({ends}):\n"
    return loops + textwrap.indent(body, "    " * len(ranges))


def results(code: str, shape: tuple[int, int, int], seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-9, 9, (2, *shape)).astype(np.float32)
    z = np.zeros(4, np.int32)
    kernel = tikgen.from_string(TEXT.format(loops=textwrap.indent(code, "    ").lstrip()))
    kernel(x, y, z, shape[0])
    return [y, z]


@pytest.mark.usefixtures("ti_arch")
@settings(max_examples=examples(12, 4))
@given(
    ranges=st.tuples(*[st.sampled_from(RANGES)] * 3),
    body=st.sampled_from(BODIES),
    extent=st.integers(5, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_nest_computes_the_same_as_one_loop(
    ranges: tuple[str, str, str], body: str, extent: int, seed: int
) -> None:
    """On a GPU the first of both is one loop, too: the last is what Taichi runs one by one."""
    loops, shape = nest(ranges, body), (extent, extent + 1, extent + 2)
    one = rewritten(loops)
    assert one.startswith("for i, j, k in ti.ndrange(")
    serial = f"ti.loop_config(serialize=True)\n{loops}"
    assert rewritten(serial) == ast.unparse(ast.parse(serial))
    expected = results(serial, shape, seed)
    for code in (loops, one):
        for found, wanted in zip(results(code, shape, seed), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        (OUTER + "y[i, j, 0] = x[i, j, 0]", "for i, j in ti.ndrange("),
        (OUTER + "for k in range(n):\n            y[i, j, k] = i", "for i, j, k in ti.ndrange("),
        # The last loop adds up, or depends on the others.
        (OUTER + "for k in range(n):\n            y[i, j, 0] += k", "for i, j in ti.ndrange("),
        (OUTER + "for k in range(j):\n            y[i, j, k] = 1", "for i, j in ti.ndrange("),
        (OUTER + "z[0] += 1", "for i, j in ti.ndrange("),
    ],
)
def test_as_many_loops_as_may_be_are_one(loops: str, expected: str) -> None:
    assert rewritten(loops).startswith(expected)


@pytest.mark.parametrize(
    "body",
    [
        # What is written is read elsewhere, written twice, or not found by both indices.
        "y[i, j, 0] = y[i, j - 1, 0]",
        "y[i, j, 0] = x[i, j, 0]\n        y[i, j + 1, 0] = 0",
        "y[i, 0, 0] = x[i, j, 0]",
        "y[i + j, j, 0] = 1",
        "y[i, 2 * j, 0] = 1",
        "y[i, 0, 0] += x[i, j, 0]",
        "y[j, i, 0] = y[i, j, 0]",
        # The order of turns matters otherwise.
        "z[0] += j\n        y[i, j, 0] = z[0]",
        "z[0] = j",
        "z[0] += 1\n        z[j] = 1",
        "n = j\n        y[i, j, 0] = n",
        "if x[i, j, 0] > 0:\n            break\n        y[i, j, 0] = 1",
        "y[i, j, 0] = ti.random()",
        "y[i, j, 0] = ti.atomic_add(z[0], 1)",
        "print(j)\n        y[i, j, 0] = 1",
        "unknown(y)\n        y[i, j, 0] = 1",
        "y[i, j, 0] = unknown(x)",
        "j = j + 1\n        y[i, j, 0] = 1",
        "s = x[i, j, 0]",
    ],
)
def test_other_nests_stay(body: str) -> None:
    assert rewritten(OUTER + body) == ast.unparse(ast.parse(OUTER + body))


@pytest.mark.parametrize(
    "loops",
    [
        "for i in range(n):\n    for j in range(i):\n        y[i, j, 0] = 1",
        "for i in range(n):\n    s = 1\n    for j in range(n):\n        y[i, j, 0] = s",
        "for i in ti.static(range(3)):\n    for j in range(n):\n        y[i, j, 0] = 1",
        "for i in range(n):\n    for j in range(0, n, 2):\n        y[i, j, 0] = 1",
        "for i in range(n):\n    for i in range(n):\n        y[i, i, 0] = 1",
        "for i in range(n):\n    for j in range(z[i]):\n        y[i, j, 0] = 1",
        "for i in range(n):\n    for j in range(n):\n        y[i, j, 0] = 1\n    z[i] = 1",
    ],
)
def test_loops_that_are_no_nest_stay(loops: str) -> None:
    assert rewritten(loops) == ast.unparse(ast.parse(loops))


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        ("f[i, j] = g[i, j - 1]", True),
        ("f[i, j] = same[i, j - 1]", False),
        ("f[i, j] = a.f[i, j - 1]", False),
        ("f[i, j] = a.f.shape[0]", True),
        ("x[i, j, 0] = a.f[i, j]", True),
    ],
)
def test_a_field_may_have_other_names(code: str, is_one: bool) -> None:
    field = object()
    loops = f"for i in range(n):\n    for j in range(n):\n        {code}"
    assert (_changed(loops, f=field, same=field, g=object()) != loops) is is_one


def test_nests_of_arrays_with_another_name_stay() -> None:
    loops = "for i in range(n):\n    for j in range(n):\n        z[i, j] = a.f[i, j - 1] * c"
    assert _changed(f"z = a.f\n{loops}") != f"z = a.f\n{loops}"
    for other in ("z = ti.static(a.f)", "z, c = ti.static(a.f, a.c)"):
        assert _changed(f"{other}\n{loops}") == f"{other}\n{loops}"


def _changed(code: str, **names: Any) -> str:
    arrays = {"x": (ti.f32, 3)}
    return rewriting.rewritten(lambda t, _, n: loop_nests.rewrite(t, n), arrays, code, names)


@on_gpu
@pytest.mark.arch
def test_a_nest_has_many_threads(ti_arch: str) -> None:
    """Seen in what Taichi makes of it: one loop over all elements."""
    body = "for i in range(n):\n    for j in range(m):\n        y[i, j, 0] = x[i, j, 0]"
    kernel = tikgen.from_string(TEXT.format(loops=textwrap.indent(body, "    ").lstrip()))
    kernel(
        np.zeros((3, 5, 2), np.float32), np.zeros((3, 5, 2), np.float32), np.zeros(1, np.int32), 5
    )
    code = kernel.ir("chi")
    assert "range_for" in code and "for in range" not in code


def test_nests_with_periodic_neighbours_are_one_loop() -> None:
    array = ti.types.ndarray(ti.f32, 2)
    arguments = [SimpleNamespace(name=name, annotation=array) for name in "xy"]
    nest = (
        "for i in range(x.shape[0]):\n    for j in range(9):\n        y[i, j] = "
        "x[(i + 1) % x.shape[0], j]"
    )
    tree = ast.parse(f"def work(x, y):\n{textwrap.indent(nest, '    ')}")
    names: dict[str, Any] = {"ti": ti}
    wrapped_indices.rewrite(tree, SimpleNamespace(arguments=arguments), names)
    loop_nests.rewrite(tree, names)
    assert "for i, j in tikgen_nest_range(" in ast.unparse(tree)
