"""Conjugate gradients as a program: no step waits for the host."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from steppers import stepped

pytestmark = pytest.mark.usefixtures("ti_arch")
ADD = """
import taichi as ti

@ti.kernel
def add(
    y: ti.types.ndarray(dtype=ti.f64, ndim=1),
    factor: ti.types.ndarray(dtype=ti.f64, ndim=1),
    x: ti.types.ndarray(dtype=ti.f64, ndim=1),
    out: ti.types.ndarray(dtype=ti.f64, ndim=1),
):
    for i in range(y.shape[0]):
        out[i] = y[i] + factor[0]*x[i]
"""


@stepped
def test_conjugate_gradients_solve_a_poisson_equation(native: bool) -> None:
    n = 40 if ARCH == "cpu" else 8  # As many steps, of a dozen launches each.
    b = np.random.default_rng(2).random(n)
    x, q = np.zeros((2, n))
    r, p = b.copy(), b.copy()
    products = np.zeros(n)
    rr, rr_next, pq, alpha, minus, beta = np.zeros((6, 1))
    rr[0] = b @ b
    # Gives p[i - 1] - 2 p[i] + p[i + 1], with walls at 0.
    laplace = tikgen.build("stencil", dim=1, dtype="f64", boundary="zero")
    negative = tikgen.elementwise("q = -q", dtype="f64")
    multiply = tikgen.elementwise("out = x*y", dtype="f64")
    total = tikgen.build("reduce", op="sum", dtype="f64")
    add = tikgen.from_string(ADD)
    program = tikgen.Program(
        [
            laplace.bind(p, q),
            negative.bind(q=q),
            multiply.bind(x=p, y=q, out=products),
            total.bind(products, pq),
            "alpha = rr / pq; minus = -alpha",
            add.bind(x, alpha, p, x),
            add.bind(r, minus, q, r),
            multiply.bind(x=r, y=r, out=products),
            total.bind(products, rr_next),
            "beta = rr_next / rr",
            tikgen.swap((rr, rr_next)),
            add.bind(r, beta, p, p),
        ],
        native=native,
        rr=rr,
        rr_next=rr_next,
        pq=pq,
        alpha=alpha,
        minus=minus,
        beta=beta,
        tol=1e-20,
    )
    ran = program.run(until="rr < tol", check_every=2, most=500)
    assert ran.reached
    a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    np.testing.assert_allclose(a @ x, b, atol=1e-9)


@stepped
def test_a_program_of_equations_has_their_names(native: bool) -> None:
    equations = """
        r  = u*v**2
        u' = u + dt*(0.16*lap(u) - r + 0.035*(1 - u))
        v' = v + dt*(0.08*lap(v) + r - 0.1*v)
    """
    gs = tikgen.update(equations, dim=2, boundary="periodic", scalars="dt")
    u, v = np.random.default_rng(4).random((2, 12, 9), np.float32)
    un, vn = np.zeros((2, 12, 9), np.float32)
    program = tikgen.Program(
        [gs.bind(u=u, v=v, u_next=un, v_next=vn, dt=0.5), tikgen.swap((u, un), (v, vn))],
        native=native,
    )
    assert set(program) == {"u", "v", "u_next", "v_next"}
    assert program.verify().ok
    expected = program.reference(5)
    program.run(5)
    assert program["u"] is un
    for name in ("u", "v"):
        np.testing.assert_allclose(program[name], expected[name], rtol=1e-5)


@pytest.mark.skipif(ARCH != "cpu", reason="native steps run on cpu")
def test_other_threads_run_while_native_code_does() -> None:
    n, go = np.zeros((2, 1), np.int32)
    waiting = tikgen.loop(2**31 - 1, ["n = n + 1"], until="go > 0")
    program = tikgen.Program([waiting], native=True, n=n, go=go)
    runner = threading.Thread(target=program.run, args=(1,))
    runner.start()
    while not n[0]:  # Within the only step.
        pass
    go[0] = 1
    runner.join()
    assert program.steps == 1
    assert 0 < n[0] < 2**31 - 1


def test_a_condition_on_nan_does_not_hold() -> None:
    x, n = np.full(1, np.nan, np.float32), np.zeros(1, np.float32)
    program = tikgen.Program(["n = n + 1"], x=x, n=n)
    for condition in ("x < 1", "x > 1", "x*x <= 1", "x < 1 or x > 2"):
        assert program.run(until=condition, most=1).reached is False
    assert program.run(until="x < 1 or isnan(x)", most=5).steps == 1
