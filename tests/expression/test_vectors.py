"""Vectors in equations: what becomes of components, blocks and sums, and what is refused."""

from __future__ import annotations

import ast
import pickle
from typing import Any

import pytest

from tikgen.errors import ExpressionError
from tikgen.expression import Equations, Update

GRID: dict[str, Any] = {
    "vectors": {"v": 2, "f": 4, "w": 3},
    "constants": {"c": (0.0, 1.0, -1.0, 0.5), "turn": (1.0, 2.0, 3.0, 0.0)},
    "scalars": ("a",),
}


def on(text: str, dim: int = 2, **grid: Any) -> Update:
    return Equations.parse(text).on(dim, **GRID | grid)


def shown(text: str, dim: int = 2, **grid: Any) -> str:
    return str(on(text, dim, **grid).assignments).replace("\u00b7", ".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q = v.x + v.1 + f.3[1, 0]", "q = v.x + v.y + f.3.1.0"),
        ("v'.x = 2*v.y; v'.y = v'.x", "v_next.x = 2 * v.y; v_next.y = v_next.x"),
        ("q = sum(f.q for q in 4)", "q = f.0 + f.1 + f.2 + f.3"),
        ("q = max(n*f.n for n in f)", "q = max(max(max(0, f.1), 2 * f.2), 3 * f.3)"),
        ("q = sum(v.d*c.n for n in 2 for d in v)", "q = v.x + v.y"),
        ("q = sum(c.n*f.n for n in f)", "q = f.1 - f.2 + 0.5 * f.3"),
        ("q = u - c.2*a - c.0*a", "q = u - -a"),
        ("q = sum(f.turn.n[-c.n, n - 1] for n in 3)", "q = f.1.0.n1 + f.2.n1.0 + f.3.1.1"),
        ("q = f.turn.3", "q = f.0"),
        ("o = 0*a\neach n in 2: o = o + v.n\nq = o", "o = 0 * a; o = o + v.x; o = o + v.y; q = o"),
        ("v' = v + a*grad(u)/2", None),
        ("q = dot(v, 2*v)", "q = v.x * (2 * v.x) + v.y * (2 * v.y)"),
        ("q = curl(v) + div(v)", None),
        ("v = -v + c.1*v[1, 0]*a", None),
        (
            "v' = v if u > 0 else 2*v",
            "v_next.x = where(u > 0, v.x, 2 * v.x); v_next.y = where(u > 0, v.y, 2 * v.y)",
        ),
        (
            "each q in c: f'.q = c.q*u",
            "f_next.0 = 0; f_next.1 = u; f_next.2 = -u; f_next.3 = 0.5 * u",
        ),
        ("each n in c: f'.n = c.n", "f_next.0 = 0; f_next.1 = 1; f_next.2 = -1; f_next.3 = 0.5"),
        ("f' = c", "f_next.0 = 0; f_next.1 = 1; f_next.2 = -1; f_next.3 = 0.5"),
    ],
)
def test_components_become_names(text: str, expected: str | None) -> None:
    if expected is not None:
        assert shown(text) == expected
        return
    # Operators on whole vectors are those on their components.
    written = {
        "v' = v + a*grad(u)/2": "v'.x = v.x + a*dx(u)/2; v'.y = v.y + a*dy(u)/2",
        "q = curl(v) + div(v)": "q = curl(v.x, v.y) + div(v.x, v.y)",
        "v = -v + c.1*v[1, 0]*a": "v.x = -v.x + v.x[1, 0]*a; v.y = -v.y + v.y[1, 0]*a",
    }[text]
    if "v = " in text:  # In place, so that neighbours cannot be read.
        for one in (text, written):
            with pytest.raises(ExpressionError, match="updated in place"):
                on(one)
    else:
        assert shown(text) == shown(written)


def test_the_curl_in_three_dimensions_is_a_vector() -> None:
    one = shown("w' = w - curl(w)", 3)
    assert one == shown(
        "w'.x = w.x - (dy(w.z) - dz(w.y)); w'.y = w.y - (dz(w.x) - dx(w.z)); "
        "w'.z = w.z - (dx(w.y) - dy(w.x))",
        3,
    )


def test_the_curl_in_three_dimensions_is_no_number() -> None:
    with pytest.raises(ExpressionError, match="the curl is a vector here; assign it to one"):
        on("q = curl(w)", 3)


def test_a_vector_is_a_temporary_or_an_array_as_a_whole() -> None:
    assert on("v.x = u; v.y = 2*u; q = v.x").temporaries == ("v·x", "v·y")
    assert on("v.x = u; v.y = 2*u").outputs == ("v·x", "v·y")
    assert on("v.x = v.x + u; v.y = 2*u; q = v.y").outputs == ("v·x", "v·y", "q")
    assert on("v.x = u; v.y = 2*u; q = v.x", outputs=("v", "q")).outputs == ("v·x", "v·y", "q")
    assert on("f.1 = 2*f.0").arrays == {"f·0": "in", "f·1": "out"}


def test_blocks_lie_anywhere_and_survive_a_copy() -> None:
    text = """each n in 2:
        o = 0
        each m in v:  # a block in a block
            o = o + v.n*v.m
        v'.n = o
    q = 2; each = u  # no keyword elsewhere
    """
    one = Equations.parse(text)
    assert pickle.loads(pickle.dumps(one)) == one
    assert Equations.parse(str(one)) == one
    assert on("each n in 2:\n  v'.n = u").assignments == on("v'.x = u; v'.y = u").assignments
    assert one.on(2, **GRID).outputs == ("v_next·x", "v_next·y", "q", "each")


