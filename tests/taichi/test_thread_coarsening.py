"""Threads compute four elements of a short loop, with the results of one a thread."""

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
from tikgen.taichi import coarse_loops, thread_coarsening

TEXT = """
import taichi as ti


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.{dtype}, ndim={axes}),
    y: ti.types.ndarray(dtype=ti.{dtype}, ndim={axes}),
    z: ti.types.ndarray(dtype=ti.{dtype}, ndim={axes}),
    least: ti.i32,
):
    most = x.shape[0] - 1
    {loop}
"""
# Loops over arrays of one, two and three axes, within 1 point of their ends.
LOOPS = {
    1: ("for i in x:", "for i in range(1, most):", "for i in range(3, x.shape[0]):"),
    2: (
        "for i, j in y:",
        "for i, j in ti.ndrange((1, most), (1, x.shape[1] - 1)):",
        "for i, j in ti.ndrange(most, (least, x.shape[1])):",
    ),
    3: (
        "for i, j, k in x:",
        "for i, j, k in ti.ndrange((1, most), x.shape[1], (least, x.shape[2] - 1)):",
    ),
}
# AT stands for the element of a turn, BEFORE for its neighbour on the first axis.
BODIES = (
    "y[AT] = 2 * x[AT] + 1",
    "y[AT] += x[AT]",
    "y[AT] -= least * x[AT]\nz[AT] = y[AT]",
    "s = x[AT] - x[BEFORE]\ns *= s\ny[AT] = s",
    "s, t = x[AT], x[BEFORE]\ny[AT] = ti.max(s, t)\nz[AT] += y[AT] + ti.min(s, t)",
)
GROUPED = "y[at] = x[at] + 1"


def code_of(loop: str, body: str) -> str:
    """Return a loop with its body."""
    indices = loop[len("for ") : loop.index(" in ")]
    first, *others = indices.split(", ")
    before = ", ".join([f"ti.max({first} - 1, 0)", *others])
    body = body.replace("AT", indices).replace("BEFORE", before)
    return f"{loop}\n{textwrap.indent(body, '    ')}"


def rewritten(loop: str, axes: int = 2, dtype: Any = ti.f32) -> str:
    """Return what is made of a loop, with the names that a text has."""
    names: dict[str, Any] = {}
    arrays = dict.fromkeys("xyz", (dtype, axes))
    code = f"most = x.shape[0] - 1\n{loop}"
    made = rewriting.rewritten(thread_coarsening.rewrite, arrays, code, names)
    return rewriting.as_text(made, names).partition("\n")[2]


def results(code: str, dtype: str, shape: tuple[int, ...], seed: int) -> list[Any]:
    text = TEXT.format(dtype=dtype, axes=len(shape), loop=textwrap.indent(code, "    ").lstrip())
    rng = np.random.default_rng(seed)
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    x, y, z = rng.integers(-99, 99, (3, *shape)).astype(kind)
    tikgen.from_string(text)(x, y, z, 1)
    return [y, z]


