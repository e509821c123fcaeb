"""A name of a kernel is what Taichi takes it for where it stands, in every change of loops."""

from __future__ import annotations

import ast
import itertools
import operator
import textwrap
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import taichi as ti
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import taichi_scopes
import tikgen
from some_cases import examples
from tikgen.taichi import (
    inner_sums,
    line_sums,
    loop_nests,
    loop_sums,
    row_loops,
    scopes,
    split_loops,
    thread_coarsening,
    trees,
    unrolled_loops,
    wrapped_indices,
)

OUTSIDE = {"n": 4, "m": 3, "t": 2, "i": 1, "j": 5}
HEAD = """
import taichi as ti

n, m, t, i, j = 4, 3, 2, 1, 5


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.i32, ndim=1),
    y: ti.types.ndarray(dtype=ti.i32, ndim=2),
    count: ti.i32,
):
"""
EXTENTS = ("n", "m", "t", "x.shape[0]", "count", "5", "n - 1", "m + 1", "x[1]", "x[2]")
NAMES = ("n", "m", "t")
_SIZE = 60


@st.composite
def _assignments(draw: Any) -> str:
    kind = draw(st.sampled_from(("one", "one", "one", "two", "add")))
    value = st.sampled_from(EXTENTS)
    if kind == "two":
        first, second = draw(st.permutations(NAMES))[:2]
        return f"{first}, {second} = {draw(value)}, {draw(value)}"
    return f"{draw(st.sampled_from(NAMES))} {'=' if kind == 'one' else '+='} {draw(value)}"


@st.composite
def _loops(draw: Any, depth: int) -> str:
    extents = st.sampled_from(EXTENTS)
    index = draw(st.sampled_from((*"ij", *NAMES)))
    over = draw(st.sampled_from(("range", "ndrange", "two", "x") if depth == 0 else ("range",)))
    head = f"for {index} in range({draw(extents)})"
    if over == "ndrange":
        head = f"for {index} in ti.ndrange({draw(extents)})"
    elif over == "two":
        other = draw(st.sampled_from([one for one in "ijnmt" if one != index]))
        head = f"for {index}, {other} in ti.ndrange({draw(extents)}, {draw(extents)})"
    elif over == "x":
        head = f"for {index} in x"
    return f"{head}:\n{textwrap.indent(draw(_blocks(depth + 1)), '    ')}"


@st.composite
def _stores(draw: Any) -> str:
    extents = st.sampled_from(EXTENTS)
    kind, index = draw(st.sampled_from("rrtaas")), draw(st.sampled_from((*"ij", *NAMES)))
    if kind == "t":
        return f"y[_, {index}] = {draw(extents)} * {index}"
    if kind == "a":
        at = draw(st.sampled_from((index, "0", "0")))
        return f"y[_, {at}] += {draw(extents)} + {index}"
    if kind == "s":
        total = draw(st.sampled_from(("s", *NAMES)))
        turn = f"{total} += {draw(extents)} + {draw(st.sampled_from(('j', *EXTENTS)))}"
        loop = f"for j in range({draw(extents)}):\n    {turn}"
        return f"{total} = 0\n{loop}\ny[_, {index}] = {total} + {draw(extents)}"
    step = draw(st.sampled_from(("+ 1", "- 1")))
    return f"y[_, {index}] = ({index} {step}) % {draw(st.sampled_from(EXTENTS[:5]))}"


@st.composite
def _blocks(draw: Any, depth: int = 0) -> str:
    kinds = [_assignments()]
    if depth < 3:
        kinds += [_loops(depth)] * (3 if depth == 0 else 1)
    if depth:
        kinds += [_stores()] * 3
        kinds.append(_blocks(3).map(lambda one: f"if x[0] > 1:\n{textwrap.indent(one, '    ')}"))
    return "\n".join(draw(st.lists(st.one_of(kinds), min_size=1, max_size=2 if depth else 3)))


def numbered(code: str) -> str:
    """Return code whose stores go to a row each."""
    count = itertools.count()
    pieces = code.split("y[_")
    return pieces[0] + "".join(f"y[{next(count)}{piece}" for piece in pieces[1:])