@pytest.mark.parametrize(
    ("text", "problem", "caret"),
    [
        ("u' = v.z", "v has 2 components, 0 to 1", "     ^"),
        ("u' = u + f.4", "f has 4 components, 0 to 3", "         ^"),
        ("u' = g.0", "'g' has no components", "     ^"),
        ("u' = vv.x", "Did you mean 'v'", "     ^"),
        ("u' = u.x", "'u' has no components", "     ^"),
        ("u' = v + 1", "v is a vector of 2: v.x, v.y", "     ^"),
        ("u' = 2*f", "f is a vector of 4: f.0, f.1, ..., f.3", "       ^"),
        ("u' = c*u", "c is a list of 4: c.0, c.1, ..., c.3", "     ^"),
        ("v' = u", "is a number, and what it is assigned to has 2", "     ^"),
        ("v' = w", "is a vector of 3, and what it is assigned to has 2", "     ^"),
        ("v' = v*v", "dot(v, w) is their scalar product", "     ^"),
        ("v' = v + 1", "adds a number to a vector of 2", "     ^"),
        ("w' = w - grad(u)", "adds vectors of different sizes, 3 and 2", "     ^"),
        ("v' = u/v", "divides by a vector", "     ^"),
        ("v' = v**2", "a vector where only numbers are allowed", "     ^"),
        ("v' = v + grad(v)", "the gradient of a vector", "         ^"),
        ("u' = dot(u, u)", "dot() takes two vectors", "     ^"),
        ("u' = div(w)", "div() needs 2 components, one an axis; got 3", "     ^"),
        ("u' = grad(u)", "assign it to a vector, or write dx(u)", "     ^"),
        ("v'.x = u", "v' has 2 components, and v'.y is never assigned", "^"),
        ("w'.x = u; w.y = 2", "'w' is assigned as well as w'", "          ^"),
        ("v.x' = u", "the next value of a component is written v'.x", "^"),
        ("f.3' = u", "the next value of a component is written f'.3", "^"),
        ("each q in 5: f'.q = u", "f has 4 components, 0 to 3; q is 4", "             ^"),
        ("each q in 4: f'.q = f.r", "'r' is no component of f", "                    ^"),
        ("each q in h: f'.q = 1", "takes a whole number from 1 to 64", "          ^"),
        ("each q in 0: f'.q = 1", "takes a whole number from 1 to 64", "          ^"),
        ("each a in 4: f'.a = 1", "'a' has a meaning already", "     ^"),
        ("each x in 4: f'.x = 1", "'x' has a meaning already", "     ^"),
        ("u' = sum(f.q for q in 4 if q)", "takes no condition", "                           ^"),
        ("u' = abs(f.q for q in 4)", "only sum, min and max go over components", "     ^"),
        (
            "u' = u[c.3, 0]",
            "an offset is a whole number, as in u[1, 0]; this one is 0.5",
            "       ^",
        ),
        ("u' = f.c.3", "a component has a whole number, and this one is 0.5", "     ^"),
        ("u' = f.c.2", "f has 4 components, 0 to 3; c is -1", "     ^"),
        ("u' = f.d.2", "'d' is no list of numbers", "     ^"),
        ("each q in 9", "a block is written 'each q in 9:'", "           ^"),
        ("each q in 9 as r: u' = q", "a block is written 'each q in 9:'", "^"),
        ("each 4 in 9: u' = 1", "a block has one name for its number", "     ^"),
        (
            "u' = sum(f.q for q, r in 4)",
            "a block has one name for its number",
            "                 ^",
        ),
        (
            "v' = min(v, w)",
            "takes vectors of one size, or numbers alone; got a vector of 2, a vector of 3",
            "     ^",
        ),
        ("u' = (u + 1).x", "is an attribute, which is not allowed", "     ^"),
    ],
)
def test_what_is_refused_is_quoted_with_a_caret(text: str, problem: str, caret: str) -> None:
    # In the middle of others, so that line and column count.
    lines = f"each n in 2: o.n = v.n\n  \n{text}\nz9 = 2"
    with pytest.raises(ExpressionError) as caught:
        on(lines, vectors={**GRID["vectors"], "o": 2})
    message = str(caught.value)
    assert problem in message
    assert message.endswith(f"\n    {text}\n    {caret}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("with q in 9: u' = q", "has 'with', which is not allowed"),
        ("u\u00b73 = 2", "which is not allowed"),
        ("each q in 64:\n each r in 64: u' = q*r", "stands for more than 2000"),
        ("for q in 9: u' = q", "a block is written 'each q in 9:'"),
        ("s = u; each q in 9: f.q' = s", "'each q in 9:' or 'where x < 1:' begins a line"),
        ("s = u; where s < 1: u' = s", "'each q in 9:' or 'where x < 1:' begins a line"),
    ],
)
def test_blocks_carry_no_code(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        on(text)
    assert problem in str(caught.value)


def test_attributes_that_other_libraries_leave_on_operators_do_not_matter() -> None:
    tree = ast.parse("i > 1 and -x + y").body[0]
    for parent in ast.walk(tree):  # As IPython's tracebacks do.
        for node in ast.iter_child_nodes(parent):
            node.parent = parent  # type: ignore[attr-defined]
    try:
        text = "each q in f: f'.q = where(i > 1, -f.q, f.q + u)"
        update = Equations.parse(text).on(dim=2, vectors={"f": 2})
        assert len(update.outputs) == 2
    finally:
        for node in ast.walk(tree):
            vars(node).pop("parent", None)