@pytest.mark.usefixtures("ti_arch", "without_fast_math")
@settings(max_examples=examples(16, 5))
@given(data=st.data())
def test_elements_are_those_of_one_a_thread(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 3), label="axes")
    code = code_of(data.draw(st.sampled_from(LOOPS[axes])), data.draw(st.sampled_from(BODIES)))
    most = {1: (1500,), 2: (40, 90), 3: (12, 20, 150)}[axes]
    shape = tuple(data.draw(st.tuples(*(st.integers(1, one) for one in most)), label="shape"))
    dtype = data.draw(st.sampled_from(("f32", "i32") if ARCH == "vulkan" else ("f32", "f64")))
    seed = data.draw(st.integers(0, 2**32 - 1))
    expected = results(code, dtype, shape, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarse_loops, "_MANY", data.draw(st.sampled_from((0, 300))))
        changed = rewritten(code, axes, getattr(ti, dtype))
    assert "_tikgen3" in changed
    for found, wanted in zip(results(changed, dtype, shape, seed), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(ARCH != "cuda", reason="threads of other archs have one element")
@pytest.mark.usefixtures("ti_arch", "without_fast_math")
@pytest.mark.parametrize("engine", ["taichi", "direct-cuda"])
@pytest.mark.parametrize("shape", [(1048576,), (2097153,), (1033, 1031), (3, 400009), (400009, 3)])
def test_large_arrays_have_the_elements_of_numpy(engine: str, shape: tuple[int, ...]) -> None:
    body = "s = x[AT] - x[BEFORE]\ny[AT] += s"
    code = code_of(LOOPS[len(shape)][0], body)
    text = TEXT.format(dtype="f32", axes=len(shape), loop=textwrap.indent(code, "    ").lstrip())
    x, y = np.random.default_rng().integers(-99, 99, (2, *shape)).astype(np.float32)
    expected = y + x - x[np.maximum(np.arange(len(x)) - 1, 0)]
    tikgen.from_string(text).with_engine(engine)(x, y, y.copy(), 1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.skipif(ARCH != "cuda", reason="threads of other archs have one element")
@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize("body", BODIES[:2])
def test_the_compiling_process_makes_the_same_code(body: str) -> None:
    code = code_of(LOOPS[2][0], body)
    text = TEXT.format(dtype="f32", axes=2, loop=textwrap.indent(code, "    ").lstrip())
    arrays = np.zeros((3, 4, 5), np.float32)
    assert tikgen.from_string(text).ir("ptx", *arrays, 1).count("\tst.") > 4


@pytest.mark.usefixtures("ti_arch")
def test_vectors_of_indices() -> None:
    shape = (37, 5)
    for body in (GROUPED, "y[at] = x[at] + x[ti.max(at - 1, 0)]"):
        code = f"for at in ti.grouped(x):\n    {body}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coarse_loops, "_MANY", 0)
            changed = rewritten(code)
        expected = results(code, "f32", shape, 1)
        for found, wanted in zip(results(changed, "f32", shape, 1), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize(
    ("code", "is_near"),
    [
        ("for i, j in x:\n    y[i, j] = x[i, j]", False),
        ("for i, j in x:\n    y[i, j] = x[i, j - 1]", False),
        ("for i, j in x:\n    y[i, j] = x[i + 1, j]", True),
        ("for i, j in x:\n    y[i, j] = x[j, i]", True),
        ("for i, j in x:\n    y[i, j] = i * x[i, j]", True),
        (f"for at in ti.grouped(x):\n    {GROUPED}", False),
        ("for at in ti.grouped(x):\n    y[at] = x[at + 1]", True),
    ],
)
def test_loops_that_read_neighbours_have_them_in_a_thread(code: str, is_near: bool) -> None:
    assert ("_first + 3" in rewritten(code)) is is_near


@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize(
    "loop",
    [
        # Few elements, or nothing to wait for.
        "for i, j in ti.ndrange(9, 9):\n    y[i, j] = x[i, j]",
        "for i, j in x:\n    y[i, j] = 1",
        # Something else than numbers that are computed and stored.
        "for i, j in x:\n    if x[i, j] > 0:\n        y[i, j] = x[i, j]",
        "for i, j in x:\n    for k in range(3):\n        y[i, j] = x[i, k]",
        "for i, j in x:\n    y[i, j] = x[i, j] + ti.random()",
        "for i, j in x:\n    y[i, j] = unknown(x[i, j])",
        "for i, j in x:\n    y[i, j], z[i, j] = x[i, j], 0",
        # Several turns add to an element; a variable is not of a turn.
        "for i, j in x:\n    y[i, 0] += x[i, j]",
        "for i, j in x:\n    ti.atomic_max(y[i, j], x[i, j])",
        "for i, j in x:\n    most = x[i, j]\n    y[i, j] = most",
        "for i, j in x:\n    i = 2\n    y[i, j] = x[i, j]",
        # Long ones.
        "for i, j in x:\n    y[i, j] = x[i, j]\n    z[i, j] = 1\n    z[j, i] = 2",
        f"for i, j in x:\n    y[i, j] = {' + '.join(33 * ['x[i, j]'])}",
        # What is said of a loop is said of it as it is written.
        "ti.loop_config(block_dim=64)\nfor i, j in x:\n    y[i, j] = x[i, j]",
        "for i in range(0, most, 2):\n    y[i, 0] = x[i, 0]",
    ],
)
def test_other_loops_stay(loop: str) -> None:
    assert rewritten(loop) == ast.unparse(ast.parse(loop))


@pytest.mark.usefixtures("ti_arch")
def test_long_functions_of_doubles_stay() -> None:
    loop = "for i, j in x:\n    y[i, j] = ti.sin(x[i, j]) + x[i, j]**0.5"
    assert rewritten(loop) != ast.unparse(ast.parse(loop))
    assert rewritten(loop, dtype=ti.f64) == ast.unparse(ast.parse(loop))
