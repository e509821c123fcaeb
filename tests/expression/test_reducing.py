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
