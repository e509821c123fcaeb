"""The histogram template against NumPy: dtypes, weights, edges, odd ranges, schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from offered_schedules import valid_schedules
from tikgen.dtypes import INTS
from tikgen.errors import ParameterError
from tikgen.pipeline.comparison import worst_error

LENGTHS = (1, 7, 64, 1009)


def check_counts(kernel: tikgen.Kernel, values: dict[str, Any]) -> np.ndarray:
    """Launch the kernel, compare it with its reference, and return what it counted."""
    p = kernel.problem
    result = p.weight_dtype if p.weighted else p.count_dtype
    values = {"x": values["x"], **values}
    values["counts"] = np.full(p.bins, 113, result.numpy)
    expected = kernel.reference(**values)
    before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    allowed = kernel.template.tolerance(p, before, {"counts": expected})["counts"]
    kernel(**values)
    np.testing.assert_array_equal(values["x"], before["x"])
    worst = worst_error(values["counts"], expected, allowed)
    assert worst <= 1, (kernel, worst, values, expected)
    return values["counts"]


def make_inputs(kernel: tikgen.Kernel, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the template's own inputs, and weights where it takes some."""
    p = kernel.problem
    values = kernel.template.inputs(p, {"n": n}, rng)
    if p.weighted:
        drawn = rng.uniform(-1, 1, n) if p.weight_dtype.is_float else rng.integers(-9, 9, n)
        values["weights"] = drawn.astype(p.weight_dtype.numpy)
    return values


