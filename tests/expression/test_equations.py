"""Equations over fields: what a text becomes on a grid, and what is refused."""

from __future__ import annotations

import ast
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from some_cases import examples
from tikgen.errors import ExpressionError
from tikgen.expression import Equations, Update
from tikgen.expression.differences import central, staggered
from tikgen.expression.layout import broken


def on(text: str, dim: int = 1, **grid: Any) -> Update:
    return Equations.parse(text).on(dim, **grid)


def shown(text: str, dim: int = 1, **grid: Any) -> str:
    return str(on(text, dim, **grid).assignments).replace("\u00b7", ".")


# Finite differences.


@given(st.sampled_from((1, 2)), st.sampled_from((2, 4, 6, 8)))
def test_central_differences_are_exact_for_polynomials(derivative: int, order: int) -> None:
    weights = central(derivative, order)
    for power in range(order + derivative):
        total = sum(weight * Fraction(offset) ** power for offset, weight in weights.items())
        assert total == {1: 1, 2: 2}[derivative] * (power == derivative)


@given(st.sampled_from((2, 4, 6, 8)), st.booleans())
def test_staggered_differences_are_exact_for_polynomials(order: int, from_faces: bool) -> None:
    half = Fraction(-1 if from_faces else 1, 2)
    weights = staggered(1, order, from_faces)
    assert len(weights) == order
    for power in range(order + 1):
        total = sum(weight * (offset + half) ** power for offset, weight in weights.items())
        assert total == (power == 1)


# What names mean.


def test_roles_follow_from_what_is_read_and_assigned() -> None:
    update = on("r = u*v  # a product\nu' = u + a*r\nw = w + r; q = r", scalars=("a",))
    assert update.arrays == {
        "u": "in", "v": "in", "u_next": "out", "w": "inout", "q": "out"
    }  # fmt: skip
    assert update.temporaries == ("r",)
    assert update.inputs == ("u", "v", "a", "w")
    assert update.scalars == ("a",)


def test_outputs_may_be_named() -> None:
    assert on("r = 2*u; u' = r", outputs=("r",)).arrays == {"u": "in", "r": "out", "u_next": "out"}


def test_white_space_and_comments_make_no_difference() -> None:
    one = Equations.parse("u' = u+1 ; v'=v*2")
    other = Equations.parse("""
        u' = (u +   # first
              1)
        v' = v * 2  # second's
    """)
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "u' = u + 1; v' = v * 2"
    assert pickle.loads(pickle.dumps(other)) == one


def test_constants_are_numbers_and_indices_may_be_overridden() -> None:
    assert shown("u' = c*u + k", constants={"c": 2.0}, scalars=("k",)) == "u_next = 2 * u + k"
    assert shown("u' = u*i + x", 2, spacing=(0.5, 1)) == "u_next = u * i + i * 0.5"
    assert on("i = 2*u", 1).arrays == {"u": "in", "i": "out"}
    assert on("u' = x*k", 3, arrays=("k",)).inputs == ("k",)
    assert on("u' = i*x", 2, at={"i": "centre"}).indices == {"i": 0}


@pytest.mark.parametrize("name", "ijkxyz")
def test_what_has_a_next_value_is_a_field(name: str) -> None:
    """Susceptible, infected: without a word ``i`` was a row number, and the model ran."""
    text = f"s' = s - b*s*{name}; {name}' = {name} + b*s*{name} - g*lap({name})"
    found = on(text, 3, scalars=("b", "g"))
    assert found.indices == {}
    assert found.arrays == {"s": "in", name: "in", "s_next": "out", f"{name}_next": "out"}
    assert found.fields == {"s_next": "s", f"{name}_next": name}


# Derivatives.