class Array:
    """An array over whose indices a loop runs."""

    def __init__(self, values: np.ndarray) -> None:
        self._values, self.shape = values, values.shape

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.shape[0]))

    def __getitem__(self, index: int) -> int:
        return int(self._values[index])


def expected_of(code: str, x: Array, y: np.ndarray, count: int) -> None:
    arguments = {"x": x, "y": y, "count": count}
    try:
        taichi_scopes.run(code, OUTSIDE, arguments)
    except (taichi_scopes.RefusedError, KeyError, ZeroDivisionError, IndexError):
        assume(False)


def _ndrange(*ends: int) -> Any:
    return range(ends[0]) if len(ends) == 1 else itertools.product(*map(range, ends))


TAICHI = SimpleNamespace(
    cast=lambda value, dtype: value,
    loop_config=lambda **options: None,
    i32=int,
    max=max,
    min=min,
    ndrange=_ndrange,
    raw_div=operator.floordiv,
    zero=lambda value: 0,
    select=lambda condition, first, second: first if condition else second,
)
# What changed loops call, as Python does it.
IN_PYTHON = {
    **dict.fromkeys(("ti", "tikgen_ti"), TAICHI),
    wrapped_indices.WRAPPED: lambda index, number, extent: (index + number) % extent,
    **dict.fromkeys(("tikgen_min", wrapped_indices.LEAST), min),
    **dict.fromkeys(("tikgen_max", wrapped_indices.MOST), max),
    "tikgen_nest_range": _ndrange,
    "tikgen_nest_cast": TAICHI.cast,
    "tikgen_inner_joined": lambda value, thread, bits: value,
    "tikgen_sum_cast": TAICHI.cast,
}


# One for each change of loops on GPUs.
NEST = """
for i in range(n):
    for j in range(m):
        y[0, 0] += n
n = 5
for i in range(n):
    for j in range(n):
        y[1, 0] += n"""
LINE = """
for i, j in ti.ndrange(n, m):
    y[0, i] += n * j
n, m = m, n
for i, j in ti.ndrange(n, m):
    y[1, i] += n * j"""
INNER = """
for i in range(n):
    s = n
    for j in range(x.shape[0]):
        s += m * j
    y[0, i] = s
    n, m = m, 5
    y[1, i] = s + n * m"""
EACH = """
for i in x:
    y[0, i] = n * x[i]
    n = x[i] + 1
    y[1, i] = n * x[i]"""


