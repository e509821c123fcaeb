"""Loops whose turns do not need each other are vectorised without a question, and only those."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen.engines import native
from tikgen.taichi.independent_turns import Array, Turns

pytest_plugins = ["compiled_texts"]
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")

KNOWN = {
    "y[i, j] = x[i, j]": set(),
    "y[i, j + 1] = x[i, 1 + j] + y[k, j + 1]": set(),
    "y[0, j] = x[0, j] + y[1, j - 1] * z[i, 3]": set(),
    "y[k, j] = x[i, j]": set(),
    "if x[i, j] > 0:\n    y[i, j] += ti.max(x[i, j], 1)": set(),
    "s += x[i, j] * z[j, k]": set(),
    "v = ti.Vector([x[i, j], 1.0])\ny[k, j] = v[0]": set(),
    "z[i, j] = x[i, j - 1] + x[k, 2 * j]": set(),
    "y[i, j] = x[i, j - 1]": {("y", "x")},
    "y[i, j] = x[i, x.shape[1] - 1 - j] + z[i, k]": {("y", "x")},
    "y[i, j] = x[j, i]\nz[i, j] = 1": {("y", "x")},
    "y[i, k] = x[i, j]": None,
    "y[i, j] = y[i, j - 1]": None,
    "y[-1, j] = y[0, j - 1]\ny[0, j] = x[i, j]": None,
    "y[i, 2 * j] = x[i, j]": None,
    "y[j, i] = y[i, j]": None,
    "j += 1\ny[i, j] = x[i, j]": None,
    "for j in range(3):\n    y[i, j] = x[i, j]": None,
    "ti.atomic_add(y[i, j], x[i, j])": None,
    "y[i, j] = total(x)": None,
    "f[i, j] = x[i, j]": None,
    "y[i, j] = f[i, j]": None,
    "y[i, j] = x[i, j]\nif y[i, j] > 3:\n    break": None,
    "y.grad[i, j] = x[i, j]": None,
}


def known_of(body: str, before: str = "pass") -> set[tuple[str, str]] | None:
    tree = ast.parse(f"{before}\nfor j in range(n):\n    " + body.replace("\n", "\n    "))
    loop = tree.body[-1]
    assert isinstance(loop, ast.For)
    arrays = {"x": Array(0, "f32", 2), "y": Array(1, "f32", 2), "z": Array(2, "f64", 2)}
    return Turns(tree, arrays, {"ti": ti, "f": None, "S": ti.static, "part": ti}).conditions(loop)


@pytest.mark.parametrize("body", KNOWN)
def test_what_is_known_of_turns(body: str) -> None:
    assert known_of(body) == KNOWN[body]


@pytest.mark.parametrize(
    "before",
    [
        "a, b = ti.static(x, 3)",
        "a = b = y",
        "a, b = ti.static((x, y))",
        "a = ti.static(x if True else y)",
        "s = ti.static([x, y])",
        "for a in ti.static((x, y)):\n    pass",
        "for a in S((x, y)):\n    pass",
        "if (a := S(x)).shape[0]:\n    pass",
        "a, b = ti.static((x[0, 0], y[0, 0]))",
        "for e in S((x[0, 0], 3)):\n    pass",
        "a = part.of(x[0, 0])",
    ],
)
def test_another_name_of_an_array_is_seen(before: str) -> None:
    assert (
        known_of("s += 1", "a = x[0, 0] + x.shape[0]\nfor q in ti.static(range(x.shape[1])): 1")
        == set()
    )
    assert known_of("s += 1", before) is None


def test_a_vector_may_be_several_indices() -> None:
    assert known_of("y[p] = x[i, j]") is None
    assert known_of("z[i, j] = x[p]") == set()
    assert known_of("z[i, j] = z[p, j, 2]") is None


TEXT = """
import taichi as ti


