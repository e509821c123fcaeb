"""Reductions in the template map: sums and extremes in the pass over all elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from test_template_update_reductions import launched
from tikgen import DType
from tikgen.errors import ParameterError

TEXTS = (
    "s = sum(x); y = a + 1; h = max(y)",
    "y = a*x + y; s = sum(y*y)",
    "s = sum(x*y); h = max(x - y); n = min(abs(x) + y)",
    "z = x*y; y = z - x; s = sum(z); h = max(y)",
    "s = sum(x > y)",
)
SHAPES = ((1,), (31,), (1031,), (70001,), (3, 700), (3, 5, 9), (2, 3, 5, 7))
DTYPES = ("i8", "u8", "i16", "i32", "u32", "i64", "u64", "f16", "f32", "f32", "f64")


@settings(max_examples=examples(5, 3), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_reductions_agree_with_numpy(ti_arch: str, data: st.DataObject) -> None:
    dtype = DType(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(st.sampled_from(SHAPES))
    schedule: dict[str, Any] = {"loop": "points", "unroll": 1}
    if ti_arch != "cpu":
        schedule["block_dim"] = data.draw(st.sampled_from((0, 64, 256)))
    elif data.draw(st.booleans()):
        serial = data.draw(st.booleans())
        schedule = {"loop": "flat", "unroll": 1, "serial": serial}
        schedule |= {} if serial else {"chunk": 256}
    text = data.draw(st.sampled_from(TEXTS))
    kernel = tikgen.elementwise(text, dtype, dim=len(shape), schedule=schedule)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    most = min(2**30, dtype.highest)
    least = -most if dtype.is_signed else 0
    x, y = (
        rng.uniform(-1, 1, shape) if dtype.is_float else rng.integers(least, most, shape)
        for _ in range(2)
    )
    arrays = {"x": x.astype(dtype.numpy), "y": y.astype(dtype.numpy)}
    launched(kernel, arrays | {"a": dtype.numpy.type(2)}, shape)


def test_a_step_of_conjugate_gradients(ti_arch: str, rng: np.random.Generator) -> None:
    step = tikgen.elementwise("x = x + a*p; r = r - a*q; rr = sum(r*r)", "f64")
    assert step.signature.names == ("x", "a", "p", "r", "q", "rr")
    x, p, r, q = rng.uniform(-1, 1, (4, 10_000))
    rr, moved, rest = np.zeros(1), x + 0.5 * p, r - 0.5 * q
    step(x=x, a=0.5, p=p, r=r, q=q, rr=rr)
    np.testing.assert_allclose(x, moved, rtol=1e-14)
    np.testing.assert_allclose(rr, [rest @ rest], rtol=1e-12)


def test_reduce_takes_reductions_only(ti_arch: str, rng: np.random.Generator) -> None:
    products = tikgen.reduce("rr = sum(r*r); rz = sum(r*z)")
    r, z = rng.uniform(-1, 1, (2, 5000)).astype(np.float32)
    rr, rz = np.zeros((2, 1), np.float32)
    products(r=r, z=z, rr=rr, rz=rz)
    np.testing.assert_allclose([*rr, *rz], [r @ r, r @ z], rtol=1e-4, atol=1e-4)
    largest = tikgen.reduce("max(abs(x))", dim=2)
    assert largest.signature.names == ("x", "out")
    with pytest.raises(ParameterError, match="assigns y, which is no reduction"):
        tikgen.reduce("y = 2*x; s = sum(y)")


def test_halves_are_added_up_in_f32(ti_arch: str) -> None:
    total = tikgen.reduce("s = sum(x*x)", "f16")
    x, s = np.full(5000, 30, np.float16), np.zeros(1, np.float32)
    total(x=x, s=s)
    assert s == 5000 * 900  # Far beyond what f16 holds.


def test_data_of_halves_has_the_shape_of_its_argument() -> None:
    total = tikgen.reduce("s = sum(x*y)", "f16", scalars="x")
    rngs = map(np.random.default_rng, range(30))
    drawn = [total.template.inputs(total.problem, {"n0": 5}, rng) for rng in rngs]
    shapes = {(name, np.shape(value)) for values in drawn for name, value in values.items()}
    assert shapes == {("x", ()), ("y", (5,))}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("y = x/sum(x)", 'give it a line of its own, as in "total = sum(...)"\n    y = x/sum(x)'),
        ("s = sum(x); y = x/s", "read it in another kernel\n    s = sum(x); y = x/s\n"),
        (
            "s = sum(x); s = max(x)",
            "assigned twice, and is a reduction\n    s = sum(x); s = max(x)",
        ),
        ("s = sum(x, y)", "sum() over all points takes one expression"),
        ("s = sum(2*a)", "no array; scalars are a; scalars=() makes arrays of them"),
        ("y = max()", "max() takes 2"),
    ],
)
def test_what_a_reduction_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.render("map", expr=text, arch="cpu")
    assert problem in str(caught.value)


def test_other_loops_are_refused() -> None:
    for loop in ("rows", "blocks"):
        with pytest.raises(ParameterError, match="'flat' or 'points'"):
            tikgen.render("map", expr="s = sum(x)", arch="cuda", loop=loop, block_dim=64)
