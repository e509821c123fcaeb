"""The scan template: every op and dtype, both modes, in place, NaN and infinity, equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from spread import spread
from tikgen import DType, Kernel
from tikgen.errors import ArgumentError, ParameterError

OPS = ("sum", "prod", "min", "max")
LENGTHS = (1, 2, 7, 63, 65, 401, 4099)
# On a GPU the default has teams for millions of elements, which take long on a GPU made of a CPU.
FEW = {} if ARCH == "cpu" else {"chunks": 16}

pytestmark = pytest.mark.usefixtures("ti_arch")


def random_input(kernel: Kernel, n: int, rng: Any) -> np.ndarray:
    """Return a fresh input, the template's own where it draws one."""
    dtype = kernel.problem.dtype
    drawn = rng.uniform(-1, 1, n) if dtype.is_float else rng.integers(0, 100, n)
    while True:
        given = kernel.template.inputs(kernel.problem, {"n0": n}, rng)
        x = np.asarray(given.get("x", drawn.astype(dtype.numpy)))
        # Some of the template's own hold zeros, infinities or NaN, which tests put in themselves.
        if not dtype.is_float or (np.isfinite(x).all() and x.all()):
            return x


def check(kernel: Kernel, x: np.ndarray) -> np.ndarray:
    """Launch, compare with the reference under the tolerance model, return the result."""
    dtype = kernel.problem.dtype
    out = np.full(x.shape, np.nan if dtype.is_float else 77, dtype.numpy)
    before = x.copy()
    kernel(x, out)
    compare(kernel, x, out)
    assert x.tobytes() == before.tobytes(), "x was changed"
    return out


def compare(kernel: Kernel, x: np.ndarray, out: np.ndarray) -> None:
    dtype = kernel.problem.dtype
    expected = kernel.reference(x)
    allowed = kernel.template.tolerance(kernel.problem, {"x": x}, {"out": expected})["out"]
    with np.errstate(all="ignore"):
        error = np.abs(out.astype(expected.dtype) - expected)
        rounding = dtype.eps * np.abs(expected) if dtype.is_float else 0
        same = (out == expected) | (np.isnan(out) & np.isnan(expected))
        assert np.all(same | (error <= allowed + rounding)), (kernel.params, x.size, out, expected)