@pytest.mark.parametrize(
    ("text", "dim", "grid", "expected"),
    [
        ("dx(u)", 1, {}, "0.5 * (u.1 - u.n1)"),
        ("dx(u)", 1, {"spacing": (0.25,)}, "2 * (u.1 - u.n1)"),
        ("dxx(u)", 1, {}, "u.n1 + u.1 - 2 * u"),
        ("lap(u)", 2, {}, "u.n1.0 + u.1.0 + u.0.n1 + u.0.1 - 4 * u"),
        ("dxy(u)", 2, {}, "0.5 * (0.5 * (u.1.1 - u.n1.1) - 0.5 * (u.1.n1 - u.n1.n1))"),
        ("dyx(u)", 2, {}, "0.5 * (0.5 * (u.1.1 - u.n1.1) - 0.5 * (u.1.n1 - u.n1.n1))"),
        ("dy(u, along=v)", 2, {}, "where(v > 0, u - u.0.n1, u.0.1 - u)"),
        ("div(u, v)", 2, {}, "0.5 * (u.1.0 - u.n1.0) + 0.5 * (v.0.1 - v.0.n1)"),
        ("curl(u, v)", 2, {}, "0.5 * (v.1.0 - v.n1.0) - 0.5 * (u.0.1 - u.0.n1)"),
        ("lap(u*v)", 1, {}, "u.n1 * v.n1 + u.1 * v.1 - 2 * (u * v)"),
        ("lap(3)", 1, {}, "0"),
        ("u[1, -2]", 2, {}, "u.1.n2"),
        ("dx(x)", 1, {}, "0.5 * (i + 1 - (i + -1))"),
    ],
)
def test_a_derivative_is_a_sum_over_neighbours(
    text: str, dim: int, grid: dict[str, Any], expected: str
) -> None:
    assert shown(f"q = {text}", dim, **grid) == f"q = {expected}"


@pytest.mark.parametrize("order", [2, 4, 6, 8])
def test_derivatives_of_what_does_not_change_along_an_axis_are_zero(order: int) -> None:
    at = {"u": "centre"}
    for grid in ({"order": order, "spacing": (0.1, 0.3)}, {"order": order, "at": at}):
        for text in ("dx(3)", "dx(y)", "dx(a*y)", "dxx(y)", "dxy(y)", "dyy(x)", "dx(dy(x))"):
            assert shown(f"u' = {text}", 2, scalars=("a",), **grid) == "u_next = 0", text
    assert shown("q = dx(y, along=u)", 2) == "q = where(u > 0, 0, 0)"


def test_a_derivative_of_a_temporary_is_that_of_what_it_stands_for() -> None:
    assert shown("m = u**2; u' = lap(m)") == ("m = u ** 2; u_next = u.n1 ** 2 + u.1 ** 2 - 2 * m")
    assert shown("m = u**2; n = m - 1; q = n[2]") == "m = u ** 2; n = m - 1; q = u.2 ** 2 - 1"


@given(st.sampled_from((2, 4, 6)), st.integers(0, 2**32 - 1))
def test_derivatives_of_smooth_fields_are_near_the_true_ones(order: int, seed: int) -> None:
    phase = np.random.default_rng(seed).uniform(0, 6)
    step = 0.05
    update = on("q = dx(u); s = lap(u)", order=order, spacing=(step,))
    values = {
        name: np.sin(phase + step * (np.arange(20) + offset[0]))
        for name, (_, offset) in update.accesses.items()
    }
    found = update.assignments.evaluate(**values)
    points = phase + step * np.arange(20)
    assert np.abs(found["q"] - np.cos(points)).max() < step**order
    assert np.abs(found["s"] + np.sin(points)).max() < step**order


# Staggered grids.


