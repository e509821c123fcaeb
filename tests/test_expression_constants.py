"""What expressions compute from literals: in the dtype, as NumPy does it, never by Taichi."""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tikgen
from tikgen import DType, Expression
from tikgen.dtypes import INTS

LOOPS = {"cpu": ("rows", "points", "flat", "blocks"), "vulkan": ("rows", "points", "blocks")}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


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
            return ast.Call(ast.Name("N", ast.Load()), [node], [])

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
        "AND": lambda a, b: number((a != 0) & (b != 0)),
        "OR": lambda a, b: number((a != 0) | (b != 0)),
        "NOT": lambda a: number(a == 0),
    }


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(INTS))
def test_literals_fold_to_one(data: Any, dtype: str) -> None:
    kind = DType(dtype)
    text = data.draw(integer_trees(kind, ("(1)",)))
    expression = Expression.parse(text)
    with np.errstate(all="ignore"):
        meant = by_numpy(text, kind).item()
    assert expression.taichi({}, kind) == kind.literal(meant)
    assert expression.evaluate(x=kind.numpy.type(0)) == meant


# Every example is compiled, so that to shrink one would take minutes.
@settings(
    max_examples=5,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
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
