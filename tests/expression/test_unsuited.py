"""What a dtype cannot compute is refused with the user's own line, and a caret."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tikgen
from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, ParameterError
from tikgen.expression import Assignments

UPDATES = {
    "u' = u + dt*(lap(u) - u^3)": ("f64", "^3)", "write '**' for a power"),
    "u' = u & 1": ("f32", "& 1", "& needs an integer dtype"),
    "u' = u + ~u": ("f32", "~u", "~ needs an integer dtype"),
    "u' = u << 2": ("f32", "<< 2", "write '*' and a power of 2"),
    "r = 2*u\nu' = lap(r) + (r)/(u)": ("i32", "/(u)", "use // to round down"),
    "u' = lap(u) + sin(u)": ("i32", "sin(u)", "sin() needs a float dtype"),
    "u' = u + pi": ("i32", "pi", "pi needs a float dtype"),
    "u' = u + dx(u)": ("i32", "dx(u)", "'dx(u)' stands for terms with other numbers: 0.5 does not"),
    "n = 2\nu' = u**(n - 3)": ("i32", "**(n", "** takes a literal whole exponent"),
    "u' = u << 40": ("i32", "<< 40", "<< 40 goes beyond the 32 bits"),
    "u' = u + 1/0": ("f32", "+ 1", "+ has the constant inf"),
    "c = 1e30\nu' = u*(c*c)": ("f32", "*(c*c)", "* has the constant inf"),
    "u' = u*1e300": ("f32", "1e300", "1e+300 does not fit f32"),
    "where u > 0:\n    u' = lap(u) + u/2": ("i32", "/2", "use // to round down"),
    "half(a) = a/2; u' = lap(u) + half(u)": ("i32", "half(u)\n", "use // to round down"),
    "v' = v + 0.1*grad(u)": ("i32", "0.1", "0.1 does not fit i32"),
    "each q in 2:\n    v'.q = v.q ^ 2": ("f32", "^ 2", "^ needs an integer dtype"),
    f"u' = u {'+ u ' * 99}+ u/3 {'- u ' * 99}": ("i32", "/3 -", "use // to round down"),
    "u' = u + dx(u, along=lap(u)/2)": ("i32", "/2)", "use // to round down"),
    "v' = v + w.0*lap(v)": ("f32", "w.0*", "1e+300 does not fit f32"),
    "top = max(lap(u) | 1)": ("f32", "| 1", "write 'or' between conditions"),
}
MAPS = {
    "r = 2*x; z = r/x": ("i32", "/x", "use // to round down"),
    "x^2": ("f32", "^2", "write '**' for a power"),
    "r = x\nz = sum(r*y^2)": ("f32", "^2", "write '**' for a power"),
    "square(a) = a^2\nz = square(x)": ("f32", "square(x)\n", "write '**' for a power"),
    "n = 3; z = x**-n": ("i32", "**-n", "takes a literal whole exponent"),
}


def assert_quoted(text: str, at: str, hint: str, error: BaseException) -> None:
    """Check that an error gives a hint, and has a caret below a place in a line of a text."""
    message = str(error)
    assert hint in message
    line, caret = message.split("\n")[1:3]
    assert line.strip(" .") in text
    assert f"{line[caret.index('^') :]}\n".startswith(at)


@pytest.mark.parametrize("text", UPDATES)
def test_equations_that_a_dtype_cannot_compute_are_quoted(text: str) -> None:
    dtype, at, hint = UPDATES[text]
    given: dict[str, Any] = {"scalars": "dt"} if "dt" in text else {}
    if "v" in text:
        given["vectors"] = {"v": 2}
    if "w.0" in text:
        given["constants"] = {"w": (1e300, 1.0)}
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", equations=text, dtype=dtype, boundary="periodic", **given)
    assert_quoted(text, at, hint, caught.value)


@pytest.mark.parametrize("text", MAPS)
def test_maps_that_a_dtype_cannot_compute_are_quoted(text: str) -> None:
    dtype, at, hint = MAPS[text]
    with pytest.raises(ParameterError) as caught:
        tikgen.render("map", expr=text, dtype=dtype)
    assert_quoted(text, at, hint, caught.value)


def test_a_copy_without_its_text_is_refused_as_well() -> None:
    program = pickle.loads(pickle.dumps(Assignments.parse("z = x/y")))
    with pytest.raises(ExpressionError, match=r"'x / y': .* use // to round down$"):
        program.check(DType.i32)
