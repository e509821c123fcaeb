"""The spmv template against NumPy: formats, dtypes, schedules, empty rows, awkward sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from offered_schedules import valid_schedules
from spread import spread
from tikgen.errors import ParameterError
from tikgen.pipeline.comparison import worst_error

# (rows, cols, nnz or width): ones, primes, and multiples of no unroll.
SIZES = {
    "csr": [(1, 1, 1), (1, 5, 37), (31, 1, 13), (7, 17, 67), (67, 19, 5)],
    "ell": [(1, 1, 1), (1, 5, 17), (31, 1, 2), (7, 17, 19), (67, 19, 3)],
}


def make_inputs(
    kernel: tikgen.Kernel, sizes: tuple[int, int, int], rng: np.random.Generator
) -> dict[str, Any]:
    """Return every argument by name: the template's structure, random values for the rest."""
    p = kernel.problem
    rows, cols, entries = sizes
    named = {"rows": rows, "cols": cols, "nnz" if p.format == "csr" else "width": entries}
    given = kernel.template.inputs(p, named, rng)
    values: dict[str, Any] = {"data": (entries,) if p.format == "csr" else (rows, entries)}
    values |= {"indices": None} | ({"indptr": None} if p.format == "csr" else {})
    values |= {"x": (cols,), "y": (rows,), "alpha": (), "beta": ()}
    for name, shape in values.items():
        if name in given:
            values[name] = given[name]
        elif p.dtype.is_float:
            values[name] = rng.uniform(-1, 1, shape)
        else:
            values[name] = rng.integers(-99, 99, shape)
    for name in ("data", "x", "y"):
        values[name] = np.asarray(values[name], p.dtype.numpy)
    for name in ("alpha", "beta"):
        values[name] = p.dtype.numpy.type(values[name]).item()
    return values


def check_product(kernel: tikgen.Kernel, values: dict[str, Any]) -> None:
    """Launch the kernel and compare it with its reference within its tolerance."""
    before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in values.items()}
    expected = kernel.reference(**before)
    allowed = kernel.template.tolerance(kernel.problem, before, {"y": expected})["y"]
    kernel(**values)
    for name in values.keys() - {"y"}:
        np.testing.assert_array_equal(values[name], before[name])
    assert worst_error(values["y"], expected, allowed) <= 1, (kernel, values["y"], expected)


