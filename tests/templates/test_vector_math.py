"""Transcendental functions in loops of a processor: numbers of any bits, to the last digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.errors import ParameterError
from tikgen.expression import vector_math_f32, vector_math_f64
from tikgen.expression.vector_math import NAMES

# What NumPy calls each function, and how many units in the last place a result is off at most.
FUNCTIONS: dict[str, tuple[Any, float]] = {
    "sin": (np.sin, 2.5),
    "cos": (np.cos, 2.5),
    "tan": (np.tan, 5),
    "exp": (np.exp, 1.5),
    "log": (np.log, 2.5),
    "tanh": (np.tanh, 2),
    "asin": (np.arcsin, 3),
    "acos": (np.arccos, 3),
}
# An f32 is computed in f64.
MOST_F32 = 0.75
TEXTS = {"f32": vector_math_f32.FUNCTIONS, "f64": vector_math_f64.FUNCTIONS}
TYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
PAIRS = [(dtype, name) for dtype, known in TEXTS.items() for name in known if name in FUNCTIONS]
# Signs of zero, ends of the range, and where one way of computing ends and another begins.
SPECIAL = [0, 1e-45, 1e-40, 1.1754942e-38, 1.1754944e-38, 9.7656244e-4, 9.765625e-4, 0.49999997]
SPECIAL += [0.5, 1, 1.4142135, 1.4142137, np.pi, 9.02, 88.72283, 88.72284, 103.97, 104, 355]
SPECIAL += [2**24, 3.4028235e38, np.inf, np.nan]
WIDE = [5e-324, 1e-310, 0.625, 0.6249999999999999, 1.4142135623730951, 2.0**30, 2.0**30 - 1e-6]
WIDE += [22, 709.78271289338397, 709.782712893384, 745.13, 745.14, 1e22, 1.7976931348623157e308]
exact_in_wider_floats = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= 60, reason="NumPy has no floats wider than f64 here"
)

pytestmark = [
    pytest.mark.skipif(ARCH != "cpu", reason="a GPU has its own functions"),
    exact_in_wider_floats,
]


def drawn(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Return numbers of any bits, those of daily use, some around 1, and near quarter turns."""
    bits = np.uint32 if dtype == "f32" else np.uint64
    any_bits = rng.integers(0, np.iinfo(bits).max, 200_000, bits, endpoint=True)
    usual = rng.standard_normal(100_000) * 10
    turns = np.rint(rng.uniform(-1e6, 1e6, 10_000)) * np.pi / 2
    special = SPECIAL + (WIDE if dtype == "f64" else [])
    around = [special, np.negative(special), usual, 1 + usual / 1e4, usual * 80, turns]
    around.append(rng.uniform(-1.01, 1.01, 50_000))
    return np.concatenate(
        [*(np.asarray(a, TYPES[dtype]) for a in around), any_bits.view(TYPES[dtype])]
    )


def check(x: np.ndarray, z: np.ndarray, exact: np.ndarray, most: Any, besides: Any = 0) -> None:
    """Compare results with exact ones in a wider dtype, up to some units in the last place.

    Args:
        x: the numbers whose zeros have a sign that their results have too.
        z: the results.
        exact: the exact results.
        most: how many units they may be off.
        besides: by how much more.
    """
    about = np.finfo(z.dtype)
    least = float(about.smallest_normal)
    with np.errstate(all="ignore"):
        nearest = exact.astype(z.dtype)
    np.testing.assert_array_equal(np.isnan(z), np.isnan(nearest))
    infinite = np.isinf(nearest)
    np.testing.assert_array_equal(z[infinite], nearest[infinite])
    # A processor may take numbers below the least normal one for 0.
    normal = np.isfinite(exact) & ~infinite & (np.abs(exact) >= least)
    digit = np.ldexp(exact.dtype.type(1), np.frexp(np.abs(exact[normal]))[1] - about.nmant - 1)
    off = np.abs(z[normal] - exact[normal])
    units, more = (np.broadcast_to(given, x.shape)[normal] for given in (most, besides))
    assert (off <= units * digit + more).all()
    tiny = np.isfinite(exact) & (np.abs(exact) < least)
    assert (np.abs(z[tiny]) <= least).all()
    zero = (x == 0) & ~np.isnan(nearest)
    np.testing.assert_array_equal(np.signbit(z[zero]), np.signbit(nearest[zero]))


