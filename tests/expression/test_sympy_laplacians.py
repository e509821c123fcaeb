"""Laplacians in equations of SymPy: found again, expanded, they are the equations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from some_cases import examples

sympy = pytest.importorskip("sympy")
from tikgen.expression.sympy_text import read  # noqa: E402

AXES = sympy.symbols("x y z")
k = sympy.Symbol("k")


def fields(dim: int) -> list[Any]:
    return [sympy.Function(name)(*AXES[:dim]) for name in "uv"]


def laplacian(field: Any) -> Any:
    return sum(field.diff(axis, 2) for axis in field.args)


def symbol(name: str, axis: Any) -> Any:
    return sympy.Symbol(f"{name}_{axis}{axis}")


def meant(text: str, dim: int) -> Any:
    """Return a right-hand side, in which symbols stand for second derivatives."""
    calls: dict[str, Any] = {
        f"d{axis}{axis}": lambda field, axis=axis: symbol(field.name, axis) for axis in AXES[:dim]
    }
    calls["lap"] = lambda field: sum(symbol(field.name, axis) for axis in AXES[:dim])
    names = {name: sympy.Symbol(name) for name in "uvk"}
    return eval(text.partition(" = ")[2], calls | names)


def agrees(right: Any, dim: int) -> bool:
    known = {f.diff(a, 2): symbol(f.func.__name__, a) for f in fields(dim) for a in f.args}
    known |= {field: sympy.Symbol(field.func.__name__) for field in fields(dim)}
    target = sympy.Function("o")(*AXES[:dim])
    text = read([(target, right)]).text
    return bool(sympy.expand(meant(text, dim) - right.xreplace(known)) == 0)


# u_xx, u_yy, v_xx, v_yy: a field and an axis each.
U_XX, U_YY, V_XX, V_YY = (0, 0), (0, 1), (1, 0), (1, 1)
TERMS = st.lists(
    st.tuples(
        st.sampled_from([1, -1, 2, k]),
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=examples(80, 40), deadline=None)
@example(2, [(1, [U_XX, V_YY]), (1, [U_YY, V_YY]), (1, [U_YY, V_XX])])
@given(st.integers(2, 3), TERMS)
def test_a_term_is_part_of_one_laplacian(
    dim: int, terms: list[tuple[Any, list[tuple[int, int]]]]
) -> None:
    known = fields(dim)
    right = sum(
        factor * sympy.prod(known[field].diff(AXES[axis % dim], 2) for field, axis in pairs)
        for factor, pairs in terms
    )
    assert agrees(right, dim)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_product_of_laplacians_is_found(dim: int) -> None:
    for one, two in itertools.product(fields(dim), repeat=2):
        assert agrees(sympy.expand(laplacian(one) * laplacian(two)), dim)
    u, v = fields(dim)
    target = sympy.Function("o")(*AXES[:dim])
    right = sympy.expand(laplacian(u) * laplacian(v))
    assert read([(target, right)]).text == "o = lap(u) * lap(v)"
