"""Functions that a text defines: what they stand for, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.errors import ExpressionError
from tikgen.expression import Assignments, Equations
from tikgen.expression.reducing import Reducing


def shown(text: str, dim: int = 1, **grid: Any) -> str:
    return str(Equations.parse(text).on(dim, **grid).assignments).replace("\u00b7", ".")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("f(u) = 0.5*u**2; u' = u - dt*dx(f(u))", "u' = u - dt*dx(0.5*u**2)"),
        ("f(a, b) = a*b + c\ng(a)=f(a, a)\nw = g(u) - g(v[1])", "w = u*u + c - (v[1]*v[1] + c)"),
        ("w = f(u + 1)\nf(a) = -a", "w = -(u + 1)"),  # Above or below.
        ("f(a) = a[1] - a; w = f(u) + f(v)", "w = u[1] - u + (v[1] - v)"),
        ("f(v) = v.x**2 + v.1; w = f(q)", "w = q.x**2 + q.1"),
        ("f(v) = 2*v; q' = f(q) + grad(p)", "q' = 2*q + grad(p)"),
        ("f(a) = a' - a; u' = 2*u; r = sum(f(u)**2)", "u' = 2*u; r = sum((u' - u)**2)"),
        ("total(a) = sum(a*a); r = total(u)", "r = sum(u*u)"),
        (
            "inside(r) = u < r and v > r\nwhere inside(3):\n    u' = 2*u",
            "where u < 3 and v > 3:\n    u' = 2*u",
        ),
        (
            "f(a) = a*t\nwhere u > 0:\n    t = 2*u\n    u' = f(v)\nelsewhere:\n    u' = v",
            "where u > 0:\n    t = 2*u\n    u' = v*t\nelsewhere:\n    u' = v",
        ),
        ("f(x) = x + dx(u); w = f(y)", "w = y + dx(u)"),  # An argument hides a coordinate.
        ("f(a) = " + " + ".join(["a"] * 150) + "; w = f(u)", "w = " + " + ".join(["u"] * 150)),
    ],
)
def test_a_call_is_what_the_function_says(text: str, plain: str) -> None:
    dim, vectors = (2, {"q": 2}) if "q" in text or "y" in text else (1, {})
    grid: dict[str, Any] = {"dim": dim, "vectors": vectors, "scalars": ("dt", "c")}
    assert shown(text, **grid) == shown(plain, **grid)
    assert Equations.parse(str(Equations.parse(text))) == Equations.parse(text)


def test_conditions_by_name_call_functions() -> None:
    text = "ball(r) = x**2 < r**2\nwhere near:\n    u' = 0"
    assert "x ** 2" not in shown(text, where={"near": "ball(3)"})
    assert shown(text, where={"near": "ball(3)"}) == "u_next = where(i ** 2 < 3 ** 2, 0, u)"


def test_a_reduction_of_a_function_has_terms() -> None:
    assert str(Equations.parse("f(a) = sum(a*a); r = f(u)").with_terms()) == "r = terms(u * u)"


REFUSED = {
    "f(a) = f(a); w = f(u)": "f() calls f(): a function cannot call itself",
    "f(a) = g(a); g(b) = 1 + f(b); w = f(u)": "f() calls g() calls f(): a function cannot",
    "f(a) = a; w = f(u, v)": "f(a) takes 1 argument; got 2",
    "f(a, b) = a; w = f(u)": "f(a, b) takes 2 arguments; got 1",
    "f(a) = a; w = f(a=u)": "f(a) takes 1 argument; got keywords",
    "sin(a) = a; w = sin(u)": "'sin' is a function of every text",
    "lap(a) = a; w = lap(u)": "'lap' is a function of every text",
    "f(a) = a; f(b) = b; w = f(u)": "'f' is defined twice",
    "f(a) = a; w = u": "f() is defined, and nothing calls it",
    "f(a) = a": "f() is defined, and nothing calls it",
    "f(a) = a; w = f + 1": "'f' is a function of this text, and takes arguments",
    "f(a) = a; f = 3*u": "'f' is a function of this text, and cannot be assigned",
    "f(a, a) = a; w = f(u)": "the arguments of f() are different names",
    "f(a + 1) = a; w = f(u)": "the arguments of f() are different names",
    "f() = a; w = f(u)": "the arguments of f() are different names",
    "f(sin) = a; w = f(u)": "'sin' is a function and cannot name an argument",
    "flux(a) = a; w = flx(u) + flux(u)": "Did you mean 'flux'?",
    "where u > 0:\n    f(a) = a\n    u' = f(u)": "a function is defined outside of blocks",
    "dt(a) = a; w = dt(u)": "'dt' has a meaning already",
    "f(a) = a'; u' = u; w = f(u + 1)": "f() reads the next value or a component of 'a'",
    "f(a) = a*a; w = " + "f(" * 40 + "u" + ")" * 40: "stand for more than 20000 operations",
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.items())
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Equations.parse(text).on(1, scalars=("dt",))
    assert problem in str(caught.value)
    assert str(caught.value).endswith("^"), "no place"


def test_texts_of_maps_have_functions() -> None:
    found = Assignments.parse("f(a, b) = a*b; z = f(x, y) + f(x, 2)")
    assert found == Assignments.parse("z = x*y + x*2")
    assert Reducing.parse("f(a) = a**2; r = sum(f(x))") == Reducing.parse("r = sum(x**2)")
    with pytest.raises(ExpressionError, match=r"f\(a\) takes 1 argument; got 2"):
        Reducing.parse("f(a) = a; z = f(x, y)")


NAMES = ("p", "q", "r")


def bodies(calls: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return a strategy for right-hand sides over p, q and r, with calls of functions."""
    leaves = st.sampled_from((*NAMES, "2", "0.5"))

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({' '.join(t)})")
        calling = st.tuples(st.sampled_from((*calls, "abs", "-")), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}{f', {t[2]}' if t[0] in calls else ''})"
        )
        return two | calling

    return st.recursive(leaves, grown, max_leaves=6)


