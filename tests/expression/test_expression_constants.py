"""Operations on literals in expressions: computed by NumPy in the dtype, never by Taichi."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen import DType, Expression
from tikgen.dtypes import FLOATS, INTS
from tikgen.pipeline.comparison import worst_error

ON_GPU = ("rows", "points", "blocks")
LOOPS = {"cpu": (*ON_GPU, "flat"), "vulkan": ON_GPU, "cuda": ON_GPU}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

# Every example is compiled, which takes long on Vulkan; to shrink one would take minutes.
COMPILED = settings(
    max_examples=examples(3, 2) if ARCH == "cpu" else 1,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def launched(program: str, dtype: str, loop: str, **schedule: Any) -> list[np.ndarray]:
    """Return the outputs of a program over x = 3 and y = 5."""
    schedule = {"block_dim": 32, **schedule} if loop == "blocks" else schedule
    kernel = tikgen.elementwise(program, dtype, loop=loop, unroll=1, **schedule)
    values = {"x": 3, "y": 5}
    arrays = [
        np.full(4, values.get(name, 77), kernel.problem.dtype.numpy)
        for name in kernel.signature.names
    ]
    kernel(*arrays)
    outputs = kernel.problem.expr.outputs
    return [a for name, a in zip(kernel.signature.names, arrays, strict=True) if name in outputs]


NAMED = {
    ("x + (-7)//2", "i32"): -1,
    ("x + (-7) % 3", "i32"): 5,
    ("x*0 + 1000003**3", "i64"): 1000009000027000027,
    ("2147483646**2", "i32"): 4,
    ("18446744073709551615 % 10", "u64"): 5,
    ("abs(-9007199254740993)", "i64"): 9007199254740993,
    ("x + 2**4", "u32"): 19,
    ("x + 2**4", "u64"): 19,
    ("x + 7 // 0 + 7 % 0", "i16"): 3,
    ("x + 100 + 100", "i8"): -53,
    ("x + (100 + 100) // 3", "i8"): -16,
    ("x + (200 * 2) // 3", "u8"): 51,
    ("0 - 1", "u16"): 65535,
    ("-(1 + 1)", "u64"): 2**64 - 2,
    ("abs(-128)", "i8"): -128,
    ("x if (-7)//2 == -4 and not 2 < 1 else y", "i32"): 3,
    ("(3 > 2) + (x > 2)", "i64"): 2,
    ("max(18446744073709551615, 3) - x", "u64"): 2**64 - 4,
    ("sign(-9223372036854775808) * x", "i64"): -3,
    ("-9223372036854775808 // -1", "i64"): -(2**63),
    ("x ** (1 + 1)", "i32"): 9,
    # Constants that Taichi finds by itself.
    ("((x - x) - 7) // 2", "i32"): -4,
    ("(x*0 - 7) % 3", "i64"): 2,
    ("(x - x + 1000003)**3", "i64"): 1000009000027000027,
    ("abs(x*0 - 9007199254740993)", "i64"): 9007199254740993,
    ("(x - x - 1) // 10", "u64"): (2**64 - 1) // 10,
    ("(x - x + 2)**60", "u64"): 2**60,
}


@pytest.mark.parametrize("loop", ["rows", "points", "flat", "blocks"])
def test_constants_are_those_of_numpy(ti_arch: str, loop: str) -> None:
    if loop not in LOOPS[ti_arch]:
        pytest.skip("flat is a loop of cpu")
    for dtype in {dtype for _, dtype in NAMED}:
        wanted = {text: value for (text, of), value in NAMED.items() if of == dtype}
        program = "; ".join(f"z{n} = {text}" for n, text in enumerate(wanted))
        for array, (text, value) in zip(
            launched(program, dtype, loop), wanted.items(), strict=True
        ):
            assert array.tolist() == [value] * 4, (text, dtype, array)


def test_names_of_constants_are_constants(ti_arch: str) -> None:
    for loop in LOOPS[ti_arch]:
        w, z, v = launched("w = -7; z = w % 3; w = w * x; v = w // 2", "i32", loop)
        assert (w[0], z[0], v[0]) == (-21, 2, -11)
        n, z = launched("n = 1 + 1; z = x**n", "i64", loop)
        assert (n[0], z[0]) == (2, 9)


def integer_trees(dtype: DType, names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts of expressions, most of literals alone, that suit an integer dtype."""
    low, high = int(dtype.lowest), int(dtype.highest)
    edges = [n for n in (0, 1, 2, 3, 7, -1, -2, low, high, high - 1, high // 3) if low <= n <= high]
    shifts = st.one_of(
        st.integers(0, dtype.bits - 1).map("({})".format),
        # What is named by a literal must not shift beyond the width.
        st.sampled_from([name for name in names if name in "xy"] or ["(1)"]),
    )
    edges += [n for n in (9007199254740993, -9007199254740993) if low <= n <= high]
    leaves = st.one_of(
        st.sampled_from(edges).map("({})".format),
        st.integers(low, high).map("({})".format),
        st.sampled_from(names),
    )

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(("+", "-", "*")), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(("//", "%")), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(("&", "|", "^")), inner),
            st.builds("(~({} + {}))".format, inner, inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(("<<", ">>")), shifts),
            st.builds("({} ** {})".format, inner, st.integers(0, 64)),
            st.builds("({}({}))".format, st.sampled_from(("abs", "sign", "not ")), inner),
            # A literal with a minus has to fit.
            st.builds("(-({} + {}))".format, inner, inner),
            st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), inner, inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(COMPARISONS), inner),
            st.builds("({} {} {})".format, inner, st.sampled_from(("and", "or")), inner),
            st.builds("where({}, {}, {})".format, inner, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=6)