def test_derivatives_move_between_centres_and_faces() -> None:
    at = {"p": "centre", "ux": "face x", "uy": "face y"}
    text = "ux' = ux - dx(p); uy' = uy - dy(p); p' = p - dx(ux) - dy(uy)"
    assert shown(text, 2, at=at) == (
        "ux_next = ux - (p - p.n1.0); uy_next = uy - (p - p.0.n1); "
        "p_next = p - (ux.1.0 - ux) - (uy.0.1 - uy)"
    )
    assert shown("p' = p*avgx(ux)", 2, at=at) == "p_next = p * (0.5 * (ux + ux.1.0))"
    assert shown("ux' = ux + x", 1, at=at) == "ux_next = ux + (i - 0.5)"
    assert shown("q = curl(ux, uy)", 2, at=at) == "q = uy - uy.n1.0 - (ux - ux.0.n1)"
    assert shown("p' = p*avgx(2)", 1, at=at) == "p_next = p * 2"


def test_values_at_different_places_do_not_mix() -> None:
    at = {"p": "centre", "ux": "face x"}
    for text in ("p' = p + ux", "ux' = dx(ux)", "r = p*2; ux' = ux*r", "p' = max(p, dx(p))"):
        with pytest.raises(ExpressionError, match="take the average of one of them"):
            on(text, 2, at=at)
    with pytest.raises(ExpressionError, match="need all values at one place, without at="):
        on("ux' = dx(p, along=a)", 2, at=at, scalars=("a",))
    with pytest.raises(ExpressionError, match="take the average of one of them"):
        on("p' = p + curl(ux, p)", 2, at=at)


# What is refused.


@pytest.mark.parametrize(
    ("text", "problem", "caret"),
    [
        ("u' = u + foo(u)", "calls 'foo', which is not a function", "         ^"),
        ("u' = laplace(u)", "Did you mean 'lap'", "     ^"),
        ("u' = u[1, 2]", "takes 1 offsets, one an axis; got 2", "     ^"),
        ("u' = u[0.5]", "an offset is a whole number", "       ^"),
        ("u' = u[65]", "reaches further than 64 points", "     ^"),
        ("u' = u(1)", "a neighbour is written with brackets, u[1]", "     ^"),
        ("u' = dy(u)", "needs dim=2", "     ^"),
        ("u' = avgx(u)", "averages belong to staggered grids", "     ^"),
        ("u' = lap(u, u)", "lap() takes 1 fields; got 2", "     ^"),
        ("u' = lap(u, along=u)", "only dx, dy and dz take along=", "     ^"),
        ("u' = grad(u)", "write dx(u), dy(u), dz(u)", "     ^"),
        ("u = u + lap(u)", "updated in place", "        ^"),
        ("u = u + u[1]", "updated in place", "        ^"),
        ("u = 2*u; q = dx(u + 1)", "updated in place", "             ^"),
        ("u' = u[1//0]", "an offset is a whole number", "       ^"),
        ("u' = r; r = 2*u", "'r' is read before it is assigned", "     ^"),
        ("p = q; q = p", "'q' is read before it is assigned", "    ^"),
        ("q = u'; u' = 2*u", "u' is read before it is assigned", "    ^"),
        ("u' = 2*u; q = lap(u')", "the neighbours of u' are not known yet", "              ^"),
        ("u' = u; u' = 2", "assigned twice", "        ^"),
        ("q = dx(u); q = 2*u", "'q' is assigned twice, and nothing reads", "           ^"),
        ("r = u; r = 2; q = r", "'r' is assigned twice, and nothing reads the first", "       ^"),
        ("u' = u; u_next = 2", "u_next is the argument that takes u'", "        ^"),
        ("u_next = 2*u; u' = u_next", "u_next is the argument that takes u'", "^"),
        ("u' = u + lap(u_next)", "write u' for its new value", "             ^"),
        ("u' = u; q = sum(u_next)", "or give the other another name", "                ^"),
        ("f'.x = f.y; f'.y = 2*f_next.1", "takes f'; write f' for its", "                     ^"),
        ("u' = where(b, u, 0)", "u_next is the argument that takes u'", "           ^"),
        ("u' = c*u; v' = c*u_next", "u_next is the argument that takes u'", "                 ^"),
        ("u' = 2; u = 3", "only one of both", "^"),
        ("c = 2*u", "cannot be assigned", "^"),
        ("u' = c[1]", "is a number, and has no neighbours", "     ^"),
        ("u' = e[1]", "is a number, and has no neighbours", "     ^"),
        ("u' = x[1]", "'x' is a coordinate, and has no neighbours; give the array", "     ^"),
        ("u' = dxxx(u)", "dxxx() is a derivative of a derivative: write dxx(dx(u))", "     ^"),
        ("u' = dyxx(2*u)", "write dxx(dy(2 * u))", "     ^"),
        ("u[1] = 2", "assign to one plain name", "^"),
        ("u' += 2", "write it out", "^"),
        ("u + 1", "assigns nothing", "^"),
        ("u' = u.real", "'u' has no components", "     ^"),
        ("u' = [u for u in v]", "a comprehension, which is not allowed", "     ^"),
        ("u' = ti + 1", "is used by generated code", "     ^"),
        ("u' = u[1][0]", "only a name has neighbours", "     ^"),
    ],
)
def test_what_is_refused_is_quoted_with_a_caret(text: str, problem: str, caret: str) -> None:
    # In the middle of others, so that line and column count.
    lines = f"a' = a\n  \n{text}\nz9 = 2"
    with pytest.raises(ExpressionError) as caught:
        on(lines, scalars=("c",), vectors={"f": 2}, where={"b": "u_next > 0"})
    message = str(caught.value)
    assert problem in message
    assert message.endswith(f"\n    {text}\n    {caret}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import os",
        "u' =",
        "u'' = 2",
        "u' = __import__(1)",
        "u' = 'x'",
        "u' = u if",
        "\u00e9' = 2",
    ],
)
def test_text_carries_no_code(text: str) -> None:
    with pytest.raises(ExpressionError):
        on(text)


