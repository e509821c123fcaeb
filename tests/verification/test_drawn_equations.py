"""What verification draws for equations: each feature of the template often enough to count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from some_cases import examples
from tikgen.dtypes import DType
from tikgen.errors import ParameterError
from tikgen.template.catalogue import find_template
from tikgen.verification.equation_texts import (
    fields_in,
    fitted_boundary,
    fitted_layers,
    fitted_types,
)
from tikgen.verification.strategies import drawn, trials

# Some features are in a fortieth of the programs: this holds for any seed.
DRAWS, IN_A_RUN = 240, 24
LEAST = examples(3, 1)


def features(params: dict[str, Any]) -> Iterator[str]:
    """Yield what a drawn problem has."""
    text, rules = params["equations"], repr(params["boundary"])
    is_vector, has_reduction = "each" in text, bool(re.search(r"\bt0 = ", text))
    yield from (f"dim {params['dim']}", params["dtype"], params["loop"])
    yield from re.findall(r"'([a-z_]+)'", rules)
    yield from (
        f"layer of order {n}" for n in set(re.findall(r"'absorbing', \d+, [\d.]+, (\d)", rules))
    )
    yield from (f"{name} reduction" for name in re.findall(r"t\d = (\w+)", text))
    for name in ("mask", "at", "on_device", "constants", "types", "outputs", "where"):
        if params[name]:
            yield name
    if is_vector:
        yield f"vectors, components {params['layout']}"
        yield from ["reduction of vectors"] * has_reduction
        yield from ["layer of a vector"] * ("absorbing" in rules)
        yield from ["cpml of a vector"] * ("cpml" in rules)
    yield from ["cpml of some fields"] * ("cpml" in rules and rules[2:3] not in "xyzm")
    yield from ["cpml of a staggered field"] * bool(params["at"] and "cpml" in rules)
    yield from ["values over a face"] * ("over_" in rules)
    yield from ["rules by side of a staggered field"] * bool(params["at"] and "x-" in rules)
    yield from ["upwind"] * ("along=" in text)
    yield from ["region"] * ("where " in text)
    yield from ["region of a vector"] * (is_vector and "where " in text)
    written = {target.replace("'", "_next") for target in re.findall(r"(\w+'?)(?:\.q)? = ", text)}
    yield from ["states"] * ("flag = " in text)
    yield from ["type of what is written"] * bool(written & {*(params["types"] or {})})


RULES = (
    *("interior", "periodic", "clamp", "zero", "reflect", "antireflect", "symmetric"),
    *("antisymmetric", "wall", "free_surface", "value", "flux", "wall_value", "wall_flux"),
)
EXPECTED = {
    *("dim 1", "dim 2", "dim 3", "f32", "f64", "i32", "i64", "function", "points", *RULES),
    *("absorbing", "cpml", "cpml of a vector", "cpml of some fields", "cpml of a staggered field"),
    *("layer of order 1", "layer of order 2", "layer of a vector"),
    *("sum reduction", "max reduction", "min reduction", "reduction of vectors"),
    *(f"vectors, components {layout}" for layout in ("first", "last", "separate")),
    *("mask", "at", "on_device", "constants", "types", "outputs", "upwind", "values over a face"),
    *("where", "region", "region of a vector"),
    *("rules by side of a staggered field", "type of what is written", "states"),
}


def test_every_feature_is_drawn() -> None:
    refused: list[ParameterError] = []
    template = find_template("update")
    strategy = trials(template, "cpu", {}, lambda reason: None, refused.append)
    found: Counter[str] = Counter()
    rare, draws = EXPECTED, 0
    while rare and draws < DRAWS:
        cases = [cases[0] for cases in drawn(strategy, IN_A_RUN, seed=1 + draws)]
        assert len(cases) == IN_A_RUN
        found.update(each for case in cases for each in set(features(dict(case.params))))
        rare = {name for name in EXPECTED if found[name] < LEAST}
        draws += IN_A_RUN
    assert rare == set()
    # What is cut to the grid is nearly always a problem.
    assert len(refused) < draws / 10


@pytest.mark.parametrize(
    ("types", "dtype", "mask", "found"),
    [
        ({"read": "f16", "written": "f32"}, "f64", None, {"w": "f16", "u_next": "f32"}),
        ({"read": "i8", "written": "f16"}, "i32", None, {"w": "i8"}),
        ({"read": "f32", "written": "i8"}, "i32", "solid", {"u_next": "i8"}),
        ({"written": "f64", "solid": "i8"}, "f32", "solid", {"solid": "i8"}),
        ({"over_x": "f16", "solid": "i8"}, "f32", None, {"over_x": "f16"}),
    ],
)
def test_types_are_those_that_arrays_may_have(
    types: dict[str, str], dtype: str, mask: str | None, found: dict[str, str]
) -> None:
    text = "r = u; u' = w + u; t0 = max(u')"
    assert fitted_types(types, text, {"over_x"}, mask, DType(dtype)) == found


def test_a_text_that_reads_no_field_has_no_rules_of_fields() -> None:
    boundary = fitted_boundary({"u": "clamp", "v": "periodic"}, {}, 2, True, {})
    assert fitted_layers(boundary, 2, (0, 1)) == {}


def test_fields_are_those_that_are_read() -> None:
    assert fields_in("u' = v + dx(p)") == {"v": "v", "p": "u"}
