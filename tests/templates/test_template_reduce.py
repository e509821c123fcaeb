"""The reduce template: every op, dtype and axis, NaN and infinity, accuracy, equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from spread import spread
from tikgen import DType, Kernel
from tikgen.errors import ParameterError
from tikgen.template.schedules import fitted

OPS = ("sum", "prod", "min", "max", "mean", "norm2", "dot", "argmin", "argmax", "any", "all")
# One of each family of operations.
ONE_OF_A_KIND = ("sum", "prod", "min", "dot", "argmax", "any")
LENGTHS = (1, 2, 7, 63, 65, 1009, 4099)
# On a GPU the default has teams for millions of elements, which take long on a GPU made of a CPU.
FEW = {} if ARCH == "cpu" else {"chunks": 16}
POISON = {"f": np.nan, "i": -77, "u": 77}

pytestmark = pytest.mark.usefixtures("ti_arch")


def random_inputs(kernel: Kernel, shape: tuple[int, ...], rng: Any) -> dict[str, np.ndarray]:
    """Return fresh inputs, those that the template draws itself included."""
    sizes = {f"n{axis}": extent for axis, extent in enumerate(shape)}
    values = kernel.template.inputs(kernel.problem, sizes, rng)
    dtype = kernel.problem.dtype
    for name in kernel.signature.names[:-1]:
        if name not in values:
            drawn = rng.uniform(-1, 1, shape) if dtype.is_float else rng.integers(-9, 9, shape)
            values[name] = drawn.astype(dtype.numpy)
    return values


def launch(kernel: Kernel, **inputs: Any) -> np.ndarray:
    """Return what the kernel writes into a poisoned array."""
    x, target = inputs["x"], kernel.signature.arguments[-1]
    p = kernel.problem
    whole = p.axis is None or p.dim == 1
    shape = (1,) if whole else x.shape[: p.axis] + x.shape[p.axis + 1 :]
    out = np.full(shape, POISON[target.dtype.numpy.kind], target.dtype.numpy)
    kernel(**inputs, out=out)
    return out


def check(kernel: Kernel, rng: Any = None, shape: tuple[int, ...] = (), **inputs: Any) -> Any:
    """Launch, compare with the reference under the tolerance model, return the result."""
    inputs = inputs or random_inputs(kernel, shape, rng)
    before = {name: value.copy() for name, value in inputs.items()}
    out = launch(kernel, **inputs)
    expected = kernel.reference(**inputs)
    allowed = kernel.template.tolerance(kernel.problem, inputs, {"out": expected})["out"]
    with np.errstate(invalid="ignore"):
        error = np.abs(out.astype(expected.dtype) - expected)
    same = (out == expected) | (np.isnan(out) & np.isnan(expected))
    assert np.all(same | (error <= allowed)), (kernel.params, inputs["x"].shape, out, expected)
    for name, value in inputs.items():
        assert value.tobytes() == before[name].tobytes(), f"{name} was changed"
    return out


@spread("dtype, op", ["f32", "f64", "i32"], OPS)
def test_whole_vector(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dtype=dtype, **FEW)
    for n in LENGTHS:
        check(kernel, rng, (n,))


@spread(
    "dtype, op",
    ["i8", "i16", "i64", "u8", "u16", "u32", "u64", "f16"],
    ["sum", "max", "argmin", "all"],
)
def test_every_other_dtype(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dtype=dtype, chunks=7, unroll=2)
    for n in (1, 6, 401):
        check(kernel, rng, (n,))
    if dtype != "f16":
        limits = np.iinfo(dtype.replace("u", "uint").replace("i", "int").replace("uintnt", "uint"))
        extreme = np.array([limits.max, 1, limits.min, 0, limits.max], limits.dtype)
        check(kernel, x=extreme)


@spread("dtype, op", ["i8", "u16", "f16"], ["prod", "mean", "norm2", "dot"])
def test_small_dtypes_accumulate_widely(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dtype=dtype, unroll=1, **FEW)
    wide = {"mean": "f64", "norm2": "f64"}.get(op, "i64" if dtype == "i8" else "u64")
    assert kernel.signature.arguments[-1].dtype == ("f32" if dtype == "f16" else wide)
    for n in (1, 67, 300):
        check(kernel, rng, (n,))


@pytest.mark.parametrize(
    "op", [op if op in ONE_OF_A_KIND else pytest.param(op, marks=pytest.mark.slow) for op in OPS]
)
def test_whole_array_of_more_axes(op: str, rng: Any) -> None:
    for shape in ((1, 1), (7, 1), (1, 67), (13, 17)):
        check(tikgen.build("reduce", op=op, dim=2, chunks=5), rng, shape)
    for shape in ((1, 1, 1), (5, 1, 3), (1, 2, 67), (5, 7, 11)):
        check(tikgen.build("reduce", op=op, dim=3, chunks=13, unroll=2), rng, shape)


@spread("axis, op", [0, 1, 2], ["sum", "prod", "min", "norm2", "dot", "argmax", "any"])
def test_one_axis(op: str, axis: int, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dim=3, axis=axis, dtype="f64")
    for shape in ((1, 1, 1), (5, 7, 11), (2, 1, 13)):
        out = check(kernel, rng, shape)
        assert out.shape == shape[:axis] + shape[axis + 1 :]


def test_axis_of_fewer_axes(rng: Any) -> None:
    check(tikgen.build("reduce", op="mean", dim=2, axis=0, dtype="i32"), rng, (13, 5))
    check(tikgen.build("reduce", op="argmin", dim=2, axis=1, dtype="i16"), rng, (13, 5))
    assert check(tikgen.build("reduce", op="sum", dim=1, axis=0), rng, (13,)).shape == (1,)


@spread("accuracy, op", ["pairwise", "kahan"], ["sum", "mean", "norm2", "dot"])
def test_accuracy_on_random_data(op: str, accuracy: str, rng: Any) -> None:
    whole = tikgen.build("reduce", op=op, accuracy=accuracy, chunks=3)
    for n in (1, 2, 63, 65, 4099):
        check(whole, rng, (n,))
    for axis, shape in ((None, (3, 5, 71)), (1, (3, 200, 2))):
        kernel = tikgen.build("reduce", op=op, accuracy=accuracy, dim=3, axis=axis, dtype="f64")
        check(kernel, rng, shape)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("dtype, great", [("f32", 1e8), ("f64", 1e17)])
def test_kahan_survives_cancellation(dtype: str, great: float, axis: int | None, rng: Any) -> None:
    n = 4000
    small = rng.uniform(0, 1, n).astype(dtype.replace("f", "float"))
    exact = float(np.sum(small.astype(np.longdouble)))
    x = np.concatenate([[great], small, [-great]]).astype(small.dtype)
    x = x if axis is None else x[:, None]
    errors = {}
    for accuracy in ("fast", "kahan"):
        schedule = {"unroll": 8} | ({"chunks": 1} if axis is None else {})
        kernel = tikgen.build(
            "reduce", dim=x.ndim, axis=axis, dtype=dtype, accuracy=accuracy, **schedule
        )
        errors[accuracy] = abs(float(check(kernel, x=x)[0]) - exact)
    assert errors["kahan"] < 0.05
    assert errors["fast"] > 10 * errors["kahan"]


@spread("dtype, lines", ["f32", "f64"], [(None, (31,)), (0, (31, 2)), (1, (2, 31)), (None, (5, 7))])
def test_kahan_compensates_where_sizes_are_baked(
    dtype: str, lines: tuple[int | None, tuple[int, ...]], rng: Any
) -> None:
    axis, shape = lines
    great = 2.0 / float(np.finfo(dtype.replace("f", "float")).eps)
    x = rng.uniform(0, 1, shape).astype(dtype.replace("f", "float"))
    along = x.reshape(1, -1) if axis is None else np.moveaxis(x, axis, -1)
    along[..., 0], along[..., -1] = great, -great
    schedule = {"chunks": 1} if axis is None else {}
    kernel = tikgen.build(
        "reduce", dim=x.ndim, axis=axis, dtype=dtype, accuracy="kahan", shape=shape, **schedule
    )
    check(kernel, x=x)


def test_kahan_carries_what_chunks_lost(rng: Any) -> None:
    # Every chunk loses something of its own, and what the chunks left cancels again.
    x = rng.uniform(0, 1, 1001).astype(np.float32)
    x[[0, 300, 600, 900]] = 1e8, 3e8, -3e8, -1e8
    exact = float(np.sum(x.astype(np.float64)))
    for chunks in (1, 7, 64):
        kernel = tikgen.build("reduce", accuracy="kahan", chunks=chunks, unroll=2)
        assert abs(float(check(kernel, x=x)[0]) - exact) < 0.05


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_pairwise_error_grows_with_the_logarithm(dtype: str) -> None:
    # Adding 0.1 in order drifts: the error of one long chunk grows like n, or n**2 at worst.
    n = 60_000
    x = np.full(n, 0.1, dtype.replace("f", "float"))
    exact = float(np.sum(x.astype(np.longdouble)))
    kernel = tikgen.build("reduce", dtype=dtype, accuracy="pairwise", chunks=1, unroll=1)
    error = abs(float(check(kernel, x=x)[0]) - exact) / exact
    assert error <= (64 + np.log2(n)) * np.finfo(x.dtype).eps / 2
    # That is far below the bound for adding in order.
    assert (64 + np.log2(n)) < n / 500


@pytest.mark.parametrize("accuracy", ["fast", "pairwise", "kahan"])
@pytest.mark.parametrize("chunks", [1, 64])
def test_equal_launches_give_equal_bits(accuracy: str, chunks: int, rng: Any) -> None:
    kernel = tikgen.build("reduce", accuracy=accuracy, chunks=chunks)
    x = rng.uniform(-1, 1, 5003).astype(np.float32)
    results = {launch(kernel, x=x).tobytes() for _ in range(5)}
    assert len(results) == 1


@spread("dtype, op", ["f16", "f32", "f64"], OPS)
def test_nan_propagates(op: str, dtype: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dtype=dtype, chunks=4, unroll=2)
    for places in ((0,), (5,), (40,), (17, 18), (3, 39)):
        inputs = {
            name: np.nan_to_num(value, posinf=1, neginf=-1)
            for name, value in random_inputs(kernel, (41,), rng).items()
        }
        inputs["x"][list(places)] = np.nan
        out = check(kernel, **inputs)
        if op.startswith("arg"):
            assert out[0] == places[0]
        elif op == "any":
            assert out[0] == 1
        elif op != "all":
            assert np.isnan(out[0])
    only = {name: np.full(1, np.nan, value.dtype) for name, value in inputs.items()}
    check(kernel, **only)


@pytest.mark.parametrize("op", ["sum", "min", "max", "argmin", "argmax", "mean", "norm2", "any"])
def test_infinity(op: str, rng: Any) -> None:
    for accuracy in ("fast", "pairwise", "kahan"):
        if accuracy != "fast" and op not in ("sum", "mean", "norm2"):
            continue
        kernel = tikgen.build("reduce", op=op, accuracy=accuracy, chunks=4, unroll=1)
        for great in ([np.inf], [-np.inf], [np.inf, np.inf], [np.inf, -np.inf]):
            x = rng.uniform(-1, 1, 41).astype(np.float32)
            x[[7, 30][: len(great)]] = great
            check(kernel, x=x)
        for same in (np.inf, -np.inf):
            check(kernel, x=np.full(9, same, np.float32))


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_the_first_of_equals_counts(op: str) -> None:
    kernel = tikgen.build("reduce", op=op, chunks=4, unroll=4)
    extreme = -1.0 if op == "argmin" else 1.0
    for first, others in ((0, [1, 40]), (9, [10, 11]), (10, [11, 40]), (3, [30])):
        x = np.zeros(41, np.float32)
        x[[first, *others]] = extreme
        assert check(kernel, x=x)[0] == first
    assert check(kernel, x=np.array([0.0, -0.0, 0.0], np.float32))[0] == 0
    assert check(kernel, x=np.array([-0.0, 0.0, -0.0], np.float32))[0] == 0


@pytest.mark.parametrize("op", ["max", "argmin", "argmax"])
def test_extremes_along_an_axis(op: str, rng: Any) -> None:
    for axis in (0, 1):
        kernel = tikgen.build("reduce", op=op, dim=2, axis=axis)
        x = rng.integers(-2, 2, (37, 41)).astype(np.float32)  # Many are equal.
        x[5, 7] = x[9, 7] = x[5, 30] = np.nan
        check(kernel, x=x)
        check(kernel, x=np.full((3, 40), np.inf if op == "argmin" else -np.inf, np.float32))
        kernel = tikgen.build("reduce", op=op, dim=2, axis=axis, dtype="i32")
        limits = np.iinfo(np.int32)
        for same in (limits.min, limits.max):
            check(kernel, x=np.full((3, 40), same, np.int32))


@pytest.mark.parametrize("op", ["sum", "max", "argmax"])
def test_one_thread_does_little_arrays(op: str, ti_arch: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dim=2, shape=(7, 65))
    if ti_arch == "cpu":
        assert kernel.params["chunks"] == 1
    check(kernel, rng, (7, 65))


def test_truth_is_that_of_numpy(rng: Any) -> None:
    anything = tikgen.build("reduce", op="any", dtype="f64")
    assert check(anything, x=np.array([0.0, -0.0]))[0] == 0
    assert check(anything, x=np.array([0.0, 1e-300, 0.0]))[0] == 1
    everything = tikgen.build("reduce", op="all", dtype="u64")
    assert check(everything, x=np.array([1, 2**63, 2**32], np.uint64))[0] == 1
    assert check(everything, x=np.array([1, 0, 2**32], np.uint64))[0] == 0


def test_accumulators(rng: Any) -> None:
    x = rng.integers(-100, 100, 300).astype(np.int8)
    for accumulator in ("i32", "u32", "u64", "f32", "f64"):
        kernel = tikgen.build("reduce", dtype="i8", accumulator=accumulator, unroll=1, **FEW)
        assert check(kernel, x=x).dtype == DType(accumulator).numpy
    check(tikgen.build("reduce", op="dot", accumulator="f64"), rng, (500,))
    check(tikgen.build("reduce", op="sum", dtype="f64", accumulator="f32"), rng, (500,))
    check(tikgen.build("reduce", op="mean", dtype="u64"), x=np.array([2**63, 2**62], np.uint64))


def test_integers_wrap_around() -> None:
    kernel = tikgen.build("reduce", op="sum", dtype="i32", accumulator="i32")
    assert check(kernel, x=np.array([2**31 - 1, 1], np.int32))[0] == -(2**31)
    kernel = tikgen.build("reduce", op="prod", dtype="u8")
    assert check(kernel, x=np.full(10, 255, np.uint8))[0] == 255**10 % 2**64


@pytest.mark.parametrize("unroll, chunks, block_dim", [(1, 1, 0), (16, 1000, 32), (8, 4096, 128)])
def test_schedules(unroll: int, chunks: int, block_dim: int, rng: Any) -> None:
    for op in ("sum", "argmax"):
        kernel = tikgen.build("reduce", op=op, unroll=unroll, chunks=chunks, block_dim=block_dim)
        for n in (1, 15, 17, 4099):
            check(kernel, rng, (n,))


@spread("op, dim_and_axis", ["sum", "max", "argmin", "all"], [(2, 0), (3, 0), (3, 1)])
def test_columns_side_by_side(
    op: str, dim_and_axis: tuple[int, int], ti_arch: str, rng: Any
) -> None:
    dim, axis = dim_and_axis
    schedule = {"spread": 8} if ti_arch == "cpu" else {"team": 64}
    kernel = tikgen.build("reduce", op=op, dim=dim, axis=axis, columns=16, unroll=2, **schedule)
    for width in (1, 15, 16, 17, 40):
        check(kernel, rng, (9, 3, width)[-dim:])


@pytest.mark.parametrize("accuracy", ["fast", "pairwise", "kahan"])
def test_teams(accuracy: str, ti_arch: str, rng: Any) -> None:
    if ti_arch == "cpu":
        with pytest.raises(ParameterError, match="must be 1 on cpu"):
            tikgen.build("reduce", team=64)
        return
    for problem in ({"dim": 1}, {"dim": 2, "linear": True}, {"dim": 2, "axis": 1}):
        parts = {} if "axis" in problem else {"chunks": 7, "grain": 1}
        kernel = tikgen.build("reduce", accuracy=accuracy, team=64, **parts, **problem)
        for n in (1, 63, 65, 1009):
            check(kernel, rng, (n,) if problem["dim"] == 1 else (3, n))


@spread(
    "accuracy, team",
    ["fast", "pairwise", "kahan"],
    [(4, 1), (16, 1), (32, 1), (64, 2), (64, 8), (64, 512)],
)
def test_teams_of_lines(accuracy: str, team: tuple[int, int], ti_arch: str, rng: Any) -> None:
    if ti_arch == "cpu":
        pytest.skip("there are no teams on cpu")
    schedule = dict(zip(("team", "parts"), team, strict=True))
    kernel = tikgen.build("reduce", dim=2, axis=1, accuracy=accuracy, **schedule)
    for shape in ((1, 1), (1, 4099), (3, 63), (33, 5), (129, 17)):
        check(kernel, rng, shape)


@spread(
    "op, dim_and_axis, columns, parts",
    ["sum", "prod", "min", "argmax", "all", "mean"],
    [(2, 0), (3, 0), (3, 1)],
    [4, 8, 32],
    [1, 2, 64],
)
def test_parts_of_columns(
    op: str, dim_and_axis: tuple[int, int], columns: int, parts: int, ti_arch: str, rng: Any
) -> None:
    if ti_arch == "cpu":
        pytest.skip("there are no teams on cpu")
    dim, axis = dim_and_axis
    schedule = {"team": 64, "columns": columns, "parts": parts}
    kernel = tikgen.build("reduce", op=op, dim=dim, axis=axis, **schedule)
    for shape in ((1, 1, 1), (5, 301, 3), (211, 2, 9)):
        check(kernel, rng, shape[-dim:])


@pytest.mark.parametrize("arch", ["cuda", "vulkan"])
def test_few_long_lines_are_divided_and_short_ones_share_a_block(arch: str) -> None:
    def taken(shape: tuple[int, int], axis: int) -> dict[str, Any]:
        found = tikgen.render("reduce", dim=2, axis=axis, arch=arch, shape=shape).variant.schedule
        return {name: value for name, value in found if name in ("team", "columns", "parts")}

    assert taken((17_000_000, 3), 0) == {"team": 512, "columns": 4, "parts": 512}
    assert taken((3, 17_000_000), 1)["parts"] == 512
    assert taken((8192, 8192), 1) == {"team": 128, "columns": 0, "parts": 1}
    assert taken((1_000_000, 3), 1) == {"team": 1, "columns": 0, "parts": 1}
    assert taken((1_000_000, 60), 1)["team"] == 8


@pytest.mark.parametrize("op", ["sum", "argmax", "any"])
@pytest.mark.parametrize("linear", [False, True])
def test_linear_walk(op: str, linear: bool, rng: Any) -> None:
    for shape in ((5, 7), (3, 1, 71)):
        kernel = tikgen.build(
            "reduce", op=op, dim=len(shape), linear=linear, team=1, chunks=7, grain=1
        )
        check(kernel, rng, shape)


@pytest.mark.parametrize("op, order", [("min", -1), ("max", 1)])
def test_both_zeros_are_alike(op: str, order: int) -> None:
    kernel = tikgen.build("reduce", op=op)
    assert check(kernel, x=np.array([-0.0, -0.0], np.float32))[0] == 0
    tiny = np.float32(1e-45 * order)
    assert check(kernel, x=np.array([0.0, tiny, -0.0], np.float32))[0] == tiny


@pytest.mark.parametrize(
    "params, problem",
    [
        (
            {"linear": True},
            "must be False where dim=1; it matters only where axis=None and dim=2 or 3",
        ),
        ({"columns": 16}, "must be 0 where axis=None and dim=1; it matters only where axis=0"),
        ({"spread": 8}, "must be 1 where axis=None and dim=1"),
        ({"axis": 1}, "cannot be 1 where dim=1; it works only where dim=2 or 3"),
        (
            {"op": "max", "accuracy": "kahan"},
            "must be 'fast' where op='max'; it matters only where op='sum'",
        ),
        ({"op": "prod", "accuracy": "pairwise"}, "must be 'fast' where op='prod'"),
        ({"dtype": "i32", "accuracy": "kahan"}, "must be 'fast' but for a float accumulator"),
        ({"op": "any", "accumulator": "i32"}, "must be None where op='any'"),
        ({"accumulator": "i64"}, "takes f32 or f64 for op='sum' on f32; got i64"),
        ({"op": "mean", "dtype": "i32", "accumulator": "i64"}, "takes f32 or f64 for op='mean'"),
        ({"accumulator": "f16"}, "takes i32, i64, u32, u64, f32 or f64; got f16"),
        ({"chunks": 0}, "from 1 to 16384; got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match="reduce") as caught:
        tikgen.build("reduce", **params)
    assert problem in str(caught.value)


def test_cost_counts_what_is_read_and_written() -> None:
    kernel = tikgen.build("reduce", op="dot", dim=2, axis=1, dtype="f64")
    cost = kernel.template.cost(kernel.problem, {"n0": 10, "n1": 100})
    assert (cost.bytes, cost.flops) == (2 * 1000 * 8 + 10 * 8, 2000)


def test_drawn_parameters_are_repaired() -> None:
    template = tikgen.build("reduce").template
    drawn = {"op": "max", "dim": 1, "axis": 2, "dtype": "i8", "accumulator": "f32"}
    fixed = fitted(template, {**drawn, "accuracy": "kahan"}, "cpu")
    # What does not apply is left out, and an axis that is missing gives way to one that exists.
    assert fixed == {"op": "max", "dim": 1, "axis": 0, "dtype": "i8"}
    tikgen.build("reduce", **fixed)


@spread("axis, dtype", [None, 0, 1], ["f16", "f32", "f64"])
def test_a_product_with_a_0_is_0_in_whatever_order(
    dtype: str, axis: int | None, ti_arch: str
) -> None:
    numpy = np.dtype(dtype.replace("f", "float"))
    x = np.full((70, 70), np.finfo(numpy).max / 2, numpy)
    np.fill_diagonal(x, 0)
    kernel = tikgen.build("reduce", op="prod", dim=2, axis=axis, dtype=dtype)
    out = np.zeros((1,) if axis is None else (70,), np.result_type(numpy, np.float32))
    kernel(x, out)
    assert (out == 0).all()
    x[3, 4] = np.inf
    kernel(x, out)
    assert np.isnan(out).any()


def test_a_factor_beyond_the_accumulator_leaves_a_product_with_a_0_open() -> None:
    """Verification met 1e308 and 0 with an accumulator of f32: infinity times 0."""
    kernel = tikgen.build("reduce", op="prod", dim=1, dtype="f64", accumulator="f32")
    for factor in (1e30, 1e308):
        given, exact = {"x": np.array([0.0, factor])}, {"out": np.zeros(1)}
        allowed = kernel.template.tolerance(kernel.problem, given, exact)["out"]
        assert np.isinf(allowed) == (factor == 1e308)


@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_what_another_line_holds_decides(dtype: str, rng: Any) -> None:
    """A line that begins with an element of another one is wrong for drawn data."""
    kernel = tikgen.build("reduce", op="min", dim=2, axis=0, dtype=dtype)
    shown = 0
    for _ in range(300):
        given = kernel.template.inputs(kernel.problem, {"n0": 17, "n1": 3}, rng)
        x = np.nan_to_num(given.get("x", np.zeros((17, 3))).astype(float))
        shown += bool((x[:, 1:] < x.min(axis=0)[:-1]).any())
    assert shown > 3


def test_drawn_extremes_have_all_digits_and_both_signs(rng: Any) -> None:
    kernel = tikgen.build("reduce", op="max", dim=1, dtype="f64")
    best = [
        x.max()
        for _ in range(400)
        if (x := kernel.template.inputs(kernel.problem, {"n0": 9}, rng).get("x")) is not None
        and np.isfinite(x).all()
        and np.ptp(x) > 0
    ]
    for sign in (-1, 1):
        assert any(sign * value > 2 and value.view(np.int64) & 1 for value in best), best


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16"])
def test_drawn_dots_of_small_integers_need_more_than_32_bits(dtype: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op="dot", dtype=dtype)
    drawn = kernel.template.inputs(kernel.problem, {"n0": 262_139}, rng)
    total = int(np.dot(drawn["x"].astype(np.int64), drawn["y"].astype(np.int64)))
    assert total > 2**31
