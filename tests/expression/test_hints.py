"""What errors say to write instead."""

from __future__ import annotations

import pytest

from tikgen.errors import ExpressionError
from tikgen.expression import Equations, Expression

EQUATIONS = {
    "u' = where(u = 0, u, v)": "a comparison is written '=='",
    "u' = where(u[1, 0] = 0, u, v)": "a comparison is written '=='",
    "u' = where(u > 0, u, v=2)": "where() takes no keyword arguments; a comparison is written '=='",
    "u' := 2*u": "write '=' for ':='",
    "f(u) := 2*u; w = f(u)": "write '=' for ':='",
    "u' = u + |u - v|": "write abs(u - v) for |u - v|, and norm(v)",
    "u' = u + dt*lap u": "an operator is missing: write lap(u), or lap*u",
    "w = 1\nu' = tan h(u)": "an operator is missing: write tan(h), or tan*h",
    "u' = 2u": "an operator is missing: write 2*u",
    "u' = 1e5*u + 3 v": "an operator is missing: write 3*v",
    "where x < 1\n    u' = 2*u": "ends with a colon, as in 'where x < 1:'",
    "u' = u\nwhere (x < 1)\n    u' = 2*u": "ends with a colon, as in 'where x < 1:'",
    "where x < 1:\n    u' = u\nelsewhere\n    u' = 2": "ends with a colon",
    "u' = u\neach q in 3\n    v.q = 2": "ends with a colon, as in 'each q in 9:'",
    "where x < 1:\n    u' = u\nelse:\n    u' = 2": "'else', for which 'elsewhere:' stands",
    "if x < 1:\n    u' = u": "'if', for which 'where x < 1:' stands",
    "u' = u + if*lap(u)": "'if' is a keyword of Python; choose another name",
    "u' = or + u": "'or' is a keyword of Python; choose another name",
    "u' = lambda*u": "'lambda' is a keyword of Python; choose another name",
    "each q in 3: f(a) = a": "a function has a line of its own outside of blocks",
    "u' = u; m = mean(u - v)": '"total = sum(u - v)" is a reduction; the caller divides it by',
    "du/dt = lap(u)": 'write "u\' = u + dt*lap(u)"',
    "v' = v; du/dt = D*lap(u) - u  # heat": 'write "u\' = u + dt*(D*lap(u) - u)"',
    "w' = w + a*[0, -g]": "a list is no value; write w'.x = w.x + a * 0; w'.y = w.y + a * -g",
    "w' = (u[1, 0], u)": "a list is no value; write w'.x = u[1, 0]; w'.y = u",
    "w' = w - a*[1]": "write an assignment to each component, as in v.x = 0; v.y = 1",
    "w' = w - a*dot(w, grad(w))": "write w.x*dx(w) + w.y*dy(w)",
    "u' = u - dot(grad(w), w[1, 0])": "name the other one, and write flow.x*dx(w) + flow.y*dy(w)",
    "w' = w + grad(w)": "takes the gradient of a vector; its derivatives are dx(w), dy(w)",
    "u' = u + [1, 2]": "'[1, 2]' is a list, which is not allowed",
    "u' = u \u2212 v": "the character '\u2212', which is not allowed; write '-'",
    "u\u2019 = u": 'write "\'"',
    "u\u2032 = u": 'write "\'"',
    "\u03c8' = u": "write 'psi'",
    "\u0394t = u": "write 'Delta'",
    "u' = u\u00b2": "write '**2'",
    "u' = u \u00b7 v": "write '*'",
}


@pytest.mark.parametrize(("text", "hint"), EQUATIONS.items())
def test_errors_say_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Equations.parse(text).on(2, vectors={"w": 2} if "w'" in text or "(w" in text else {})
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("where(x = 0, x, y)", "a comparison is written '=='"),
        ("|x|", "write abs(x) for |x|"),
        ("2x", "write 2*x"),
        ("x \u00d7 y", "write '*'"),
    ],
)
def test_texts_of_maps_have_the_same_hints(text: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    "text", ["u' = (u", "u' = u +", "u' = 3e", "u' = dx(u, along=c, v)", "= u"]
)
def test_no_hint_is_better_than_a_wrong_one(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Equations.parse(text)
    assert not any(word in str(caught.value) for word in ("write", "choose", "written"))


def test_a_hint_about_a_flow_is_right() -> None:
    with pytest.raises(ExpressionError, match=r"write w\.x"):
        Equations.parse("w' = w - dot(w, grad(w))").on(2, vectors={"w": 2})
    carried = Equations.parse("w' = w - (w.x*dx(w) + w.y*dy(w))").on(2, vectors={"w": 2})
    by_hand = "w'.x = w.x - (w.x*dx(w.x) + w.y*dy(w.x)); w'.y = w.y - (w.x*dx(w.y) + w.y*dy(w.y))"
    assert carried.assignments == Equations.parse(by_hand).on(2, vectors={"w": 2}).assignments
