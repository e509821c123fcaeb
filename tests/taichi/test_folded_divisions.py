"""Divisions in loops that are written out round down, as everywhere else."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples

TEXT = """
import taichi as ti


@ti.func
def part(a, b):
    return (a - 2 * b) // 3 % 5


@ti.kernel
def work(
    x: ti.types.ndarray(dtype=ti.i32, ndim=1),
    y: ti.types.ndarray(dtype=ti.i32, ndim=1),
    n: ti.i32,
):
    m = x.shape[0]
    for i in x:
        s = 0
        last = n - 4
{code}
        y[i] = s
"""
LOOPS = (
    "for q in range(-4, 3):\n",
    "for q in range(9):\n",
    "for p in range(-1, 2):\n    for q in range(-2, 1):\n",
    "for p, q in ti.ndrange((-2, 0), 3):\n",
)
TERMS = ("q", "p", "i", "n", "m", "last", "x[i]", "(q - 4)", "(i - q)", "(p * q)")
NUMBERS = ("2", "-3", "7")


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Draw statements of a turn; no divisor is 0."""
    lines = []
    for number in range(draw(st.integers(1, 3))):
        # What has numbers only, or `q - q`, Taichi divides wrong in any loop.
        middle = draw(st.sampled_from(TERMS))
        left, right = (
            draw(st.sampled_from([one for one in TERMS + NUMBERS if one != middle]))
            for _ in range(2)
        )
        sign = draw(st.sampled_from("+-*"))
        value = draw(
            st.sampled_from(
                (
                    f"({left} {sign} {middle}) // 3",
                    f"({left} {sign} {middle}) % 4",
                    f"{left} // (({middle}) * ({middle}) + 1)",
                    f"{left} % (-1 - ({middle}) * ({middle}))",
                    f"part({left}, {middle})",
                    f"({left}) ** 2 - {right} // -2",
                    f"({left} {sign} {middle}) {sign} {right}",
                )
            )
        )
        name = f"v{number}"
        lines.append(f"{name} = {value}")
        more = (
            f"s += {name}",
            f"s += {name} // 2",
            f"last = {name} % 7 - q",
            f"s -= x[{name} % m]",
        )
        lines.append(draw(st.sampled_from(more)))
    return "\n".join(lines)


def by_python(code: str, x: np.ndarray, n: int) -> list[int]:
    """Run the turns of the parallel loop in Python."""
    code = code.replace("ti.ndrange((-2, 0), 3)", "[(p, q) for p in (-2, -1) for q in range(3)]")
    found = []
    for i in range(len(x)):
        names = {"x": x.tolist(), "i": i, "n": n, "m": len(x), "s": 0, "last": 1}
        exec(code, {"part": lambda a, b: (a - 2 * b) // 3 % 5}, names)
        found.append(names["s"])
    return found


@pytest.mark.usefixtures("ti_arch")
@settings(max_examples=examples(40, 8), deadline=None)
@given(data=st.data())
def test_results_are_those_of_python(data: st.DataObject) -> None:
    loop = data.draw(st.sampled_from(LOOPS), label="loop")
    code = "p = n - 3\n" if "p" not in loop.replace("part", "") else ""
    turn = data.draw(statements(), label="turn")
    depth = loop.count("for") * 4
    code += loop + textwrap.indent(turn, " " * depth)
    code += data.draw(st.sampled_from(("", "\ns += last // 2", "\ns += (last - i) % 3")))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-50, 50, 37, np.int32)
    y = np.zeros_like(x)
    expected = by_python(code, x, 5)
    text = TEXT.format(code=textwrap.indent(code, " " * 8))
    tikgen.from_string(text)(x, y, 5)
    np.testing.assert_array_equal(y, expected)
