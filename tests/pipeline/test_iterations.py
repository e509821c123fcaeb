"""No parallel loop has more iterations than Taichi can count: such launches are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tikgen
from tikgen.errors import UnsupportedOnArch
from tikgen.pipeline import loop_steps
from tikgen.pipeline.rendering import Variant
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.catalogue import find_template
from tikgen.template.shapes import MOST_ELEMENTS

# Threads stand along an axis of two elements: most of each block have none.
WASTEFUL = {"loop": "points", "unroll": 2, "lanes": 0, "block_dim": 128}
LONG = 20_000_003
PROBLEMS: dict[str, dict[str, Any]] = {
    "map": {"expr": "z = x + y", "dim": 2},
    "update": {"equations": "u' = u + lap(u)", "dim": 3},
    "stencil": {"dim": 3},
    "reduce": {"dim": 2, "axis": 1},
    "transpose": {"perm": (2, 0, 1)},
    **{name: {} for name in ("gemm", "histogram", "scan", "spmv")},
}


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return arrays that nobody reads: a refused launch touches no page of them."""
    return np.empty((LONG, 2), np.float32), np.empty((2, LONG), np.float32)


def test_a_loop_that_wraps_around_is_refused(ti_arch: str) -> None:
    kernel = tikgen.build("transpose", **WASTEFUL)
    for launch in (kernel, kernel.bind):
        with pytest.raises(UnsupportedOnArch, match=r"2,560,000,384 iterations.*2,147,483,647"):
            launch(*_arrays())


def test_quick_calls_do_not_pass_by(ti_arch: str) -> None:
    """A kernel that was launched with small arrays checks large ones as well."""
    engine = {"cpu": "direct-cpu", "cuda": "direct-cuda"}.get(ti_arch)
    if engine is None:
        pytest.skip(f"no engine beside Taichi's for {ti_arch}")
    kernel = tikgen.build("transpose", engine=engine, **WASTEFUL)
    x, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros((2, 4), np.float32)
    for _ in range(2):
        kernel(x, y)
    assert np.array_equal(y, x.T)
    with pytest.raises(UnsupportedOnArch, match="iterations"):
        kernel(*_arrays())


def test_a_grid_of_few_rows_takes_no_blocks_that_reach_beyond() -> None:
    template = find_template("stencil")
    sizes = {"n0": 3, "n1": 1, "n2": 609_560_453}
    found = template.default_schedule(template.Problem(dim=3), "cuda", sizes)
    assert found["loop"] == "points"


@given(st.data(), st.sampled_from(sorted(PROBLEMS)), st.sampled_from(("cpu", "cuda", "vulkan")))
def test_no_default_schedule_wraps_around(data: Any, name: str, arch: str) -> None:
    """Each default is for the sizes of the call, however thin, up to the largest arrays."""
    template = find_template(name)
    p = template.Problem(**PROBLEMS[name])
    exponents = {symbol: data.draw(st.floats(0, 31), symbol) for symbol in template.size_symbols(p)}
    sizes = {symbol: max(int(2**exponent), 1) for symbol, exponent in exponents.items()}
    for argument in template.arguments(p):
        if isinstance(argument, Array):
            assume(math.prod(concrete_shape(argument, sizes)) <= MOST_ELEMENTS)
    s = template.Schedule(**template.default_schedule(p, arch, sizes))
    variant = Variant(template, p, s)
    assert not loop_steps.problem(variant, sizes, lambda _: np.zeros(2, np.int64), False)
