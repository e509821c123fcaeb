"""Sums and products of any number of terms: no limit of nesting, and the order as written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, TikgenError
from tikgen.expression import Assignments, Equations, Expression
from tikgen.expression.sympy_text import read

TERMS = ("u", "2", "v*3", "(u - v)", "-u", "1.5", "abs(v)", "(u + (v - 2*u))")


def values_of(text: str, dtype: Any, **arrays: Any) -> dict[str, Any]:
    """Return what equations compute, in the order in which kernels do."""
    assignments = Equations.parse(text).on(1).assignments.folded(DType("f64"))
    return assignments.evaluate(**{name: np.asarray(x, dtype) for name, x in arrays.items()})


@pytest.mark.parametrize("count", [47, 100, 150, 400, 1900])
@pytest.mark.parametrize("op", ["+", "*"])
def test_a_flat_sum_or_product_has_any_length(count: int, op: str) -> None:
    text = f"u' = {f' {op} '.join(['u'] * count)}"
    found = Equations.parse(text)
    assert str(found) == text
    assignments = found.on(1).assignments
    u = np.float64([1.0, 0.999, 1.001])
    folded = u
    for _ in range(count - 1):
        folded = folded + u if op == "+" else folded * u
    assert np.array_equal(assignments.evaluate(u=u)["u_next"], folded)
    # No line of the code is too deep for Taichi's compiler.
    assert max(expression.node.depth for _, expression in assignments.assignments) <= 50


@settings(max_examples=examples(300, 40), deadline=None)
@given(
    first=st.sampled_from(TERMS),
    rest=st.lists(
        st.tuples(st.sampled_from("+-*"), st.sampled_from(TERMS)), min_size=30, max_size=260
    ),
    numbers=st.tuples(st.floats(0.5, 1.5), st.floats(-1.5, -0.5)),
)
def test_operators_are_done_from_the_left_to_the_right(
    first: str, rest: list[tuple[str, str]], numbers: tuple[float, float]
) -> None:
    """The text is that of Python, whose own value has to be met bit for bit."""
    text = f"({first}" + "".join(f" {op} {term}" for op, term in rest) + ")"
    nested = "".join(["(" * len(rest), first, *(f" {op} {term})" for op, term in rest)])
    known = dict(zip("uv", numbers, strict=True))
    for written in (text, nested.replace("(u)", "u")):
        if len(written) > 5000 or written.count("(") > 150:
            continue  # Python's parser has a limit of its own for parentheses.
        expected = eval(written, {"abs": abs}, known)
        found = values_of(f"w = {written}", np.float64, **known)["w"]
        assert np.array_equal(found, expected, equal_nan=True)


def test_parts_hold_while_their_names_do() -> None:
    """The same sum of a name that is assigned again has other values."""
    total = " + ".join(["r"] * 70)
    text = f"r = 2*u; s = {total}; r = 3*r; t = {total}; w = u + r"
    found = values_of(text, np.float64, u=1.0)
    assert (found["s"], found["t"], found["w"]) == (140, 420, 7)
    place = " + ".join(["u"] * 70)
    found = values_of(f"u = u + ({place}); w = {place}", np.float64, u=1.0)
    assert (found["u"], found["w"]) == (71, 70 * 71)


def test_a_filter_of_125_points(ti_arch: str, rng: np.random.Generator) -> None:
    offsets = [*itertools.product(range(-2, 3), repeat=3)]
    text = "u' = (" + " + ".join(f"u[{a},{b},{c}]" for a, b, c in offsets) + ")/125"
    kernel = tikgen.update(text, dim=3, boundary="periodic")
    u = rng.random((5, 6, 7), dtype=np.float32)
    after = np.full_like(u, np.nan)
    kernel(u=u, u_next=after)
    wide = u.astype(np.float64)
    mean = sum(np.roll(wide, offset, (0, 1, 2)) for offset in offsets) / 125
    assert abs(after - mean).max() < 1e-5


@pytest.mark.parametrize("dtype", ["f32", "i32", "i64", "f64"])
def test_long_sums_of_all_types(ti_arch: str, dtype: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu" and dtype in ("i64", "f64"):
        pytest.skip("the archs differ in 64 bits, and not in sums")
    terms = " + ".join(f"{n % 3}*u*v" for n in range(130))
    kernel = tikgen.update(f"w = {terms} - v", dim=1, dtype=dtype)
    u, v = (rng.integers(-3, 4, 40).astype(DType(dtype).numpy) for _ in range(2))
    after = np.empty_like(u)
    kernel(u=u, v=v, w=after)
    wide = u.astype(np.int64) * v * sum(n % 3 for n in range(130)) - v
    assert np.array_equal(after, wide)


def test_derivatives_and_neighbours_of_long_sums() -> None:
    terms = " + ".join(f"{n}*u" for n in range(200))
    update = Equations.parse(f"r = {terms}; w = lap(r) + r[1] + dx({terms})").on(1)
    known = {name: 1.0 + offset[0] for name, (_, offset) in update.accesses.items()}
    assert set(known.values()) == {0.0, 1.0, 2.0}
    total = sum(range(200))
    assert update.assignments.evaluate(**known)["w"] == total * 2 + total


def test_long_sums_within_blocks_vectors_and_places() -> None:
    terms = " + ".join(["v"] * 150)
    found = Equations.parse(
        f"where u > 0:\n    u' = {terms}\nelsewhere:\n    u' = sum(f.q for q in 64)"
    )
    update = found.on(1, vectors={"f": 64})
    assert Equations.parse(str(found)) == found
    values = dict.fromkeys(update.assignments.inputs, 1.0)
    assert update.assignments.evaluate(**values)["u_next"] == 150
    two = "sum(f.q*f.r for q in 16 for r in 16)"
    assert Equations.parse(f"w = {two}").on(1, vectors={"f": 16}).assignments
    whole = Equations.parse(f"v' = {' + '.join(['v'] * 150)}").on(1, vectors={"v": 2})
    assert whole.arrays == {"v·x": "in", "v·y": "in", "v_next·x": "out", "v_next·y": "out"}
    Equations.parse(f"p' = {' + '.join(['dx(ux)'] * 150)}").on(1, at={"ux": "face x"})
    with pytest.raises(ExpressionError, match="mixes values at face x with values at the centre"):
        Equations.parse(f"p' = {' + '.join(['ux'] * 150)} + p").on(1, at={"ux": "face x"})


def test_long_sums_of_sympy() -> None:
    u, q, w = sympy.symbols("u q w")
    polynomial = sympy.Add(*[sympy.Rational(i + 1, 7) * u**i for i in range(150)])
    product = sympy.Mul(*[u + sympy.Rational(i, 150) for i in range(150)])
    x = np.float64([0.3, 0.9, 1.1])
    found = values_of(read([(q, polynomial), (w, product)]).text, np.float64, u=x)
    powers = x[:, None] ** np.arange(150)
    assert np.allclose(found["q"], powers @ np.arange(1, 151) / 7)
    assert np.allclose(found["w"], np.prod(x[:, None] + np.arange(150) / 150, axis=1))


def test_maps_have_sums_of_200_operations(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.elementwise("z = " + "+".join(["x"] * 201))
    x = rng.random(9, dtype=np.float32)
    z = np.empty_like(x)
    kernel(x=x, z=z)
    assert np.allclose(z, 201 * x)
    bound = Assignments.parse("z = " + "+".join(["x"] * 201)).error_bound({"x": x}, DType.f32)
    assert (abs(z - 201 * x.astype(float)) <= bound["z"]).all()
    with pytest.raises(ExpressionError, match="a sum or product of more than 200 operations"):
        Expression.parse("+".join(["x"] * 202))


@pytest.mark.parametrize(
    "text",
    [
        "u' = " + " + ".join(["u"] * 3000),
        "u' = lap(" + " + ".join(f"{n}*u" for n in range(1500)) + ")",
        "u' = " + " + ".join(["u"] * 1500) + " + nothing(u)",
        "u' = " + "-(" * 150 + "u" + ")" * 150,
    ],
)
def test_messages_quote_the_beginning_or_the_place_of_a_long_text(text: str) -> None:
    with pytest.raises(TikgenError) as caught:
        tikgen.update(text, dim=1)
    message = str(caught.value).partition(" Known: ")[0]
    assert len(message) < 600
    assert max(map(len, message.splitlines()[1:]), default=0) < 200
