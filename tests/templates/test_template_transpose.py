"""The transpose template against NumPy: permutations, dtypes, schedules, awkward sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.dtypes import ALL_DTYPES
from tikgen.errors import ParameterError

PERMUTATIONS = [perm for dim in (1, 2, 3, 4) for perm in itertools.permutations(range(dim))]
SHAPES = {
    1: [(1,), (37,)],
    2: [(1, 1), (1, 19), (17, 33), (40, 65)],
    3: [(1, 1, 1), (5, 9, 17), (18, 3, 35)],
    4: [(1, 1, 1, 1), (3, 2, 5, 7), (2, 9, 1, 17)],
}


def bits(dtype: tikgen.DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return an array of random bit patterns, NaNs and infinities among the floats."""
    count = int(np.prod(shape)) * dtype.bits // 8
    return rng.integers(0, 256, count, dtype=np.uint8).view(dtype.numpy).reshape(shape)


def check_copy(kernel: tikgen.Kernel, x: np.ndarray) -> None:
    """Launch the kernel and compare every bit."""
    before = x.copy()
    y = np.zeros([x.shape[axis] for axis in kernel.params["perm"]], x.dtype)
    y.view(np.uint8)[...] = 0xA5
    kernel(x, y)
    unsigned = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(x.view(unsigned), before.view(unsigned))
    expected = np.asarray(kernel.reference(x, y))
    np.testing.assert_array_equal(y.view(unsigned), expected.view(unsigned))
    moved = x.view(unsigned).transpose(kernel.params["perm"])
    np.testing.assert_array_equal(y.view(unsigned), moved)


