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
from tikgen.errors import ParameterError

# Code and value of what a point may become; u is a float, and m and n are states.
LEAVES: dict[str, Any] = {
    "u > 0.25": lambda u, m, n: u > 0.25,
    "not (u < m)": lambda u, m, n: ~(u < m),
    "m": lambda u, m, n: m,
    "-(u > m)": lambda u, m, n: -(u > m).astype(int),
    "n": lambda u, m, n: n,
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
        ("m = m + (u > 0)", {"m": "i8"}, "what is written is f32; integers take conditions"),
        ("m = where(u > 0, 1.5, 0)", {"m": "u8"}, "integers take conditions"),
        ("m = where(u > 0, u, 0)", {"m": "u8"}, "integers take conditions"),
        ("m = where(u > 0, k, 0)", {"m": "i32", "k": "i32"}, "whole numbers that f32 holds"),
        ("m = where(u > 0, k[1, 0], 0)", {"m": "i32", "k": "u8"}, "integers take conditions"),
        ("m = where(u > 0, 16777217, 0)", {"m": "i32"}, "whole numbers that f32 holds"),
        ("m' = 2*u", {"m": "u8"}, "integers take conditions"),
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
