"""Programs with reductions: what they hold, as values and as text."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tikgen import Assignments, DType
from tikgen.errors import ExpressionError
from tikgen.expression import Reducing
from tikgen.expression.reductions import reduced, reduced_error

TEXT = "r = r - a*q; rr = sum(r*r); top = max(abs(r))"


def test_a_program_knows_its_reductions() -> None:
    program = Reducing.parse(TEXT)
    assert program.reductions == {"rr": "sum", "top": "max"}
    assert program.written == ("r",)
    assert str(program) == "r = r - a * q; rr = sum(r * r); top = max(abs(r))"
    assert program == Reducing.parse(str(program)) == pickle.loads(pickle.dumps(program))
    assert program.folded(DType.f32).reductions == program.reductions
    assert Reducing.parse("min(x)").reductions == {"out": "min"}


def test_a_program_without_reductions_is_as_before() -> None:
    program = Reducing.parse("z = max(x, y)")
    assert (program.reductions, program.written) == ({}, ("z",))
    assert str(program) == str(Assignments.parse("z = max(x, y)"))
    assert Reducing.parse(Assignments.parse("z = x")).outputs == ("z",)
    with pytest.raises(ExpressionError, match="over all points takes one expression"):
        Reducing.parse("sum(x, y)")
    with pytest.raises(ExpressionError, match="not a function"):
        Assignments.parse("s = sum(x)")


def test_infinite_terms_and_nan_have_no_error() -> None:
    zero, one = np.zeros(3), np.ones(3)
    for special in (np.inf, -np.inf, np.nan):
        terms = np.array([1.0, special, 2.0])
        for operation in ("sum", "max", "min"):
            np.testing.assert_array_equal(
                reduced(operation, terms), [getattr(np, operation)(terms)]
            )
            error = reduced_error(operation, terms, zero, np.abs(terms), DType.f32)
            assert np.isfinite(error).all()
    # What may or may not overflow is open.
    great = one * 3e38
    assert np.isinf(reduced_error("sum", great, zero, great, DType.f32)).all()
    assert reduced_error("max", one, one * 0.5, one, DType.f32) == 0.5


def test_whole_terms_are_added_exactly_while_the_dtype_holds_their_sum() -> None:
    """An f16 is added in f32, so that its own precision does not count."""
    terms = np.arange(-300.0, 1000.0)
    zero, mass = np.zeros_like(terms), np.abs(terms)
    for dtype in (DType.f16, DType.f32, DType.f64):
        assert reduced_error("sum", terms, zero, mass, dtype) == 0
    assert 0 < reduced_error("sum", terms + 0.5, zero, mass, DType.f16) < 150
    assert reduced_error("sum", terms, zero + 1e-9, mass, DType.f32) > 0
    large = terms * 2.0**15
    assert reduced_error("sum", large, zero, np.abs(large), DType.f32) > 0
    assert reduced_error("sum", large, zero, np.abs(large), DType.f64) == 0


def test_products_of_whole_numbers_have_no_error_while_the_dtype_holds_them() -> None:
    text = Assignments.parse("s = x*y - 3*x")
    x, y = np.arange(-20.0, 20), np.arange(40.0)
    assert not text.error_bound({"x": x, "y": y}, DType.f32)["s"].any()
    assert text.error_bound({"x": x + 0.1, "y": y}, DType.f32)["s"].all()
    assert text.error_bound({"x": x * 8191, "y": y * 8191}, DType.f32)["s"].any()


def test_what_is_exact_is_so_in_every_order() -> None:
    """Sums and products of halves and the like, of few digits and of many, tiny and huge."""
    text = Assignments.parse("s = x*y + 2.5*x - y + z")
    rng = np.random.default_rng(5)
    digits = rng.integers(-(2 ** rng.integers(0, 14, 4000)), 2 ** rng.integers(1, 14, 4000))
    x, y, z = (
        np.ldexp(rng.permutation(digits), rng.integers(-8, 8, 4000)).astype(np.float32)
        for _ in "xyz"
    )
    exact = text.error_bound({"x": x, "y": y, "z": z}, DType.f32)["s"] == 0
    assert 400 < exact.sum() < 3600
    wide = [each.astype(np.float64) for each in (x, y, z)]
    right = (wide[0] * wide[1] + 2.5 * wide[0] - wide[1] + wide[2])[exact]
    half = np.float32(2.5)
    for found in (
        x * y + half * x - y + z,
        x * (y + half) + (z - y),
        (x - np.float32(1)) * y + (half * x + z),
    ):
        assert np.array_equal(found[exact], right)
    tiny = {"x": x * np.float32(2**-70), "y": y * np.float32(2**-70), "z": z}
    assert text.error_bound(tiny, DType.f32)["s"][x * y != 0].all()
    one = np.float32(0.1)
    assert Assignments.parse("s = 2.5*x").error_bound({"x": one}, DType.f32)["s"] > 0
    # A sum that is divided: terms of it may be divided first.
    divided = Assignments.parse("s = (x - y) / 3 + z")
    given = {"x": one, "y": one, "z": np.float32(0.7)}
    assert divided.error_bound(given, DType.f32)["s"] > 0
