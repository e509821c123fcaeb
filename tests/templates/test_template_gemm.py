"""The gemm template against NumPy: layouts, dtypes, schedules, remainders, epilogues."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest

import tikgen
from spread import spread
from tikgen import Invalid
from tikgen.errors import ParameterError
from tikgen.machine import devices
from tikgen.pipeline.comparison import worst_error

# (m, n, k): ones, primes, and multiples of no tile and no unroll.
SIZES = [(1, 1, 1), (1, 7, 3), (13, 1, 5), (4, 8, 16), (17, 11, 19), (9, 23, 1)]


def draw(kernel: tikgen.Kernel, sizes: tuple[int, int, int], rng: np.random.Generator) -> Any:
    """Return random a, b and c of the right shapes."""
    m, n, k = sizes
    p = kernel.problem
    shapes = [(m, k) if p.layout[0] == "n" else (k, m), (k, n) if p.layout[1] == "n" else (n, k)]
    return [random_array(p.dtype, shape, rng) for shape in [*shapes, (m, n)]]


def random_array(
    dtype: tikgen.DType, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    if dtype.is_float:
        return rng.uniform(-1, 1, shape).astype(dtype.numpy)
    return rng.integers(-99, 99, shape).astype(dtype.numpy)


def check_product(kernel: tikgen.Kernel, arrays: Any, alpha: Any, beta: Any) -> None:
    """Launch the kernel and compare it with its reference within its tolerance."""
    a, b, c = arrays
    expected = kernel.reference(a, b, c, alpha, beta)
    inputs = {"a": a, "b": b, "c": c.copy(), "alpha": alpha, "beta": beta}
    allowed = kernel.template.tolerance(kernel.problem, inputs, {"c": expected})["c"]
    before = a.copy(), b.copy()
    kernel(a, b, c, alpha, beta)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])
    assert worst_error(c, expected, allowed) <= 1, (kernel, c, expected)


@spread("layout, dtype", ["nn", "nt", "tn", "tt"], ["f32", "f64", "i32"])
def test_every_layout_and_dtype(
    layout: str, dtype: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("gemm", layout=layout, dtype=dtype, tile_m=2, tile_n=4, unroll=2)
    one = 1 if dtype == "i32" else 1.0
    for sizes in SIZES:
        check_product(kernel, draw(kernel, sizes, rng), one * 3, one * -2)


ARRAYS = [
    {"via": "arrays", "tile_m": 1, "tile_n": 1, "unroll": 8},
    {"via": "arrays", "tile_m": 4, "tile_n": 1, "unroll": 4},
    {"via": "arrays", "tile_m": 1, "tile_n": 8, "unroll": 2, "block_dim": 32},
    {"via": "arrays", "tile_m": 8, "tile_n": 4, "unroll": 1},
]
PANELS = [
    {"tile_m": 1, "tile_n": 16, "unroll": 1},
    {"tile_m": 2, "tile_n": 32, "unroll": 8, "block_dim": 32},
    {"tile_m": 8, "tile_n": 64, "unroll": 4},
]
SHARED = [
    {"tile_m": 4, "tile_n": 4, "block_m": 32, "block_n": 32, "block_k": 8},
    {"tile_m": 4, "tile_n": 8, "block_m": 64, "block_n": 32, "block_k": 16, "strip": 4},
    {"tile_m": 8, "tile_n": 4, "block_m": 32, "block_n": 64, "block_k": 8, "strip": 2, "unroll": 2},
]


# A schedule for each layout; "make verify" has all of them for one.
IN_ORDER = {"nn": 0, "nt": 1, "tt": 2, "tn": len(PANELS) + len(ARRAYS) - 1}


@pytest.mark.parametrize(
    ("layout", "number"),
    [
        *IN_ORDER.items(),
        *(
            pytest.param("nt", number, marks=pytest.mark.slow)
            for number in range(len(PANELS) + len(ARRAYS))
        ),
    ],
)
def test_schedules_change_nothing(
    layout: str, number: int, ti_arch: str, rng: np.random.Generator
) -> None:
    via, own = ("panels", PANELS) if ti_arch == "cpu" else ("shared", SHARED)
    schedule = {"via": via} | [*own, *ARRAYS][number]
    kernel = tikgen.build("gemm", layout=layout, schedule=schedule)
    # The last one is wider, taller and deeper than any block.
    for sizes in [*SIZES, (69, 133, 37)]:
        check_product(kernel, draw(kernel, sizes, rng), 0.7, 1.3)


IN_PLACE = [
    ("nn", {"via": "rows", "tile_m": 1, "tile_n": 256, "unroll": 8, "split_k": 4}),
    ("nn", {"via": "dots", "tile_m": 4, "tile_n": 1, "iterations": 8}),
    ("nt", {"via": "dots", "tile_m": 2, "tile_n": 4, "split_k": 2, "iterations": 8}),
    ("tt", {"via": "dots", "tile_m": 1, "tile_n": 8, "serial": True}),
    ("tt", {"via": "rows", "vectors_of": "a", "tile_m": 2, "tile_n": 16, "unroll": 4}),
    ("tn", {"via": "rows", "vectors_of": "a", "tile_n": 8, "unroll": 2, "split_k": 8}),
    ("tn", {"via": "rows", "tile_m": 8, "tile_n": 8, "serial": True}),
    ("tn", {"via": "panels", "tile_n": 8, "split_k": 2, "iterations": 8}),
]


@pytest.mark.parametrize(("layout", "schedule"), IN_PLACE)
def test_operands_are_read_where_they_lie(
    layout: str, schedule: dict[str, Any], ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch != "cpu":
        pytest.skip("a GPU has no registers indexed at run time")
    dtype = rng.choice(["f32", "f64", "i32"])
    kernel = tikgen.build("gemm", layout=layout, dtype=dtype, schedule=schedule)
    for sizes in [*SIZES, (3, 300, 37), (290, 2, 67)]:
        check_product(kernel, draw(kernel, sizes, rng), 3, -2)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_default_schedule(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    # The kernel may be that of another test, whose last call chose another schedule.
    schedule = tikgen.render("gemm", dtype=dtype, arch=ti_arch).variant.schedule
    assert schedule.via == ("panels" if ti_arch == "cpu" else "shared")
    kernel = tikgen.build("gemm", dtype=dtype)
    for sizes in [(1, 1, 1), (67, 129, 19)]:
        check_product(kernel, draw(kernel, sizes, rng), 3, -2)


@pytest.mark.some
@pytest.mark.parametrize("arch", ["cpu", "cuda", "vulkan"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    "sizes",
    [
        None,
        *(dict.fromkeys("mnk", size) for size in (16, 512, 4096)),
        *(
            dict(zip("mnk", each, strict=True))
            for each in (
                (1, 1, 10),
                (1000, 1, 100),
                (1000, 1, 1000),
                (1, 4096, 4096),
                (1000, 6, 50),
                (6, 1000, 90_000),
                (3, 2, 900_000),
                (20, 30, 40_000),
            )
        ),
    ],
    ids=str,
)
def test_the_default_is_in_a_space_worth_searching(
    arch: str, dtype: str, sizes: dict[str, int] | None
) -> None:
    template = tikgen.render("gemm").variant.template
    p = template.Problem(dtype=dtype)
    space = template.schedule_space(p, arch, sizes)
    valid = []
    for values in itertools.product(*space.values()):
        schedule = template.Schedule(**dict(zip(space, values, strict=True)))
        with contextlib.suppress(Invalid):
            template.check_schedule(p, schedule, arch)
            valid.append(schedule)
    assert template.Schedule(**template.default_schedule(p, arch, sizes)) in valid
    assert 20 <= len(valid) <= 300


def schedule_for(m: int, n: int, k: int, arch: str = "cpu", **problem: Any) -> Any:
    template = tikgen.render("gemm").variant.template
    p = template.Problem(**problem)
    return template.Schedule(**template.default_schedule(p, arch, {"m": m, "n": n, "k": k}))


@pytest.mark.parametrize(
    ("sizes", "layout", "expected"),
    [
        ((1, 1024, 1024), "nn", {"via": "rows", "vectors_of": "b", "tile_m": 1, "tile_n": 256}),
        ((1024, 1, 1024), "nn", {"via": "dots", "tile_m": 4, "tile_n": 1, "serial": False}),
        ((1024, 1, 100), "nn", {"via": "arrays", "tile_m": 4, "tile_n": 1}),
        ((1, 1, 1_000_000), "nn", {"via": "arrays", "serial": True}),
        ((1024, 3, 1024), "nn", {"via": "dots", "tile_m": 4, "tile_n": 4}),
        ((1024, 2, 100), "nn", {"via": "dots", "tile_m": 4, "tile_n": 2}),
        ((1024, 3, 40), "nn", {"via": "panels", "vectors_of": "b", "tile_n": 8}),
        ((1024, 6, 100), "nn", {"via": "panels", "vectors_of": "b", "tile_n": 8}),
        ((1024, 3, 1024), "tn", {"via": "rows", "vectors_of": "a", "tile_m": 4}),
        ((3, 1024, 1024), "nt", {"via": "dots", "tile_m": 4, "tile_n": 4}),
        ((8, 1024, 64), "nt", {"via": "dots", "tile_m": 4, "tile_n": 4}),
        ((5, 5, 200), "tn", {"via": "panels", "vectors_of": "b", "tile_n": 8}),
        ((3, 30, 10), "nn", {"via": "rows", "tile_n": 16, "serial": True}),
        ((9, 1024, 1024), "nn", {"via": "panels"}),
    ],
)
def test_thin_products_read_the_large_operand_where_it_lies(
    sizes: tuple[int, int, int], layout: str, expected: dict[str, Any]
) -> None:
    schedule = schedule_for(*sizes, layout=layout)
    assert {name: getattr(schedule, name) for name in expected} == expected


def test_few_tiles_share_the_inner_axis() -> None:
    found = [schedule_for(*sizes).split_k for sizes in ((2, 3, 900_000), (20, 30, 40_000))]
    assert all(parts > 4 for parts in found)
    assert schedule_for(1000, 1000, 1000).split_k == schedule_for(2, 3, 60).split_k == 1


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("arch", ["cuda", "vulkan"])
def test_a_gpu_splits_a_long_inner_axis_or_occupies_its_processors(arch: str, dtype: str) -> None:
    def found(*sizes: int) -> tuple[int, int, int]:
        s = schedule_for(*sizes, arch=arch, dtype=dtype)
        return s.block_m, s.block_n, s.split_k

    assert found(844, 1480, 147) == found(3214, 710, 159) == (64, 64, 1)
    assert found(432, 650, 897)[2] == 4
    assert found(64, 64, 65_536)[2] == 256
    # Blocks are as thin as C.
    assert found(5, 4000, 500)[0] == found(4000, 5, 500)[1] == 16
    assert found(2000, 30, 9000)[:2] == (128, 32)
    # All parts of a large C would not fit in memory.
    assert found(30_000, 30_000, 100_000)[2] == (4 if arch == "vulkan" else 1)


def test_tiles_fit_c_and_panels_are_of_the_operand_that_takes_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(*sizes: int, **problem: Any) -> tuple[str, int, int, bool]:
        s = schedule_for(*sizes, **problem)
        return s.vectors_of, s.tile_m, s.tile_n, s.serial

    # AVX2 has registers for 8 vectors of 32 bytes, AVX-512 for 8 of 64 and more.
    monkeypatch.setattr(devices, "vector_bytes", lambda: 32)
    assert found(100, 11, 50) == ("b", 4, 16, True)
    assert found(9, 261, 182) == ("a", 4, 16, True)
    assert found(1000, 1000, 1000) == ("b", 4, 16, False)
    assert found(1000, 1000, 1000, dtype="f64") == ("b", 2, 16, False)
    assert found(1000, 1000, 1000, dtype="f64", layout="tt") == ("a", 2, 16, False)
    monkeypatch.setattr(devices, "vector_bytes", lambda: 64)
    assert found(100, 11, 50) == ("b", 8, 16, True)
    assert found(12, 1300, 170) == ("a", 8, 16, False)
    assert found(1000, 1000, 1000, dtype="f64") == ("b", 4, 16, False)
    assert found(1000, 1000, 1000, layout="tt")[0] == "a"
    assert [schedule_for(100, 90, k).unroll for k in (1, 3, 4, 90)] == [1, 1, 4, 4]


@pytest.mark.parametrize("via", ["arrays", "panels"])
def test_one_thread_computes_the_same(via: str, ti_arch: str, rng: np.random.Generator) -> None:
    if ti_arch != "cpu":
        pytest.skip("a GPU has no loop of one thread")
    schedule = {"via": via, "tile_n": 16 if via == "panels" else 4, "serial": True}
    kernel = tikgen.build("gemm", layout="nt", schedule=schedule)
    for sizes in SIZES:
        check_product(kernel, draw(kernel, sizes, rng), 0.7, 1.3)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_beta_zero_does_not_read_c(dtype: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("gemm", dtype=dtype, tile_m=2, tile_n=2)
    for poison in (np.nan, np.inf):
        a, b, c = draw(kernel, (5, 7, 3), rng)
        c[...] = poison
        check_product(kernel, (a, b, c), 1.5, 0.0)
        assert np.isfinite(c).all()


@pytest.mark.parametrize("via", ["panels", "rows"])
def test_what_lies_behind_the_inner_axis_does_not_count(via: str, ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("a GPU has no registers indexed at run time")
    kernel = tikgen.build("gemm", via=via, tile_m=2, tile_n=16, unroll=4)
    for k in (1, 2, 3, 5, 6, 7):
        a, b, c = np.ones((3, k), "f4"), np.ones((k, 35), "f4"), np.zeros((3, 35), "f4")
        b[-1, ::2] = np.inf
        kernel(a, b, c, 1.0, 0.0)
        assert (c[:, ::2] == np.inf).all()
        assert (c[:, 1::2] == k).all()


def test_nan_in_c_reaches_the_result_where_beta_is_not_zero(
    ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = tikgen.build("gemm", tile_m=2, tile_n=2)
    a, b, c = draw(kernel, (3, 3, 3), rng)
    c[1, 2] = np.nan
    kernel(a, b, c, 1.0, 0.5)
    assert np.isnan(c[1, 2])
    assert np.isnan(c).sum() == 1


@pytest.mark.parametrize(
    "epilogue",
    ["max(v, 0)", "v*v - v", "where(v < 1, -v, round(v))", "tanh(v)", "v / (1 + exp(-v))"],
)
def test_epilogue(epilogue: str, ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("gemm", epilogue=epilogue, tile_m=2, tile_n=2)
    for sizes in SIZES:
        check_product(kernel, draw(kernel, sizes, rng), 1.5, -0.5)
        check_product(kernel, draw(kernel, sizes, rng), 1.5, 0.0)


def test_epilogue_of_integers_and_of_f64(ti_arch: str, rng: np.random.Generator) -> None:
    whole = tikgen.build("gemm", epilogue="where(v > 9, v // 7, v % 5)", dtype="i32", tile_m=2)
    double = tikgen.build("gemm", epilogue="0.1 * sqrt(abs(v))", dtype="f64", tile_m=2)
    for sizes in SIZES:
        check_product(whole, draw(whole, sizes, rng), 3, -1)
        check_product(double, draw(double, sizes, rng), 0.3, 0.7)


def test_epilogue_means_what_it_says() -> None:
    a, b = np.array([[1.0, 2.0]], np.float32), np.array([[3.0, -3.0], [4.0, -4.0]], np.float32)
    kernel = tikgen.build("gemm", epilogue="max(v, 0) + 1")
    found = kernel.reference(a, b, np.full((1, 2), np.nan, np.float32), 2.0, 0.0)
    assert found.tolist() == [[23.0, 1.0]]


def test_epilogue_that_vulkan_lacks_is_refused() -> None:
    variant = tikgen.render("gemm", epilogue="exp(v)", dtype="f64").variant
    assert variant.template.unsupported(variant.problem, "cpu") is None
    assert "exp of an f64" in str(variant.template.unsupported(variant.problem, "vulkan"))


def test_integers_wrap_around(ti_arch: str) -> None:
    kernel = tikgen.build("gemm", dtype="i32", tile_m=2, tile_n=2)
    a = np.full((1, 2), 2**30, np.int32)
    b = np.full((2, 1), 3, np.int32)
    c = np.zeros((1, 1), np.int32)
    kernel(a, b, c, 1, 0)
    assert c[0, 0] == np.int64(6 * 2**30).astype(np.int32)
    assert kernel.reference(a, b, c, 1, 0) == c


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_tolerance_is_tight(dtype: str, rng: np.random.Generator) -> None:
    kernel = tikgen.build("gemm", dtype=dtype)
    a, b, c = draw(kernel, (5, 7, 37), rng)
    expected = kernel.reference(a, b, c, 1.0, 1.0)
    inputs = {"a": a, "b": b, "c": c, "alpha": 1.0, "beta": 1.0}
    allowed = kernel.template.tolerance(kernel.problem, inputs, {"c": expected})["c"]
    # Leaving out the last step along k, or adding C twice, is caught nearly everywhere.
    missed = kernel.reference(a[:, :-1].copy(), b[:-1].copy(), c, 1.0, 1.0)
    assert (np.abs(missed - expected) > allowed).mean() > 0.9
    twice = kernel.reference(a, b, c, 1.0, 2.0)
    assert (np.abs(twice - expected) > allowed).mean() > 0.9
    if dtype == "f64":  # So is a product in single precision.
        single = (a.astype("f4") @ b.astype("f4")).astype("f8") + c
        assert (np.abs(single - expected) > allowed).mean() > 0.9


def test_cost_counts_both_operands_and_c_twice() -> None:
    kernel = tikgen.build("gemm", dtype="f64")
    cost = kernel.template.cost(kernel.problem, {"m": 2, "n": 3, "k": 5})
    assert (cost.bytes, cost.flops) == ((10 + 15 + 12) * 8, 6 * 13)


BLOCK = {"arch": "cuda", "via": "shared", "tile_m": 8, "tile_n": 8}
BLOCK |= {"block_m": 128, "block_n": 128, "block_k": 8}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"layout": "nx"}, "'layout' takes nn, nt, tn or tt"),
        ({"dtype": "f16"}, "'dtype' takes f32, f64 or i32; got f16"),
        ({"epilogue": "v + w"}, "'epilogue' cannot be used: .*w"),
        ({"epilogue": "1 + 2"}, "'epilogue' must depend on v"),
        ({"epilogue": "v.real"}, "'epilogue' cannot be used: .*v.real"),
        ({"epilogue": "v + 0.5", "dtype": "i32"}, "'epilogue' cannot be used: .*0.5"),
        ({"tile_m": 3}, "'tile_m' takes 1, 2, 4, 8 or 16"),
        ({"tile_m": 8, "tile_n": 8, "unroll": 8}, "'unroll' times the 8 by 8 tile exceeds"),
        (
            {"via": "panels", "tile_m": 8, "tile_n": 16, "unroll": 8},
            "'unroll' times the 8 tile exceeds 32",
        ),
        ({"via": "panels", "tile_n": 4}, "'tile_n' cannot be 4 where via='panels'"),
        ({"via": "panels", "tile_n": 16, "block_m": 64}, "'block_m' must be 0 where via='panels'"),
        ({"via": "shared", "arch": "cpu"}, "'via' cannot be 'shared' on cpu"),
        ({"via": "panels", "arch": "cuda"}, "'via' cannot be 'panels' on cuda"),
        ({"via": "dots", "layout": "tn"}, "'via' cannot be 'dots' where layout='tn'"),
        ({"via": "rows", "layout": "nt"}, "'rows' of b, which layout='nt' has stored 't'"),
        ({"via": "panels", "tile_n": 256}, "'tile_n' cannot be 256 where via='panels'"),
        (BLOCK | {"block_dim": 64}, "'block_dim' must be 0"),
        (BLOCK | {"tile_m": 4, "tile_n": 4, "block_m": 256, "block_n": 128}, "2048 threads; at"),
        (BLOCK | {"tile_n": 16, "block_n": 64}, "'block_m' must divide the number of threads, 64"),
        (BLOCK | {"tile_m": 4, "tile_n": 4, "block_n": 32, "block_m": 256}, "'block_n' times"),
        (BLOCK | {"block_k": 32}, "'block_k' makes tiles of 67584 bytes; at most 49152 fit"),
    ],
)
def test_bad_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.build("gemm", **params)


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_shapes_must_agree(layout: str, ti_arch: str) -> None:
    kernel = tikgen.build("gemm", layout=layout)
    with pytest.raises(tikgen.errors.ArgumentError, match="takes shape"):
        kernel(*np.zeros((3, 2, 3), np.float32), 1.0, 0.0)


def test_sizes_have_one_order_in_all_layouts() -> None:
    kernel = tikgen.build("gemm", layout="tt", shape=(17, 33, 16), arch="cpu")
    assert [a.shape for a in kernel.signature.arguments[:3]] == [(33, 17), (16, 33), (17, 16)]
