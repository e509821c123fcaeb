"""The estimate of compile time."""

from __future__ import annotations

from typing import Any

import pytest

import tikgen
from tikgen.errors import CompileBudgetExceeded
from tikgen.pipeline.budget import MOST_OPERATIONS, check_budget, most_operations, operations

KERNEL = """\
import taichi as ti


@ti.func
def square(a: ti.f32):
    return a * a


@ti.kernel
def k(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        BODY
"""


def count(body: str) -> int:
    return operations(KERNEL.replace("BODY", body)) - operations(KERNEL.replace("BODY", "pass"))


def test_static_loops_count_as_often_as_they_are_repeated() -> None:
    once = count("x[i] = x[i] + 1")
    assert count("for u in ti.static(range(64)):\n            x[i] = x[i] + 1") >= 64 * once
    assert count("for u in range(64):\n            x[i] = x[i] + 1") < 4 * once
    assert count("for u in ti.static(range(i)):\n            x[i] = x[i] + 1") < 4 * once
    nested = "for u, v in ti.static(ti.ndrange(8, 8)):\n            x[i] = x[i] + 1"
    assert count(nested) >= 64 * once


def test_each_index_counts() -> None:
    # An element of an array of four axes takes six operations to find.
    assert count("x[i, 0, 0, i] = 1") == count("x[i] = 1") + 3


def test_vectors_count_as_often_as_they_are_long() -> None:
    short = count("v = ti.Vector.zero(ti.f32, 2)\n        v += x[i] * v")
    long = count("v = ti.Vector.zero(ti.f32, 32)\n        v += x[i] * v")
    assert long > 8 * short


def test_functions_count_wherever_they_are_called() -> None:
    assert count("x[i] = square(square(square(x[i])))") >= count("x[i] = square(x[i])") + 2


@pytest.mark.parametrize("loop", ["range(0, 90000)", "ti.ndrange(300, 300)"])
def test_every_form_of_a_static_loop_is_counted(loop) -> None:
    body = f"for u in ti.static({loop}):\n            x[i] = x[i] + 1"
    if loop.startswith("ti"):
        body = body.replace("for u", "for u, v")
    with pytest.raises(CompileBudgetExceeded):
        check_budget("big", KERNEL.replace("BODY", body))


def test_a_kernel_beyond_the_budget_is_refused_before_it_is_compiled(tmp_path) -> None:
    body = "for u in ti.static(range(64)):\n" + "            x[i] = x[i] * x[i] + 1\n" * 100
    with pytest.raises(
        CompileBudgetExceeded, match=r"big: .* about \d+ operations.* split the work"
    ):
        check_budget("big", KERNEL.replace("BODY", body))
    check_budget("small", KERNEL.replace("BODY", "x[i] = 1"))


TURNS = """
def helper(a):
    b = a * a + (
1 * 2)
    return b


@ti.kernel
def f(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    v = ti.Vector.zero(ti.f32, 8)
    for i in x:
        for q in ti.static(range(30)):
            for r in ti.static((1, 2, 3)):
                x[i] = x[i] * helper(
        2)
            v[0] = x[i]
        for q in ti.static(range(40)):
            x[i] = WHOLE
        if ti.static(1 > 0):
            x[i] += 1
"""


@pytest.mark.parametrize("whole", ["v[0]", "v.sum() + 1"])
def test_the_quick_bound_counts_turns_of_loops_and_calls(whole: str) -> None:
    text = TURNS.replace("WHOLE", whole)
    exact, most = operations(text), most_operations(text)
    assert exact <= most < 30 * exact
    assert most_operations(text.replace("range(30)", "range(n)")) == float("inf")
    assert most_operations(text.replace("1 * 2)", "helper(2))")) == float("inf"), "a circle"


def test_the_quick_bound_counts_vectors_from_where_they_are_made() -> None:
    many = "    s += s * s\n" * 400
    text = (
        f"@ti.kernel\ndef f():\n    s = 1.0\n{many}    s = ti.Vector.zero(ti.f32, 64)\n    s += s\n"
    )
    assert operations(text) <= most_operations(text) < 3000
    assert most_operations(text.replace("s = 1.0", "s = ti.Vector.zero(ti.f32, 64)")) > 64 * 400


def test_the_quick_bound_counts_functions_where_they_are_called() -> None:
    many = "    s += s * s\n" * 400
    text = f"@ti.func\ndef f(s):\n{many}    return s\n\n\n@ti.kernel\ndef k():\n    print(f(1.0))\n"
    assert operations(text) <= most_operations(text) < 2 * operations(text)
    twice = text.replace("f(1.0)", "f(f(1.0))")
    assert operations(twice) <= most_operations(twice) < 2 * operations(twice)


@pytest.mark.parametrize("name", tikgen.list_templates())
def test_every_default_is_far_below_the_budget(name) -> None:
    required: dict[str, dict[str, Any]] = {
        "map": {"expr": "y = a*x + 1"},
        "update": {"equations": "u' = u + lap(u)", "order": 8, "dim": 3, "boundary": "zero"},
        "ring": {"handler": "y = 2*x", "inputs": {"x": "f32"}, "outputs": {"y": "f32"}},
    }
    params = required.get(name, {})
    for arch in ("cpu", "cuda") if name == "ring" else ("cpu", "cuda", "vulkan"):
        text = tikgen.render(name, arch=arch, **params).text
        assert 0 < operations(text) < MOST_OPERATIONS / 4, arch
        assert operations(text) <= most_operations(text), arch


@pytest.mark.parametrize("text", ["", "import taichi as ti\n", "# def k(): nothing\n"])
def test_a_text_without_functions_has_no_operations(text: str) -> None:
    assert most_operations(text) == operations(text) == 0
    check_budget("k", text)
