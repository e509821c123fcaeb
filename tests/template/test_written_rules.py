"""Boundary rules that cannot be used: what messages say to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import InvalidValue, ParameterError

HEAT = "u' = u + lap(u)"
TAKES = (
    "takes interior, periodic, clamp, zero, reflect, antireflect, symmetric, antisymmetric, wall, "
    "free_surface, tikgen.dirichlet(g), tikgen.neumann(g), tikgen.absorbing(width), or a dict of "
    "such rules for sides or for fields; got "
)
XY = " Rules for sides are a dict: {'x': 'periodic', 'y': 'clamp'}."


@pytest.mark.parametrize(
    ("boundary", "hint"),
    [
        (("periodic", "clamp"), XY),
        (["periodic", "clamp"], XY),
        ({"u": ("periodic", "clamp")}, XY),
        (
            (("zero", "clamp"), ("wall", "wall")),
            " Rules for sides are a dict: {'x-': 'zero', 'x+': 'clamp', 'y': 'wall'}.",
        ),
        (
            (("flux", 2.0), "zero"),
            " Rules for sides are a dict: {'x': ('flux', 2.0), 'y': 'zero'}.",
        ),
        (("zero", "perodic"), " Did you mean 'periodic'?"),
        (("neumann", 0), " Write tikgen.neumann(0)."),
        (("dirichlet", "g"), " Write tikgen.dirichlet('g')."),
        ({"x": "zero", "y": ("neumann", 0)}, " Write tikgen.neumann(0)."),
        ("dirichlet", " Write tikgen.dirichlet(g) or ('value', g)."),
        ("neumann", " Write tikgen.neumann(g) or ('flux', g)."),
        ("Neumann", " Write tikgen.neumann(g) or ('flux', g)."),
        ({"x": "zero", "y": "neumann"}, " Write tikgen.neumann(g) or ('flux', g)."),
        (("wall_flux",), " Write tikgen.neumann(g, at='wall') or ('wall_flux', g)."),
        ("absorbing", " Write tikgen.absorbing(width)."),
        (("absorbing", 9), " Write tikgen.absorbing(9)."),
        (("cpml", 9), " Write tikgen.absorbing(9, kind='cpml')."),
        (("cpml", 9, "neumann"), " Write tikgen.neumann(g) or ('flux', g)."),
        (3, " For a value outside write tikgen.dirichlet(3)."),
        ("dirichlt", " Did you mean 'dirichlet'?"),
        ({"x": "zero", "y": "perodic"}, " Did you mean 'periodic'?"),
        (
            {"left": "zero", "x+": "clamp"},
            " 'left' is no side; sides are 'x-', 'x+', 'y-', 'y+', 'z-' and 'z+', or 'x' and 'y' "
            "and 'z' for both of an axis.",
        ),
        (None, ""),
        ((), ""),
        (("zero", 3, None, "clamp"), ""),
        (("zero", None), ""),
    ],
    ids=str,
)
def test_a_boundary_that_is_no_rule_is_named_with_what_to_write(boundary: Any, hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", equations=HEAT, dim=2, boundary=boundary)
    expected = f"update: parameter 'boundary' {TAKES}{boundary!r}"
    expected += f".{hint}"
    assert str(caught.value) == expected


def test_other_parameters_that_are_there_are_not_missing() -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("map", expr="z = x", part=[(1,)])
    takes = "takes None, or a tuple of a tuple of 4, each an integer; got [(1,)]."
    assert str(caught.value) == f"map: parameter 'part' {takes}"
    with pytest.raises(ParameterError, match="parameter 'expr' is missing; it takes an expression"):
        tikgen.render("map")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("map", expr="z = x", part=[(1,)] * 500)
    assert str(caught.value).endswith("(1,), (1,), (1,)...")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("key", "dim", "hint"),
    [
        ("left", 1, "and no side; sides are 'x-' and 'x+', or 'x' for both of an axis."),
        ("w", 2, "and no side; sides are 'x-', 'x+', 'y-' and 'y+', or 'x' and 'y' for both"),
        ("top", 3, "'y-', 'y+', 'z-' and 'z+', or 'x' and 'y' and 'z' for both of an axis."),
        ("up", 1, "and no side; sides are"),
        ("uu", 1, ". Did you mean 'u'?"),
    ],
)
def test_a_key_that_is_no_side_is_told_the_sides(key: str, dim: int, hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("update", equations=HEAT, dim=dim, boundary={key: "zero", "x": "clamp"})
    # A word such as 'up' for a side is meant to be one, though an array has a similar name.
    assert f"names {key}, which is no array" in str(caught.value)
    assert hint in str(caught.value)


MADE: dict[str, tuple[Callable[[], Any], str]] = {
    "a place of a value": (
        lambda: tikgen.dirichlet(1, at="walls"),  # type: ignore[arg-type]
        "dirichlet: parameter 'at' takes 'outside' or 'wall'; got 'walls'.",
    ),
    "a place of a slope": (
        lambda: tikgen.neumann(1, at="outside"),  # type: ignore[arg-type]
        "neumann: parameter 'at' takes 'point' or 'wall'; got 'outside'.",
    ),
    "a value": (
        lambda: tikgen.dirichlet([1]),  # type: ignore[arg-type]
        "dirichlet: parameter 'value' takes a finite number, or the name of a scalar, a constant "
        "or an array over the face; got [1].",
    ),
    "a slope": (
        lambda: tikgen.neumann("2*x"),
        "neumann: parameter 'slope' takes a finite number, or the name of a scalar, a constant or "
        "an array over the face; got '2*x'; for one that changes with the step, write neumann('g') "
        "with g among the scalars, and tikgen.varying(kernel.bind(...), g=function).",
    ),
    "a width": (
        lambda: tikgen.absorbing("9"),  # type: ignore[arg-type]
        "absorbing: parameter 'width' takes a whole number of points from 1 to 10000; got '9'.",
    ),
    "a strength": (
        lambda: tikgen.absorbing(9, 2),
        "absorbing: parameter 'strength' takes a number above 0 and at most 1; got 2.",
    ),
    "an order": (
        lambda: tikgen.absorbing(9, order=3),  # type: ignore[arg-type]
        "absorbing: parameter 'order' takes 1 or 2; got 3.",
    ),
    "a kind": (
        lambda: tikgen.absorbing(9, kind="pml"),  # type: ignore[arg-type]
        "absorbing: parameter 'kind' takes 'sponge' or 'cpml'; got 'pml'.",
    ),
    "no kernel": (
        lambda: tikgen.matched_layers(3, (9,), 0.5),
        "matched_layers: parameter 'kernel' takes a kernel with layers; 3 has no layers of kind "
        "'cpml'; make them by boundary=tikgen.absorbing(10, kind='cpml').",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_functions_refuse_values_by_an_error_of_tikgen(name: str) -> None:
    make, message = MADE[name]
    with pytest.raises(InvalidValue) as caught:
        make()
    assert str(caught.value) == message
    assert isinstance(caught.value, ParameterError) and isinstance(caught.value, ValueError)


def test_numbers_of_numpy_and_names_are_taken() -> None:
    assert tikgen.dirichlet(np.float32(2)) == ("value", 2)
    assert tikgen.neumann("g", at="wall") == ("wall_flux", "g")
    assert tikgen.absorbing(np.int64(10)) == ("absorbing", 10, 0.2, 1, "zero")


@pytest.mark.parametrize(
    ("name", "meant"), {"bc": "boundary", "bcs": "boundary", "precision": "dtype"}.items()
)
def test_a_usual_word_for_a_parameter_is_understood(name: str, meant: str) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' is unknown. Did you mean '{meant}'"):
        tikgen.update(HEAT, dim=1, **{name: "zero"})
    with pytest.raises(ParameterError, match=r"'bc' is unknown\. gemm takes"):
        tikgen.build("gemm", bc="zero")


@pytest.mark.parametrize("text", ["lambda = 2*u", "lambda' = lambda + 1", "u' = u*lambda"])
def test_a_keyword_names_no_field(text: str) -> None:
    with pytest.raises(ParameterError, match="'lambda' is a keyword of Python; choose another"):
        tikgen.update(text, dim=1)
    with pytest.raises(ParameterError, match=r"can be called; write 'exp\(u\)'"):
        tikgen.update("u' = math.exp(u)", dim=1)
