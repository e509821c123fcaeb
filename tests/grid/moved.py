"""Moves fields between grids that are divided in different ways; ``python moved.py SEED``."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from mpi4py import MPI

import tikgen
from tikgen.errors import GridError

rng = np.random.default_rng(int(sys.argv[1]))
SIZE = MPI.COMM_WORLD.size
moves = 0
for dim in (1, 2, 3):
    every = [c for c in itertools.product(range(1, SIZE + 1), repeat=dim) if math.prod(c) == SIZE]
    shape = tuple(int(n) for n in rng.integers(SIZE, 3 * SIZE, dim))
    grids = [
        tikgen.Grid(shape, ranks=ranks, periodic=bool(n % 2), halo=n % 2)
        for n, ranks in enumerate(every)
    ]
    grids.append(tikgen.Grid(shape, weights=[1 + 2 * n for n in range(SIZE)]))
    for one, other in itertools.product(grids, repeat=2):
        components = int(rng.integers(0, 3))
        layout = str(rng.choice(["first", "last"]))
        extra = (components,) if components else ()
        whole_shape = (*extra, *shape) if layout == "first" else (*shape, *extra)
        dtype = str(rng.choice(["f16", "f32", "f64", "u8", "i64"]))
        whole = rng.integers(0, 250, whole_shape).astype(tikgen.DType.parse(dtype).numpy)
        field = one.field(whole, components=components, layout=layout)
        moved = one.redistribute(field, other)
        assert moved.dtype.value == dtype
        assert moved.whole_shape == whole_shape
        np.testing.assert_array_equal(moved.to_numpy(), whole[moved.indices])
        np.testing.assert_array_equal(field.to_numpy(), whole[field.indices])  # It stays.
        back = other.redistribute(moved, one)
        np.testing.assert_array_equal(back.to_numpy(), whole[field.indices])
        moves += 1
few = (SIZE - 1, 1)  # Points that are too few for all processes, the more the wider parts are.
grids = [tikgen.Grid(few, halo=halo) for halo in range(SIZE)]
assert {math.prod(grid.ranks) for grid in grids} >= {1, SIZE - 1}
values = rng.random((2, *few))
for one, other in itertools.product(grids, repeat=2):
    moved = one.redistribute(one.field(values, components=2), other)
    np.testing.assert_array_equal(moved.to_numpy(), values[moved.indices])
    moves += 1
# What layers keep: of one side, of both, or of none that a process has.
kernel = tikgen.update(
    "old = 2*p - old + c*lap(p)",
    dim=2,
    scalars="c",
    boundary={"x": "zero", "y": tikgen.absorbing(4, kind="cpml")},
)
shape = (max(5, SIZE), 11)
grids = [tikgen.Grid(shape, ranks=ranks) for ranks in ((1, SIZE), (SIZE, 1))]
grids.append(tikgen.Grid(shape, weights=[1 + 2 * n for n in range(SIZE)]))
for one, other in itertools.product(grids, repeat=2):
    kept = one.matched_layers(kernel, courant=0.5)["cpml_dyy_p"]
    assert kept.whole_shape[1:] == (shape[0], 8)
    whole = rng.random(kept.whole_shape).astype(np.float32)
    one.scatter(kept, whole)
    moved = one.redistribute(kept, other)
    np.testing.assert_array_equal(moved.to_numpy(), whole[moved.indices])
    np.testing.assert_array_equal(moved[:], whole)
    moves += 1
grid, longer = tikgen.Grid((30, 9)), tikgen.Grid((30, 10))
own, second = grid.zeros(), grid.zeros()
for told, act in {
    "takes a grid of 30 x 9 points; got one of 30 x 10": lambda: grid.redistribute(own, longer),
    "redistribute takes a grid; got int": lambda: grid.redistribute(own, 3),
    "redistribute takes fields of the grid; got ndarray": lambda: grid.redistribute(
        np.zeros(3), grid
    ),
    "redistribute takes fields of this grid": lambda: longer.redistribute(own, grid),
    "redistribute different things: rank 0 field 0 .*, rank 1 field 1": lambda: grid.redistribute(
        second if grid.rank == 1 else own, grid
    ),
    f"same {SIZE} processes in the same order; got": lambda: grid.redistribute(
        own, tikgen.Grid((30, 9), comm=MPI.COMM_SELF)
    ),
}.items():
    with pytest.raises(GridError, match=told):
        act()
print(f"{moves} moves", flush=True)