@example(NEST, True)
@example(LINE, True)
@example(INNER, True)
@example(EACH, True)
@settings(
    max_examples=examples(120, 40),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(code=_blocks().map(numbered), is_on_gpu=st.booleans())
def test_names_of_changed_loops_are_those_of_taichi(code: str, is_on_gpu: bool) -> None:
    x, count = np.array([2, 3, 1, 5, 2, 7, 4], np.int32), 6
    rows = max(1, code.count("y["))
    expected, y = np.full((2, rows, _SIZE), -1)
    expected_of(code, Array(x), expected, count)
    names = {"ti": ti, **OUTSIDE}
    exec(head := "def work(x, y, count):\n" + textwrap.indent(code, "    "), names)
    tree = ast.parse(head)
    scopes.distinguish(tree, names)
    kernel = SimpleNamespace(
        func=names["work"],
        arguments=[
            SimpleNamespace(name="x", annotation=ti.types.ndarray(ti.i32, ndim=1)),
            SimpleNamespace(name="y", annotation=ti.types.ndarray(ti.i32, ndim=2)),
            SimpleNamespace(name="count", annotation=ti.i32),
        ],
    )
    unrolled_loops.rewrite(tree, names)
    wrapped_indices.rewrite(tree, kernel, names)
    if is_on_gpu:
        loop_nests.rewrite(tree, names)
        line_sums.rewrite(tree, kernel, names)
        inner_sums.rewrite(tree, kernel, names)
        thread_coarsening.rewrite(tree, kernel, names)
    else:
        row_loops.rewrite(tree, kernel)
        split_loops.rewrite(tree)
        loop_sums.rewrite(tree, kernel, names)
    names |= IN_PYTHON
    # Each variable has a name of its own now, so that Python runs the code as Taichi does.
    exec(ast.unparse(tree), names)
    names["work"](Array(x), y, count)
    np.testing.assert_array_equal(y, expected)


CASES = {
    "a constant before a variable": """
        for i, j in ti.ndrange(n, n):
            y[0, i * 5 + j] = 1
        for i in range(n):
            y[1, i] = (i + 1) % n
        n = x.shape[0]
        for i in range(n):
            y[2, i] = (i + 1) % n""",
    "a variable of a loop": """
        for i in range(2):
            n = x.shape[0]
            y[0, i] = (i - 1) % n
        for i in x:
            y[1, i] = (i + 1) % n""",
    "a variable of a block": """
        for i in range(n):
            if i > 1:
                n = x.shape[0]
                for j in range(n):
                    y[i, j] = (j - 1) % n
            y[i, 9] = (i + 1) % n
        n, m = m, n
        for i in range(m):
            y[4, i] = (i + 1) % m * 10 + (i + 1) % n""",
    "an index": """
        for n in range(m):
            y[0, n] = (n + 1) % m
            for m in ti.ndrange(n + 2):
                y[n, 10 + m] = (m + 1) % (n + 2)
        for i in range(n):
            y[2, i] = (i + 1) % n""",
    "a count before a variable": """
        for i in x:
            y[0, i] = n * x[i]
            n = x[i] + 1
            y[1, i] = n * x[i]""",
}


@pytest.mark.arch
@pytest.mark.usefixtures("ti_arch")
@pytest.mark.parametrize("case", CASES)
def test_kernels_with_shadowed_names(case: str) -> None:
    code = textwrap.dedent(CASES[case])
    x, count = np.array([2, 3, 1, 5, 2, 7, 4], np.int32), 6
    expected, y = np.full((2, 5, _SIZE), -1, np.int32)
    taichi_scopes.run(code, OUTSIDE, {"x": x, "y": expected, "count": count})
    tikgen.from_string(HEAD + textwrap.indent(code, "    "))(x, y, count)
    np.testing.assert_array_equal(y, expected)


def distinguished(code: str, **names: Any) -> str:
    tree = ast.parse(f"def work(x, y):\n{textwrap.indent(textwrap.dedent(code), '    ')}")
    scopes.distinguish(tree, {"ti": ti, **names})
    function = trees.function_of(tree)
    assert function is not None
    return "\n".join(map(ast.unparse, function.body))


@pytest.mark.parametrize(
    "code",
    [
        "n = x.shape[0]\nfor i in range(n):\n    t = x[i]\n    t += 1\n    y[i] = t",
        "for i in x:\n    y[i] = 1\nfor i in x:\n    y[i] = 2",
        # Taichi tells of these, by the names that are written.
        "n = 3\nfor n in range(3):\n    y[n] = 1",
        "for i in x:\n    y[i] = ti.static(3)\nx = 3",
    ],
)
def test_names_of_one_variable_stay(code: str) -> None:
    assert distinguished(code) == code


def test_variables_of_one_name_have_two() -> None:
    code = """
        for i in range(n):
            n = i
            y[i] = [n for n in ti.static(range(3))][0]
            assert n < 3
        n = 1
        y[0] = (n_2 := n)"""
    expected = """
        for i in range(n):
            n_3 = i
            y[i] = [n_4 for n_4 in ti.static(range(3))][0]
            assert n_3 < 3, 'n < 3'
        n_5 = 1
        y[0] = (n_2 := n_5)"""
    assert distinguished(code) == textwrap.dedent(expected).strip()


def test_another_name_of_an_array_is_its_own() -> None:
    code = """
        z, w = ti.static(x, y)
        v = ti.static(z)
        u = ti.static(f)
        k = ti.static(n)
        w[0] = v[1] + u[2] + k"""
    last = distinguished(code, f=_Field(), n=4).splitlines()[-1]
    assert last == "y[0] = x[1] + f[2] + k"


class _Field(ti.Field):
    def __init__(self) -> None:
        pass
