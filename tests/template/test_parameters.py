"""Parameters: what they take, what they say when it is something else, what they refuse."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import taichi as ti

import tikgen
from tikgen import DType, Identifier, Invalid, ProblemModel, parameter
from tikgen.errors import ParameterError, TemplateError
from tikgen.template.parameters import canonical, make_model, parameter_infos


class Model(ProblemModel):
    dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))
    order: Literal[2, 4] = parameter("order", 2)
    count: int = parameter("how many", 3, ge=1, le=9)
    scale: float = parameter("factor", 1.0)
    label: Identifier = parameter("a name")

    def check(self) -> None:
        if self.count == 5:
            raise Invalid("count", "cannot be 5")


def error_of(**values: object) -> str:
    with pytest.raises(ParameterError) as caught:
        make_model(Model, {"label": "v", **values}, "demo")
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        np.int64(3), np.float32(0), np.array("f32"), np.zeros(3), 3, 3.5, True, None, b"f4", "d",
        "float16 ", ["f32"], object(), np.floating, np.bool_, bool, str, ti.u1, np.dtype(">f4"),
    ],
    ids=lambda value: f"{type(value).__name__}-{value!r}".partition(" object at")[0],
)  # fmt: skip
def test_what_is_no_dtype_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not one of i8, i16"):
        DType.parse(value)


def test_every_dtype_is_known_by_all_its_names() -> None:
    for dtype in DType:
        names = (dtype.value, getattr(ti, dtype.value), dtype.numpy, dtype.numpy.type)
        assert {DType.parse(name) for name in (*names, dtype.numpy.name, dtype)} == {dtype}


def test_kernels_compute_in_32_bits_at_least() -> None:
    for dtype in DType:
        assert dtype.working.bits >= 32
        assert np.can_cast(dtype.numpy, dtype.working.numpy, "safe")
        assert dtype.working is dtype or dtype.bits < 32


@pytest.mark.parametrize("spelling", ["f64", ti.f64, np.float64, np.dtype("f8"), "float64"])
def test_dtype_takes_every_usual_spelling(spelling: object) -> None:
    model = make_model(Model, {"dtype": spelling, "label": "v"}, "demo")
    assert model.dtype is DType.f64  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dtype": "f16"}, "parameter 'dtype' takes f32 or f64; got f16"),
        ({"dtype": "d"}, "parameter 'dtype' cannot be used: 'd' is not one of i8, i16"),
        ({"dtype": 3.5}, "parameter 'dtype' cannot be used: 3.5 is not one of"),
        ({"order": 3}, "parameter 'order' takes 2 or 4; got 3"),
        ({"count": 0}, "parameter 'count' takes an integer from 1 to 9; got 0"),
        ({"count": "3"}, "parameter 'count' takes an integer from 1 to 9; got '3'"),
        ({"count": True}, "parameter 'count' takes an integer from 1 to 9; got True"),
        ({"count": 5}, "parameter 'count' cannot be 5"),
        ({"scale": "x"}, "parameter 'scale' takes a number; got 'x'"),
        ({"scale": float("nan")}, "parameter 'scale' takes a number; got nan"),
        ({"label": "a b"}, "parameter 'label' cannot be used: 'a b' is not a plain identifier"),
        ({"label": "x = 1\nimport os"}, "is not a plain identifier"),
        ({"label": "__class__"}, "is not a plain identifier"),
        ({"label": "for"}, "is not a plain identifier"),
    ],
)
def test_a_wrong_value_says_what_is_right(values: dict[str, object], message: str) -> None:
    assert message in error_of(**values)


@pytest.mark.parametrize(
    ("template", "given", "message"),
    [
        (
            "update",
            {"equations": "u' = u", "boundary": tikgen.dirichlet(0.5), "dtype": "i32"},
            "boundary.*takes 0.5, which i32 cannot hold",
        ),
        ("update", {"equations": "u' = u", "vectors": {"sin": 2}}, "vectors.*'sin' is a function"),
        ("map", {"expr": "y = x +"}, "expr.*is not arithmetic"),
    ],
)
def test_parameters_of_templates_say_what_is_right(
    template: str, given: dict[str, object], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.render(template, dim=1, **given)


def test_a_missing_parameter_says_what_it_is() -> None:
    with pytest.raises(ParameterError, match="'label' is missing; it takes an identifier: a name"):
        make_model(Model, {}, "demo")


def test_unknown_parameters_offer_near_names() -> None:
    with pytest.raises(ParameterError, match=r"'ordr' is unknown\. Did you mean 'order'") as caught:
        tikgen.build("stencil", ordr=2)
    assert caught.value.parameter == "ordr"


def test_a_plain_string_parameter_is_refused_when_the_template_is_loaded() -> None:
    with pytest.raises(TemplateError, match="'code' has type str, which could carry code"):

        class Unsafe(ProblemModel):
            code: str = parameter("anything", "")


def test_reserved_names_are_refused() -> None:
    with pytest.raises(TemplateError, match="'schedule' is reserved"):

        class Reserved(ProblemModel):
            schedule: int = parameter("clash", 1)


def test_infos_tell_type_choices_default_and_meaning() -> None:
    infos = {info.name: info for info in parameter_infos(Model, "problem")}
    assert infos["dtype"].choices == ("f32", "f64")
    assert infos["dtype"].default == "f32"
    assert infos["count"].type == "an integer from 1 to 9"
    assert infos["label"].default == "required"
    assert infos["scale"].meaning == "factor"


def test_equal_values_have_one_canonical_text() -> None:
    assert canonical({(0, 1): 1.0, (1, 0): 2.0}) == canonical({(1, 0): 2.0, (0, 1): 1.0})
    assert canonical((1,)) == "(1,)"
    model = make_model(Model, {"label": "v", "scale": -0.0}, "demo")
    assert canonical(model.scale) == "0.0"  # type: ignore[attr-defined]


def test_a_model_is_taken_as_it_is() -> None:
    model = make_model(Model, {"label": "v"}, "demo")
    assert Model.model_validate(model) is model


def test_numpy_scalars_and_lists_are_taken_as_pythons_own() -> None:
    a = tikgen.render("stencil", dim=np.int64(2), spacing=[1.0, np.float32(0.5)])
    b = tikgen.render("stencil", dim=2, spacing=(1.0, 0.5))
    assert a == b


def test_literals_are_typed_and_exact() -> None:
    assert DType.f64.literal(0.1) == "ti.f64(0.1)"
    assert DType.i32.literal(3) == "ti.i32(3)"
    assert DType.f32.literal(float("nan")) == "ti.cast(ti.math.nan, ti.f32)"
    assert DType.f32.literal(float("-inf")) == "ti.cast(-ti.math.inf, ti.f32)"
    for dtype, value in ((DType.f32, 1e300), (DType.f32, -(2.0**128)), (DType.f16, 65520)):
        with pytest.raises(ValueError, match=f"does not fit {dtype}, where it is infinite"):
            dtype.literal(value)
    with pytest.raises(ValueError, match=r"does not fit f64, where it is infinite"):
        DType.f64.literal(10**400)
    assert DType.f16.literal(65519) == "ti.f16(65519.0)"
    with pytest.raises(ValueError, match="does not fit i8"):
        DType.i8.literal(300)
    with pytest.raises(ValueError, match="does not fit i32"):
        DType.i32.literal(0.5)
