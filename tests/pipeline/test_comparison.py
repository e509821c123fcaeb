"""How results are compared with what is expected of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikgen.pipeline.comparison import narrowed, worst_error


@pytest.mark.parametrize("wide", [np.float32, np.float64, np.longdouble])
def test_a_value_beside_the_middle_of_two_halves_is_rounded_once(wide: type) -> None:
    rng = np.random.default_rng()
    low = rng.uniform(-1000, 1000, 500).astype(np.float16)
    high = np.nextafter(low, np.float16(np.inf))
    middle = (low.astype(wide) + high.astype(wide)) / 2
    step = np.float32 if wide is np.float32 else np.float64
    for towards, nearest in ((-np.inf, low), (np.inf, high)):
        beside = np.nextafter(middle.astype(step), step(towards)).astype(wide)
        assert (narrowed(beside, np.float16) == nearest).all()
        assert worst_error(nearest, beside, 0) == 0
        other = high if nearest is low else low
        assert worst_error(other, beside, 0) == np.inf


@given(
    st.floats(-60000, 60000),
    st.floats(1e-8, 60000),
    st.floats(-1, 1),
    st.sampled_from((np.float16, np.float32)),
)
def test_a_value_within_the_limit_may_be_rounded(
    expected: float, limit: float, part: float, dtype: type
) -> None:
    value = np.array([expected + part * limit]).astype(dtype)
    assert worst_error(value, np.array([expected]), limit) <= 1


def test_the_other_branch_of_a_comparison_may_be_stored_as_f16() -> None:
    # 2557.2, which the limit foresees, is no f16.
    assert worst_error(np.array([2558], np.float16), np.array([50.5688]), 2506.6312) <= 1
    assert worst_error(np.array([2562], np.float16), np.array([50.5688]), 2506.6312) > 1
