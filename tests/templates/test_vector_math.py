"""Transcendental functions in loops of a processor: every f32, to the last digit but one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.errors import ParameterError
from tikgen.expression.vector_math import NAMES, VECTORISED

FUNCTIONS: dict[str, Any] = {
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
}
# Signs of zero, ends of the range, and where one way of computing ends and another begins.
SPECIAL = [0, 1e-45, 1e-40, 1.1754942e-38, 1.1754944e-38, 9.7656244e-4, 9.765625e-4, 0.49999997]
SPECIAL += [0.5, 1, 1.4142135, 1.4142137, np.pi, 9.02, 88.72283, 88.72284, 103.97, 104, 355]
SPECIAL += [2**24, 3.4028235e38, np.inf, np.nan]
LEAST = float(np.finfo(np.float32).smallest_normal)

pytestmark = pytest.mark.skipif(ARCH != "cpu", reason="a GPU has its own functions")


def drawn(rng: np.random.Generator) -> np.ndarray:
    """Return numbers of any bits, those of daily use, and some around 1."""
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = rng.standard_normal(100_000) * 10
    around = [SPECIAL, np.negative(SPECIAL), usual, 1 + usual / 1e4]
    return np.concatenate([*(np.asarray(a, np.float32) for a in around), bits])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number_has_the_nearest_result_or_its_neighbour(
    name: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("map", expr=f"z = {name}(x)", dim=1)
    assert f"ti.{name}(" not in kernel.source.text
    x = drawn(rng)
    z = np.zeros_like(x)
    kernel(x, z)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
        nearest = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(z), np.isnan(nearest))
    infinite = np.isinf(nearest)
    np.testing.assert_array_equal(z[infinite], nearest[infinite])
    # A processor may take numbers below the least normal one for 0.
    normal = np.isfinite(exact) & ~infinite & (np.abs(exact) >= LEAST)
    digit = 2.0 ** (np.frexp(np.abs(exact[normal]))[1] - 24)
    assert (np.abs(z[normal] - exact[normal]) <= 0.75 * digit).all()
    tiny = np.isfinite(exact) & (np.abs(exact) < LEAST)
    assert (np.abs(z[tiny]) <= LEAST).all()
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(z[zero]), np.signbit(nearest[zero]))


@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_other_dtypes(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("map", expr="z = sin(x) + exp(-x*x)*cos(3*x)", dim=1, dtype=dtype)
    assert ("sine_of" in kernel.source.text) == (dtype == "f16")
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
    assert FUNCTIONS.keys() == VECTORISED
    for name in NAMES:
        with pytest.raises(ParameterError, match=name):
            tikgen.build("map", expr=f"z = sin({name})")
