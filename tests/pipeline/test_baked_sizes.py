"""Extents as numbers in the text of a kernel: where they stand, and what runs."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen

# The second component is read at an index that begins below 0.
TEXT = "each q in 2:\n    g'.q = g.q[{}] + g.q"
WAYS = {"loop": "points", "block_dim": 0}


def kernel(*shape: int) -> tikgen.Kernel:
    """Return an update over points, for one shape."""
    return tikgen.update(
        TEXT.format("-2" if len(shape) == 1 else "0, -2"),
        dim=len(shape),
        vectors={"g": 2},
        boundary="reflect",
        shape=shape,
        schedule=WAYS,
    )


@pytest.mark.parametrize("n", [3, 4, 7, 67, 131, 132, 511, 515, 1024, 1025, 4099])
def test_neighbours_below_the_first_point(n: int, ti_arch: str, rng: np.random.Generator) -> None:
    # With a constant range, Taichi's LLVM reads far outside: the process ends with SIGSEGV.
    g = rng.uniform(-1, 1, (2, n)).astype("f4")
    found = np.full_like(g, 7)
    kernel(n)(g=g, g_next=found)
    before = np.concatenate([g[:, 2:0:-1], g[:, :-2]], axis=1)
    np.testing.assert_array_equal(found, before + g)


def test_parallel_loops_of_few_turns_keep_their_extents() -> None:
    short, long = (str(kernel(n).source) for n in (1024, 1025))
    assert "in ti.ndrange(g.shape[1])" in short and "in ti.ndrange(1025)" in long
    assert "g.shape[1]" not in short.partition("in ti.ndrange(g.shape[1])")[2]
    small, large = (str(kernel(n, 64).source) for n in (16, 17))
    assert "in ti.ndrange(g.shape[1], g.shape[2])" in small
    assert "in ti.ndrange(17, 64)" in large
