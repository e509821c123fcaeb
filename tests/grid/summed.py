"""Adds up on 1 to 6 of these processes and on several shapes of them; all bits have to be equal.

``python summed.py SEED HOW``; the process of rank 0 prints what differs. Where ``HOW`` is ``few``,
one kernel adds up on one process and on all of these; else several do, on every shape.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

import start
import tikgen
from tikgen.grid.mpi import meet

SEED, HOW = int(sys.argv[1]), sys.argv[2]
WORLD = MPI.COMM_WORLD
# Numbers of processes along each axis; or the width of ghost layers that leaves some idle.
SHAPES: dict[int, list[tuple[int, int] | int]] = {
    1: [(1, 1)],
    2: [(2, 1), (1, 2)],
    3: [(3, 1), 12],
    4: [(2, 2), (1, 4)],
    6: [(3, 2), 8],
}
WHOLE = (13, 22)
start.init(fast_math=False)

rng = np.random.default_rng(SEED)
field = rng.normal(size=WHOLE) * 10.0 ** rng.integers(-1, 2, WHOLE)
solid = (rng.random(WHOLE) < 0.3).astype(np.uint8)
heat = tikgen.update(
    "u' = u + dt*lap(u); s = sum(u'*j); top = max(u'); n = sum(1 + 0*u)",
    dim=2, scalars="dt", mask="solid", boundary={"x": "interior", "y": "clamp"},
)  # fmt: skip
halves = tikgen.elementwise("y = x*x; s = sum(x*x*x); top = max(x)", "f16", dim=2)
whole = tikgen.reduce("s = sum(x*x)", "i32", dim=2)
laplace = tikgen.update("q = 4.1*p - p[1, 0] - p[-1, 0] - p[0, 1] - p[0, -1]; pq = sum(p*q)",
    outputs="q", dim=2, dtype="f64", boundary="zero")  # fmt: skip
go = tikgen.update("x = x + a*p; r = r - a*q; rr_next = sum(r*r)",
    scalars="a", on_device="a", dim=2, dtype="f64", boundary="zero")  # fmt: skip
turn = tikgen.update("p = r + b*p", scalars="b", on_device="b", dim=2, dtype="f64")
square = tikgen.reduce("rr = sum(r*r)", "f64", dim=2)


def found_on(comm: Any, counts: tuple[int, int] | int) -> list[Any]:
    """Return all sums that some processes find, and the residuals of conjugate gradients."""
    ranks, halo = (None, counts) if isinstance(counts, int) else (counts, 1)
    grid = tikgen.Grid(WHOLE, comm=comm, ranks=ranks, halo=halo, sums="exact")
    assert isinstance(counts, tuple) or math.prod(grid.ranks) < grid.size
    found: list[Any] = []
    u, mask = grid.field(field.astype(np.float32)), grid.field(solid)
    un = grid.zeros()
    s, top, n = np.zeros((3, 1), np.float32)
    step = grid.bind(heat, u=u, u_next=un, solid=mask, dt=0.1, s=s, top=top, n=n)
    program = tikgen.Program([step, grid.swap((u, un))], s=s, top=top, n=n, u=u)
    assert not program.is_native
    assert "exact" in program.why_not_native, program.why_not_native
    assert "s_1" not in program.names, program.names  # The terms have no name.
    program.verify(2).raise_for_failure()
    ahead = program.reference(1)
    program.run(1)
    terms = program["u"][1:-1].astype(float) * np.arange(WHOLE[1])
    assert np.allclose(s, terms.sum(), rtol=1e-6, atol=1e-6 * np.abs(terms).sum())
    assert np.allclose(ahead["s"], s, rtol=1e-5)
    assert n == (WHOLE[0] - 2) * WHOLE[1]
    program.run(3)
    found += [s, top, n]
    if HOW == "few":
        return found
    values = (field / np.abs(field).max() * 3).astype(np.float16)
    x, s16 = grid.field(values), np.zeros(1, np.float32)
    grid.bind(halves, x=x, y=grid.zeros("f16"), s=s16, top=top)()
    wide = values.astype(float) ** 3
    assert np.allclose(s16, wide.sum(), atol=1e-6 * np.abs(wide).sum())
    found += [s16, top]
    number = np.zeros(1, np.int32)
    integers = np.random.default_rng(SEED).integers(-(2**31), 2**31, WHOLE).astype(np.int32)
    grid.bind(whole, x=grid.field(integers), s=number)()
    assert number == np.sum(integers * integers, dtype=np.int32)  # It wraps around.
    found.append(number)
    rr = np.zeros(1)
    for special in (np.inf, -np.inf, np.nan):
        strange = field.copy()
        strange[3, 5] = special
        grid.bind(square, r=grid.field(strange), rr=rr)()
        np.testing.assert_array_equal(rr, np.abs([special]))
    return found + residuals(grid)


def residuals(grid: tikgen.Grid) -> list[Any]:
    """Return the squares of the residuals of conjugate gradients, until they are small."""
    right = np.random.default_rng(SEED).normal(size=WHOLE)
    x, q, r, p = grid.zeros("f64"), grid.zeros("f64"), grid.field(right), grid.field(right)
    rr, rr_next, pq, a, b = np.zeros((5, 1))
    grid.bind(square, r=r, rr=rr)()
    program = tikgen.Program(
        [
            grid.bind(laplace, p=p, q=q, pq=pq),
            "a = rr / pq",
            grid.bind(go, x=x, r=r, p=p, q=q, a=a, rr_next=rr_next),
            "b = rr_next / rr; rr = rr_next",
            grid.bind(turn, p=p, r=r, b=b),
        ],
        rr=rr, rr_next=rr_next, pq=pq, enough=1e-16 * rr[0],
    )  # fmt: skip
    every: list[Any] = []
    ran = program.run(
        until="rr < enough", most=99, every=1, call=lambda run: every.append(run["rr"].copy())
    )
    assert ran.reached
    return every


expected: list[bytes] = []  # Those of one process.
if WORLD.rank == 0:
    expected = [np.array(each).tobytes() for each in found_on(MPI.COMM_SELF, (1, 1))]
if HOW == "few":
    SHAPES = {WORLD.size: [(1, WORLD.size)]}
for count, shapes in SHAPES.items():
    comm = WORLD.Split(0 if WORLD.rank < count else MPI.UNDEFINED)
    for counts in shapes if comm != MPI.COMM_NULL else ():
        found = [np.array(each).tobytes() for each in found_on(comm, counts)]
        if WORLD.rank == 0:
            differ = sum(map(bytes.__ne__, found, expected)) + abs(len(found) - len(expected))
            said = f"{differ} of {len(expected)} differ" if differ else "equal"
            print(f"{count} processes, ({counts}): {said}", flush=True)
    meet(WORLD)
