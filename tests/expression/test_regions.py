"""Regions in equations: what blocks become, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tikgen.errors import ExpressionError
from tikgen.expression import Equations, Update


def on(text: str, **grid: Any) -> Update:
    return Equations.parse(text).on(1, **grid)


OVER = """
u' = 2*u
where x < 1:
    u' = u' + q
elsewhere solid == 1:
    u' = 0
"""
SWAP = """
where h > 0:
    r = h*u
    h = h - r
    m = m + r
elsewhere:
    r = 2*u
    m = m - r
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            OVER,
            "u_next_1 = 2 * u; u_next = where(i < 1, u_next_1 + q, where(solid == 1, 0, u_next_1))",
        ),
        ("where h > 0:\n    h = h - 1", "h = where(h > 0, h - 1, h)"),
        ("where h > 0: w = 1", "w = where(h > 0, 1, w)"),
        (
            "where h > 0:\n  where a > 0: w = 1\n  elsewhere: w = 2\n  z = w\n"
            "elsewhere:\n  w = 3\n  z = 1",
            "w_1 = where(a > 0, 1, 2); w = where(h > 0, w_1, 3); z = where(h > 0, w_1, 1)",
        ),
        (
            "where h > 0:\n  where a > 0:\n    r = u\n    w = r\n  elsewhere: w = 2\n"
            "elsewhere: w = 3",
            "r_1 = u; w = where(h > 0, where(a > 0, r_1, 2), 3)",
        ),
        ("v = v + u\nwhere h > 0: v = 2*v", "v_1 = v + u; v = where(h > 0, 2 * v_1, v_1)"),
        (
            "where h > 0: v = 1\nwhere h < 0: v = 2",
            "v_1 = where(h > 0, 1, v); v = where(h < 0, 2, v_1)",
        ),
        ("v = v + u; v = 2*v; q = v", "v_1 = v + u; v = 2 * v_1; q = v"),
        ("where h > 0: u' = 1", "u_next = where(h > 0, 1, u)"),
        (
            "where a > b: u' = 1\nwhere b > a: u' = 2",
            "u_next_1 = where(a > b, 1, u); u_next = where(b > a, 2, u_next_1)",
        ),
        (
            "where h > 0:\n  r = 2*h\n  u' = r\nelsewhere:\n  r = 3*h\n  u' = r*r",
            "r_1 = 2 * h; r_2 = 3 * h; u_next = where(h > 0, r_1, r_2 * r_2)",
        ),
        (
            "where h > 0: r = 1\nelsewhere: r = 2\nw = r*h",
            "r = where(h > 0, 1, 2); w = r * h",
        ),
        (
            "where a > 0:\n  u' = 1\n  where b > 0: u' = 2\nelsewhere: u' = 3",
            "u_next_1 = 1; u_next = where(a > 0, where(b > 0, 2, u_next_1), 3)",
        ),
        # What a choice reads is what was there before the block.
        (
            SWAP,
            "r_1 = h * u; r_2 = 2 * u; inside_1 = where(h > 0, 1, 0); h_1 = h - r_1; "
            "m_1 = m + r_1; m_2 = m - r_2; h = where(inside_1 != 0, h_1, h); "
            "m = where(inside_1 != 0, m_1, m_2)",
        ),
        ("where wet and x < 2: u' = 1", "u_next = where(h > 0 and i < 2, 1, u)"),
        ("u' = where(wet, 1, 2)", "u_next = where(h > 0, 1, 2)"),
    ],
)
def test_blocks_become_choices(text: str, expected: str) -> None:
    found = str(on(text, where={"wet": "h > 0"} if "wet" in text else None).assignments)
    assert found == expected


def test_roles_are_those_of_what_is_assigned() -> None:
    update = on("where h > 0:\n  v = v + h\nelsewhere:\n  v = 2*v\nwhere h < 0: w = 1\nq = v")
    assert update.arrays == {"h": "in", "v": "inout", "w": "inout", "q": "out"}
    assert on("v = v + h\nwhere h > 0: v = 0").arrays == {"v": "inout", "h": "in"}
    # What is assigned above the block is no array.
    assert on("r = 2*h\nwhere h > 0: r = r + 1\nq = r").arrays == {"h": "in", "q": "out"}
    assert on("w = h\nwhere h > 0: w = w + 1").arrays == {"h": "in", "w": "out"}
    nested = "r = 2*h\nwhere h > 0:\n  r = r + 1\n  where h > 2: r = 3*r\nu' = r"
    assert on(nested).arrays == {"h": "in", "u_next": "out"}
    assert on("where h > 0: r = 1; w = r\nq = h").arrays == {"h": "in", "w": "inout", "q": "out"}
    kept = on("where h > 0: r = 1; w = r\nelsewhere: r = 2; w = h", outputs=("r", "w"))
    assert set(kept.outputs) == {"r", "w"}


def test_blocks_and_vectors_contain_each_other() -> None:
    text = "each q in f:\n  where f.q > 0:\n    f'.q = 2\nwhere h > 0:\n  v' = 2*v"
    found = str(on(text, vectors={"f": 2, "v": 2}).assignments).replace("\u00b7", ".")
    assert found == (
        "f_next.x = where(f.x > 0, 2, f.x); f_next.y = where(f.y > 0, 2, f.y); "
        "v_next.x = where(h > 0, 2 * v.x, v.x); v_next.y = where(h > 0, 2 * v.y, v.y)"
    )


def test_new_variables_lie_where_the_field_lies() -> None:
    text = "ux' = ux - dx(p)\nwhere x < 1:\n  ux' = 2*ux' + x"
    update = on(text, at={"ux": "face x", "p": "centre"})
    assert str(update.assignments).count("i - 0.5") == 2


@pytest.mark.parametrize(
    "text", [OVER, SWAP, "where a > 1: u' = 1; w = 2", "w = 1 if u > 2 else 3"]
)
def test_the_text_of_equations_means_the_same(text: str) -> None:
    equations = Equations.parse(text)
    again = Equations.parse(equations.text)
    assert again == equations == pickle.loads(pickle.dumps(equations))
    assert again.on(1).assignments == equations.on(1).assignments


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("where h > 0: w = 1\nz = w", "'w' has a value in some regions only"),
        ("where h > 0: w = sum(h)", "a reduction is over all points"),
        ("where h > 0: u = u[1]", "updated in place"),
        ("where h > 0:\n  u' = 1\n  u' = 2\nu' = 3", "assigned twice"),
        ("if h > 0: w = 1", "blocks for regions are written 'where x < 1:'"),
        ("while h > 0: w = 1", "begins with 'while'"),
        ("where h > 0:\nw = 1", "an indented block after 'where' statement"),
        ("elsewhere: w = 1", "is not arithmetic"),
        ("where h >: w = 1", "is not arithmetic"),
        ("where h > 0\n  w = 1", "is not arithmetic"),
        ("where h > 0: wet = 1; w = wet", "'wet' is a condition, and cannot be assigned"),
        ("where odd: w = 1", "'odd' is a condition that reads itself"),
        ("where h > 0: u + 1", "assigns nothing|assignments to plain names"),
        ("where h > 0: u[1] = 1", "assignments to plain names"),
    ],
)
def test_what_means_nothing_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        on(text, where={"wet": "h > 0", "odd": "odd > 0"})
    assert "ʹ" not in str(caught.value) and "if   " not in str(caught.value)


def test_a_condition_is_an_expression() -> None:
    with pytest.raises(ExpressionError, match="is no condition"):
        on("where wet: u' = 1", where={"wet": "h = 0"})