def test_a_text_has_limits() -> None:
    with pytest.raises(ExpressionError, match="at most 20000 are allowed"):
        on("u' = u" + " + u" * 5000)
    for signs in (1000, 15000):
        with pytest.raises(ExpressionError, match="nested too deeply"):
            on(f"u' = {'-' * signs}u")
    with pytest.raises(ExpressionError, match="not assigned"):
        on("u' = u", outputs=("r",))
    with pytest.raises(ExpressionError, match="'r' is neither read nor one of the outputs"):
        on("r = u; u' = u", outputs=("u_next",))
    with pytest.raises(ExpressionError, match="in 3 dimensions write its components"):
        on("q = curl(u, v)", 3)
    assert shown("u' = pi*u") == "u_next = pi * u"


# Long lines.


def test_comparisons_and_the_longest_call_are_broken_into_lines() -> None:
    """Taichi cannot read lines of more than 9,999 characters."""
    code = "u[0, k] + w[0, k]"
    for _ in range(examples(12, 10)):
        code = f"ti.select({code} > v[0, k], {code}, 2) ** ti.f64(2)"
    text = broken(f"out = {code}")
    assert max(map(len, text.splitlines())) < 200
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(f"out = {code}"))


@given(st.integers(1, 60), st.integers(20, 100))
def test_broken_lines_hold_the_same_code(terms: int, width: int) -> None:
    code = " + ".join(f"weight{n} * max(u[{n}, k], v{n} - 1)" for n in range(terms))
    text = broken(f"out = {code}", width)
    assert "".join(text.split()).replace("=(", "=").removesuffix(")") in (
        f"out={code}".replace(" ", "").removesuffix(")"),
        f"out={code}".replace(" ", ""),
    )
    compile(text, "<text>", "exec")
    if terms > 1:
        assert max(map(len, text.splitlines())) <= max(width, 45)


@pytest.mark.parametrize(
    "text", ["for q in 9:\n    u' = q", "for q in 9: u' = q", "for q in 9:\nu' = q"]
)
def test_a_loop_of_python_is_pointed_to_blocks(text: str) -> None:
    with pytest.raises(ExpressionError, match="a block is written 'each q in 9:'"):
        on(text)
