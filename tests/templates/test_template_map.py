"""The map template and ``elementwise``: arithmetic at every element."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen import Array, DType, Kernel
from tikgen.errors import ArgumentError, ParameterError, UnsupportedOnArch
from tikgen.pipeline.one_off import elementwise

FLAT = {"expr": "x", "loop": "flat", "arch": "cpu"}
SHAPES = {1: (1031,), 2: (13, 17), 3: (3, 5, 9), 4: (3, 2, 5, 7)}
FLOAT_EXPRESSIONS = (
    "y = a*x + y",
    "z = x*y; w = z - x; z = z + w",
    "x // y + x % y",
    "x / 3 - y % 5",
    "u = x**2 + y**3; v = -u; t = (y + 3)**-2",
    "sign(x - y) * (x != y) + (0 < x < y or not x == a)",
    "min(x, y, a) + max(x, 0.1) - abs(x)",
    "floor(4*x) + ceil(4*y) + round(8*x)",
    "sqrt(abs(x)) / (1 + y*y)",
    "where(isnan(sqrt(x)), x, y) if x*y > 0.1 and x + y > 0 else -x",
)
TRANSCENDENTAL = (
    "exp(-x*x) + sin(x)*cos(y)",
    "tanh(a*x) + atan2(y, x) + asin(x) - acos(y)",
    "log(x*x + 0.5) + tan(x) + (x + 2)**y + pi*e",
    "atan(9*x) + sinh(a*x) - cosh(7*y)",
)
MORE_INTEGERS = ("u8", "i16", "u32", "i64")
INTEGER_EXPRESSIONS = (
    "x // y",
    "x % y",
    "z = x*y; w = z // x; z = z + w - a",
    "min(x, y, a) + max(x, y) - abs(x)",
    "u = x**2 + y**3; v = -u",
    "sign(x - y) * (x != y) + where(x > y or not y, x, y)",
    "x // 3 - y % 5 + 100*x // 0",
)


def random_arguments(kernel: Kernel, rng: np.random.Generator) -> list[Any]:
    """Return random inputs, and outputs that hold what no kernel would write by chance."""
    shape = SHAPES[kernel.params["dim"]]
    values: list[Any] = []
    for argument in kernel.signature.arguments:
        size = shape if isinstance(argument, Array) else ()
        dtype = argument.dtype
        if isinstance(argument, Array) and argument.role == "out":
            values.append(np.full(size, np.nan if dtype.is_float else 77, dtype.numpy))
        elif dtype.is_float:
            values.append(rng.uniform(-1, 1, size).astype(dtype.numpy)[()])
        else:
            # Small ones among them, zeros too, and the least one.
            low, high = int(dtype.lowest), int(dtype.highest)
            value = rng.integers(low, high, size, dtype.numpy, endpoint=True)
            small = rng.integers(max(low, -3), 4, size).astype(dtype.numpy)
            value = np.where(rng.random(size) < 0.5, small, value)
            value = np.where(rng.random(size) < 0.1, dtype.numpy.type(low), value)
            values.append(value.astype(dtype.numpy)[()])
    return [v if isinstance(v, np.ndarray) else v.item() for v in values]


def check(kernel: Kernel, rng: np.random.Generator) -> None:
    """Launch on random data and compare every output with the reference."""
    values = random_arguments(kernel, rng)
    before = {
        name: np.copy(value) if isinstance(value, np.ndarray) else value
        for name, value in zip(kernel.signature.names, values, strict=True)
    }
    written = [a for a in kernel.signature.arguments if isinstance(a, Array) and a.written]
    references = kernel.reference(*before.values())
    if len(written) == 1:
        references = (references,)
    expected = dict(zip([a.name for a in written], references, strict=True))
    allowed = kernel.template.tolerance(kernel.problem, before, expected)
    kernel(*values)
    for name, value in zip(kernel.signature.names, values, strict=True):
        if name not in expected:
            np.testing.assert_array_equal(value, before[name])
            continue
        dtype = kernel.signature.arguments[0].dtype
        wanted = expected[name].astype(dtype.numpy)
        if not dtype.is_float:
            np.testing.assert_array_equal(value, wanted, err_msg=f"{name} of {kernel.params}")
            continue
        slack = np.maximum(np.spacing(np.abs(wanted)), dtype.tiny).astype(float) + allowed[name]
        with np.errstate(invalid="ignore"):
            same = (value == wanted) | (np.isnan(value) & np.isnan(wanted))
            fine = same | (np.abs(value - expected[name]) <= slack) | np.isinf(allowed[name])
        assert fine.all(), (kernel.params, name, value[~fine][:3], wanted[~fine][:3])
        # A tolerance that lets everything pass would make this test empty.
        scale = max(1.0, float(np.nanmedian(np.abs(expected[name]))))
        assert np.median(allowed[name]) < 64 * dtype.eps * scale + 2e-3


def programs(expressions: tuple[str, ...]) -> list[str]:
    """Return programs of all expressions; those that name no output share one kernel."""
    named = [each for each in expressions if " = " in each]
    plain = [each for each in expressions if " = " not in each]
    return [*named, "; ".join(f"o{number} = {each}" for number, each in enumerate(plain))]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_floats(ti_arch: str, rng: np.random.Generator, dtype: str) -> None:
    works = ti_arch != "vulkan" or dtype != "f64"
    for program in programs(FLOAT_EXPRESSIONS + TRANSCENDENTAL * works):
        check(elementwise(program, dtype, unroll=1), rng)


@pytest.mark.parametrize(
    "dtype",
    ["i8", "u16", "i32", "u64", *(pytest.param(d, marks=pytest.mark.slow) for d in MORE_INTEGERS)],
)
def test_integers_wrap_and_survive_zero_divisors(
    ti_arch: str, rng: np.random.Generator, dtype: str
) -> None:
    for program in programs(INTEGER_EXPRESSIONS):
        check(elementwise(program, dtype, unroll=1), rng)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_dimensions_and_schedules(ti_arch: str, rng: np.random.Generator, dim: int) -> None:
    flat = (
        {"loop": "flat", "unroll": 1, "chunk": 256},
        {"loop": "flat", "unroll": 1, "serial": True},
    )
    for schedule in (
        {"loop": "rows", "unroll": 4, "block_dim": 0},
        {"loop": "rows", "unroll": 2, "block_dim": 32},
        {"loop": "points", "unroll": 1, "block_dim": 64},
        {"loop": "blocks", "unroll": 1, "block_dim": 32, "items": 4},
        {"loop": "blocks", "unroll": 1, "block_dim": 64, "items": 2, "blocks": 1056},
        *(flat if ti_arch == "cpu" else ()),
    ):
        check(elementwise("z = a*x + y; w = x*z", dim=dim, schedule=schedule), rng)


def test_an_output_may_be_an_input(ti_arch: str, rng: np.random.Generator) -> None:
    x, y = rng.uniform(-1, 1, (2, 100)).astype(np.float32)
    first, second = 2 * x + y, x - y
    elementwise("u = a*x + y; v = x - y", unroll=4)(2.0, x, y, x, y)
    np.testing.assert_allclose(x, first, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(y, second, rtol=1e-6, atol=1e-6)


def test_halves_round_to_even(ti_arch: str) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, 8388609.0], np.float32)
    out = np.full_like(x, np.nan)
    elementwise("round(x)", unroll=1)(x, out)
    np.testing.assert_array_equal(out, np.rint(x))


def test_negative_power_of_zero_is_infinite(ti_arch: str) -> None:
    x = np.array([0.0, 2.0], np.float32)
    out = np.full_like(x, np.nan)
    elementwise("x**-2", unroll=1)(x, out)
    np.testing.assert_array_equal(out, [np.inf, 0.25])


@pytest.mark.parametrize(
    "text",
    ["x != x", "x != 0", "not x", "x and y", "where(x, 1, 2)", "(x != 1) + (x != y)"],
)
def test_nan_is_unlike_every_number(text: str, ti_arch: str, without_fast_math: None) -> None:
    x, y = np.float32([np.nan, 1, 0, -2]), np.float32([np.nan, np.nan, 1, -2])
    out = np.full_like(x, 9)
    kernel = elementwise(f"z = {text}")
    kernel(*([x, y] if "y" in text else [x]), out)
    np.testing.assert_array_equal(out, kernel.reference(*([x, y] if "y" in text else [x]), out))
    assert out[0] == ("not" not in text) * (2 if "+" in text else 1)


def test_nan_is_found_and_ignored_by_min_and_max(ti_arch: str) -> None:
    x = np.array([np.nan, 1.0, np.nan], np.float32)
    y = np.array([2.0, np.nan, np.nan], np.float32)
    low, flag = np.zeros_like(x), np.zeros_like(x)
    elementwise("low = min(x, y); flag = isnan(x)", unroll=1)(x, y, low, flag)
    np.testing.assert_array_equal(low, [2.0, 1.0, np.nan])
    np.testing.assert_array_equal(flag, [1.0, 0.0, 1.0])


def test_names_that_the_kernel_uses_itself(ti_arch: str, rng: np.random.Generator) -> None:
    expr = "j = i + k; i1 = i*j_rest; new_i = ii1 + chunk"
    check(elementwise(expr, dim=2, unroll=2, loop="rows"), rng)
    check(elementwise(expr, dim=2, unroll=1), rng)
    for name in ("map", "range", "ti", "np", "floor_divide"):
        with pytest.raises(ParameterError, match=f"'{name}'"):
            elementwise(f"{name} * 2")


def test_wrong_coefficient_exceeds_the_tolerance(rng: np.random.Generator) -> None:
    right, wrong = elementwise("2*x + y"), elementwise("2.00001*x + y")
    x, y = rng.uniform(0.5, 1, (2, 100)).astype(np.float32)
    expected = right.reference(x, y)
    allowed = right.template.tolerance(
        right.problem, {"x": x, "y": y, "out": x}, {"out": expected}
    )["out"]
    assert np.all(np.abs(wrong.reference(x, y) - expected) > allowed)


def test_which_names_are_scalars() -> None:
    assert str(elementwise("z = a*x + y").signature) == (
        "a: f32, x: f32[n0], y: f32[n0], z: f32[n0] -> written"
    )
    assert str(elementwise("y = dt*x + y", scalars=("dt",), dim=2).signature) == (
        "dt: f32, x: f32[n0, n1], y: f32[n0, n1] -> updated"
    )
    assert "a: f32[n0]," in str(elementwise("z = a*x", scalars=()).signature)
    with pytest.raises(ParameterError, match="names z, which is assigned: outputs are arrays"):
        elementwise("z = a*x", scalars=("z",))
    with pytest.raises(ParameterError, match="names q, which the expression does not read"):
        elementwise("z = a*x", scalars=("q",))


def test_a_wrong_use_is_explained(ti_arch: str) -> None:
    x = np.ones(4, np.float32)
    kernel = elementwise("z = a*x")
    with pytest.raises(ArgumentError, match="argument 'a' takes a number of dtype f32"):
        kernel(x, x, np.zeros_like(x))
    with pytest.raises(ArgumentError, match=r"it takes a: f32, x: f32\[n0\], z"):
        kernel(2.0, x)


@pytest.mark.parametrize(
    "params, problem",
    [
        ({"expr": "exp(x)", "dtype": "i32"}, "needs a float dtype"),
        ({"expr": "x / 2", "dtype": "i8"}, "use // to round down"),
        ({"expr": "x.sum()"}, "is an attribute"),
        ({"expr": "__import__('os')"}, "is not a function"),
        ({"expr": "x\ny = 1"}, "a line break ends a statement"),
        ({"expr": " + ".join(f"x{n}" for n in range(70))}, "at most 64"),
        ({"expr": "x", "dim": 5}, "from 1 to 4"),
        ({}, "is missing; it takes an expression"),
        ({"expr": "x", "loop": "points", "unroll": 2}, "must be 1 where loop='points'"),
        (FLAT | {"unroll": 2}, "must be 1 where loop='flat'"),
        (FLAT | {"unroll": 1, "serial": True, "chunk": 256}, "must be 2048 where serial=True"),
        (
            {"expr": "x", "loop": "rows", "items": 2},
            "must be 1 where loop='rows'; it matters only where loop='blocks'",
        ),
        (
            {"expr": "x", "loop": "blocks", "unroll": 1, "block_dim": 0},
            "cannot be 0 where loop='blocks'",
        ),
        (
            {"expr": "x", "loop": "flat", "arch": "cuda"},
            "cannot be 'flat' on cuda; it works only on cpu",
        ),
        ({"expr": " + ".join(["x"] * 99), "unroll": 16}, "would take long to compile"),
    ],
)
def test_bad_parameters(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.build("map", **params)
    assert problem in str(caught.value)


def test_defaults_follow_the_sizes_and_lie_within_the_space() -> None:
    template = tikgen.build("map", expr="x").template
    for arch, expr in itertools.product(("cpu", "cuda", "vulkan"), ("a*x + y", "exp(x)")):
        problem = template.Problem(expr=expr)
        space = template.schedule_space(problem, arch, None)
        for sizes in (None, {"n0": 100}, {"n0": 10**6}, {"n0": 10**8}):
            found = template.default_schedule(problem, arch, sizes)
            template.check_schedule(problem, template.Schedule(**found), arch)
            assert all(found[name] in space[name] for name in found.keys() & space.keys())
        assert 10 <= len(valid_schedules(template, problem, arch)) <= 500
    problem = template.Problem(expr="a*x + y")
    assert template.default_schedule(problem, "cpu", {"n0": 1000})["serial"]
    assert not template.default_schedule(problem, "cpu", {"n0": 10**7}).get("serial")


def valid_schedules(template: tikgen.Template, problem: Any, arch: str) -> list[Any]:
    """Return every schedule of the space that ``check`` lets pass."""
    space = template.schedule_space(problem, arch, None)
    found = []
    for values in itertools.product(*space.values()):
        schedule = template.Schedule(**dict(zip(space, values, strict=True)))
        with contextlib.suppress(tikgen.Invalid):
            template.check_schedule(problem, schedule, arch)
            found.append(schedule)
    return found


def test_unsupported_on_vulkan_names_what_to_use() -> None:
    template = tikgen.build("map", expr="x").template
    for expr, problem in {
        "exp(x)": "exp of an f64 does not work there; use dtype='f32', or cpu or cuda",
        "x**y": "pow of an f64",
        " + ".join(f"x{n}" for n in range(33)): "at most 32 work",
    }.items():
        problem_model = template.Problem(expr=expr, dtype=DType.f64)
        assert problem in (template.unsupported(problem_model, "vulkan") or "")
        assert template.unsupported(problem_model, "cpu") is None
    assert template.unsupported(template.Problem(expr="sqrt(x)**3", dtype="f64"), "vulkan") is None


def test_vulkan_refuses_before_it_compiles(ti_arch: str) -> None:
    if ti_arch != "vulkan":
        pytest.skip("says something about vulkan only")
    with pytest.raises(UnsupportedOnArch, match="exp of an f64"):
        elementwise("exp(x)", "f64")


def test_equal_expressions_give_one_kernel() -> None:
    assert elementwise("z=a*x+y") is elementwise("z = (a * x) + y", dim=1)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_powers_of_negative_numbers_are_those_of_numpy(ti_arch: str, dtype: str) -> None:
    if dtype == "f64" and ti_arch == "vulkan":
        pytest.skip("powers of f64 are refused there")
    kernel = tikgen.elementwise("z = x**y", dtype=dtype)
    numpy_dtype = kernel.problem.dtype.numpy
    x = np.array([-2, -2, -3, 0, 0, -2, -2, 1.5, 4, -1, -1], numpy_dtype)
    y = np.array([2, 3, 1, 0, 3, -1, 0.5, -2, 0.5, -2, -3], numpy_dtype)
    z = np.zeros_like(x)
    kernel(x, y, z)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(z, x**y, rtol=2e-3 if dtype == "f16" else 1e-5)


def test_order_of_arguments_and_of_assignments_is_as_documented(ti_arch: str) -> None:
    assert elementwise("z = a*x + y").signature.names == ("a", "x", "y", "z")
    assert elementwise("z = y + a*x").signature.names == ("y", "a", "x", "z")
    x, y, u = np.float32([1, 2]), np.float32([3, 4]), np.zeros(2, np.float32)
    elementwise("x = y; y = x")(x=x, y=y)
    assert (x.tolist(), y.tolist()) == ([3, 4], [3, 4])
    x[:] = 1, 2
    elementwise("u = y\ny = x\nx = u")(u=u, x=x, y=y)
    assert (x.tolist(), y.tolist()) == ([3, 4], [1, 2])


def test_floats_that_divide_in_a_loop_take_no_real_function(ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("real functions are for cpu only")
    assert ("loop", "rows") in elementwise("x % 3").source.variant.schedule
    with pytest.raises(ParameterError, match="cannot be 'flat' where expr divides floats"):
        elementwise("x // y", loop="flat", unroll=1)
    binary = elementwise("x % 2", loop="flat", unroll=1)
    assert "x[i] % ti.f32(2.0)" in binary.source.text


def test_names_may_be_listed_in_one_text() -> None:
    one = tikgen.render("map", expr="z = q*x + r*y", scalars="q, r", arch="cpu")
    other = tikgen.render("map", expr="z = q*x + r*y", scalars=("q", "r"), arch="cpu")
    assert one.digest == other.digest
    with pytest.raises(ParameterError, match=r"'b-c' is not a plain identifier"):
        tikgen.render("map", expr="z = x", scalars="b-c", arch="cpu")


@pytest.mark.parametrize("dtype", [DType.f32, DType.f64])
def test_remainders_of_small_numbers_do_not_vanish(ti_arch: str, dtype: DType) -> None:
    """The last digits of such numbers are worth less than the least normal number."""
    rng = np.random.default_rng(1)
    least = int(np.finfo(dtype.numpy).minexp)
    divide = elementwise("q = x // y; r = x % y", dtype=dtype)
    for powers in ((9, 9), (30, 30), (60, 60), (98, 90)):
        x, y = (np.ldexp(rng.uniform(0.5, 1, 900), least + n).astype(dtype.numpy) for n in powers)
        x *= rng.choice([-1, 1], x.size).astype(dtype.numpy)
        quotient, rest = np.zeros_like(x), np.zeros_like(x)
        divide(x, y, quotient, rest)
        assert np.array_equal(quotient, np.floor_divide(x, y))
        np.testing.assert_allclose(rest, np.remainder(x, y), rtol=0, atol=dtype.tiny)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_blocks_take_more_turns_over_all_elements_than_over_a_part(dim: int) -> None:
    schedule = {"loop": "blocks", "unroll": 1, "block_dim": 64, "items": 2, "blocks": 1056}
    variant = tikgen.render("map", expr="2*x", dim=dim, arch="cuda", schedule=schedule).variant
    one_turn = 1056 * 64 * 2
    for sizes in variant.template.full_sizes(variant.problem, variant.schedule):
        extents = list(sizes.values())
        assert math.prod(extents) > one_turn
        # A product one factor of which is added instead.
        sums = [math.prod(extents[:at]) + math.prod(extents[at:]) for at in range(1, dim)]
        assert all(count <= one_turn for count in sums)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_sign_of_a_nan_is_one_without_fast_math(
    without_fast_math: None, ti_arch: str, dtype: str
) -> None:
    kernel = tikgen.build("map", expr="y = sign(x)", dtype=dtype)
    x = np.array([np.nan, -2.0, -0.0, 0.0, np.inf], dtype.replace("f", "float"))
    y = np.zeros_like(x)
    kernel(x, y)
    np.testing.assert_array_equal(y, kernel.reference(x, y))
