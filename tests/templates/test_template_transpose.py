"""The transpose template against NumPy: permutations, dtypes, schedules, awkward sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.dtypes import ALL_DTYPES
from tikgen.errors import ParameterError

PERMUTATIONS = [perm for dim in (1, 2, 3, 4) for perm in itertools.permutations(range(dim))]
# Of four axes, those permutations that leave none in its place.
SPREAD = [p for p in PERMUTATIONS if len(p) < 4 or all(i != axis for i, axis in enumerate(p))]
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


@pytest.mark.parametrize(
    "perm",
    [pytest.param(perm, marks=[] if perm in SPREAD else pytest.mark.slow) for perm in PERMUTATIONS],
    ids=str,
)
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
        {"loop": "points", "unroll": 4, "block_dim": 64},
        {"loop": "points", "unroll": 2, "lanes": 0, "block_dim": 32},
        {"loop": "rows", "unroll": 1},
        {"loop": "rows", "unroll": 8, "block_dim": 32},
        {"loop": "strips", "tile": 16, "unroll": 1},
        {"loop": "strips", "tile": 64, "unroll": 8},
        {"loop": "strips", "tile": 64, "unroll": 3, "rows": 4},
        {"loop": "strips", "tile": 64, "unroll": 8, "rows": 8, "serial": True},
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
    if schedule["loop"] == "strips" and ti_arch != "cpu":
        pytest.skip("a GPU has no real functions for strips")
    kernel = tikgen.build("transpose", perm=perm, dtype="f32", schedule={"tile": 0} | schedule)
    for shape in SHAPES[len(perm)]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize(
    "perm", [(0, 1, 2), (1, 0, 2), (1, 0, 2, 3), (2, 0, 1, 3), (2, 0, 1), (3, 1, 0, 2)], ids=str
)
def test_rows_that_stay_rows(
    perm: tuple[int, ...], serial: bool, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("real functions belong to cpu")
    schedule = {"loop": "flat", "serial": serial} | ({} if serial else {"chunk": 256})
    kernel = tikgen.build("transpose", perm=perm, schedule=schedule)
    # Rows that end in chunks and chunks that end in rows, single elements, and long rows.
    long = {
        3: [(3, 2, 1_013), (40, 31, 3), (9, 14, 5), (6, 5, 11), (7, 4, 45)],
        4: [(3, 5, 2, 300), (7, 9, 11, 1), (2, 7, 3, 9), (3, 2, 5, 64)],
    }[len(perm)]
    # Swapped for nothing, and nearly so.
    long += {3: [(1, 999, 1), (1, 37, 2)], 4: [(1, 1, 1, 999), (1, 1, 2, 99)]}[len(perm)]
    for shape in [*SHAPES[len(perm)], *long]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


def test_strips_by_one_thread(ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("a GPU has no loop of one thread")
    kernel = tikgen.build("transpose", schedule={"loop": "strips", "tile": 64, "serial": True})
    for shape in SHAPES[2]:
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


def test_a_schedule_that_does_not_fit_the_permutation_is_refused() -> None:
    strips = {"loop": "strips", "tile": 64, "unroll": 2}
    for perm, more, message in (
        ((1, 0, 2), {}, "must be apart from column"),
        ((1, 0), {"row": 1}, "must be apart from column"),
        ((1, 0), {"row": 0}, r"'row' must be one of \[1\], or -1"),
        ((2, 1, 0), {"column": 1, "unroll": 1}, "'column' must be -1 where unroll=1"),
        # Axes 0 and 1 of y stay neighbours, and count as one.
        ((1, 2, 0), {"row": 0}, r"'row' must be one of \[2\], or -1"),
        ((1, 2, 0), {"column": 1}, "must be apart from column"),
        ((1, 0), {"row": 2}, r"'row' must be one of \[1\], or -1 where perm=\(1, 0\); got 2"),
        ((0, 1), {"column": 1}, r"'column' must be -1"),
    ):
        with pytest.raises(ParameterError, match=message):
            tikgen.render("transpose", arch="cpu", perm=perm, schedule=strips | more)
    assert "j_extent" in tikgen.render("transpose", perm=(1, 2, 0), schedule=strips).text


@pytest.mark.parametrize(
    "perm",
    [
        *((1, 0), (1, 2, 0), (2, 3, 0, 1)),
        *(pytest.param(p, marks=pytest.mark.slow) for p in ((2, 1, 0), (0, 2, 1), (3, 2, 1, 0))),
    ],
    ids=str,
)
def test_any_two_axes_make_strips_and_tiles(
    perm: tuple[int, ...], ti_arch: str, rng: np.random.Generator
) -> None:
    strips = {"loop": "strips", "tile": 64, "unroll": 4, "rows": 2}
    schedule = strips if ti_arch == "cpu" else {"loop": "tiles", "tile": 16, "block_dim": 64}
    for row, column in itertools.product(range(-1, len(perm)), repeat=2):
        try:
            more = {"row": row, "column": column}
            kernel = tikgen.build("transpose", perm=perm, schedule=schedule | more)
        except ParameterError as error:
            assert "must be" in str(error)
            continue
        for shape in SHAPES[len(perm)][:3]:
            check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


@pytest.mark.parametrize(
    "perm",
    [
        pytest.param(perm, marks=[] if perm in SPREAD[::2] else pytest.mark.slow)
        for perm in PERMUTATIONS
    ],
    ids=str,
)
def test_extents_of_one_do_not_count(
    perm: tuple[int, ...], ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("transpose", perm=perm)
    for _ in range(3):
        shape = tuple(int(n) for n in rng.choice([1, 1, 2, 5, 40], len(perm)))
        check_copy(kernel, rng.uniform(-1, 1, shape).astype(np.float32))


def test_the_schedule_follows_extents_of_one() -> None:
    template = tikgen.build("transpose").template

    def chosen(arch: str, perm: tuple[int, ...], *shape: int) -> Mapping[str, Any]:
        sizes = {f"n{axis}": extent for axis, extent in enumerate(shape)}
        return template.default_schedule(template.Problem(perm=perm), arch, sizes)

    assert chosen("cpu", (1, 0), 1, 122_689)["loop"] == "flat"
    assert chosen("cpu", (0, 2, 1, 3), 40, 1, 5000, 1)["loop"] == "flat"
    assert chosen("cuda", (1, 0), 1, 122_689)["loop"] == "points"
    assert chosen("cpu", (1, 0, 3, 2), 20, 10, 30, 1)["loop"] == "rows"
    # There is nothing below an element: threads take others along the longest axis.
    assert chosen("cuda", (2, 1, 0), 10_553_056, 1, 1)["lanes"] == 2
    assert chosen("cuda", (2, 0, 1), 3, 23_314_239, 1)["lanes"] == 2
    assert chosen("cuda", (2, 1, 0), 1, 1, 10_553_056)["lanes"] == 0
    assert chosen("cuda", (1, 0), 1, 10_553_056)["lanes"] == 0
    assert "lanes" not in chosen("cuda", (1, 0, 2), 1000, 100, 100)
    assert chosen("cuda", (0, 2, 1), 2000, 1, 2000) == {"loop": "points", "block_dim": 128}
    # Two columns, or rows: a thread takes several elements.
    assert chosen("cuda", (1, 0), 3_028_992, 2)["unroll"] == 4
    assert chosen("cuda", (0, 2, 1), 20, 2, 151_450)["unroll"] == 4
    assert chosen("cuda", (1, 0), 300, 2) == {"loop": "points", "block_dim": 128}
    for arch in ("cpu", "cuda"):
        # The last axis stays, and has one element.
        found = chosen(arch, (0, 2, 1, 3), 10, 1488, 190, 1)
        assert (found["loop"], found["row"], found["column"]) == (
            *("strips" if arch == "cpu" else "tiles", 1, 2),
        ), found
    narrow = chosen("cpu", (1, 0), 30_000, 3)
    assert (narrow["row"], narrow["column"], narrow["unroll"]) == (1, 0, 3)


def test_blocks_of_a_cpu_fit_short_axes() -> None:
    template = tikgen.build("transpose").template

    def block(*shape: int) -> tuple[int, int]:
        sizes = {f"n{axis}": extent for axis, extent in enumerate(shape)}
        found = template.default_schedule(template.Problem(perm=(1, 0)), "cpu", sizes)
        return found["rows"], found["unroll"]

    assert block(100, 512) == (8, 8)
    assert block(19, 23) == (8, 7)
    assert block(11, 17) == (6, 6)
    assert block(2, 2) == (2, 2)
    assert block(5000, 5000) == (2, 8)
    assert block(13, 5_000_000) == (8, 7)


def test_defaults_follow_the_sizes_and_lie_within_the_space() -> None:
    template = tikgen.build("transpose").template
    for arch, perm in itertools.product(("cpu", "cuda", "vulkan"), PERMUTATIONS):
        problem = template.Problem(perm=perm)
        for edge in (None, 1, 10, 100):
            sizes = None if edge is None else dict.fromkeys(template.size_symbols(problem), edge)
            space = template.schedule_space(problem, arch, sizes)
            found = template.default_schedule(problem, arch, sizes)
            template.check_schedule(problem, template.Schedule(**found), arch)
            assert all(found[name] in space[name] for name in found.keys() & space.keys())


def test_threads_that_share_a_loop_evenly_take_long_pieces() -> None:
    template = tikgen.build("transpose").template

    def lengths(perm: tuple[int, ...], name: str, *extents: int) -> list[tuple[int, int]]:
        problem = template.Problem(perm=perm)
        known = [dict.fromkeys(template.size_symbols(problem), n) for n in extents]
        choices = (template.default_schedule, template.direct_schedule)
        return [tuple(choose(problem, "cpu", n).get(name, 0) for choose in choices) for n in known]

    assert lengths((1, 0), "tile", 100, 600, 4096) == [(512, 512), (64, 512), (512, 512)]
    assert lengths((1, 0), "serial", 128, 129, 512, 513) == [(1, 1), (1, 0), (1, 0), (0, 0)]
    assert lengths((1, 0, 2), "chunk", 50, 90, 300) == [(0, 1024), (256, 8192), (4096, 16384)]


@pytest.mark.parametrize("arch", ["cuda", "vulkan"])
def test_few_rows_or_columns_leave_no_threads_of_a_tile_idle(arch: str) -> None:
    template = tikgen.build("transpose").template
    for perm, shape, loop in (
        ((2, 1, 0), (9, 4, 99), "tiles"),
        ((2, 1, 0), (4, 9, 99), "points"),
        ((1, 0), (99, 3), "points"),
        # Two axes that stay neighbours are not thin together.
        ((2, 0, 1), (9, 4, 99), "tiles"),
        ((2, 0, 1), (9, 99, 1), "points"),
    ):
        sizes = {f"n{axis}": extent for axis, extent in enumerate(shape)}
        assert template.default_schedule(template.Problem(perm=perm), arch, sizes)["loop"] == loop


def test_tiles_fit_the_extents() -> None:
    template = tikgen.build("transpose").template

    def tiles(dtype: str, *shape: int) -> tuple[int, int]:
        sizes = {f"n{axis}": extent for axis, extent in enumerate(shape)}
        problem = template.Problem(perm=(1, 0), dtype=dtype)
        found = template.default_schedule(problem, "cuda", sizes)
        return found["tile"], found["block_dim"]

    assert tiles("f32", 4096, 5000) == tiles("f32", 8191, 8193) == (64, 512)
    assert tiles("f32", 54, 71) == tiles("f16", 20, 2000) == (32, 128)
    assert tiles("u8", 4096, 5000) == (64, 256)
    assert tiles("f64", 4096, 5000) == tiles("f64", 54, 71) == (32, 256)


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
        ({"perm": (0, 1), "loop": "strips", "tile": 64}, "'row' must be apart from column"),
        ({"loop": "flat", "unroll": 4}, "'unroll' must be 1 where loop='flat'"),
        (
            {"loop": "points", "perm": (2, 0, 1), "unroll": 2, "lanes": 1},
            r"'lanes' must be one of \[0, 2\], or -1 where perm=\(2, 0, 1\); got 1",
        ),
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
