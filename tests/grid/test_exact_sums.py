"""Exact sums: rounded once, whatever the order; compared with exact fractions."""

from __future__ import annotations

import math
import os
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

import ranks
import tikgen
from tikgen.errors import ExpressionError, GridError
from tikgen.expression import Equations, Reducing
from tikgen.grid import exact_sums
from tikgen.grid.exact_sums import COUNT, add, add_by_numpy, rounded

NDArray = npt.NDArray[Any]


def total(values: NDArray, parts: int, by_numpy: bool) -> NDArray:
    """Return the sum of values that are dealt out to some processes."""
    every = np.zeros((parts, COUNT), np.int64)
    for limbs, part in zip(every, np.array_split(values, parts), strict=True):
        (add_by_numpy if by_numpy else add)(limbs, part)
    return rounded(every, values.dtype)


@given(
    st.sampled_from([np.float32, np.float64]).flatmap(
        lambda kind: drawn.arrays(kind, st.integers(0, 40))
    ),
    st.integers(1, 4),
)
def test_sums_are_rounded_once(values: NDArray, parts: int) -> None:
    found = total(values, parts, False)
    shuffled = np.random.default_rng().permutation(values)
    for other in (total(shuffled, 1, False), total(shuffled, parts, True)):
        assert found.tobytes() == other.tobytes()
    with np.errstate(all="ignore"):
        if not np.isfinite(values).all():
            # NumPy's sum of finite values may overflow before it meets infinity.
            special = values[~np.isfinite(values)]
            np.testing.assert_array_equal(found, [np.sum(special)])
            return
        exact = sum(map(Fraction, values.tolist()), Fraction(0))
        if abs(exact) < float(np.finfo(values.dtype).tiny):
            # Subnormal, which a processor that was told to do so takes for 0.
            bits = 149 if values.dtype == np.float32 else 1074
            kept = found.view(f"u{found.itemsize}")[0] & (np.iinfo(f"i{found.itemsize}").max)
            assert kept == round(abs(exact) * 2**bits)
            assert not kept or np.signbit(found[0]) == (exact < 0)
            return
        assert found[0] == nearest(exact, values.dtype)


def nearest(exact: Fraction, dtype: Any) -> Any:
    """Return the float that lies nearest; of two the even one."""
    try:
        near = np.float64(float(exact)).astype(dtype)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if not np.isfinite(near):
        return near
    around = [np.nextafter(near, dtype.type(-np.inf)), near, np.nextafter(near, dtype.type(np.inf))]
    finite = [each for each in around if np.isfinite(each)]
    kind = f"i{dtype.itemsize}"
    return min(finite, key=lambda e: (abs(Fraction(float(e)) - exact), int(e.view(kind)) & 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tie_is_none_where_more_follows(dtype: Any) -> None:
    half = np.finfo(dtype).eps / 2
    tiny = np.finfo(dtype).smallest_subnormal
    assert total(np.array([1, half], dtype), 2, False)[0] == 1
    assert total(np.array([1, half, tiny], dtype), 3, False)[0] == 1 + 2 * half
    largest = np.finfo(dtype).max
    assert total(np.array([largest, largest, -largest], dtype), 1, False)[0] == largest
    assert total(np.array([largest, largest], dtype), 1, False)[0] == np.inf
    assert total(np.array([-largest, -largest, np.inf], dtype), 1, False)[0] == np.inf
    assert math.isnan(total(np.array([np.inf, -np.inf], dtype), 2, False)[0])


def test_numpy_adds_where_there_is_no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng().normal(size=5000) * 1e300
    wanted = total(values, 1, False)
    monkeypatch.setattr(exact_sums, "_native", lambda: None)
    monkeypatch.setattr(exact_sums, "_AT_ONCE", 999)
    assert total(values, 1, False).tobytes() == wanted.tobytes()
    assert wanted[0] == math.fsum(values)


@pytest.mark.parametrize(
    ("count", "how"), [(2, "few"), pytest.param(6, "all", marks=pytest.mark.slow)]
)
def test_sums_have_the_same_bits_on_any_processes(count: int, how: str) -> None:
    seed = int.from_bytes(os.urandom(3), "little")
    done = ranks.run(count, "summed.py", str(seed), how)
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-4000:]}"
    lines = [line for line in done.stdout.splitlines() if "processes, (" in line]
    assert len(lines) == (9 if how == "all" else 1), done.stdout
    assert all(line.endswith(": equal") for line in lines), f"seed {seed}: {lines}"


def test_other_sums_are_refused() -> None:
    with pytest.raises(GridError, match="sums takes 'fast' or 'exact'; got 'slow'"):
        tikgen.Grid(8, sums="slow")  # type: ignore[arg-type]


@pytest.mark.usefixtures("ti_arch")
def test_terms_are_stored_where_a_sum_takes_them(rng: np.random.Generator) -> None:
    u = rng.random((7, 9), np.float32)
    solid = (rng.random((7, 9)) < 0.5).astype(np.uint8)
    step = tikgen.update("u' = 2*u; t = terms(u' + i); top = max(u')", dim=2, mask="solid")
    after, terms, top = np.zeros_like(u), np.zeros_like(u), np.zeros(1, np.float32)
    step(u=u, solid=solid, u_next=after, t=terms, top=top)
    np.testing.assert_array_equal(after, np.where(solid, u, 2 * u))
    np.testing.assert_array_equal(terms, after + np.arange(7, dtype=np.float32)[:, None])
    x, cubes = rng.random(100).astype(np.float16), np.zeros(100, np.float32)
    tikgen.elementwise("t = terms(x*x*x)", "f16")(x=x, t=cubes)
    np.testing.assert_allclose(cubes, x.astype(float) ** 3, rtol=1e-6)  # Not rounded to f16.


def test_a_text_stores_terms_instead_of_sums() -> None:
    text = "y = a*x; s = sum(y*y); t = max(y)"
    for kind in (Reducing, Equations):
        changed = kind.parse(text).with_terms()
        assert changed.text == "y = a * x; s = terms(y * y); t = max(y)"
        assert pickle.loads(pickle.dumps(changed)) == changed == kind.parse(changed.text)
    with pytest.raises(ExpressionError, match="'s' is a reduction"):
        Equations.parse("s = terms(x); y = s + x").on(1)