@spread("form, dtype, index_dtype", ["csr", "ell"], ["f32", "f64", "i32", "i64"], ["i32", "i64"])
def test_every_format_and_dtype(
    form: str, dtype: str, index_dtype: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("spmv", format=form, dtype=dtype, index_dtype=index_dtype, unroll=4)
    for sizes in SIZES[form]:
        for _ in range(3):
            check_product(kernel, make_inputs(kernel, sizes, rng))


@pytest.mark.parametrize("form", ["csr", "ell"])
@pytest.mark.parametrize(("unroll", "block_dim"), [(1, 0), (1, 64), (2, 0), (8, 32), (16, 512)])
def test_schedules_change_nothing(
    form: str, unroll: int, block_dim: int, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("spmv", format=form, lanes=1, unroll=unroll, block_dim=block_dim)
    for sizes in SIZES[form]:
        check_product(kernel, make_inputs(kernel, sizes, rng))


@spread("team, form, dtype", [(2, 32), (8, 128), (32, 64)], ["csr", "ell"], ["f32", "i64"])
def test_threads_that_share_a_row(
    form: str, dtype: str, team: tuple[int, int], ti_arch: str, rng: np.random.Generator
) -> None:
    lanes, block_dim = team
    if ti_arch == "cpu":
        pytest.skip("threads on cpu share no rows")
    kernel = tikgen.build("spmv", format=form, dtype=dtype, lanes=lanes, block_dim=block_dim)
    for sizes in SIZES[form]:
        check_product(kernel, make_inputs(kernel, sizes, rng))


@spread("dtype, parts", ["f32", "f64", "i32"], [(3, 2, 64), (7, 4224, 128), (9, 2, 256)])
def test_rows_of_any_length(
    dtype: str, parts: tuple[int, int, int], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch == "cpu":
        pytest.skip("threads on cpu share no rows")
    items, blocks, block_dim = parts
    schedule = {"items": items if dtype == "f32" else 3, "blocks": blocks, "block_dim": block_dim}
    kernel = tikgen.build("spmv", dtype=dtype, split="merge", **schedule)
    long_and_empty = np.where(np.arange(701) % 100 == 50, 3001, 0)
    power_law = np.minimum(np.ceil(rng.pareto(1.1, 1009) * 3), 5000).astype(int)
    for lengths in ([0], [30011], [0] * 2999 + [5], [7] + [0] * 2999, long_and_empty, power_law):
        values = make_inputs(kernel, (len(lengths), 40, max(sum(lengths), 1)), rng)
        values["indptr"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        check_product(kernel, values)
        again = {**values, "y": (y := values["y"].copy())}
        kernel(**again)
        kernel(**values)
        assert y.tobytes() == values["y"].tobytes()  # Equal launches give equal bits.


def test_a_long_row_decides_the_schedule(ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch == "cpu":
        pytest.skip("threads on cpu share no rows")
    for lengths, split in (([7] * 50, "rows"), ([7] * 49 + [300], "merge")):
        kernel = tikgen.build("spmv", index_dtype="i64")
        values = make_inputs(kernel, (len(lengths), 11, max(sum(lengths), 1)), rng)
        values["indptr"] = np.concatenate([[0], np.cumsum(lengths)])
        check_product(kernel, values)
        assert kernel.params["split"] == split
        assert kernel.bind(**values).kernel.params["split"] == split


@pytest.mark.parametrize("arch", ["cpu", "cuda", "vulkan"])
@pytest.mark.parametrize("form", ["csr", "ell"])
def test_schedules_to_try_hold_the_default(arch: str, form: str) -> None:
    variant = tikgen.render("spmv", format=form, arch=arch).variant
    assert 20 <= valid_schedules(variant, arch) <= 300


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("form", ["csr", "ell"])
def test_beta_zero_does_not_read_y(
    form: str, dtype: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("spmv", format=form, dtype=dtype)
    values = make_inputs(kernel, SIZES[form][3], rng)
    for poison in (np.nan, np.inf):
        values |= {"beta": 0.0, "y": np.full_like(values["y"], poison)}
        check_product(kernel, values)
        assert np.isfinite(values["y"]).all()


def test_rows_without_entries_scale_y(ti_arch: str) -> None:
    kernel = tikgen.build("spmv", dtype="i32")
    data, indices = np.array([5, 7], np.int32), np.array([1, 1], np.int32)
    indptr = np.array([0, 0, 2, 2], np.int32)
    y = np.array([1, 2, 3], np.int32)
    kernel(data, indices, indptr, np.array([100, 10], np.int32), y, alpha=1, beta=-1)
    assert y.tolist() == [-1, 118, -3]


def test_padding_is_never_read(ti_arch: str) -> None:
    kernel = tikgen.build("spmv", format="ell", index_dtype="i64")
    data = np.array([[np.nan, 3.0, np.inf]], np.float32)
    # The low 32 bits of the last column are 0, a column that exists.
    indices = np.array([[-1, 1, -(2**40)]], np.int64)
    y = np.full(1, np.nan, np.float32)
    kernel(data, indices, np.array([7, 2], np.float32), y, alpha=1.0, beta=0.0)
    assert y.tolist() == [6.0]


@pytest.mark.parametrize("form", ["csr", "ell"])
def test_reference_equals_the_dense_product(form: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("spmv", format=form, dtype="i64")
    values = make_inputs(kernel, (7, 5, 9), rng) | {"alpha": 3, "beta": 0}
    dense = np.zeros((7, 5), np.int64)
    for row in range(7):
        if form == "csr":
            entries = range(*values["indptr"][row : row + 2])
            pairs = [(values["indices"][e], values["data"][e]) for e in entries]
        else:
            pairs = [
                pair
                for pair in zip(values["indices"][row], values["data"][row], strict=True)
                if pair[0] >= 0
            ]
        for column, value in pairs:
            dense[row, column] += value
    assert kernel.reference(**values).tolist() == (3 * dense @ values["x"]).tolist()


@pytest.mark.parametrize("rows", [1, 2, 64])
@pytest.mark.parametrize("nnz", [1, 67])
def test_made_up_structures_are_valid(rows: int, nnz: int, rng: np.random.Generator) -> None:
    template = tikgen.build("spmv").template
    for form in ("csr", "ell"):
        p = tikgen.build("spmv", format=form).problem
        sizes = {"rows": rows, "cols": 3, "nnz": nnz, "width": 5}
        found = template.inputs(p, sizes, rng)
        assert found["indices"].dtype == np.int32
        assert found["indices"].max() < 3
        if form == "csr":
            assert found["indices"].shape == (nnz,)
            assert found["indices"].min() >= 0
            assert found["indptr"].shape == (rows + 1,)
            assert (found["indptr"][0], found["indptr"][-1]) == (0, nnz)
            assert (np.diff(found["indptr"]) >= 0).all()
        else:
            assert found["indices"].shape == (rows, 5)


@pytest.mark.parametrize("form", ["csr", "ell"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_tolerance_is_tight(form: str, dtype: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("spmv", format=form, dtype=dtype)
    values = make_inputs(kernel, (5, 17, 30), rng) | {"alpha": 1.0, "beta": 0.5}
    values["y"] = rng.uniform(0.1, 1, 5).astype(values["y"].dtype)
    values["data"][...] = rng.uniform(0.1, 1, values["data"].shape)
    values["x"][...] = rng.uniform(0.1, 1, values["x"].shape)
    if form == "ell":
        values["indices"] = np.abs(values["indices"]) % 17
    expected = kernel.reference(**values)
    allowed = kernel.template.tolerance(kernel.problem, values, {"y": expected})["y"]
    assert (allowed < 1e-4 * np.abs(expected)).all()
    # Leaving out one entry is caught.
    last = (-1,) if form == "csr" else (-1, -1)
    row = np.searchsorted(values["indptr"], 30) - 1 if form == "csr" else -1
    data = values["data"].copy()
    data[last] = 0
    missed = kernel.reference(**(values | {"data": data}))
    assert abs(missed[row] - expected[row]) > 100 * allowed[row]
    # So is adding y twice.
    twice = kernel.reference(**(values | {"beta": 1.0}))
    assert (np.abs(twice - expected) > 100 * allowed).all()


def test_cost_counts_the_matrix_once() -> None:
    csr = tikgen.build("spmv", dtype="f64")
    cost = csr.template.cost(csr.problem, {"rows": 4, "cols": 3, "nnz": 10})
    assert (cost.bytes, cost.flops) == (10 * 12 + 5 * 4 + 11 * 8, 20 + 12)
    ell = tikgen.build("spmv", format="ell")
    cost = ell.template.cost(ell.problem, {"rows": 4, "cols": 3, "width": 2})
    assert (cost.bytes, cost.flops) == (8 * 8 + 11 * 4, 16 + 12)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"format": "coo"}, "'format' takes csr or ell"),
        ({"dtype": "u8"}, "'dtype' takes f32, f64, i32 or i64; got u8"),
        ({"index_dtype": "f32"}, "'index_dtype' takes i32 or i64; got f32"),
        ({"unroll": 5}, "'unroll' takes 1, 2, 3, 4, 6, 8, 9 or 16"),
        ({"lanes": 2, "arch": "cpu"}, "'lanes' must be 1 on cpu"),
        (
            {"lanes": 2, "block_dim": 0, "arch": "cuda"},
            "'block_dim' cannot be 0 where lanes=2",
        ),
        ({"blocks": 4224, "block_dim": 0, "arch": "cuda"}, "'blocks' must be 0 where block_dim=0"),
        ({"blocks": 4224, "block_dim": 64, "arch": "cpu"}, "'blocks' must be 0 on cpu"),
        ({"combine": "shuffle", "lanes": 1, "arch": "cuda"}, "'combine' must be 'shared' where"),
        (
            {"lanes": 4, "block_dim": 64, "combine": "shuffle", "arch": "vulkan"},
            "'combine' must be 'shared' on vulkan",
        ),
        (
            {"lanes": 4, "block_dim": 64, "combine": "shuffle", "arch": "cuda", "dtype": "f64"},
            "'combine' must be 'shared' where dtype=f64",
        ),
    ],
)
def test_bad_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.render("spmv", **{"arch": "cpu", **params})


def test_row_bounds_must_have_one_entry_more_than_y(ti_arch: str) -> None:
    kernel = tikgen.build("spmv")
    data, indices = np.ones(2, np.float32), np.zeros(2, np.int32)
    with pytest.raises(tikgen.errors.ArgumentError, match=r"'y' takes shape \(rows,\)"):
        kernel(
            data,
            indices,
            np.array([0, 1, 2], np.int32),
            np.ones(3, np.float32),
            np.ones(3, np.float32),
            1.0,
            0.0,
        )