@spread("dtype, op, mode", ["f32", "i32", "f64"], OPS, ["inclusive", "exclusive"])
def test_every_length(op: str, mode: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("scan", op=op, mode=mode, dtype=dtype, **FEW)
    for n in LENGTHS:
        check(kernel, random_input(kernel, n, rng))


@spread("op, dtype", OPS, ["i8", "i16", "i64", "u8", "u16", "u32", "u64", "f16"])
def test_every_other_dtype(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("scan", op=op, dtype=dtype, mode="exclusive", chunks=7, unroll=2)
    for n in (1, 6, 67):
        check(kernel, random_input(kernel, n, rng))
    kernel = tikgen.build("scan", op=op, dtype=dtype, chunks=7, unroll=1)
    x = random_input(kernel, 300, rng)
    check(kernel, x)
    if not DType(dtype).is_float:
        limits = np.iinfo(x.dtype)
        x[:4] = limits.max, limits.min, limits.max, 1
        check(kernel, x)


def test_integers_wrap_around_as_in_numpy() -> None:
    x = np.array([100, 100, 100, 3], np.int8)
    for op, running in (
        ("sum", np.cumsum(x, dtype=x.dtype)),
        ("prod", np.cumprod(x, dtype=x.dtype)),
    ):
        out = check(tikgen.build("scan", op=op, dtype="i8", chunks=2), x)
        assert np.array_equal(out, running)


def test_the_exclusive_scan_begins_with_the_identity() -> None:
    for dtype in ("f32", "i16", "u64") if ARCH == "cpu" else ("f32",):
        highest = np.inf if dtype == "f32" else DType(dtype).highest
        lowest = -np.inf if dtype == "f32" else DType(dtype).lowest
        for op, first in (("sum", 0), ("prod", 1), ("min", highest), ("max", lowest)):
            kernel = tikgen.build("scan", op=op, mode="exclusive", dtype=dtype, unroll=1, **FEW)
            assert check(kernel, np.array([5, 3], DType(dtype).numpy)).tolist() == [first, 5]


@pytest.mark.parametrize("mode", ["inclusive", "exclusive"])
@pytest.mark.parametrize("unroll", [1, 8])
def test_in_place(mode: str, unroll: int, rng: Any) -> None:
    kernel = tikgen.build("scan", mode=mode, unroll=unroll, chunks=5)
    for n in (1, 4, 401):
        x = random_input(kernel, n, rng)
        y = x.copy()
        kernel(y, y)
        compare(kernel, x, y)
    overlapping = np.zeros(10, np.float32)
    with pytest.raises(ArgumentError, match="the very same array would be fine"):
        kernel(overlapping[1:], overlapping[:-1])


@spread("op, dtype", OPS, ["f16", "f32", "f64"])
def test_nan_and_infinity_propagate(op: str, dtype: str, rng: Any) -> None:
    for mode in ("inclusive", "exclusive"):
        kernel = tikgen.build("scan", op=op, dtype=dtype, mode=mode, chunks=4, unroll=2)
        for place in (0, 1, 10, 11, 40):
            for value in (np.nan, np.inf, -np.inf):
                x = random_input(kernel, 41, rng)
                x[place] = value
                out = check(kernel, x)
                first = place + (mode == "exclusive")
                assert not np.isnan(out[:first]).any()
                assert not np.isnan(value) or np.isnan(out[first:]).all()
    both = np.array([1, np.inf, 2, -np.inf, 3], DType(dtype).numpy)
    check(kernel, both)
    check(kernel, np.full(9, np.inf, DType(dtype).numpy))
    check(kernel, np.full(9, -np.inf, DType(dtype).numpy))


def test_equal_launches_give_equal_bits(rng: Any) -> None:
    kernel = tikgen.build("scan")
    x = random_input(kernel, 5003, rng)
    assert len({check(kernel, x).tobytes() for _ in range(5)}) == 1


@pytest.mark.parametrize("unroll, chunks, block_dim", [(1, 1, 0), (16, 1000, 32), (4, 4096, 128)])
def test_schedules(unroll: int, chunks: int, block_dim: int, rng: Any) -> None:
    for mode in ("inclusive", "exclusive"):
        kernel = tikgen.build("scan", mode=mode, unroll=unroll, chunks=chunks, block_dim=block_dim)
        for n in (1, 15, 17, 4099):
            check(kernel, random_input(kernel, n, rng))


@pytest.mark.parametrize(
    "op, mode", [("sum", "inclusive"), ("sum", "exclusive"), ("min", "exclusive")]
)
def test_teams(op: str, mode: str, ti_arch: str, rng: Any) -> None:
    if ti_arch == "cpu":
        with pytest.raises(ParameterError, match="must be 1 on cpu"):
            tikgen.build("scan", team=64, items=4)
        return
    for team, items, chunks in ((64, 4, 1), (64, 4, 3), (128, 16, 200)):
        kernel = tikgen.build("scan", op=op, mode=mode, team=team, items=items, chunks=chunks)
        for n in (1, 255, 256, 257, 4099):
            x = random_input(kernel, n, rng)
            check(kernel, x)
            y = x.copy()
            kernel(y, y)
            compare(kernel, x, y)


@pytest.mark.parametrize(
    "params, problem",
    [
        ({"items": 4, "team": 1}, "must be 0 where team=1"),
        ({"items": 32, "team": 512}, "on cpu|takes 73736 of 32768 bytes of shared memory"),
    ],
)
def test_what_makes_no_sense_is_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tikgen.build("scan", **params)


def test_cost_counts_what_is_read_and_written() -> None:
    kernel = tikgen.build("scan", dtype="f64")
    cost = kernel.template.cost(kernel.problem, {"n0": 100})
    assert (cost.bytes, cost.flops) == (1600, 100)


@spread("dtype, op, mode", ["i64", "u32", "u64", "f64"], OPS, ["inclusive", "exclusive"])
def test_numbers_that_are_shuffled_in_halves(dtype: str, op: str, mode: str, rng: Any) -> None:
    join = {"join": "shuffle"} if ARCH == "cuda" else {}
    team = {"team": 64, "items": 4, **join} if ARCH != "cpu" else {}
    for chunks in (1, 5):
        kernel = tikgen.build("scan", op=op, dtype=dtype, mode=mode, chunks=chunks, **team)
        for n in (1, 300, 2100):
            check(kernel, random_input(kernel, n, rng))


@pytest.mark.once
@spread("dtype, mode", ["f16", "f32", "f64"], ["inclusive", "exclusive"])
def test_a_product_stays_0_once_it_met_a_0(dtype: str, mode: Any, ti_arch: str) -> None:
    numpy = np.dtype(dtype.replace("f", "float"))
    x = np.full(3000, np.finfo(numpy).max / 2, numpy)
    x[[5, 1000]] = 0
    kernel = tikgen.build("scan", op="prod", mode=mode, dtype=dtype, **FEW)
    out = np.zeros_like(x)
    kernel(x, out)
    after = 5 if mode == "inclusive" else 6
    assert (out[after:] == 0).all()
    x[2000] = np.nan
    kernel(x, out)
    assert (out[after:2000] == 0).all()
    assert np.isnan(out[2001:]).all()


def test_drawn_factors_leave_32_bits(rng: Any) -> None:
    template, problem = (
        (k := tikgen.build("scan", op="prod", dtype="i64", arch="cpu")).template,
        k.problem,
    )
    drawn = [template.inputs(problem, {"n0": 3}, rng)["x"] for _ in range(20)]
    assert all((x & 1).all() and x.dtype == np.int64 for x in drawn)
    # A total in i32 would pass where all of them are small.
    assert any((np.abs(x) > 2**32).all() for x in drawn)


def test_nothing_is_computed_after_the_last_element() -> None:
    text = tikgen.render("scan", mode="exclusive", unroll=2, dtype="i32", arch="cpu").text
    assert text.rstrip().endswith("out[i] = running")


@pytest.mark.parametrize("dtype", ["i16", "u64", "f32"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_drawn_numbers_begin_every_chunk_with_a_new_extreme(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("scan", op=op, dtype=dtype)
    ends = np.minimum if op == "min" else np.maximum
    found = []
    for _ in range(200):  # One in ten does.
        x = kernel.template.inputs(kernel.problem, {"n0": 1025}, rng).get("x")
        if x is not None:
            found.append(len(np.unique(ends.accumulate(x[np.isfinite(x)][::64]))))
    assert max(found) >= 16
