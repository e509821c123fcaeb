"""Functions that Taichi lacks: every number on every arch, and bounds on their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from tikgen import DType, Expression
from tikgen.errors import ParameterError
from tikgen.expression import lacks_on_vulkan
from tikgen.expression.polynomials import CALLED, OWN, TEXTS

FUNCTIONS: dict[str, Any] = {"atan": np.arctan, "cosh": np.cosh, "sinh": np.sinh}
# Signs of zero, ends of the range, and where one way of computing ends and another begins.
SPECIAL = [0, 5e-324, 1e-45, 1e-40, 1e-38, 1e-20, 1e-4, 7 / 16, 11 / 16, 1, 19 / 16, 39 / 16, 20]
SPECIAL += [11.78, 88.7, 89.4159, 89.42, 90, 710.4758, 710.48, 711, 2.0**60, 1e30, 1e300]
SPECIAL += [np.inf, np.nan]


def drawn(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of any bits, those of daily use, and some around where ways change."""
    real = DType(dtype).numpy
    bits = rng.integers(0, 2**64, 50_000, dtype=np.uint64).astype(f"u{real.itemsize}").view(real)
    around = np.outer([n for n in SPECIAL if np.isfinite(n)], 1 + rng.normal(0, 1e-4, 500))
    usual = [rng.uniform(-1, 1, 20_000) * size for size in (1, 12, 90, 711)]
    parts = [SPECIAL, np.negative(SPECIAL), around.ravel(), *usual]
    with np.errstate(all="ignore"):
        return np.concatenate(
            [bits, *(np.asarray(part, np.float64).astype(real) for part in parts)]
        )


@pytest.mark.parametrize("engine", ["taichi", "direct"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_within_a_few_units_in_the_last_place(
    name: str, dtype: str, engine: str, ti_arch: str, rng: np.random.Generator
) -> None:
    x = drawn(dtype, rng)
    z = np.full_like(x, 77)
    tikgen.build("map", expr=f"z = {name}(x)", dim=1, dtype=dtype, engine=engine)(x, z)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(DType(dtype).wide))
        nearest = exact.astype(x.dtype)
    np.testing.assert_array_equal(np.isnan(z), np.isnan(x))
    # At the very last number before infinity either is right.
    last = float(np.finfo(x.dtype).max)
    is_open = np.abs(np.abs(exact) / last - 1) < 4 * np.finfo(x.dtype).eps
    np.testing.assert_array_equal(np.isinf(z) & ~is_open, np.isinf(nearest) & ~is_open)
    finite = np.isfinite(exact) & np.isfinite(z) & np.isfinite(nearest)
    np.testing.assert_array_equal(np.signbit(z[~np.isnan(x)]), np.signbit(nearest[~np.isnan(x)]))
    # A processor may take numbers below the least normal one for 0.
    normal = finite & (np.abs(exact) >= float(np.finfo(x.dtype).tiny))
    unit = np.spacing(np.abs(nearest[normal])).astype(exact.dtype)
    assert (np.abs(z[normal].astype(exact.dtype) - exact[normal]) <= 3 * unit).all()
    tiny = finite & ~normal
    assert (np.abs(z[tiny]) <= np.finfo(x.dtype).tiny).all()


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(FUNCTIONS)))
def test_error_bounds_cover_errors_of_the_operand(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    values = {n: rng.uniform(-5, 5, 50).astype(np.float32) for n in ("x", "y")}
    values["y"][::2] = -values["x"][::2] * (1 + rng.uniform(-1e-6, 1e-6, 25).astype(np.float32))
    expression = Expression.parse(f"{name}(3*(x + y)*x)")
    narrow = expression.evaluate(**values).astype(float)
    wide = expression.evaluate(**{n: v.astype(float) for n, v in values.items()})
    bound = expression.error_bound(values, DType.f32)
    assert ((narrow == wide) | (np.abs(narrow - wide) <= bound)).all()


def test_the_error_of_a_known_operand_is_small() -> None:
    x = np.array([-0.0, 1e-20, 0.3, -2, 50], np.float32)
    for name, function in FUNCTIONS.items():
        bound = Expression.parse(f"{name}(x)").error_bound({"x": x}, DType.f32)
        assert (bound <= 5e-7 * np.abs(function(x.astype(float))) + 1e-37).all()
    # The least cosine lies within what an operand near 0 may be.
    bound = Expression.parse("cosh(v)").error_bound({"v": 0.1}, DType.f64, {"v": 0.5})
    assert np.cosh(0.6) - np.cosh(0.1) <= bound <= np.cosh(0.6) - 1


def test_literals_are_computed_before() -> None:
    for name, function in FUNCTIONS.items():
        text = Expression.parse(f"{name}(0.5) * x").taichi({"x": "x"}, DType.f64)
        assert text == f"ti.f64({float(function(0.5))!r}) * x"
    infinite = Expression.parse("x + sinh(1000)")
    with pytest.raises(tikgen.TikgenError, match=r"\+ has the constant inf, which fast math"):
        infinite.taichi({"x": "x"}, DType.f64)
    with pytest.raises(tikgen.TikgenError, match=r"cosh\(\) needs a float dtype"):
        Expression.parse("cosh(x)").taichi({"x": "x"}, DType.i32)


def test_they_exist_in_f64_on_vulkan() -> None:
    assert FUNCTIONS.keys() == OWN.keys()
    assert lacks_on_vulkan(OWN, DType.f64) is None


def test_what_they_call_is_defined_once_and_before() -> None:
    text = Expression.parse("sinh(x) + cosh(x)*sinh(2*x)").helpers(DType.f32)
    assert [line for line in text.splitlines() if line.startswith("def ")] == [
        "def half_exp_of(bits):", "def cosh_of(x):", "def sinh_of(x):"
    ]  # fmt: skip
    assert TEXTS.keys() == {*OWN.values(), *CALLED.values()}


@pytest.mark.parametrize("name", [*TEXTS, *OWN])
def test_their_names_are_taken(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        tikgen.build("map", expr=f"z = sqrt({name})")


def test_equations_take_them(ti_arch: str, rng: np.random.Generator) -> None:
    text = "u' = u + 0.1*(lap(u) - sinh(u)/cosh(u)); s = sum(atan(u'))"
    kernel = tikgen.update(text, dim=2, boundary="periodic", dtype="f64")
    u = rng.uniform(-2, 2, (17, 23))
    new, total = np.zeros_like(u), np.zeros(1)
    kernel(u=u, u_next=new, s=total)
    expected, expected_total = kernel.reference(u=u, u_next=new, s=total)
    np.testing.assert_allclose(new, expected.astype(float), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(total, expected_total.astype(float), rtol=1e-12)
