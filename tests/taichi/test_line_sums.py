"""What a parallel loop adds to one element for each row is added up along the row."""

from __future__ import annotations

import ast
import textwrap
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
from tikgen.taichi import line_sums

TEXT = """
import taichi as ti


@ti.kernel
def add(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim=3),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim=2),
    z: ti.types.ndarray(dtype=ti.{dtype}, ndim=1),
    least: ti.i32,
):
    most = x.shape[2] - 1
    {loop}
"""
# Loops, and the part of x over which each runs, with 1 for ``least``.
LOOPS: dict[str, Any] = {
    "for i, j, k in x:": np.s_[:, :, :],
    "for i, j, k in ti.ndrange(x.shape[0], (least, x.shape[1]), (1, most)):": np.s_[:, 1:, 1:-1],
}
BODIES = (
    "y[i, j] += x[i, j, k]",
    "y[i, j] -= x[i, j, k] * k\nz[i] += 1",
    "s = x[i, j, k]\nif s > 2:\n    y[i, j] += s\n    y[i, j] -= k",
    "if k == 3:\n    continue\ny[i, j] += x[i, j, k]",
    "ti.atomic_max(y[i, j], x[i, j, k] * k)\nti.atomic_min(z[i], x[i, j, k])",
    "if i < z.shape[0] - 1:\n    z[i + 1] += x[i, j, k]",
)


def rewritten(loop: str) -> str:
    """Return what is made of a loop, with the names that a text has."""
    names: dict[str, Any] = {}
    arrays = {name: (ti.i32, axes) for name, axes in (("x", 3), ("y", 2), ("z", 1))}
    code = f"most = x.shape[2] - 1\n{loop}"
    made = rewriting.rewritten(line_sums.rewrite, arrays, code, names)
    return rewriting.as_text(made, names).partition("\n")[2]


def results(code: str, dtype: str, shape: tuple[int, int, int], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    kind = {"f": np.float32, "i": np.int32}[dtype[0]]
    x = rng.integers(-9, 9, shape).astype(kind)
    y, z = (rng.integers(-9, 9, shape[:count]).astype(kind) for count in (2, 1))
    text = TEXT.format(dtype=dtype, loop=textwrap.indent(code, "    ").lstrip())
    tikgen.from_string(text)(x, y, z, 1)
    return [y, z]


@pytest.mark.usefixtures("ti_arch")
@settings(max_examples=examples(16, 5))
@given(data=st.data())
def test_sums_are_those_of_one_turn_after_the_other(data: st.DataObject) -> None:
    loop, body = data.draw(st.sampled_from(list(LOOPS))), data.draw(st.sampled_from(BODIES))
    code = f"{loop}\n{textwrap.indent(body, '    ')}"
    # On Vulkan a loop without threads ends after 65,536 turns.
    columns = st.one_of(st.integers(1, 70), st.integers(1, 800))
    shape = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 9), columns))
    seed, dtype = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.sampled_from(("i32", "f32")))
    expected = results(f"ti.loop_config(serialize=True)\n{code}", dtype, shape, seed)
    # Four threads share a row of these sizes where one row is many.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_sums, "_MANY", data.draw(st.sampled_from((1, 1 << 15))))
        changed = rewritten(code)
    if dtype == "f32":
        changed = changed.replace("ti.cast(0, ti.i32)", "ti.cast(0, ti.f32)")
    assert "_sum0" in changed
    for each in (code, changed):
        for found, wanted in zip(results(each, dtype, shape, seed), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(ARCH == "cpu", reason="threads of a processor take whole rows")
@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize("shape", [(2, 3, 100_003), (32_771, 1, 41), (3, 12_345, 31)])
def test_sums_of_long_and_many_rows_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng().integers(-9, 9, shape).astype(np.int32)
    y, z = np.zeros(shape[:2], np.int32), np.zeros(shape[0], np.int32)
    loop = "for i, j, k in x:\n        y[i, j] += x[i, j, k]\n        z[i] += x[i, j, k]"
    kernel = tikgen.from_string(TEXT.format(dtype="i32", loop=loop))
    kernel.with_engine("direct-cuda" if ARCH == "cuda" else "auto")(x, y, z, 1)
    np.testing.assert_array_equal(y, x.sum(axis=2))
    np.testing.assert_array_equal(z, x.sum(axis=(1, 2)))


def test_how_often_the_loop_runs_is_computed_without_branches() -> None:
    # Which direct-cuda refuses.
    made = ast.parse(rewritten(f"{next(iter(LOOPS))}\n    {BODIES[0]}"))
    assert {type(one) for one in made.body} == {ast.Assign, ast.Expr, ast.For}


@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize(
    "loop",
    [
        "for i, j, k in x:\n    y[j, k] += x[i, j, k]",
        # Which Taichi refuses.
        "for i, j, k in x:\n    if k > 2:\n        break\n    y[i, j] += x[i, j, k]",
        "for i, j, k in x:\n    y[0, 0] += x[i, j, k]",
        "for i, j, k in x:\n    y[i, j] += x[i, j, k] + y[i, 0]",
        "for i, j, k in x:\n    y[i, j] += x[i, j, k]\n    y[j, i] += 1",
        "for i, j, k in x:\n    y[i, j] += x[i, j, k]\n    ti.atomic_max(y[i, j], 3)",
        "for i, j, k in x:\n    if k > 0:\n        ti.atomic_max(y[i, j], x[i, j, k])",
        "for i, j, k in x:\n    c = i + k\n    y[c, j] += x[i, j, k]",
        "for i, j, k in x:\n    y[ti.i32(x[i, 0, 0]), j] = x[i, j, k]",
        "for i, j, k in x:\n    y[unknown(i), j] += x[i, j, k]",
        "for at in ti.grouped(x):\n    y[at[0], at[1]] += x[at]",
        "ti.loop_config(block_dim=64)\nfor i, j, k in x:\n    y[i, j] += x[i, j, k]",
        "for i in range(most):\n    z[i] += x[i, 0, 0]",
    ],
)
def test_other_loops_stay(loop: str) -> None:
    assert rewritten(loop) == ast.unparse(ast.parse(loop))
