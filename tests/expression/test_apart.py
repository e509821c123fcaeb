"""Names of users that generated code has as well."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.expression.apart import respelled, restored

NAMES = (
    *("left", "right", "row", "first", "last", "start", "stop", "end", "step", "run", "lane"),
    *("points", "plane", "few", "seen", "turn", "strip", "buffer", "block", "run_1", "here"),
    *("count", "length", "used", "part", "place", "steps", "half", "rank", "chunk", "u_so_far"),
)


def test_code_makes_room_for_the_names_of_a_user() -> None:
    assert respelled({"first": ("first_", "x")}, ("first",)) == {"apart_first_": ("first_", "x")}
    code = '"""first"""\nfirst = x.first  # The first.\nnew_apart_first_ = apart_first_ + first_'
    assert restored(code, ("first",)) == (
        '"""first"""\nfirst__ = x.first  # The first.\nnew_first = first + first_'
    )


def of_names(text: str, names: tuple[str, ...]) -> str:
    return re.sub(r"\b[A-H]\b", lambda letter: names["ABCDEFGH".index(letter[0])], text)


UPDATE = """
    A' = A + B*lap(A) + C[1, 0]
    E = 2*A'
    F = E + D
    where D > 0 and G == 0:
        F = D - E
    H = sum(A' - F)
"""


@pytest.mark.parametrize("number", range(0, len(NAMES), 8))
@pytest.mark.parametrize("loop", ["function", "points"])
def test_users_have_names_of_generated_code(loop: str, number: int, ti_arch: str) -> None:
    if loop == "function" and ti_arch != "cpu":
        pytest.skip("real functions belong to cpu")
    rng = np.random.default_rng(number)
    drawn = rng.integers(-9, 9, (8, 7, 71)).astype(np.float32)
    found: list[dict[str, Any]] = []
    for names in (tuple("ABCDEFGH"), (*NAMES[number:], *NAMES)[:8]):
        a, b, c, d, _, f, g, h = names
        given = {a: drawn[0], b: 2, c: drawn[2], d: drawn[3], f: drawn[5], g: drawn[6] > 0}
        given |= {g: given[g].astype(np.uint8), h: np.zeros(1, np.float32)}
        given |= {a + "_next": drawn[7].copy(), f: drawn[5].copy(), "y": np.float32(drawn[4, 0])}
        kernel = tikgen.update(
            of_names(UPDATE, names),
            dim=2,
            scalars=b,
            types={g: "u8"},
            outputs=(f,),
            boundary={a: {"x": ("value", b), "y": "reflect"}, c: "clamp"},
            schedule={"loop": loop},
        )
        assert {*kernel.signature.names} == {*given} - {"y"}
        kernel(**{name: given[name] for name in kernel.signature.names})
        found.append({"A": given[a + "_next"], "F": given[f], "H": given[h]})
    for name in "AFH":
        np.testing.assert_array_equal(found[0][name], found[1][name], err_msg=name)


def test_reductions_of_a_map_have_any_names(ti_arch: str) -> None:
    part, first, step = np.ones((3, 3001), np.float32)
    seen = np.zeros(1, np.float32)
    kernel = tikgen.elementwise("step = part + first; seen = sum(step*first)", scalars=())
    kernel(part=part, first=first, step=step, seen=seen)
    assert (step == 2).all() and seen[0] == 6002


def test_e_and_pi_are_what_a_text_or_parameters_say(ti_arch: str) -> None:
    x, y, z = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    kernel = tikgen.elementwise("e = 2*x; y = e*x; z = pi*x")
    kernel(x=x, e=(e := np.zeros_like(x)), y=y, z=z)
    assert (e == 2 * x).all() and (y == 2 * x * x).all()
    np.testing.assert_allclose(z, np.pi * x, rtol=1e-6)
    kernel = tikgen.update("e' = e + lap(e) + pi[1]", dim=1, types={"pi": "f32"}, boundary="clamp")
    assert kernel.signature.names == ("e", "pi", "e_next")
    kernel(e=np.float32([1, 2, 4]), pi=x, e_next=e)
    assert (e == [4, 6, 5]).all()
    for text in ("u' = e*u", "e2 = e; u' = e2*u"):
        assert "ti.f32(2.718281828459045)" in tikgen.update(text, dim=1).source.text


def test_components_of_vectors_have_names_of_generated_code(ti_arch: str) -> None:
    text = "run = 2*f; f' = run + lap(run)"
    kernel = tikgen.update(text, dim=1, vectors={"f": 3, "run": 3}, boundary="clamp")
    f = np.random.default_rng(0).integers(0, 9, (3, 200)).astype(np.float32)
    f_next = np.zeros_like(f)
    kernel(f=f, f_next=f_next)
    around = np.pad(2 * f, [(0, 0), (1, 1)], "edge")
    np.testing.assert_array_equal(f_next, around[:, 2:] + around[:, :-2] - 2 * f)