@ti.kernel
def own(x: ti.types.ndarray(dtype=ti.f32, ndim=3), y: ti.types.ndarray(dtype=ti.f32, ndim=3)):
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            BODY
"""
SUM = """\
s = 0.0
            for q in range(3):
                s += x[q, i, j]
            for q in range(3):
                y[q, i, j] = s * x[q, i, j]"""
SHIFT = """\
if j > 0:
                y[1, i, j] = x[1, i, j - 1] + 1"""


def expected(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], body: str) -> None:
    if body == SUM:
        y[:] = x.sum(0, dtype=x.dtype) * x
        return
    for j in range(1, x.shape[2]):
        y[1, :, j] = x[1, :, j - 1] + 1


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("body", [SUM, SHIFT])
def test_rows_are_vectors_without_a_comparison(
    body: str, ti_arch: str, texts: list[str], rng: np.random.Generator
) -> None:
    kernel = tikgen.from_string(TEXT.replace("BODY", body)).with_engine("direct-cpu")
    for shape in ((3, 1, 1), (3, 5, 7), (3, 2, 70), (3, 17, 33)):
        x, y = rng.random((2, *shape), np.float32)
        right = y.copy()
        expected(x, right, body)
        kernel(x, y)
        np.testing.assert_allclose(y, right, rtol=1e-6)
        right = x.copy()
        expected(right, right, body)
        kernel(x, x)  # The very same array, which has code of its own if that matters.
        np.testing.assert_allclose(x, right, rtol=1e-6)
    assert ("_for.copy(" in texts[0]) is (body == SHIFT)
    made = str(native._optimised(texts[0], native._machine()))
    assert "vector.body" in made
    assert "vector.memcheck" not in made


# Rows of one element to those of a few vectors; the last one is no multiple.
WIDTHS = (3, 4, 5, 11, 18, 37, 70)
PLACES = ("j", "j - 1", "j + 1", "1 + j", "x.shape[2] - 1 - j", "2", "last", "k")
NAMES = ("x", "y", "z")


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Draw statements that read and write a row, whose order may matter."""

    def element() -> str:
        component = draw(st.sampled_from(("0", "1", "2", "k")))
        return f"{draw(st.sampled_from(NAMES))}[{component}, i, {draw(st.sampled_from(PLACES))}]"

    lines = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("store", "store", "sum", "condition", "inner", "name")))
        value = f"{element()} + 3 * {element()}"
        lines += {
            "store": [f"{element()} = {value}"],
            "sum": [f"s += {value}", f"{element()} = s"],
            "condition": [f"if {element()} > 5:", f"    {element()} = {value}"],
            "inner": ["for q in range(3):", f"    x[q, i, j] = {value} + q * y[q, i, j + 1]"],
            "name": [f"k = {element()} & 1", f"s = {value}"],
        }[kind]
    return "\n            ".join([*lines, "last = j"])


def rows(body: str) -> str:
    body = f"s, k, last = 0, 1, 1\n        for j in range(1, x.shape[2] - 1):\n            {body}"
    text = TEXT.replace("for j in range(x.shape[2]):\n            BODY", body)
    arrays = ", ".join(f"{name}: ti.types.ndarray(dtype=ti.i32, ndim=3)" for name in NAMES)
    return re.sub(r"own\(.*\)", f"own({arrays})", text)


@on_cpu
@pytest.mark.arch
@settings(
    max_examples=examples(40, 8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=bodies(), width=st.sampled_from(WIDTHS), seed=st.integers(0, 2**32), data=st.data())
def test_rows_of_any_order_are_right(
    body: str, width: int, seed: int, data: st.DataObject, ti_arch: str
) -> None:
    one_off = tikgen.from_string(rows(body))
    kernels = [one_off.with_engine(engine) for engine in ("direct-cpu", "taichi")]
    drawn = np.random.default_rng(seed).integers(-9, 9, (3, 3, 4, width), np.int32)
    written = {name for name in NAMES if re.search(rf"^ *{name}\[", body, re.MULTILINE)}
    read = sorted({*NAMES} - written)
    places = [0, 1, 2]
    if written and read and data.draw(st.booleans()):
        places[NAMES.index(read[0])] = NAMES.index(min(written))
    results = []
    for kernel in kernels:
        arrays = drawn.copy()
        kernel(*(arrays[place] for place in places))
        results.append(arrays)
    np.testing.assert_array_equal(*results)


# What turns share, or loops of which LLVM leaves nothing.
SHARED = {
    "a local vector": """
    for i in range(x.shape[1]):
        v = ti.Vector([0, 0, 0])
        for j in range(x.shape[2]):
            v[x[0, i, j] & 1] += x[1, i, j]
            y[0, i, j] = v[x[2, i, j] & 1]""",
    "a sum": """
    s = 0
    for j in range(x.shape[2]):
        s += x[1, 0, j]
        y[0, 1, j] = x[0, 1, j]
    y[0, 0, 0] = s""",
    "loops of one turn": """
    for i in range(x.shape[1]):
        for k in range(x.shape[2] - 1):
            for j in range(k, k + 1):
                y[0, i, j] = x[0, i, j]
            y[0, i, k + 1] += y[0, i, k]""",
    "constant loops around": """
    for i in range(x.shape[1]):
        for q in range(40):
            for j in range(i, i + 1):
                y[0, i, j] = x[0, i, j] + y[0, i, j]
            y[0, i, 1 + i % 2] += y[0, i, 0]""",
    "while": """
    for i in range(x.shape[1]):
        j = 1
        while j < x.shape[2]:
            y[0, i, j] = y[0, i, j - 1] + x[0, i, j]
            j += 1""",
}


@on_cpu
@pytest.mark.arch
@pytest.mark.parametrize("name", SHARED)
def test_what_turns_share_is_right(name: str, ti_arch: str, rng: np.random.Generator) -> None:
    head = TEXT[: TEXT.index("    for")].replace("f32", "i32").rstrip()
    one_off = tikgen.from_string(head + SHARED[name] + "\n")
    x = rng.integers(-9, 9, (3, 5, 23), np.int32)
    results = []
    for engine in ("direct-cpu", "taichi"):
        y = np.ones_like(x)
        one_off.with_engine(engine)(x, y)
        results.append(y)
    np.testing.assert_array_equal(*results)
    assert (results[0] != 1).any()
