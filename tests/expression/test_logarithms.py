"""Logarithms, inverse hyperbolic functions and their like: every number, to the last digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from sympy.codegen import cfunctions

import tikgen
from tikgen import DType, Expression
from tikgen.errors import ParameterError
from tikgen.expression import lacks_on_vulkan
from tikgen.expression.logarithms import CALLED, OWN, TEXTS
from tikgen.expression.sympy_text import read

FUNCTIONS: dict[str, Any] = {
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "expm1": np.expm1,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
}
SPECIAL = [0, 5e-324, 1e-310, 1e-45, 1e-40, 2e-38, 1e-20, 1e-8, 1e-4, 0.3, 0.35, 0.5, 1, 2, 8]
SPECIAL += [1000, 40, 88.72, 88.73, 709.78, 709.8, 2.0**60, 2.0**100, 1e38, 1e300, np.inf, np.nan]


def drawn(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of any bits, those of daily use, and some around where ways change."""
    real = DType(dtype).numpy
    bits = rng.integers(0, 2**64, 30_000, dtype=np.uint64).astype(f"u{real.itemsize}").view(real)
    usual = [rng.uniform(-1, 1, 10_000) * size for size in (1e-4, 1, 3, 100, 800)]
    usual += [1 + rng.normal(0, 1e-3, 10_000), np.exp(rng.uniform(-80, 80, 10_000))]
    parts = [SPECIAL, np.negative(SPECIAL), np.add(1, [-1e-7, 1e-7, 1e-16]), *usual]
    with np.errstate(all="ignore"):
        return np.concatenate([bits, *(np.asarray(p, np.float64).astype(real) for p in parts)])