def by_numpy(text: str, dtype: DType, **values: Any) -> Any:
    """Return what NumPy says that the text means, with every literal an array of the dtype."""

    def number(match: re.Match[str]) -> str:
        return f"N({match[0]})"

    # Exponents are plain; a minus of a literal is the literal's.
    text = re.sub(r"\(-\d+\)|(?<![\w.*])(?<!\*\* )\d+", number, text)
    return eval(_python_of(text), {"np": np, **_meaning(dtype), **values})


def _python_of(text: str) -> str:
    class Logic(ast.NodeTransformer):
        """Writes what arrays have no operators for as calls."""

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
            self.generic_visit(node)
            name = "AND" if isinstance(node.op, ast.And) else "OR"
            return ast.Call(ast.Name(name, ast.Load()), node.values, [])

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
            self.generic_visit(node)
            if not isinstance(node.op, ast.Not):
                return node
            return ast.Call(ast.Name("NOT", ast.Load()), [node.operand], [])

        def visit_Compare(self, node: ast.Compare) -> ast.AST:
            self.generic_visit(node)
            sides = [node.left, *node.comparators]
            found = [
                ast.Call(ast.Name("N", ast.Load()), [ast.Compare(left, [op], [right])], [])
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return functools.reduce(
                lambda one, other: ast.Call(ast.Name("AND", ast.Load()), [one, other], []), found
            )

    return ast.unparse(ast.fix_missing_locations(Logic().visit(ast.parse(text, mode="eval"))))


def _meaning(dtype: DType) -> dict[str, Any]:
    def number(value: Any) -> Any:
        return np.asarray(value).astype(dtype.numpy).reshape(-1)

    return {
        "N": number,
        "abs": np.abs,
        "sign": np.sign,
        "min": np.minimum,
        "max": np.maximum,
        "where": lambda c, a, b: np.where(c != 0, a, b),
        "AND": lambda *sides: number(functools.reduce(np.logical_and, sides)),
        "OR": lambda *sides: number(functools.reduce(np.logical_or, sides)),
        "NOT": lambda a: number(a == 0),
    }


@settings(max_examples=examples(150, 60), deadline=None)
@given(st.data(), st.sampled_from(INTS))
def test_literals_fold_to_one(data: Any, dtype: str) -> None:
    kind = DType(dtype)
    text = data.draw(integer_trees(kind, ("(1)",)))
    expression = Expression.parse(text)
    with np.errstate(all="ignore"):
        meant = by_numpy(text, kind).item()
    assert expression.taichi({}, kind) == kind.literal(meant)
    assert expression.evaluate(x=kind.numpy.type(0)) == meant


@COMPILED
@given(st.data())
@pytest.mark.parametrize("dtype", INTS)
def test_integers_are_those_of_numpy(ti_arch: str, dtype: str, data: Any) -> None:
    kind = DType(dtype)
    loop = data.draw(st.sampled_from(LOOPS[ti_arch]))
    texts = [data.draw(integer_trees(kind, ("x", "y", "w", "(1)"))) for _ in range(6)]
    named = data.draw(integer_trees(kind, ("(1)",)))
    program = f"w = {named}; " + "; ".join(f"z{n} = {text}" for n, text in enumerate(texts))
    kernel = tikgen.elementwise(
        program, dtype, loop=loop, unroll=1, block_dim=32 if loop == "blocks" else 0
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    low, high = int(kind.lowest), int(kind.highest)
    edges = np.array([n for n in (0, 1, 2, -1, low, high, 7) if low <= n <= high], kind.numpy)
    draw = {
        name: np.where(
            rng.random(32) < 0.5,
            rng.choice(edges, 32),
            rng.integers(low, high, 32, kind.numpy, endpoint=True),
        ).astype(kind.numpy)
        for name in "xy"
    }
    with np.errstate(all="ignore"):
        w = np.broadcast_to(by_numpy(named, kind), 32)
        expected = {"w": w}
        for n, text in enumerate(texts):
            expected[f"z{n}"] = np.broadcast_to(by_numpy(text, kind, **draw, w=w), 32)
    arrays = [
        draw[n].copy() if n in draw else np.full(32, 77, kind.numpy) for n in kernel.signature.names
    ]
    kernel(*arrays)
    for name, array in zip(kernel.signature.names, arrays, strict=True):
        if name in expected:
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{name} of {program}")


def test_constants_of_an_epilogue_are_those_of_numpy(ti_arch: str) -> None:
    kernel = tikgen.build("gemm", dtype="i32", epilogue="v + (-7)//2 + (-7) % 3 + 2147483646**2")
    a, b, c = np.ones((3, 2), np.int32), np.ones((2, 4), np.int32), np.zeros((3, 4), np.int32)
    kernel(a, b, c, 1, 0)
    assert (c == 2 - 4 + 2 + 4).all()
    assert (kernel.reference(a, b, c, 1, 0) == c).all()


def test_constants_of_a_ring_are_folded(ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("no ring stays on a Vulkan device")
    kernel = tikgen.build(
        "ring",
        arch="cpu",
        handler="w = -7; y = x + w % 3 + 2**4",
        inputs={"x": "i32"},
        outputs={"y": "i32"},
        dtype="i32",
    )
    assert "y = x + ti.i32(2) + ti.i32(16)" in kernel.source.text


def test_an_ejected_file_has_the_folded_constants() -> None:
    text = tikgen.elementwise("w = -7; z = x + w % 3", "i32").eject()
    assert "z = x + dtype(2)" in text
    assert "x[i] + ti.i32(2)" in text


def float_trees() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(
        ("0.1", "0.2", "0.3", "1", "2", "3", "-7", "1e4", "1e-3", "x", "y", "(1/3)", "-0.5")
    ).map("({})".format)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        two = ("+", "-", "*", "/", "//", "%")
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(two), inner),
            st.builds("({} ** {})".format, inner, st.sampled_from((-1, 0, 2, 3))),
            st.builds("{}({})".format, st.sampled_from(("abs", "floor", "round", "sign")), inner),
            st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), inner, inner),
            st.builds("where({} < {}, {}, {})".format, inner, inner, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("text", ("x + 1/0", "w = -1/0; z = x * w", "sin(x - 0/0)", "x % (1/0)"))
def test_an_operation_on_an_infinite_constant_is_refused(dtype: str, text: str) -> None:
    with pytest.raises(tikgen.errors.ParameterError, match=r"inf|nan.*which fast math excludes"):
        tikgen.render("map", expr=text, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_infinite_constant_is_compared_and_chosen(ti_arch: str, dtype: str) -> None:
    kernel = tikgen.elementwise("z = where(x < 1/0, min(x, 1/0), -1/0); w = 1/0", dtype)
    x = np.array([-3, 0, 2], kernel.problem.dtype.numpy)
    z, w = np.full_like(x, 77), np.full_like(x, 77)
    kernel(x=x, z=z, w=w)
    assert (z == x).all()
    assert (w == np.inf).all()


@COMPILED
@given(st.data())
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_those_of_numpy(ti_arch: str, dtype: str, data: Any) -> None:
    kind = DType(dtype)
    texts = [data.draw(float_trees()) for _ in range(6)]
    program = "; ".join(f"z{n} = {text}" for n, text in enumerate(texts))
    try:
        kernel = tikgen.elementwise(program, dtype, unroll=1)
    except tikgen.errors.ParameterError as error:
        assert "fast math" in str(error)
        reject()
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    given = {n: rng.uniform(-9, 9, 32).astype(kind.numpy) for n in kernel.problem.expr.inputs}
    names = kernel.signature.names
    arrays = [given[n].copy() if n in given else np.full(32, 77, kind.numpy) for n in names]
    before = dict(zip(names, [a.copy() for a in arrays], strict=True))
    kernel(*arrays)
    references = kernel.reference(*before.values())
    outputs = [n for n in names if n in kernel.problem.expr.outputs]
    wanted = dict(zip(outputs, references, strict=True))
    allowed = kernel.template.tolerance(kernel.problem, before, wanted)
    for name, array in zip(names, arrays, strict=True):
        if name in wanted:
            worst = worst_error(array, wanted[name], allowed[name])
            assert worst <= 1, (program, name, array, wanted[name], allowed[name])


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_powers_are_those_of_numpy(ti_arch: str, dtype: str) -> None:
    x = np.append(np.linspace(-1.5, -0.4), np.linspace(0.4, 1.5)).astype(DType(dtype).numpy)
    program = "w = (x**2)**3; v = (x**3)**-1; u = (x**0)**-1; d = (x**-2)**2; g = ((x**1)**0)**5"
    found = [np.full_like(x, 77) for _ in "wvudg"]
    tikgen.elementwise(program, dtype)(x, *found)
    wide = x.astype(np.float64)
    wanted = (wide**6, wide**-3, wide**0, wide**-4, wide**0)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=8 * float(np.finfo(x.dtype).eps))


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_remainders_are_those_of_numpy(ti_arch: str, dtype: str) -> None:
    kind = DType(dtype).numpy
    info = np.finfo(kind)
    edges = [0.1, 1, 3, 7.5, 1e4, 2.5e-3, info.max, info.tiny, info.max / 3, 1000.1, 2 * np.pi]
    edges = np.array([*edges, *(-n for n in edges), 0, np.inf], kind)
    rng = np.random.default_rng(1)
    x, y = (grid.ravel().copy() for grid in np.meshgrid(edges, edges))
    x = np.concatenate([x, rng.uniform(-100, 100, 500).astype(kind)])
    y = np.concatenate([y, rng.uniform(-2, 2, 500).astype(kind)])
    if ti_arch != "cpu" and dtype == "f32":  # GPUs' quotients by what is greater are 0.
        divisible = ~(np.abs(y) > 2.0**126) | np.isinf(y)
        x, y = x[divisible], y[divisible]
    rest, low = np.zeros_like(x), np.zeros_like(x)
    tikgen.elementwise("r = x % y; q = x // y", dtype)(x, y, rest, low)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(rest, x % y)
        wanted = x // y
    # A quotient of many digits is rounded as any other.
    np.testing.assert_allclose(low, wanted, rtol=4 * float(info.eps))
    small = np.abs(wanted) < 0.1 / float(info.eps)
    np.testing.assert_array_equal(low[small], wanted[small])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_at_the_origin_and_at_infinity_are_those_of_numpy(ti_arch: str, dtype: str) -> None:
    if (ti_arch, dtype) == ("vulkan", "f64"):
        pytest.skip("atan2 of f64 is refused there")
    edges = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], dtype.replace("f", "float"))
    y, x = (grid.ravel().copy() for grid in np.meshgrid(edges, edges))
    out = np.full_like(x, 77)
    tikgen.elementwise("atan2(y, x)", dtype)(y, x, out)
    np.testing.assert_allclose(out, np.arctan2(y, x), rtol=1e-5)


