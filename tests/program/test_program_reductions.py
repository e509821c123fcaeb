"""Programs whose kernels reduce in the pass of the update, and conditions on the results."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from conftest import ARCH

pytestmark = pytest.mark.usefixtures("ti_arch")
NATIVE = (False, True) if ARCH == "cpu" else (False,)


@pytest.mark.parametrize("native", NATIVE)
def test_a_program_runs_until_a_reduction_is_small(native: bool) -> None:
    heat = tikgen.update(
        "u' = u + 0.2*lap(u); err = max(abs(u' - u))", dim=2, boundary="zero", dtype="f64"
    )
    u = np.zeros((20, 33))
    u[7:9, 11:20] = 1
    after, err = np.zeros_like(u), np.full(1, 9.0)
    expected = u.copy()
    program = tikgen.Program(
        [heat.bind(u=u, u_next=after, err=err), tikgen.swap((u, after))],
        native=native, u=u, err=err, tol=1e-3,
    )  # fmt: skip
    program.verify(steps=3).raise_for_failure()
    ran = program.run(until="err < tol", check_every=10, most=1000)
    assert ran.reached
    assert 0 < ran.steps < 1000
    assert ran.steps % 10 == 0
    for _ in range(ran.steps):
        wide = np.pad(expected, 1)
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        before, expected = expected, expected + 0.2 * (around - 4 * expected)
    np.testing.assert_allclose(program["u"], expected, rtol=1e-10)
    np.testing.assert_allclose(program["err"], [np.abs(expected - before).max()], rtol=1e-8)


@pytest.mark.parametrize("native", NATIVE)
def test_the_next_kernel_reads_a_result_where_it_lies(native: bool) -> None:
    x = np.random.default_rng(3).uniform(-1, 1, 5000)
    square = np.zeros(1)
    largest = tikgen.reduce("square = sum(x*x)", "f64")
    scale = tikgen.update("x = x/sqrt(s)", dim=1, scalars="s", on_device="s", dtype="f64")
    program = tikgen.Program(
        [largest.bind(x=x, square=square), scale.bind(x=x, s=square)], native=native
    )
    program.run(2)
    np.testing.assert_allclose([x @ x, *square], 1, rtol=1e-12)
