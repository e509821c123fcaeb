"""Terms that occur several times: what becomes a temporary, and that no value changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from some_cases import examples
from tikgen.dtypes import DType
from tikgen.errors import ExpressionError
from tikgen.expression import Assignments, Equations
from tikgen.expression.sharing import shared


def shown(text: str, dim: int = 1, **grid: Any) -> str:
    found = Equations.parse(text).on(dim, **grid).assignments
    return str(found).replace("\u00b7", ".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # Large terms that occur twice.
            "w = (2*u + 3*v + 1)*q; z = 2*u + 3*v + 1",
            "common = 2 * u + 3 * v + 1; w = common * q; z = common",
        ),
        (  # Small ones cost less than a name.
            "w = (u + v)*q; z = u + v",
            "w = (u + v) * q; z = u + v",
        ),
        (  # Terms of temporaries, which are assigned before.
            "r = u + 1; w = (2*r + 3*v + 1)*q; z = 2*r + 3*v + 1",
            "r = u + 1; common = 2 * r + 3 * v + 1; w = common * q; z = common",
        ),
        (  # What is updated in place has another value afterwards.
            "u = u + (2*u + 3*v + 1); z = 2*u + 3*v + 1",
            "u = u + (2 * u + 3 * v + 1); z = 2 * u + 3 * v + 1",
        ),
        (  # Several divisions by one value.
            "w = u/v + q/v; z = 1/v",
            "per_v = 1 / v; w = u * per_v + q * per_v; z = per_v",
        ),
        ("w = u/v", "w = u / v"),
        ("w = u/a", "per_a = 1 / a; w = u * per_a"),  # Once for all points.
        ("w = u/3 + v/3", "w = u / 3 + v / 3"),  # LLVM does so.
        ("v = v + u/v; w = u/v", "v = v + u / v; w = u / v"),
        (
            "per_a = v; w = u/a + per_a",
            "per_a = v; per_a_2 = 1 / a; w = u * per_a_2 + per_a",
        ),
    ],
)
def test_what_is_shared(text: str, expected: str) -> None:
    assert shown(text, scalars=("a",)) == expected


def test_a_condition_is_no_temporary() -> None:
    text = "w = where(2*u + 3*v > 1 and q > 0, u, v); z = where(2*u + 3*v > 1 and q > 0, v, q)"
    assert shown(text) == text.replace("*", " * ")


def test_an_operator_that_is_written_twice_is_computed_once() -> None:
    text = "u' = u + lap(u)*v; v' = v + lap(u)"
    assert shown(text, 2).count("u.1.0") == 1


@settings(max_examples=examples(80, 40), deadline=None)
@given(st.data())
def test_sharing_changes_no_value(data: Any) -> None:
    leaf = st.sampled_from(("p", "q", "(p*q + 2*p - q)", "(1 + q*q)", "3"))
    term = st.recursive(
        leaf,
        lambda inner: st.builds(
            "({} {} {})".format, inner, st.sampled_from(("+", "*", "-", "/")), inner
        ),
        max_leaves=5,
    )
    names = data.draw(st.lists(st.sampled_from(("r", "s", "p")), min_size=1, max_size=4))
    text = "; ".join(f"{name} = {data.draw(term)} + {data.draw(term)}" for name in names)
    try:
        plain = Assignments.parse(text)
    except ExpressionError:  # A value that nothing reads is refused.
        assume(False)
    nodes = [(name, expression.node) for name, expression in plain.assignments]
    statements = shared(nodes, (), ("q",))
    found = Assignments(tuple((n, type(plain.assignments[0][1])(node)) for n, node in statements))
    random = np.random.default_rng(data.draw(st.integers(0, 9999)))
    values = {name: random.uniform(0.5, 2, 8) for name in "pq"}
    given_here = {name: values[name] for name in plain.inputs} or {"p": values["p"]}
    one, other = plain.evaluate(**given_here), found.evaluate(**given_here)
    try:
        allowed = plain.error_bound(given_here, DType.f64)
    except ExpressionError:  # A constant such as 3/(3 - 3) is refused.
        assume(False)
    bounds = found.error_bound(given_here, DType.f64)
    for name in plain.outputs:
        both = allowed[name] + bounds[name]
        with np.errstate(invalid="ignore"):
            close = np.abs(one[name] - other[name]) <= both
        assert np.all(~np.isfinite(both) | close | (one[name] == other[name]))