@pytest.mark.parametrize(("dtype", "name"), PAIRS)
def test_every_number_has_the_nearest_result_or_a_neighbour(
    dtype: str, name: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("map", expr=f"z = {name}(x)", dim=1, dtype=dtype)
    assert f"ti.{name}(" not in kernel.source.text
    x = drawn(dtype, rng)
    function, most = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64 if dtype == "f32" else np.longdouble))
    besides: Any = 0
    if dtype == "f64" and name in ("sin", "cos", "tan"):
        # What an angle has beyond a quarter turn is known to so many digits.
        besides = np.where(np.abs(x) < 2**30, 2.0**-70, 2.0**-58)
        with np.errstate(all="ignore"):
            besides = besides * (1 + exact**2 if name == "tan" else 1)
    for engine in ("direct", "taichi"):  # Two LLVMs, each with its fast math.
        z = np.full_like(x, 99)
        kernel.with_engine(engine)(x, z)
        check(x, z, exact, MOST_F32 if dtype == "f32" else most, besides)


@pytest.mark.parametrize("dtype", TYPES)
def test_angles_of_points(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("map", expr="z = atan2(y, x)", dim=1, dtype=dtype)
    assert "ti.atan2(" not in kernel.source.text
    x = drawn(dtype, rng)
    with np.errstate(all="ignore"):
        near = x * rng.uniform(-2, 2, x.size)
        y = np.where(rng.random(x.size) < 0.5, near, rng.permutation(x)).astype(x.dtype)
        exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    z = np.zeros_like(x)
    kernel(x=x, y=y, z=z)
    # What is less than the least normal number has few digits, or none.
    usual = np.maximum(np.abs(x), np.abs(y)) >= np.finfo(x.dtype).smallest_normal
    check(exact[usual], z[usual], exact[usual], 2.6)


@pytest.mark.parametrize("dtype", TYPES)
def test_powers(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("map", expr="z = x**y", dim=1, dtype=dtype)
    assert "ti.pow(" not in kernel.source.text
    x = np.abs(drawn(dtype, rng))
    least = np.finfo(x.dtype).smallest_normal
    x[x < least] = 0
    y = np.where(rng.random(x.size) < 0.5, rng.uniform(-6, 6, x.size), rng.permutation(x))
    y = y.astype(x.dtype)
    y[np.abs(y) < 2.0**-100] = 0  # Half of it may count as 0, as if it were whole.
    y[::7] = np.rint(np.nan_to_num(y[::7]))
    x[::3] = rng.uniform(-4, 4, x[::3].size)
    z = np.zeros_like(x)
    kernel(x=x, y=y, z=z)
    with np.errstate(all="ignore"):
        exact = x.astype(np.longdouble) ** y.astype(np.longdouble)
    # The logarithm of the base is known to 64 digits.
    most = MOST_F32 if dtype == "f32" else 1.5 + np.nan_to_num(np.abs(y)).clip(0, 2**12) / 64
    check(np.ones_like(x), z, exact, most)


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_texts_of_several(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("map", expr="z = sin(x) + exp(-x*x)*cos(3*x)", dim=1, dtype=dtype)
    x = rng.uniform(-9, 9, 1000).astype(kernel.problem.dtype.numpy)
    z = np.zeros_like(x)
    kernel(x, z)
    tolerance = 2e-3 if dtype == "f16" else 1e-14
    np.testing.assert_allclose(z, kernel.reference(x, z), rtol=tolerance, atol=tolerance)


def test_equations_and_reductions_take_them(ti_arch: str, rng: np.random.Generator) -> None:
    u = rng.uniform(-2, 2, (37, 83)).astype(np.float32)
    kernel = tikgen.update(
        "u' = u + 0.1*(lap(u) + sin(u)*exp(-u)); s = sum(tanh(u')*cos(u))",
        dim=2,
        boundary="periodic",
    )
    assert "tanh_of(" in kernel.source.text
    new, total = np.zeros_like(u), np.zeros(1, np.float32)
    kernel(u=u, u_next=new, s=total)
    expected_new, expected_total = kernel.reference(u=u, u_next=new, s=total)
    np.testing.assert_allclose(new, expected_new, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, expected_total, rtol=1e-4)
    reduced = tikgen.elementwise("z = log(x); t = sum(z*z)")
    assert "log_of(" in reduced.source.text


def test_other_loops_and_gpus_call_those_of_taichi() -> None:
    for arch, loop in (("cpu", "points"), ("cuda", "blocks"), ("vulkan", "blocks")):
        schedule = {"loop": loop, "unroll": 1} | ({"block_dim": 128} if loop == "blocks" else {})
        text = tikgen.render("map", expr="z = sin(x)", arch=arch, schedule=schedule).text
        assert "ti.sin(" in text
        assert "sine_of" not in text


def test_their_names_are_taken() -> None:
    assert {*FUNCTIONS, "pow", "atan2"} == TEXTS["f64"].keys() >= TEXTS["f32"].keys()
    for name in NAMES:
        with pytest.raises(ParameterError, match=name):
            tikgen.build("map", expr=f"z = sin({name})")
