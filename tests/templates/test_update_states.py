"""Arrays of integers that are written where floats are computed: states of cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from test_template_update import launched
from tikgen.errors import ArgumentError, ParameterError

# Code and value of what a point may become; u is a float, and m and n are states.
LEAVES: dict[str, Any] = {
    "u > 0.25": lambda u, m, n: u > 0.25,
    "not (u < m)": lambda u, m, n: ~(u < m),
    "m": lambda u, m, n: m,
    "-(u > m)": lambda u, m, n: -(u > m).astype(int),
    "n": lambda u, m, n: n,
    "m[1, 0]": lambda u, m, n: np.roll(m, -1, 0),
    "n[-1, 2]": lambda u, m, n: np.roll(n, (1, -2), (0, 1)),
    "3": lambda u, m, n: np.full(u.shape, 3),
    "7.0": lambda u, m, n: np.full(u.shape, 7),
}
NODES: dict[str, Any] = {
    "where(u + m > 1, {}, {})": lambda a, b: (
        lambda u, m, n: np.where(u + m > 1, a(u, m, n), b(u, m, n))
    ),
    "max({}, {})": lambda a, b: lambda u, m, n: np.maximum(a(u, m, n), b(u, m, n)),
    "min({}, {})": lambda a, b: lambda u, m, n: np.minimum(a(u, m, n), b(u, m, n)),
}
choices = st.recursive(
    st.sampled_from(list(LEAVES.items())),
    lambda below: st.tuples(st.sampled_from(list(NODES.items())), below, below).map(
        lambda drawn: (
            drawn[0][0].format(drawn[1][0], drawn[2][0]),
            drawn[0][1](drawn[1][1], drawn[2][1]),
        )
    ),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=examples(20, 3), deadline=None, suppress_health_check=list(HealthCheck))
def test_states_are_those_of_numpy(ti_arch: str, data: st.DataObject) -> None:
    text, value = data.draw(choices)
    stored, other = data.draw(st.sampled_from([("i8", "i8"), ("i16", "u8"), ("i16", "i8")]))
    dtype = data.draw(st.sampled_from(["f32"] if ti_arch == "vulkan" else ["f32", "f64"]))
    loops = ["function", "points"] if ti_arch == "cpu" else ["points"]
    kernel = tikgen.update(
        f"r = {text}; m' = r; u' = where(r != 0, u[1, 0], u); q = m - n",
        dim=2,
        dtype=dtype,
        boundary="periodic",
        types={"m": stored, "n": other},
        schedule={"loop": data.draw(st.sampled_from(loops))},
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = (data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 7, 70])))
    types = {"u": dtype, "m": stored, "n": other}
    u, m, n = (
        rng.uniform(*limits, shape).astype(tikgen.DType(types[name]).numpy)
        for name, limits in (("u", (-1, 2)), ("m", (0, 100)), ("n", (0, 100)))
    )
    states, new, difference = launched(kernel, u=u, m=m, n=n)
    expected = value(u, m, n).astype(int)
    assert states.dtype == m.dtype
    np.testing.assert_array_equal(states, expected)
    np.testing.assert_array_equal(difference, m.astype(int) - n.astype(int))
    np.testing.assert_array_equal(new, np.where(expected != 0, np.roll(u, -1, 0), u))


@pytest.mark.parametrize(
    ("text", "types", "problem"),
    [
        ("m = m + (u > 0)", {"m": "i8"}, r"written is f32: \+ is computed in f32. Integers take"),
        ("m = where(u > 0, 1.5, 0)", {"m": "u8"}, r"1\.5 is no whole number"),
        ("m = where(u > 0, u, 0)", {"m": "u8"}, "u is f32. Integers take conditions"),
        ("a = u[1, 0]; m = where(u > 0, a, 0)", {"m": "u8"}, "u is f32. Integers take conditions"),
        ("m = where(u > 0, k, 0)", {"m": "i32", "k": "i32"}, "whole numbers that f32 holds"),
        ("m = where(u > 0, k[1, 0], 0)", {"m": "i32", "k": "i32"}, "may be as large as 2147483648"),
        ("m = where(u > 0, 16777217, 0)", {"m": "i32"}, "and f32 rounds from 16777216 on"),
        ("m' = 2*u", {"m": "u8"}, r"\* is computed in f32"),
        ("m = k[1, 0]; s = u", {"m": "u8", "k": "i8"}, "what is written lies from -128 to 127"),
        ("where u > 0:\n    m = 3", {"m": "i32"}, "leaves alone keep an integer"),
        ("m = where(u > 0, 300, 0)", {"m": "u8"}, "what is written lies from 0 to 300"),
        ("m = -(u > 0)", {"m": "u8"}, "what is written lies from -1 to 0"),
        ("m = min(u > 0, k)", {"m": "u8", "k": "i8"}, "what is written lies from -128 to 1"),
    ],
)
def test_what_is_no_state_is_refused(text: str, types: dict[str, str], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tikgen.update(text, boundary="clamp", types=types)


def test_states_are_not_absorbed() -> None:
    with pytest.raises(ParameterError, match="absorbs m, which is an array of integers"):
        tikgen.update("m' = where(u > 0, m, 0)", types={"m": "u8"}, boundary=tikgen.absorbing(3))


def test_a_field_has_a_type_and_a_place_even_if_its_old_value_is_not_read() -> None:
    (_, m) = tikgen.update("m' = u > 0.5", types={"m": "u8"}).signature.arguments
    assert (m.name, m.dtype) == ("m_next", tikgen.DType.u8)
    places = {"p": "centre", "s": "face x"}
    projected = tikgen.render(
        "update", equations="ux' = s - dx(p)", dim=2, at=places | {"ux": "face x"}
    )
    stored = tikgen.render("update", equations="ux_next = s - dx(p)", dim=2, at=places)
    assert projected.text.partition("@ti")[2] == stored.text.partition("@ti")[2]


PADDED: dict[str, Any] = {
    "periodic": {"mode": "wrap"},
    "clamp": {"mode": "edge"},
    "reflect": {"mode": "reflect"},
    "symmetric": {"mode": "symmetric"},
    "zero": {"mode": "constant"},
    "200": {"mode": "constant", "constant_values": 200},
}


@pytest.mark.parametrize("rule", PADDED)
@pytest.mark.parametrize("loop", ["function", "points"])
def test_neighbours_of_states_are_states(
    rule: str, loop: str, ti_arch: str, rng: np.random.Generator
) -> None:
    boundary = tikgen.dirichlet(200) if rule == "200" else rule
    kernel = tikgen.update(
        "front = max(c[1, 0], c[0, -2]); c' = where(u > 0.5, front, c[-1, 1]); w = c[2, 2]",
        dim=2,
        boundary={"c": boundary, "u": "clamp"},
        types={"c": "u8", "w": "u8"},
        schedule={"loop": loop if ti_arch == "cpu" else "points"},
    )
    for shape in ((3, 3), (5, 7), (37, 131)):
        c, u = rng.integers(0, 256, shape, np.uint8), rng.random(shape, np.float32)
        new, w = launched(kernel, c=c, u=u)
        wide = np.pad(c, 2, **PADDED[rule])

        def at(i: int, j: int, wide: Any = wide, shape: Any = shape) -> Any:
            return wide[2 + i : 2 + i + shape[0], 2 + j : 2 + j + shape[1]]

        assert new.dtype == w.dtype == np.uint8
        np.testing.assert_array_equal(w, at(2, 2))
        expected = np.where(u > 0.5, np.maximum(at(1, 0), at(0, -2)), at(-1, 1))
        np.testing.assert_array_equal(new, expected)


def test_values_over_a_face_of_a_type_of_integers_are_states(
    ti_arch: str, rng: np.random.Generator
) -> None:
    options: dict[str, Any] = {"boundary": {"x-": tikgen.dirichlet("over"), "x+": "clamp"}}
    kernel = tikgen.update(
        "c' = where(u > 0.5, c[-1], c[1])", 1, types={"c": "u8", "over": "u8"}, **options
    )
    c, u = rng.integers(0, 256, 9, np.uint8), rng.random(9, np.float32)
    found = np.zeros(9, np.uint8)
    kernel(c=c, u=u, over=np.array([7], np.uint8), c_next=found)
    below, above = np.append(np.uint8(7), c[:-1]), np.append(c[1:], c[-1])
    np.testing.assert_array_equal(found, np.where(u > 0.5, below, above))
    with pytest.raises(ParameterError, match=r"outside of c, .* has over, which is f32"):
        tikgen.update("c' = c[-1]; v = u", 1, types={"c": "u8", "c_next": "u8"}, **options)


@pytest.mark.parametrize(
    ("text", "boundary", "reason"),
    [
        ("c' = c + u", "clamp", r"\+ is computed in f32"),
        ("c' = c[1]", tikgen.dirichlet(0.5), r"where c\[1\] may lie, the boundary has 0.5"),
        ("c' = c[-1]", tikgen.dirichlet(300), "it lies from 0 to 300"),
        ("c' = c[-1]", "antisymmetric", "the boundary has values that it computes"),
        ("c' = c[-1]", tikgen.dirichlet("g"), "the boundary has g, which is f32"),
    ],
)
def test_the_next_value_that_is_no_state_says_why(
    text: str, boundary: Any, reason: str, ti_arch: str
) -> None:
    scalars = "g" if boundary == tikgen.dirichlet("g") else ()
    kernel = tikgen.update(text, 1, types={"c": "u8"}, boundary=boundary, scalars=scalars)
    given: dict[str, Any] = {"c": np.zeros(3, np.uint8), "u": np.zeros(3, np.float32), "g": 1.0}
    given = {name: given.get(name) for name in kernel.signature.names}
    for next_value in (np.zeros(3, np.uint8), np.zeros(3, bool)):
        with pytest.raises(ArgumentError, match=f"the next value of c is no u8: .*{reason}"):
            kernel.bind(**given | {"c_next": next_value})


@pytest.mark.parametrize(("boundary", "stored"), [("clamp", "u8"), ("antisymmetric", "f32")])
def test_a_part_has_the_types_of_the_whole(boundary: str, stored: str) -> None:
    # Nothing lies outside of a part with ghost points on all sides, other than ghost points.
    for part in (None, ((1, 1, 4, 20),), ((0, 1, 0, 20),)):
        kernel = tikgen.update("c' = c[-1]", 1, boundary=boundary, types={"c": "u8"}, part=part)
        types = {a.name: str(a.dtype) for a in kernel.signature.arguments}
        assert types == {"c": "u8", "c_next": stored}
