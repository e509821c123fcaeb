"""Options that are no texts, paths or numbers are refused by name, whatever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import TikgenError

COPY: Any = {"expr": "y = x"}
# The truth of the first is ambiguous, and neither has a hash.
ODD = [np.array([1, 2]), ["cpu"]]
ODD_NAMES: dict[str, Callable[[Any], Any]] = {
    "build arch": lambda odd: tikgen.build("map", arch=odd, **COPY),
    "build engine": lambda odd: tikgen.build("map", engine=odd, **COPY),
    "render arch": lambda odd: tikgen.render("map", arch=odd, **COPY),
    "why arch": lambda odd: tikgen.why("map", arch=odd, **COPY),
    "verify archs": lambda odd: tikgen.verify("map", archs=[odd], **COPY),
    "verify engine": lambda odd: tikgen.verify("map", engine=odd, **COPY),
    "verify scripts": lambda odd: tikgen.verify("map", scripts=odd, **COPY),
    "tune arch": lambda odd: tikgen.tune("map", shape=3, arch=odd, **COPY),
    "tune strategy": lambda odd: tikgen.tune("map", shape=3, strategy=odd, **COPY),
    "sweep archs": lambda odd: tikgen.sweep("map", shape=3, archs=[odd], **COPY),
    "ir kind": lambda odd: tikgen.build("map", **COPY).ir(odd),
    "ir arch": lambda odd: tikgen.build("map", **COPY).ir("chi", arch=odd),
    "export archs": lambda odd: tikgen.aot.export(
        [tikgen.build("map", **COPY)], "unmade", archs=[odd]
    ),
    "load path": tikgen.aot.load,
}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("option", ODD_NAMES)
def test_a_name_of_another_type_is_refused(option: str, odd: Any) -> None:
    with pytest.raises(TikgenError, match=r"takes|there is none of that name|is no path"):
        ODD_NAMES[option](odd)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("seed", 1.5),
        ("seed", -1),
        ("seed", np.array([1, 2])),
        ("timeout", -1),
        ("timeout", None),
        ("timeout", "3"),
        ("timeout", np.array([1, 2])),
        ("shrink_seconds", "3"),
        ("shrink_seconds", -1),
        ("shrink_seconds", float("nan")),
    ],
    ids=repr,
)
def test_a_verification_takes_numbers_where_it_needs_them(option: str, value: Any) -> None:
    with pytest.raises(tikgen.errors.ParameterError) as caught:
        tikgen.verify("map", **{option: value}, **COPY)
    assert caught.value.parameter == option


def test_a_tuning_refuses_sizes_of_another_type() -> None:
    with pytest.raises(tikgen.errors.ParameterError, match="positive integer for n0; got array"):
        tikgen.tune("map", shape=np.array([3, 4]), **COPY)