@pytest.mark.parametrize("perm", PERMUTATIONS, ids=str)
def test_every_permutation(perm: tuple[int, ...], ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("transpose", perm=perm, dtype="i32")
    for shape in SHAPES[len(perm)]:
        check_copy(kernel, rng.integers(-(2**31), 2**31, shape, dtype=np.int32))


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_every_dtype_keeps_every_bit(name: str, ti_arch: str, rng: np.random.Generator) -> None:
    dtype = tikgen.DType(name)
    x = bits(dtype, (19, 35), rng)
    if dtype.is_float:  # A signalling NaN may come back quiet.
        x = np.where(np.isnan(x), dtype.numpy.type(np.inf), x)
    check_copy(tikgen.build("transpose", dtype=name), x)


@pytest.mark.parametrize(
    "schedule",
    [
        {"loop": "points", "unroll": 1},
        {"loop": "points", "unroll": 1, "block_dim": 64},
        {"loop": "rows", "unroll": 1},
        {"loop": "rows", "unroll": 8, "block_dim": 32},
        {"loop": "strips", "tile": 16, "unroll": 1},
        {"loop": "strips", "tile": 64, "unroll": 8},
        {"loop": "tiles", "tile": 16, "block_dim": 64},
        {"loop": "tiles", "tile": 32, "block_dim": 512},
    ],
    ids=str,
)
@pytest.mark.parametrize("perm", [(1, 0), (2, 0, 1), (3, 1, 0, 2)], ids=str)
def test_schedules_change_nothing(
    perm: tuple[int, ...],
    schedule: dict[str, Any],
    ti_arch: str,
    rng: np.random.Generator,
) -> None:
    if schedule["loop"] == "tiles" and ti_arch == "cpu":
        pytest.skip("threads share no memory there")
    kernel = tikgen.build("transpose", perm=perm, dtype="f32", schedule={"tile": 0} | schedule)
    for shape in SHAPES[len(perm)]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("perm", [(0, 1, 2), (1, 0, 2), (1, 0, 2, 3), (2, 0, 1, 3)], ids=str)
def test_rows_that_stay_rows(
    perm: tuple[int, ...], serial: bool, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("real functions belong to cpu")
    schedule = {"loop": "flat", "serial": serial} | ({} if serial else {"chunk": 256})
    kernel = tikgen.build("transpose", perm=perm, schedule=schedule)
    # Rows that end in chunks and chunks that end in rows, single elements, and long rows.
    long = {3: [(3, 2, 1_013), (40, 31, 3)], 4: [(3, 5, 2, 300), (7, 9, 11, 1)]}[len(perm)]
    for shape in [*SHAPES[len(perm)], *long]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


def test_strips_by_one_thread(ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("a GPU has no loop of one thread")
    kernel = tikgen.build("transpose", schedule={"loop": "strips", "tile": 64, "serial": True})
    for shape in SHAPES[2]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


def test_a_schedule_that_does_not_fit_the_permutation_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"perm=\(1, 0\) moves the last axis"):
        tikgen.render("transpose", arch="cpu", schedule={"loop": "flat"})
    with pytest.raises(ParameterError, match="must be rows, points or flat"):
        tikgen.render(
            "transpose", arch="cpu", perm=(1, 0, 2), schedule={"loop": "strips", "tile": 64}
        )


def test_defaults_follow_the_sizes_and_lie_within_the_space() -> None:
    template = tikgen.build("transpose").template
    for arch, perm in itertools.product(("cpu", "cuda", "vulkan"), PERMUTATIONS):
        problem = template.Problem(perm=perm)
        space = template.schedule_space(problem, arch, None)
        for edge in (None, 1, 10, 100):
            sizes = None if edge is None else dict.fromkeys(template.size_symbols(problem), edge)
            found = template.default_schedule(problem, arch, sizes)
            template.check_schedule(problem, template.Schedule(**found), arch)
            assert all(found[name] in space[name] for name in found.keys() & space.keys())
    length = {
        n: template.default_schedule(template.Problem(), "cpu", {"n0": n, "n1": n})["tile"]
        for n in (100, 4096)
    }
    assert length == {100: 64, 4096: 512}


def test_defaults_of_every_arch_render() -> None:
    for arch, perm in itertools.product(("cpu", "cuda", "vulkan"), PERMUTATIONS):
        assert "ti.kernel" in tikgen.render("transpose", perm=perm, arch=arch).text


def test_no_error_is_tolerated() -> None:
    kernel = tikgen.build("transpose", dtype="f16")
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    allowed = kernel.template.tolerance(kernel.problem, {"x": x}, {"y": kernel.reference(x)})
    assert allowed == {"y": 0}


def test_cost_counts_one_read_and_one_write() -> None:
    kernel = tikgen.build("transpose", perm=(2, 0, 1), dtype="f64")
    cost = kernel.template.cost(kernel.problem, {"n0": 2, "n1": 3, "n2": 5})
    assert (cost.bytes, cost.flops) == (2 * 30 * 8, 0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"perm": (0, 0)}, "takes each of 0, 1, ... once"),
        ({"perm": (1, 2)}, r"got \(1, 2\)"),
        ({"perm": ()}, "up to 4 of them"),
        ({"perm": (0, 1, 2, 3, 4)}, "up to 4 of them"),
        ({"perm": "10"}, "takes a tuple of an integer"),
        ({"perm": (1, 0.5)}, "takes a tuple of an integer"),
        ({"perm": (0, 1), "loop": "strips", "tile": 64}, "perm=.0, 1. keeps the last axis last"),
        ({"loop": "points", "unroll": 4}, "'unroll' must be 1 where loop='points'"),
        ({"loop": "rows", "tile": 64}, "'tile' must be 0 where loop='rows'"),
        ({"loop": "strips", "tile": 0}, "'tile' cannot be 0 where loop='strips'"),
        (
            {"loop": "tiles", "arch": "cpu", "tile": 32},
            "cannot be 'tiles' on cpu; it works only on cuda or vulkan",
        ),
        ({"loop": "tiles", "arch": "cuda", "tile": 64, "block_dim": 32}, "from 64 to 4096"),
        (
            {"loop": "tiles", "arch": "cuda", "tile": 64, "block_dim": 64, "dtype": "f64"},
            "more than 32768 bytes",
        ),
    ],
)
def test_bad_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.build("transpose", **params)


def test_shapes_must_agree(ti_arch: str) -> None:
    kernel = tikgen.build("transpose", perm=(2, 0, 1))
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(tikgen.errors.ArgumentError, match=r"'y' takes shape \(n2, n0, n1\)"):
        kernel(x, np.zeros((2, 3, 4), np.float32))