def check(z: np.ndarray, exact: np.ndarray, units: float, operands: int = 1) -> None:
    """Compare results with exact ones, in units of the precision of the results.

    Args:
        z: the results.
        exact: what they should be.
        units: how many units they may be off.
        operands: how many numbers a result has that may be taken for 0.
    """
    limits = np.finfo(z.dtype)
    with np.errstate(all="ignore"):
        nearest = exact.astype(z.dtype)
        # At the very last number before infinity either is right.
        is_open = np.abs(np.abs(exact) / float(limits.max) - 1) < 8 * limits.eps
    np.testing.assert_array_equal(np.isnan(z), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(z) & ~is_open, np.isinf(nearest) & ~is_open)
    finite = np.isfinite(z) & np.isfinite(nearest)
    np.testing.assert_array_equal(np.signbit(z[finite]), np.signbit(nearest[finite]))
    # A processor may take numbers below the least normal one for 0.
    bound = units * float(limits.eps) * np.abs(exact[finite]) + operands * float(limits.tiny)
    assert (np.abs(z[finite].astype(exact.dtype) - exact[finite]) <= bound).all()


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
    check(z, exact, 4)
    # A small argument keeps its digits.
    if name in ("asinh", "atanh", "expm1", "log1p") and dtype != "f16":
        small = np.abs(x) < (1e-8 if dtype == "f32" else 1e-16)
        small &= np.abs(x) >= np.finfo(x.dtype).tiny
        assert small.sum() > 100
        assert (np.abs(z[small] / x[small] - 1) <= 2 * np.finfo(x.dtype).eps).all()


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_lengths_of_vectors(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    x = drawn(dtype, rng)
    y = rng.permutation(x)
    with np.errstate(all="ignore"):
        y[::3] = x[::3] * rng.uniform(0.1, 8, x[::3].size).astype(x.dtype)
    x[np.isnan(x)] = y[np.isnan(y)] = np.nan  # Signalling ones are what C's hypot treats apart.
    z = np.full_like(x, 77)
    tikgen.build("map", expr="z = hypot(x, y)", dim=1, dtype=dtype)(x, y, z)
    with np.errstate(all="ignore"):
        exact = np.hypot(x.astype(DType(dtype).wide), y.astype(DType(dtype).wide))
    check(z, exact, 4, operands=2)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i8", "u8", "i32", "u32", "i64"])
def test_numbers_are_clipped(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    real = DType(dtype).numpy
    if ti_arch == "vulkan" and real.itemsize == 8 and not DType(dtype).is_float:
        pytest.skip("i64 needs no functions of its own")
    low = 0 if dtype.startswith("u") else -100
    x, a, b = (rng.integers(low, 100, 500).astype(real) for _ in range(3))
    z = np.empty_like(x)
    kernel = tikgen.build("map", expr="z = clip(x, l, h)", dim=1, dtype=dtype, scalars=())
    kernel(x=x, l=a, h=b, z=z)
    np.testing.assert_array_equal(z, np.clip(x, a, b))


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from([*FUNCTIONS, "hypot"]))
def test_error_bounds_cover_errors_of_the_operand(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    values = {n: rng.uniform(-2, 2, 50).astype(np.float32) for n in ("x", "y")}
    values["y"][::2] = -values["x"][::2] * (1 + rng.uniform(-1e-6, 1e-6, 25).astype(np.float32))
    more = ", y*y - x" if name == "hypot" else ""
    expression = Expression.parse(f"{name}(3*(x + y)*x{more})")
    with np.errstate(all="ignore"):
        narrow = expression.evaluate(**values).astype(float)
        wide = expression.evaluate(**{n: v.astype(float) for n, v in values.items()})
    bound = expression.error_bound(values, DType.f32)
    known = np.isfinite(bound) & (narrow != wide) & ~(np.isnan(narrow) & np.isnan(wide))
    assert (np.abs(narrow[known] - wide[known]) <= bound[known]).all()


def test_the_error_of_a_known_operand_is_small() -> None:
    x = np.array([-0.0, 1e-20, 0.3, -0.5, 1e-5], np.float32)
    for name in ("asinh", "atanh", "expm1", "log1p"):
        bound = Expression.parse(f"{name}(x)").error_bound({"x": x}, DType.f32)
        assert (bound <= 1.2e-6 * np.abs(FUNCTIONS[name](x.astype(float))) + 1e-37).all()


def test_literals_are_computed_before() -> None:
    for name in ("asinh", "atanh", "expm1", "log10", "log1p", "log2"):
        text = Expression.parse(f"{name}(0.5) * x").taichi({"x": "x"}, DType.f64)
        assert text == f"ti.f64({float(FUNCTIONS[name](0.5))!r}) * x"
    with pytest.raises(tikgen.TikgenError, match=r"log1p\(\) needs a float dtype"):
        Expression.parse("log1p(x)").taichi({"x": "x"}, DType.i32)


def test_what_they_call_is_defined_once_and_before() -> None:
    text = Expression.parse("atanh(x) + log1p(y) + log2(x) + sinh(y) + x % y").helpers(DType.f32)
    assert [line for line in text.splitlines() if line.startswith("def ")] == [
        "def truncated_remainder(x, y):", "def half_exp_of(bits):", "def log_series_of(s):",
        "def split_of(bits):", "def log1p_of(x):", "def atanh_of(x):", "def log2_of(x):",
        "def remainder(x, y):", "def sinh_of(x):",
    ]  # fmt: skip
    assert TEXTS.keys() == {*OWN.values()}.union(*CALLED.values())
    assert lacks_on_vulkan(OWN, DType.f64) is None


@pytest.mark.parametrize("name", [*TEXTS, *OWN])
def test_their_names_are_taken(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        tikgen.build("map", expr=f"z = sqrt({name})")


def test_equations_of_sympy_take_them() -> None:
    u, v, w = sympy.symbols("u v w", positive=True)
    terms = [sympy.asinh(u), sympy.acosh(u), sympy.atanh(u), cfunctions.log1p(u)]
    terms += [cfunctions.expm1(u), cfunctions.log2(u), cfunctions.log10(u), cfunctions.hypot(u, v)]
    found = [read(sympy.Eq(w, term)).text for term in terms]
    names = ["asinh", "acosh", "atanh", "log1p", "expm1", "log2", "log10"]
    assert found == [*(f"w = {name}(u)" for name in names), "w = hypot(u, v)"]


def test_equations_take_them(ti_arch: str, rng: np.random.Generator) -> None:
    text = "u' = clip(u + 0.1*log1p(lap(u)**2), -1, 1); s = sum(hypot(u, u[1, 0]) - asinh(u'))"
    kernel = tikgen.update(text, dim=2, boundary="periodic", dtype="f64")
    u = rng.uniform(-2, 2, (17, 23))
    new, total = np.zeros_like(u), np.zeros(1)
    kernel(u=u, u_next=new, s=total)
    expected, expected_total = kernel.reference(u=u, u_next=new, s=total)
    np.testing.assert_allclose(new, expected.astype(float), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(total, expected_total.astype(float), rtol=1e-12)
