"""Equations of SymPy: what they become as text, what they are worth, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tikgen
from some_cases import examples
from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, ParameterError
from tikgen.expression import Equations

sympy = pytest.importorskip("sympy")
from tikgen.expression.sympy_text import read  # noqa: E402

t, x, y, h, dt, D, k = sympy.symbols("t x y h dt D k")
i, j = sympy.symbols("i j", integer=True)
n = sympy.Idx("n", 8)
F, u, v = sympy.Function, sympy.Function("u"), sympy.Function("v")
A, B, X = map(sympy.IndexedBase, "abx")
Eq, Rational, Symbol = sympy.Eq, sympy.Rational, sympy.Symbol


def text(*equations: Any) -> str:
    return read(list(equations)).text


def at(name: str, its_offsets: tuple[Any, ...], its_index: tuple[int, ...] = ()) -> Any:
    """Return an access to a field as pystencils writes it."""

    class Access(sympy.Symbol):
        field, offsets, index = SimpleNamespace(name=name), its_offsets, its_index

    return Access(f"{name}_{its_offsets}")


# What equations become.


def test_gray_scott_is_the_text_a_person_would_write() -> None:
    r, feed = Symbol("r"), Symbol("F")
    one, two = u(t, x, y), v(t, x, y)
    found = read(
        [
            Eq(r, one * two**2),
            Eq(u(t + dt, x, y), one + dt * (D * (one.diff(x, 2) + one.diff(y, 2)) - r + feed)),
        ]
    )
    assert found.text == "r = u * v ** 2\nu' = dt * (D * lap(u) + F - r) + u"
    assert (found.dim, found.numbers) == (2, ("D", "F", "dt"))


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        (u(t, x).diff(x), "dx(u)"),
        (u(t, x).diff(x, 3), "dx(dxx(u))"),
        (sympy.Derivative(u(t, x) ** 3, x), "dx(u ** 3)"),
        (2 * u(t, x) - u(t - dt, x), "2 * u - u_prev"),
        (u(t, x + 2 * h) - u(t, x - h), "u[2] - u[-1]"),
        (v(x) * x, "x * v"),
        (Rational(1, 3) * u(t, x), "1 / 3 * u"),
        (-(10**30) * u(t, x) + 2**63, "9223372036854775808 - 1e+30 * u"),
        (Rational(10**30, 3**70) * u(t, x), f"{10**30 / 3**70} * u"),
        (Rational(10**400, 10**399 - 1) * u(t, x), "10.0 / 1 * u"),
        (u(t, x) / (k * dt), "u / (dt * k)"),
        (sympy.sqrt(u(t, x)), "sqrt(u)"),
        (u(t, x) ** Rational(-3, 2), "1 / (u * sqrt(u))"),
        (u(t, x) ** 1.5, "u * sqrt(u)"),
        (u(t, x) ** -1.5, "1 / (u * sqrt(u))"),
        (u(t, x) ** 0.3, "u ** 0.3"),
        (u(t, x) ** -2, "1 / u ** 2"),
        (sympy.exp(-u(t, x)) + sympy.pi, "pi + exp(-u)"),
        (-u(t, x) - k, "-k - u"),
        (sympy.Pow(sympy.E, u(t, x), evaluate=False), "exp(u)"),
        (sympy.EulerGamma * u(t, x), "0.5772156649015329 * u"),
        (sympy.atan(u(t, x)), "atan(u)"),
        (sympy.sinh(u(t, x)) * sympy.cosh(k * v(x)), "sinh(u) * cosh(k * v)"),
        (sympy.Abs(sympy.exp(k * u(t, x) ** 2)), "exp(k * u ** 2)"),
        (sympy.Abs(sympy.exp(sympy.Abs(sympy.exp(v(x))))), "exp(exp(v))"),
        (sympy.Mod(u(t, x), 3), "u % 3"),
        (sympy.Heaviside(u(t, x), 1), "where(u < 0, 0, 1)"),
        (sympy.Heaviside(u(t, x)), "where(u < 0, 0, where(u == 0, 1 / 2, 1))"),
        (sympy.cot(u(t, x)), "1 / tan(u)"),
        (sympy.sec(u(t, x)) * sympy.csc(k), "1 / (sin(k) * cos(u))"),
        (sympy.frac(u(t, x)), "u - floor(u)"),
        (sympy.Sum(u(t, x + k * h), (k, 0, 1)), "u + u[1]"),
        (
            sympy.Piecewise((k, (u(t, x) > 0) & (x < 1)), (0, True)),
            "where(u > 0 and x < 1, k, 0)",
        ),
        (
            sympy.Piecewise((k, sympy.Not((u(t, x) > 0) & (x < 1))), (0, True)),
            "where(not (u > 0 and x < 1), k, 0)",
        ),
        (
            sympy.Piecewise((k, sympy.ITE(x > 1, u(t, x) > 0, u(t, x) < k)), (0, True)),
            "where(x > 1 and u > 0 or (not x > 1 and k > u), k, 0)",
        ),
    ],
)  # fmt: skip
def test_terms_of_functions(right: Any, expected: str) -> None:
    assert text(Eq(u(t + dt, x), right)) == f"u' = {expected}"


def test_derivatives_along_every_axis_are_a_laplacian() -> None:
    one, two = u(t, x, y), v(t, x, y)
    flow = D * one.diff(x, 2) + D * one.diff(y, 2) + two.diff(x, 2) - k * two.diff(y, 2)
    found = text(Eq(u(t + dt, x, y), flow + one.diff(x, y)))
    assert sorted(found.removeprefix("u' = ").replace(" - ", " + -").split(" + ")) == [
        "-k * dyy(v)", "D * lap(u)", "dxx(v)", "dxy(u)"
    ]  # fmt: skip


def test_indexed_bases_count_points() -> None:
    assert text(Eq(B[i, j], A[i + 1, j] - A[i, j - 2] + i)) == "b = i + a[1, 0] - a[0, -2]"
    points = sympy.symbols("p q", cls=sympy.Idx)
    assert text(Eq(B[points], A[points[0], points[1] + 1])) == "b = a[0, 1]"
    assert text(Eq(A[t + 1, i], A[t, i] - A[t - 1, i])) == "a' = a - a_prev"


def test_equations_come_in_several_forms() -> None:
    wanted = "b = 2 * a"
    assert read((B[i], 2 * A[i])).text == wanted
    for form in ({B[i]: 2 * A[i]}, [(B[i], 2 * A[i])], Eq(B[i], 2 * A[i]), [Eq(B[i], 2 * A[i])]):
        assert read(form).text == wanted
    own = [sympy.codegen.ast.Assignment(B[n], 2 * A[n])]
    assert read(sympy.codegen.ast.CodeBlock(*own)).text == wanted
    assert read(own).text == read(SimpleNamespace(all_assignments=own)).text == wanted


def test_augmented_assignments_read_what_they_assign() -> None:
    operations = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "%": "Mod"}
    for sign, word in operations.items():
        augmented = getattr(sympy.codegen.ast, f"{word}AugmentedAssignment")(A[n], B[n])
        assert text(augmented) == f"a = a {sign} b"


def test_equal_points_are_found_however_sympy_writes_them() -> None:
    slope = sympy.Abs((u(x + h) - u(x - h)) / h)
    assert text(Eq(v(x), slope)) == "v = abs((u[-1] - u[1]) / h)"


# Whose names they are.


@pytest.mark.parametrize(
    ("equation", "expected", "names"),
    [
        (Eq(u(t, x), k * F("e")(t, x)), "u = k * e", ("k", "e", "u")),
        (Eq(u(t, x), F("e")(t, x).diff(x)), "u = dx(e)", ("e", "u")),
        (Eq(B[i, j], A[i, j] - X[i, j]), "b = a - x", ("a", "x", "b")),
        (Eq(X[i], k * X[i] + F("pi")(i)), "x = k * x + pi", ("k", "x", "pi")),
        (Eq(F("x")(t + dt, h), F("x")(t, h) + k), "x' = k + x", ("k", "x", "x_next")),
        (
            Eq(u(t, x), sympy.E * Symbol("pi") + sympy.pi * Symbol("e")),
            "u = 3.141592653589793 * e + 2.718281828459045 * pi",
            ("e", "pi", "u"),
        ),
        (Eq(u(x), sympy.E * v(x) + F("e")(x)), "u = e + 2.718281828459045 * v", ("e", "v", "u")),
    ],
)  # fmt: skip
def test_fields_and_symbols_keep_their_names(equation: Any, expected: str, names: Any) -> None:
    kernel = tikgen.update(equation, boundary="periodic")
    assert kernel.params["equations"].source == expected
    assert kernel.signature.names == names


def test_dummies_are_set_apart() -> None:
    one, two, three = (sympy.Dummy(name) for name in ("r", "r", "u_next"))
    found = read([Eq(one, u(t, x)), Eq(two, v(t, x)), Eq(u(t + dt, x), one + 10 * two + three)])
    assert found.text == "r = u\nr_2 = v\nu' = r + 10 * r_2 + u_next_2"
    assert found.numbers == ("u_next_2",)


def test_types_of_a_call_go_before_those_of_names() -> None:
    equation = Eq(u(t, x), v(t, x) * F("e")(t, x))
    kernel = tikgen.update(equation, dtype="f64", types={"e": "f32"})
    assert kernel.params["types"] == {"e": "f32"}
    with pytest.raises(ParameterError, match="'e': means something else"):
        tikgen.build("update", equations=equation, dim=1)


def test_fields_of_pystencils_are_taken() -> None:
    assert read([(at("g", (0, 0)), 2 * at("f", (1, 0)))]).text == "g = 2 * f[1, 0]"


def test_what_is_read_is_equal_to_the_text() -> None:
    equations = [Eq(u(t + dt, x), u(t, x) + dt * u(t, x).diff(x, 2))]
    assert Equations.parse(equations) == Equations.parse("u' = dt*dxx(u) + u")
    kernel = tikgen.update(equations, boundary="periodic")
    assert kernel is tikgen.update("u' = dt*dxx(u) + u", 1, "dt", boundary="periodic")
    assert kernel is tikgen.build(
        "update", equations=equations, dim=1, scalars="dt", boundary="periodic"
    )


def test_constants_are_no_scalars() -> None:
    kernel = tikgen.update(Eq(B[i], k * D * A[i]), scalars="D", constants={"k": 2.0})
    assert kernel.signature.names == ("D", "a", "b")


# What they are worth.

NAMES = {"p": Symbol("p"), "q": Symbol("q"), "a": A[i], "a\u00b71": A[i + 1]}
LEAVES = st.sampled_from([*NAMES.values(), *map(sympy.Integer, (-2, 3)), Rational(2, 3)])


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.tuples(inner, inner)
    exponents = st.sampled_from([-2, -1, 2, 3, Rational(1, 2), Rational(-1, 2), Rational(3, 2)])
    return st.one_of(
        pairs.map(lambda two: two[0] + two[1]),
        pairs.map(lambda two: two[0] - two[1]),
        pairs.map(lambda two: two[0] * two[1]),
        pairs.map(lambda two: two[0] / (1 + two[1] ** 2)),
        pairs.map(lambda two: sympy.Max(two[0], two[1])),
        pairs.map(lambda two: sympy.Piecewise((two[0], two[1] > two[0]), (two[1] + 1, True))),
        st.tuples(inner, exponents).map(lambda two: (1 + sympy.Abs(two[0])) ** two[1]),
        inner.map(sympy.tanh),
        inner.map(sympy.sin),
        inner.map(lambda one: sympy.exp(-(one**2))),
    )


@settings(max_examples=examples(60, 30), deadline=None)
@example(sympy.exp(-((1 + sympy.Abs(sympy.exp(-(NAMES["p"] ** 2)))) ** -2)), 0)
@given(st.recursive(LEAVES, _grown, max_leaves=6), st.integers(0, 2**32 - 1))
def test_the_reference_agrees_with_lambdify(right: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = {name: random.uniform(-2, 2, 16) for name in NAMES}
    found = read([(B[i], right)])
    update = Equations.parse([(B[i], right)]).on(1, scalars=found.numbers)
    symbols = {name: sympy.Dummy() for name in NAMES}
    plain = right.xreplace({NAMES[name]: symbol for name, symbol in symbols.items()})
    expected = sympy.lambdify(list(symbols.values()), plain, "numpy")(*values.values())
    read_here = {name: values[name] for name in update.assignments.inputs}
    computed = update.assignments.evaluate(**read_here)["b"] if read_here else None
    if computed is None:  # A number.
        computed = Equations.parse([(B[i], right)]).on(1).assignments.evaluate()["b"]
        read_here = {}
    allowed = update.assignments.error_bound(read_here, DType.f64)["b"]
    # SymPy's order of operations may differ, so that both have rounding errors.
    assert np.all(~np.isfinite(allowed) | (np.abs(computed - expected) <= 8 * allowed + 1e-15))


# What is refused.


@pytest.mark.parametrize(
    "number", [2**64, -(10**30), Rational(2, 3**70), Rational(2**80, 2**79 - 1)]
)
def test_integers_refuse_numbers_that_only_floats_hold(number: Any) -> None:
    found = read(Eq(B[i], number * A[i])).text
    Equations.parse(found).on(1).assignments.check(DType.f64)
    with pytest.raises(ExpressionError, match=r"does not fit i64|needs a float dtype"):
        Equations.parse(found).on(1).assignments.check(DType.i64)


@pytest.mark.parametrize(
    ("equations", "problem"),
    [
        (Eq(u(t + dt, x), u(t, x).diff(t)), "is a derivative in time; write the step"),
        (Eq(u(t, x).diff(t), k), "cannot be assigned; write the step"),
        (Eq(u(t + dt, x), sympy.gamma(u(t, x))), r"gamma\(u\(t, x\)\).*is a function \(gamma\)"),
        (Eq(u(x), sympy.Integral(v(x), x)), "Integral"),
        (Eq(u(x), sympy.I * v(x)), "'I'"),
        (Eq(u(x), sympy.oo, evaluate=False), "not a finite number"),
        (Eq(u(x), sympy.Float("1e-400") * v(x)), "too small or too large"),
        (Eq(u(x), sympy.Float("1e400") * v(x)), "too small or too large"),
        (Eq(u(x), 10**400 * v(x)), "too small or too large"),
        (
            Eq(u(t + dt, x), u(t, x) + u(t, -x)),
            r"'u\(t, -x\)': cannot be placed: it is at -x; write x, or .*, as in x \+ h",
        ),
        (Eq(u(t + dt, x), u(t, x) + u(t, 2 * x)), "cannot be placed: it is at 2.x"),
        (Eq(u(x), v(h - x)), "cannot be placed: it is at h - x"),
        (Eq(u(t + dt, x), u(t, x * h)), r"cannot be placed: it is at h\*x"),
        (Eq(u(t + dt, x), u(2 * t, x)), r"it is at 2\*t; write t, or .*, as in t \+ dt"),
        (
            Eq(u(t + dt, x), u(t, x + dt)),
            r"'u\(t, dt \+ x\)': is shifted along x by dt, which is the step in time; write",
        ),
        (Eq(B[i], A[-i]), r"it is at -i; write i, or .*, as in i \+ 1"),
        (Eq(B[i], A[i + k]), r"is shifted by k; write a number of points, as in i \+ 1"),
        (Eq(B[i], A[i + sympy.Rational(1, 2)]), "lies between points"),
        (Eq(u(x), v(x + h / 2)), "lies between points"),
        (Eq(u(x), v(x + 1)), r"write the distance of points, as in x \+ h"),
        (Eq(u(x), v(x + h) + v(x + k)), "is shifted by"),
        (Eq(u(x), v(y)), "has other axes"),
        (Eq(u(x + h), v(x)), "is not the point itself"),
        (Eq(u(t - dt, x), u(t, x)), "is a value of the past"),
        (Eq(u(t + dt, x), u(t - 2 * dt, x)), "further than one step"),
        (Eq(u(x), sympy.Derivative(k * v(x), k)), "which is no axis"),
        (Eq(B[i], A[0]), "cannot be placed"),
        (Eq(u(x), sympy.Piecewise((v(x), v(x) > 0))), "other cases"),
        (Eq(Symbol("\\alpha"), u(x)), "cannot be a name"),
        (Eq(Symbol("lambda"), u(x)), "cannot be a name"),
        (Eq(u(x), Symbol("v") * v(x)), "is a field and a plain symbol"),
        (Eq(u(t + dt, x), u(t - dt, x) + Symbol("u_prev")), "is the past value"),
        (Eq(u(t + dt, x), u(t, x) + Symbol("u_next")), "is the next value"),
        (Eq(u(h, k), Symbol("x") * h + v(h, k)), "would be a coordinate and a number"),
        (Eq(F("x")(h, k), F("x")(h, k) * h), "would be a coordinate and a field"),
        (Eq(u(x), k * Symbol("k", real=True)), r"two things, .*Symbol\('k', real=True\)"),
        (Eq(u(x), Symbol("x", real=True)), "is the name of two things"),
        (Eq(u(x), F("v", real=True)(x) + v(x)), "is the name of two things"),
        (Eq(Symbol("u"), u(x)), "is a field and a plain symbol"),
        (SimpleNamespace(lhs=u(x), rhs=v(x)), "is no equation"),
        (SimpleNamespace(lhs=u(x), rhs=v(x), is_Increment=True), "is an increment"),
        (Eq(x, u(x)), "cannot be assigned"),
        (u(x) > 0, "is a comparison"),
        (Eq(x, x), "is no equation"),
        ([], "is empty"),
        (7, "is no equation"),
        ([(u(x), "v")], "is no expression of SymPy"),
        (Eq(u(x), sympy.MatrixSymbol("M", 2, 2)[0, 0] * v(x)), "do not have"),
        (Eq(u(x), sympy.Piecewise((1, sympy.Xor(v(x) > 0, x > 1)), (0, True))), "no comparison"),
        ([(u(x), sympy.Matrix([v(x), 1]))], "has several components"),
        ([(at("g", (0, 0)), at("f", (1,)))], "has another number of axes"),
        (Eq(u(*sympy.symbols("x y z w")), 1), "has 4 axes in space; 1 to 3 work"),
        ([(at("g", (0, 0)), at("f", (1, 0), (1,)))], "is a component of a field"),
        ([(at("g", (0, 0)), at("f", (0.5, 0)))], "has an offset that is no whole number"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(equations: Any, problem: str) -> None:
    with pytest.raises(ExpressionError, match=problem):
        read(equations)


def test_refusals_reach_the_user_as_a_wrong_parameter() -> None:
    with pytest.raises(ParameterError, match="gamma"):
        tikgen.update(Eq(u(x), sympy.gamma(v(x))))
    with pytest.raises(ParameterError, match="is 3, and the fields have 1"):
        tikgen.update(Eq(u(x), v(x)), dim=3)