@pytest.mark.parametrize("bins", [1, 10, 257])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_floats(dtype: str, bins: int, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("histogram", bins=bins, dtype=dtype, chunks=4)
    for n in LENGTHS * 3:
        check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize("bins", [7, 4096])
@pytest.mark.parametrize("dtype", INTS)
def test_integers_are_exact(dtype: str, bins: int, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("histogram", bins=bins, dtype=dtype, chunks=4)
    for n in LENGTHS * 3:
        check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize("dtype", ["i64", "u64"])
@pytest.mark.parametrize("bins", [1, 3, 1000, 4096])
def test_integers_next_to_an_edge_of_a_wide_range(
    dtype: str, bins: int, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("histogram", bins=bins, dtype=dtype, chunks=8)
    info = np.iinfo(kernel.problem.dtype.numpy)
    low, high, narrow = int(info.min), int(info.max), 2**52
    ranges = (
        (low, high),
        (low + 12345, high - 54321),
        (high - narrow, high),
        (low, low + narrow - 1),
    )
    for lo, hi in ranges:
        edges = [-(-(b * (hi - lo)) // bins) + lo for b in range(0, bins + 1, max(1, bins // 60))]
        x = [v for e in edges for v in (e - 1, e, e + 1) if info.min <= v <= info.max]
        check_counts(kernel, {"x": np.array(x, info.dtype), "lo": lo, "hi": hi})


@pytest.mark.parametrize("weight_dtype", ["f32", "f64", "i32", "i64"])
def test_weights(weight_dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    for dtype in ("f32", "u8"):
        kernel = tikgen.build(
            "histogram", bins=10, dtype=dtype, weighted=True, weight_dtype=weight_dtype, chunks=4
        )
        for n in LENGTHS * 3:
            check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize(
    ("chunks", "unroll", "block_dim"), [(1, 8, 0), (2, 1, 32), (64, 4, 128), (1024, 2, 0)]
)
def test_schedules_change_nothing(
    chunks: int, unroll: int, block_dim: int, ti_arch: str, rng: np.random.Generator
) -> None:
    schedule = {"chunks": chunks, "unroll": unroll, "block_dim": block_dim}
    schedule |= {"bins_in": "workspace", "buffer": 0, "copies": 1}
    for params in ({"count_dtype": "i64"}, {"weighted": True}):
        kernel = tikgen.build("histogram", bins=10, **params, **schedule)
        for n in LENGTHS:
            check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize("bins_in", ["workspace", "local"])
@pytest.mark.parametrize("buffer", [16, 64])
@pytest.mark.parametrize(
    "params", [{}, {"dtype": "f64", "count_dtype": "i64"}, {"weighted": True}], ids=str
)
def test_bins_found_ahead(
    params: dict[str, Any], buffer: int, bins_in: str, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("buffers are for cpu")
    kernel = tikgen.build("histogram", bins=10, bins_in=bins_in, buffer=buffer, chunks=2, **params)
    for n in LENGTHS * 3:
        check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize(
    ("chunks", "unroll", "copies", "block_dim"), [(1, 1, 1, 32), (2, 4, 4, 128), (64, 8, 2, 64)]
)
@pytest.mark.parametrize(
    "params",
    [{}, {"count_dtype": "i64"}, {"dtype": "i32"}, {"weighted": True, "weight_dtype": "i32"}],
    ids=str,
)
def test_bins_that_a_block_shares(
    params: dict[str, Any],
    chunks: int,
    unroll: int,
    copies: int,
    block_dim: int,
    ti_arch: str,
    rng: np.random.Generator,
) -> None:
    if ti_arch == "cpu":
        pytest.skip("threads on cpu share no memory")
    schedule = {"chunks": chunks, "unroll": unroll, "copies": copies, "block_dim": block_dim}
    kernel = tikgen.build("histogram", bins=100, bins_in="shared", **schedule, **params)
    for n in LENGTHS:
        check_counts(kernel, make_inputs(kernel, n, rng))


@pytest.mark.parametrize("arch", ["cpu", "cuda", "vulkan"])
@pytest.mark.parametrize("params", [{}, {"dtype": "i32"}, {"weighted": True}], ids=str)
def test_schedules_to_try_hold_the_default(arch: str, params: dict[str, Any]) -> None:
    variant = tikgen.render("histogram", bins=100, arch=arch, **params).variant
    assert 20 <= valid_schedules(variant, arch) <= 300


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_edges_are_as_in_numpy(dtype: str, ti_arch: str) -> None:
    kernel = tikgen.build("histogram", bins=8, dtype=dtype, chunks=4)
    x = np.array(
        [-0.001, 0, 0.5, 1, 1, 7.999, 8, 8, 8.001, np.nan, np.inf, -np.inf], dtype[0] + "8"
    )
    x = x.astype(kernel.problem.dtype.numpy)
    counts = np.zeros(8, np.int32)
    kernel(x, counts, 0.0, 8.0)
    finite = x[np.isfinite(x)]
    assert counts.tolist() == np.histogram(finite, 8, (0, 8))[0].tolist()
    assert counts.tolist() == [2, 2, 0, 0, 0, 0, 0, 3]


def test_reference_equals_numpy(rng: np.random.Generator) -> None:
    x = rng.uniform(-0.1, 1.1, 1000)
    weights = rng.integers(-9, 9, 1000)
    plain = tikgen.build("histogram", bins=37, dtype="f64")
    assert plain.reference(x=x, lo=0.0, hi=1.0).tolist() == np.histogram(x, 37, (0, 1))[0].tolist()
    whole = tikgen.build("histogram", bins=10, dtype="i32", weighted=True, weight_dtype="i64")
    y = rng.integers(-50, 50, 1000).astype(np.int32)
    found = whole.reference(x=y, weights=weights, lo=-40, hi=33)
    assert found.tolist() == np.histogram(y, 10, (-40, 33), weights=weights)[0].tolist()


@pytest.mark.parametrize(
    ("dtype", "ranges"),
    [
        ("i32", [(3, 3), (4, 3), (2**63 - 1, -(2**63))]),
        ("u64", [(3, 3), (2**64 - 1, 0)]),
        ("f32", [(1, 1), (1, 0), (np.nan, 1), (0, np.nan), (0, np.inf), (-np.inf, 0)]),
        ("f32", [(-3e38, 3e38), (0, 1e-37), (0, 1e-40), (np.inf, np.inf)]),
        ("f64", [(1, 1), (1, 0), (np.nan, 1), (0, np.nan), (0, np.inf), (-1e308, 1e308)]),
    ],
    ids=str,
)
def test_ranges_that_are_none_count_nothing(
    dtype: str, ranges: list[tuple[Any, Any]], ti_arch: str
) -> None:
    kernel = tikgen.build("histogram", bins=5, dtype=dtype, chunks=2)
    x = np.array([0, 1, 2, 3, 4], kernel.problem.dtype.numpy)
    for lo, hi in ranges:
        assert not check_counts(kernel, {"x": x, "lo": lo, "hi": hi}).any(), (lo, hi)


def test_ranges_near_the_limits_of_the_dtype(ti_arch: str, rng: np.random.Generator) -> None:
    for dtype, largest in (("f32", 8e36), ("f64", 4e306)):
        kernel = tikgen.build("histogram", bins=5, dtype=dtype, chunks=2)
        for limit in (largest, 30 / largest):
            x = (rng.uniform(-1, 1, 50) * limit).astype(kernel.problem.dtype.numpy)
            assert check_counts(kernel, {"x": x, "lo": -limit, "hi": limit}).sum() == 50


def test_float_weights_sum_the_same_bit_for_bit(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("histogram", bins=3, weighted=True)
    x, weights = rng.uniform(0, 1, (2, 1009)).astype(np.float32)
    runs = []
    for _ in range(5):
        counts = np.full(3, np.nan, np.float32)
        kernel(x, weights, counts, 0.0, 1.0)
        runs.append(counts.tobytes())
    assert len(set(runs)) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_the_tolerance_is_tight(weighted: bool, rng: np.random.Generator) -> None:
    kernel = tikgen.build("histogram", bins=10, dtype="f32", weighted=weighted)
    x = ((rng.permutation(1000) + 0.5) / 1000).astype(np.float32)  # None next to an edge.
    values = {"x": x, "lo": 0.0, "hi": 1.0}
    if weighted:
        values["weights"] = rng.uniform(0.1, 1, 1000).astype(np.float32)
    expected = kernel.reference(**values)
    allowed = kernel.template.tolerance(kernel.problem, values, {"counts": expected})["counts"]
    # Leaving out a single element is caught.
    fewer = {k: v[:-1].copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    missed = kernel.reference(**fewer)
    changed = np.flatnonzero(missed != expected)
    assert len(changed) == 1
    assert np.abs(missed - expected)[changed] > 100 * np.broadcast_to(allowed, 10)[changed]


def test_only_what_lies_next_to_an_edge_may_fall_to_either_side() -> None:
    kernel = tikgen.build("histogram", bins=10, dtype="f32")
    x = np.array([0.05, 0.3, np.nextafter(np.float32(0.7), np.float32(0)), 0.0, 1.0], np.float32)
    values = {"x": x, "lo": 0.0, "hi": 1.0}
    expected = kernel.reference(**values)
    allowed = kernel.template.tolerance(kernel.problem, values, {"counts": expected})["counts"]
    assert np.broadcast_to(allowed, 10).tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]


def test_defaults_keep_the_workspace_small() -> None:
    for bins in (1, 64, 1000, 4096):
        for arch in ("cpu", "cuda", "vulkan"):
            for weighted in (False, True):
                variant = tikgen.render(
                    "histogram", bins=bins, arch=arch, weighted=weighted
                ).variant
                for array in variant.workspace:
                    assert np.prod(array.shape) <= 2**20


def test_cost_counts_one_pass() -> None:
    kernel = tikgen.build("histogram", bins=10, dtype="u8", weighted=True, weight_dtype="f64")
    assert kernel.template.cost(kernel.problem, {"n": 100}).bytes == 100 * 9 + 80


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bins": 0}, "'bins' takes an integer from 1 to 4096; got 0"),
        ({"bins": 4097}, "'bins' takes an integer from 1 to 4096; got 4097"),
        ({"dtype": "f16"}, "'dtype' takes f32, f64, .*; got f16"),
        ({"count_dtype": "f32"}, "'count_dtype' takes i32 or i64; got f32"),
        ({"weight_dtype": "u8"}, "'weight_dtype' takes f32, f64, i32 or i64; got u8"),
        ({"bins": 4096, "chunks": 2048}, "'chunks' times 4096 bins exceeds"),
        ({"bins": 1025, "bins_in": "local"}, "'bins_in' must be 'workspace' beyond 1024 bins"),
        ({"bins_in": "shared"}, "'bins_in' cannot be 'shared' on cpu"),
        ({"bins_in": "local", "arch": "cuda"}, "'bins_in' cannot be 'local' on cuda"),
        ({"copies": 2, "buffer": 0}, "'copies' must be 1 where bins_in='workspace'"),
        ({"dtype": "i32", "buffer": 16}, "'buffer' must be 0 where dtype=i32"),
        ({"buffer": 16, "unroll": 2}, "'unroll' must be 1 where buffer=16"),
        (
            {"bins": 4096, "bins_in": "shared", "copies": 4, "block_dim": 64, "arch": "cuda"},
            "'copies' times 4096 bins exceeds 8192",
        ),
        (
            {"bins_in": "shared", "block_dim": 0, "arch": "vulkan"},
            "'block_dim' cannot be 0 where bins_in='shared'",
        ),
        (
            {"weighted": True, "bins_in": "shared", "arch": "cuda"},
            "'bins_in' must be 'workspace' for weights of f32",
        ),
    ],
)
def test_bad_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.render("histogram", **{"arch": "cpu", **params})


def test_shapes_must_agree(ti_arch: str) -> None:
    kernel = tikgen.build("histogram", bins=10)
    with pytest.raises(tikgen.errors.ArgumentError, match=r"'counts' takes shape \(10,\)"):
        kernel(np.zeros(3, np.float32), np.zeros(9, np.int32), 0.0, 1.0)