HALF_PROGRAMS = (
    "max(x, 0)",
    "max(x, y)",
    "where(x < y, x, y)",
    "abs(min(x, y)) // 3",
    "z = x*y; w = z - x; z = max(z, w)",
    "1e4 % x",
)


def test_halves_are_computed_in_single_precision(ti_arch: str) -> None:
    rng = np.random.default_rng(2)
    for text in HALF_PROGRAMS:
        kernel = tikgen.elementwise(text, "f16")
        names = kernel.signature.names
        arrays = [rng.uniform(-4, 4, 5000).astype(np.float16) for _ in names]
        before = dict(zip(names, [a.copy() for a in arrays], strict=True))
        kernel(*arrays)
        found = kernel.reference(*before.values())
        outputs = [n for n in names if n in kernel.problem.expr.outputs]
        wanted = dict(zip(outputs, found if len(outputs) > 1 else [found], strict=True))
        allowed = kernel.template.tolerance(kernel.problem, before, wanted)
        for name in outputs:
            worst = worst_error(arrays[names.index(name)], wanted[name], allowed[name])
            assert worst <= 1, (text, name, worst)
    # One rounding of an exact product: as good as NumPy's own.
    x, y, z = (rng.uniform(-4, 4, 5000).astype(np.float16) for _ in range(3))
    tikgen.elementwise("z = x*y", "f16")(x, y, z)
    np.testing.assert_array_equal(z, x * y)