@settings(max_examples=examples(200, 40), deadline=None)
@given(
    texts=st.tuples(bodies(()), bodies(("f",)), bodies(("f", "g")), bodies(("f", "g"))),
    numbers=st.tuples(*[st.floats(-2, 2)] * 3),
)
def test_functions_are_those_of_python(
    texts: tuple[str, ...], numbers: tuple[float, float, float]
) -> None:
    f, g, *values = texts
    known = dict(zip(NAMES, map(np.float64, numbers), strict=True))
    space: dict[str, Any] = {"abs": abs, **known}
    exec(f"def f(p, q): return {f}\ndef g(q, p): return {g}", space)
    text = f"f(p, q) = {f}; g(q, p) = {g}; w = {values[0]} + f(0, 0); z = {values[1]} + g(0, 0)"
    found = Equations.parse(text).on(1).assignments
    computed = found.evaluate(**{name: known[name] for name in found.inputs})
    for name, value in zip("wz", values, strict=True):
        last = "f(0, 0)" if name == "w" else "g(0, 0)"
        assert np.array_equal(computed[name], np.float64(eval(f"{value} + {last}", space)))


def test_burgers_equation(ti_arch: str, rng: np.random.Generator) -> None:
    text = """
    flux(a) = 0.5*a**2
    minmod(a, b) = where(a*b > 0, sign(a)*min(abs(a), abs(b)), 0)
    left(q, s) = q + 0.5*s
    s = minmod(u[1] - u, u - u[-1])
    u' = u - c*(flux(left(u, s)) - flux(left(u[-1], s[-1])))
    """
    u = rng.random(40, dtype=np.float32)
    after = np.empty_like(u)
    tikgen.update(text, dim=1, scalars="c", boundary="periodic")(u=u, c=0.1, u_next=after)
    wide = u.astype(np.float64)
    above, below = np.roll(wide, -1) - wide, wide - np.roll(wide, 1)
    slope = np.where(above * below > 0, np.sign(above) * np.minimum(abs(above), abs(below)), 0)
    flux = (wide + slope / 2) ** 2 / 2
    assert np.allclose(after, wide - 0.1 * (flux - np.roll(flux, 1)), atol=1e-6)


def test_texts_of_programs_have_functions(ti_arch: str) -> None:
    kernel = tikgen.update("u' = 2*u", dim=1)
    u, after = np.ones(3, np.float32), np.empty(3, np.float32)
    a, b = np.zeros(1, np.float32), np.full(1, 3, np.float32)
    text = "f(x, y) = x*y; a = f(b, b) + f(b, 2)"
    tikgen.Program([kernel.bind(u=u, u_next=after), text], a=a, b=b).run(1)
    assert a[0] == 15