def test_the_value_of_an_f16_is_that_of_its_array(ti_arch: str) -> None:
    x, z, w = np.float16([1 / 3]), np.zeros(1, np.float16), np.zeros(1, np.float16)
    tikgen.elementwise("z = x*x; w = z - 0.111", "f16")(x, z, w)
    read = [z]
    if ti_arch == "vulkan":  # NVIDIA's driver cuts off what it would have rounded.
        read.append(np.nextafter(z, np.float16(0)))
    assert any(w == np.float16(np.float32(value) - np.float32(0.111)) for value in read)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_the_least_integer_has_no_magnitude(ti_arch: str, dtype: str) -> None:
    kind = DType(dtype).numpy
    x = np.array([np.iinfo(kind).min, -7, 7] * 50, kind)
    for loop in LOOPS[ti_arch]:
        block = {"block_dim": 32} if loop == "blocks" else {}
        a, b, c, d = (np.zeros_like(x) for _ in range(4))
        tikgen.elementwise(
            "p = abs(x)//3; q = abs(x) < 0; r = max(abs(x), -5); s = abs(x) % 5",
            dtype,
            loop=loop,
            unroll=1,
            **block,
        )(x, a, b, c, d)
        with np.errstate(all="ignore"):
            size = np.abs(x)
            for found, wanted in ((a, size // 3), (b, size < 0), (c, np.maximum(size, -5))):
                np.testing.assert_array_equal(found, wanted, err_msg=loop)
            np.testing.assert_array_equal(d, size % kind.type(5))


def test_half_powers_are_square_roots(ti_arch: str) -> None:
    text = "p = x**1.5; q = x**-0.5; r = (x + y)**-2.5; s = x**0.25; t = 2**x"
    folded = str(tikgen.expression.Assignments.parse(text).folded(DType.f32))
    assert folded == (
        "p = x * sqrt(x); q = 1 / sqrt(x); "
        "r = 1 / ((x + y) ** 2 * sqrt(x + y)); s = x ** 0.25; t = 2 ** x"
    )
    kernel = tikgen.elementwise("p = x**1.5; q = x**-0.5; r = (x + y)**-2.5")
    x, y = np.linspace(-1, 4, 64, dtype=np.float32), np.full(64, 0.5, np.float32)
    found = [np.empty_like(x) for _ in range(3)]
    kernel(x=x, y=y, p=found[0], q=found[1], r=found[2])
    with np.errstate(all="ignore"):
        wide, total = x.astype(np.float64), (x + y).astype(np.float64)
        for one, expected in zip(found, (wide**1.5, wide**-0.5, total**-2.5), strict=True):
            np.testing.assert_allclose(one[x > 0], expected[x > 0], rtol=2e-6)


def test_what_has_nothing_to_fold_stays_the_same_tree() -> None:
    plain = Expression.parse("a*x + y")
    assert plain.folded(DType.f32) is plain
    mixed = Expression.parse("a*x + 2*3*y")
    assert mixed.folded(DType.f32).node.args[0] is mixed.node.args[0]
