"""Expressions: refused texts, values, and generated code. Taichi is not needed."""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from tikgen import Assignments, DType, Expression
from tikgen.errors import ExpressionError, ParameterError
from tikgen.expression import lacks_on_vulkan
from tikgen.expression.tree import FUNCTIONS
from tikgen.template.parameters import ProblemModel, make_model, parameter

REFUSED = {
    "a call of an unknown function": ("open(x)", "calls 'open', which is not a function"),
    "a near name": ("sqr(x)", "Did you mean 'sqrt'?"),
    "eval": ("eval(x)", "calls 'eval'"),
    "an attribute": ("x.shape", "'x.shape' is an attribute"),
    "a method": ("x.sum()", "'x.sum' is an attribute, and only functions can be called"),
    "a function of NumPy": (
        "x + np.sin(2*x)",
        "'np.sin' is an attribute, and only functions can be called; write 'sin(2*x)'",
    ),
    "a function of some module": ("m.foo(x)", "only functions can be called.|can be called"),
    "a keyword as a name": ("2*lambda + 1", "'lambda' is a keyword of Python; choose another name"),
    "a keyword before an operator": ("in*2", "'in' is a keyword of Python; choose another name"),
    "a keyword between names": ("(x in y", "'(' was never closed"),
    "a called call": ("sin(x)(y)", "'sin(x)' is a call, and only functions can be called"),
    "an import": ("import os", "no statement"),
    "the import function": ("__import__(x)", "calls '__import__'"),
    "a dunder name": ("__class__", "'__class__' begins with an underscore"),
    "a dunder attribute": ("x.__class__", "is an attribute"),
    "the way to object": ("().__class__.__bases__[0]", "is a subscript"),
    "an underscore": ("_x + 1", "'_x' begins with an underscore"),
    "a lambda": ("lambda x: x", "is a lambda"),
    "a called lambda": ("(lambda: x)()", "is a lambda, and only functions can be called"),
    "a subscript": ("x[0]", "'x[0]' is a subscript"),
    "a list": ("[x]", "is a list"),
    "a tuple": ("x, y", "is a tuple"),
    "a comprehension": ("[y for y in x]", "is a comprehension"),
    "a generator": ("max(y for y in x)", "max() takes 2 to 16 arguments; got 1"),
    "a string": ("'x'", "is a string"),
    "bytes": ("b'x'", "is a bytes"),
    "a truth value": ("True", "is a truth value"),
    "None": ("None", "is a NoneType"),
    "an ellipsis": ("...", "is a ellipsis"),
    "a complex number": ("2j*x", "2j is a complex number"),
    "an f-string": ("f'{x}'", "is an f-string"),
    "a walrus": ("(y := x)", "is a walrus assignment"),
    "keyword arguments": ("sin(x=y)", "sin() takes no keyword arguments"),
    "starred arguments": ("min(*x, y)", "is a starred value"),
    "double stars": ("sin(**x)", "sin() takes no keyword arguments"),
    "too few arguments": ("where(x, y)", "where() takes 3 arguments; got 2"),
    "too many arguments": ("sin(x, y)", "sin() takes 1 argument; got 2"),
    "an inversion": ("~(x > 1)", "'~(x > 1)' is of a condition: write 'not'"),
    "bits before comparisons": ("x > 0 & y > 0", "'0 & y' comes before the comparisons beside it"),
    "C's and": ("x > 0 && x < 1", "write 'and' for '&&'"),
    "C's or": ("x > 0 || x < 1", "write 'or' for '||'"),
    "C's not": ("!x != y", "write 'not' for '!'"),
    "C's choice": ("x ? y : z", "write 'a if c else b' for '?'"),
    "a matrix product": ("x @ y", "is Python's BinOp"),
    "membership": ("x in y", "'is' and 'in' are not allowed"),
    "identity": ("x is y", "'is' and 'in' are not allowed"),
    "an await": ("await x", "is Python's Await"),
    "a statement": ("del x", "no statement"),
    "two expressions": ("x; y", "no statement"),
    "an assignment": ("y = x", "no statement"),
    "a line break": ("x\n+ y", "a line break ends a statement unless an operator or"),
    "a carriage return": ("x\r", "the character '\\r'"),
    "a null": ("x\0", "the character '\\x00'"),
    "a form feed": ("x\f+y", "the character '\\x0c'"),
    "letters beyond ASCII": ("ｘ + 1", "the character 'ｘ'"),
    "a comment": ("x # y", "a comment"),
    "a syntax error": ("x +", "is not arithmetic"),
    "a misspelt bracket": ("(x", "is not arithmetic"),
    "Jinja": ("{{ x }}", "is Python's Set"),
    "nothing": ("  ", "is empty"),
    "a function as a value": ("sin + 1", "'sin' is a function and cannot name a value"),
    "Taichi": ("ti", "'ti' is used by generated code"),
    "a name of ours": ("floor_divide + x", "'floor_divide' is used by generated code"),
    "a huge number": ("1e999", "too large"),
    "a huge integer": ("9" * 100, "too large"),
    "a long text": ("x+" * 1500 + "x", "at most 2000 are allowed"),
    "deep brackets": ("(" * 900 + "x" + ")" * 900, "is not arithmetic|nested"),
    "deep operators": ("-" * 1500 + "x", "nested"),
    "a long sum": ("x+" * 900 + "x", "a sum or product of more than 200 operations"),
    "a wide sum": ("+".join(["(" + "+".join(["x"] * 25) + ")"] * 22), "more than 1000 operations"),
    "a long or": (" or ".join(["x"] * 390), "nested more than 100 levels deep"),
    "a long chain": ("<".join(["x"] * 390), "nested more than 100 levels deep"),
    "nested minima": ("min(" * 30 + "x" + f"{', x' * 15})" * 30, "nested more than 100 levels"),
    "a number": (3, "takes a text; got int"),
    "a list object": (["x"], "takes a text; got list"),
}


@pytest.mark.parametrize(
    "text", ["x +\ny*2", "x + y *\n\n  \n 2", "x\\\n + y*2", "(x +\n y *\n2)", "x +\r\n  y*2"]
)
def test_a_line_goes_on_behind_an_operator(text: str) -> None:
    assert Expression.parse(text) == Expression.parse("x + y*2")


def test_statements_go_on_behind_an_operator() -> None:
    text = "z = x  # less -\nw = z -  # more\n# and more +\n\n  y\nv =\n  w > 0 and\n not z"
    wanted = "z = x; w = z - y; v = w > 0 and not z"
    found = tikgen.update(text, dim=1)
    assert found.params["equations"] == tikgen.update(wanted, dim=1).params["equations"]


@pytest.mark.parametrize("text, problem", REFUSED.values(), ids=REFUSED)
def test_a_refused_expression_is_explained(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Expression.parse(text)
    assert any(part in str(caught.value) for part in problem.split("|")), str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text, problem",
    {
        "z = x\n+ y": "a line break ends a statement",
        "z = x\nw = y\n  v = y": "is not arithmetic: unexpected indent",
        "z += x": "write it out, as in 'y = y + x'",
        "z = x; w = z; z = y; z = 2": "'z' is assigned twice, and nothing reads the first value",
        "z, w = x": "'z, w': assign to one plain name",
        "z = w = x": "assign to one plain name",
        "z.real = x": "'z.real': assign to one plain name",
        "z[0] = x": "assign to one plain name",
        "import os": "has an import",
        "from os import path": "has an import",
        "z = x; import os": "has an import",
        "z: f32 = x": "Python's AnnAssign",
        "z = x; y": "a bare expression",
        "def f(): pass": "Python's FunctionDef",
        "while x: pass": "Python's While",
        "__z = x": "begins with an underscore",
        "sin = x": "'sin' is a function",
        "z = open(x)": "calls 'open'",
        "": "is empty",
    }.items(),
)
def test_a_refused_program_is_explained(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        Assignments.parse(text)
    assert problem in str(caught.value)


class _Model(ProblemModel):
    expr: Expression = parameter("an expression")
    program: Assignments | None = parameter("a program", None)


def test_a_bad_expression_is_a_bad_parameter() -> None:
    with pytest.raises(ParameterError) as caught:
        make_model(_Model, {"expr": "x.shape"}, "demo")
    assert caught.value.parameter == "expr"
    assert "'x.shape' is an attribute" in str(caught.value)
    with pytest.raises(ParameterError, match="has an import"):
        make_model(_Model, {"expr": "x", "program": "import os"}, "demo")


def test_a_plus_sign_changes_nothing() -> None:
    assert Expression.parse("+x * +2") == Expression.parse("x * 2")


def test_names_are_in_order_of_use() -> None:
    assert Expression.parse("y + sin(x)*y - pi*e + z0").names == ("y", "x", "z0")


def test_names_can_be_restricted() -> None:
    expression = Expression.parse("alpha*x + beta")
    expression.require(["alpha", "x", "beta"])
    with pytest.raises(ExpressionError, match=r"'beta' is unknown\. Did you mean 'bet'"):
        expression.require(["alpha", "x", "bet"])


def test_equal_expressions_are_equal_and_frozen() -> None:
    one, other = Expression.parse("a*x+y"), Expression.parse(" (a * x) + y ")
    assert one == other and hash(one) == hash(other) and str(one) == "a * x + y"
    assert Expression.parse(one) is one
    assert repr(one) == "Expression('a * x + y')"
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Expression.parse("a*x-y") and one != "a * x + y"
    with pytest.raises(AttributeError, match="frozen"):
        one.text = "b"


@pytest.mark.parametrize(
    "text, code",
    {
        "a*x + y": "a * x[i] + y[i]",
        "-(x+y)*2**-x": "-(x[i] + y[i]) * ti.pow(ti.f32(2.0), -x[i])",
        "(x+y)**-x": "power(x[i] + y[i], -x[i])",
        "x-(y-x)-y": "x[i] - (y[i] - x[i]) - y[i]",
        "(x*y)/(x*y)": "x[i] * y[i] / (x[i] * y[i])",
        "(-x)**2 + -x**2": "(-x[i]) ** 2 + -x[i] ** 2",
        "x if x > 0 else -0.1": "ti.select(x[i] > ti.f32(0.0), x[i], ti.f32(-0.1))",
        "(x > y)*2": "ti.cast(x[i] > y[i], ti.f32) * ti.f32(2.0)",
        "min(x, y, 1)": "ti.min(ti.min(x[i], y[i]), ti.f32(1.0))",
        "0 < x < 1": "ti.cast((ti.f32(0.0) < x[i]) & (x[i] < ti.f32(1.0)), ti.f32)",
        "not (x and y)": (
            "ti.cast(not ((not x[i] == ti.f32(0.0)) & (not y[i] == ti.f32(0.0))), ti.f32)"
        ),
        "where(x > y and y > a and not x > a, x, y)": (
            "ti.select((x[i] > y[i]) & (y[i] > a) & (not x[i] > a), x[i], y[i])"
        ),
        "where(x > y or x > a and y > a, x, y)": (
            "ti.select((x[i] > y[i]) | ((x[i] > a) & (y[i] > a)), x[i], y[i])"
        ),
        "where(x > y and isnan(y), x, y)": (
            "ti.select((x[i] > y[i]) & ti.math.isnan(y[i]), x[i], y[i])"
        ),
        "round(x)": "round_half_even(x[i])",
    }.items(),
)
def test_taichi_code_reads_as_if_written_by_hand(text: str, code: str) -> None:
    values = {"a": "a", "x": "x[i]", "y": "y[i]"}
    assert Expression.parse(text).taichi(values, DType.f32) == code


def test_taichi_code_guards_integers() -> None:
    values = {"x": "x[i]", "y": "y[i]"}
    divide = Expression.parse("x // y")
    assert divide.taichi(values, DType.i32) == "floor_divide(x[i], y[i])"
    assert "def floor_divide" in divide.helpers(DType.i8)
    assert "ti.cast(a, ti.i32)" in divide.helpers(DType.i8)
    assert "def truncated_remainder" in divide.helpers(DType.f32)
    assert Expression.parse("x // 3").taichi(values, DType.i64) == "floor_divide(x[i], ti.i64(3))"
    assert Expression.parse("x // 0").taichi(values, DType.i64) == "floor_divide(x[i], ti.i64(0))"
    narrow = Expression.parse("abs(x)").taichi(values, DType.i8)
    assert narrow == "abs_of(x[i])"
    assert "ti.cast(x, ti.i32)" in Expression.parse("abs(x)").helpers(DType.i8)
    assert Expression.parse("-x").taichi(values, DType.u32) == "ti.u32(0) - x[i]"
    # Taichi aborts on an f16 divided by a constant.
    half = Expression.parse("x / 3").taichi(values, DType.f16)
    assert half == "ti.cast(widened(x[i]) / ti.f32(3.0), ti.f16)"


@pytest.mark.parametrize(
    "text, dtype, problem",
    [
        ("x / y", "i32", "use // to round down"),
        ("exp(x)", "i64", "exp() needs a float dtype"),
        ("pi * x", "u8", "pi needs a float dtype"),
        ("0.5 * x", "i32", "0.5 does not fit i32"),
        ("300 * x", "i8", "300 does not fit i8"),
        ("-1 * x", "u16", "-1 does not fit u16"),
        ("1e300 * x", "f32", "1e+300 does not fit f32"),
        ("x ** y", "i32", "takes a literal whole exponent from 0 to 64"),
        ("x ** -1", "i32", "takes a literal whole exponent from 0 to 64"),
        ("x ** 65", "i64", "takes a literal whole exponent from 0 to 64"),
        ("x & y", "f32", "& needs an integer dtype, and this one is f32; write 'and' between"),
        ("x ^ 2", "f64", "^ needs an integer dtype, and this one is f64; write '**' for a power"),
        ("x << 16*2", "i32", "<< 32 goes beyond the 32 bits of i32"),
        ("x >> 8", "u8", ">> 8 goes beyond the 8 bits of u8"),
        ("x >> -1", "i64", ">> -1 goes beyond the 64 bits of i64"),
    ],
)
def test_an_operation_that_a_dtype_cannot_do_is_refused(
    text: str, dtype: str, problem: str
) -> None:
    expression = Expression.parse(text)
    with pytest.raises(ExpressionError) as caught:
        expression.check(DType(dtype))
    assert problem in str(caught.value)
    with pytest.raises(ExpressionError):
        expression.taichi({"x": "x", "y": "y"}, DType(dtype))


@pytest.mark.parametrize("text", [" or ".join(["x>y"] * 98), "min(" + "x, " * 15 + "x)", "x<y<z<w"])
def test_joined_operands_count_as_if_written_out(text: str) -> None:
    expression = Expression.parse(text)
    assert Expression.parse(expression.text).node == expression.node


def test_an_expression_with_a_long_text_can_be_copied_and_used() -> None:
    expression = Expression.parse(" or ".join(["x"] * 100))
    assert pickle.loads(pickle.dumps(expression)).node == expression.node
    program = Assignments.parse(expression)
    assert program.text == f"out = {expression}"
    assert pickle.loads(pickle.dumps(program)) == program
    assert Assignments.parse(Expression.parse("out + 1")).outputs == ("out1",)


DEEPEST = {
    "operators": "-(" * 98 + "x" + ")" * 98,
    "calls": "sin(x<" * 49 + "x" + ")" * 49,
    "minima": "min(x," * 98 + "x" + ")" * 98,
    "a sum": "x+" * 98 + "x",
    "or": " or ".join(["x"] * 98),
}


@pytest.mark.parametrize("text", DEEPEST.values(), ids=DEEPEST)
def test_the_deepest_trees_can_be_used(text: str) -> None:
    expression = Expression.parse(text)
    x = np.array([0.5], np.float32)
    compile(expression.taichi({"x": "x[i]"}, DType.f32), "code", "eval")
    assert expression.evaluate(x=x).shape == (1,)
    assert expression.error_bound({"x": x}, DType.f32).shape == (1,)


@pytest.mark.parametrize("dtype", ["i8", "u16", "f16"])
def test_small_types_take_less_depth(dtype: str) -> None:
    # Their casts would nest more parentheses than Python reads.
    for text in ("abs(" * 60 + "x" + ")" * 60, "min(x," * 60 + "x" + ")" * 60):
        with pytest.raises(ExpressionError, match=f"48 levels deep, too deep for {dtype}"):
            Expression.parse(text).check(DType(dtype))
    code = Expression.parse("abs(" * 47 + "x" + ")" * 47).taichi({"x": "x"}, DType(dtype))
    compile(code, "code", "eval")


def test_vulkan_lacks_functions_in_f64_only() -> None:
    functions = Assignments.parse("y = x**2 + sin(x)").functions
    assert "sin of an f64 does not work" in str(lacks_on_vulkan(functions, DType.f64))
    assert lacks_on_vulkan(functions, DType.f32) is None
    assert lacks_on_vulkan(Assignments.parse("y = x**2").functions, DType.f64) is None


def test_a_program_has_inputs_and_outputs() -> None:
    program = Assignments.parse("z = a*x + y; w = x - z")
    assert (program.inputs, program.outputs) == (("a", "x", "y"), ("z", "w"))
    assert str(program) == "z = a * x + y; w = x - z"
    assert program == Assignments.parse(program) == Assignments.parse(str(program))
    updated = Assignments.parse("y = a*x + y")
    assert (updated.inputs, updated.outputs) == (("a", "x", "y"), ("y",))
    assert Assignments.parse("a*x + y").outputs == ("out",)
    assert Assignments.parse("out + out1").outputs == ("out2",)
    assert Assignments.parse(Expression.parse("a*x")).outputs == ("out",)


def test_program_evaluates_in_order() -> None:
    values = Assignments.parse("z = x + 1; w = z*z; z = w - z").evaluate(x=np.array([1.0, 2.0]))
    np.testing.assert_array_equal(values["w"], [4.0, 9.0])
    np.testing.assert_array_equal(values["z"], [2.0, 6.0])


def test_integers_wrap_and_divide_as_numpy_does() -> None:
    x = np.array([-128, -128, 7, 7, -7, 100], np.int8)
    y = np.array([-1, 0, 0, -2, 2, 3], np.int8)
    value = Expression.parse("x // y").evaluate(x=x, y=y)
    assert value.dtype == np.int8
    np.testing.assert_array_equal(value, [-128, 0, 0, -4, -4, 33])
    np.testing.assert_array_equal(Expression.parse("x % y").evaluate(x=x, y=y), [0, 0, 0, -1, 1, 1])
    np.testing.assert_array_equal(
        Expression.parse("3*x").evaluate(x=x), (3 * x.astype(int)).astype(np.int8)
    )


# Meaning: Python itself, with functions of one number, says what an expression means.
_ORACLE = {name: getattr(math, name) for name in ("sin", "cos", "tanh", "atan", "atan2")} | {
    "abs": abs,
    "min": min,
    "max": max,
    "where": lambda c, a, b: a if c else b,
    "sign": lambda v: (v > 0) - (v < 0),
}


def _expressions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(("x", "y", "a", "2", "0.5", "3", "pi"))

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
            st.builds("{} {} {}".format, inner, st.sampled_from("+-*"), inner),
            st.builds("-{}".format, inner),
            st.builds("({}) ** {}".format, inner, st.sampled_from(("0", "2", "3"))),
            st.builds(
                "{}({})".format,
                st.sampled_from(["sin", "cos", "tanh", "atan", "abs", "sign"]),
                inner,
            ),
            st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "atan2"]), inner, inner),
            st.builds("where({} < {}, {}, {})".format, inner, inner, inner, inner),
            st.builds("({0} if not {1} <= {2} or {0} else {2})".format, inner, inner, inner),
            st.builds("(({} > {}) * 2)".format, inner, inner),
            st.builds("(1 * ({} < {} != {}))".format, inner, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@settings(max_examples=200, deadline=None)
# Where Taichi has run before, numbers below the least normal one may be 0.
@given(_expressions(), st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=3, max_size=3))
def test_values_are_those_of_python(text: str, numbers: list[float]) -> None:
    expression = Expression.parse(text)
    assert Expression.parse(str(expression)) == expression
    # Arrays: NumPy has another power of scalars than of arrays.
    values = {name: np.asarray(v) for name, v in zip("axy", numbers, strict=True)}
    # Whole numbers of Python have no -0, of which atan2 gives another angle.
    of_floats = re.sub(r"(?<!\*\* )(?<![\w.])(\d+)(?![\w.])", r"\1.0", text)
    known = {**_ORACLE, **dict(zip("axy", numbers, strict=True)), "pi": math.pi}
    meant = float(eval(of_floats, known))
    got = expression.evaluate(**values)
    code = eval(expression.numpy_code(), {"np": np, "dtype": np.float64, **values})
    again = Expression.parse(str(expression)).evaluate(**values)
    if abs(meant) < 1e200:
        bound = expression.error_bound(values, DType.f64)
        # Python and NumPy have tanh of their own, which differ in the last digit; where there are
        # only literals, the bound knows NumPy's alone.
        last = 2 * np.spacing(abs(meant))
        assert abs(float(got) - meant) <= 2 * float(bound) + last
    np.testing.assert_array_equal(got, np.asarray(code, np.float64))
    np.testing.assert_array_equal(got, again)


@settings(max_examples=200, deadline=None)
@given(_expressions(), st.integers(0, 2**32 - 1))
def test_error_bound_covers_single_precision(text: str, seed: int) -> None:
    expression = Expression.parse(text)
    rng = np.random.default_rng(seed)
    values = {name: rng.uniform(-2, 2, 50).astype(np.float32) for name in "axy"}
    narrow = expression.evaluate(**values).astype(float)
    wide = expression.evaluate(**{name: v.astype(float) for name, v in values.items()})
    bound = expression.error_bound(values, DType.f32)
    with np.errstate(invalid="ignore"):
        assert np.all((narrow == wide) | (np.abs(narrow - wide) <= bound))


def test_error_bound_is_tight_if_nothing_is_undecided() -> None:
    x, y = np.float32([0.3, 0.5]), np.float32([0.7, 0.1])
    assert np.all(Expression.parse("x*y + x").error_bound({"x": x, "y": y}, DType.f32) < 4e-7)
    assert np.all(
        Expression.parse("where(x > y, x, y)").error_bound({"x": x, "y": y}, DType.f32) == 0
    )
    assert np.all(Expression.parse("x*y").error_bound({"x": x, "y": y}, DType.i32) == 0)


def test_error_bound_is_wide_only_where_the_outcome_is_undecided() -> None:
    x = np.float32([1 / 3, 0.4])
    third = Expression.parse("where(3*x < 1, 5, 7)").error_bound({"x": x}, DType.f32)
    assert third[0] >= 2 and third[1] == 0
    steps = Expression.parse("floor(3*x)").error_bound({"x": x}, DType.f32)
    assert steps[0] >= 1 and steps[1] == 0
    pole = Expression.parse("1 / (3*x - 1)").error_bound({"x": x}, DType.f32)
    assert np.isinf(pole[0]) and pole[1] < 1e-4


def test_error_bound_takes_errors_of_the_values() -> None:
    bound = Expression.parse("2*v").error_bound({"v": 1.0}, DType.f64, {"v": 0.25})
    assert 0.5 <= bound <= 0.5 + 1e-15


def test_every_function_is_documented() -> None:
    assert all(name in (Expression.__doc__ or "") for name in FUNCTIONS)


@pytest.mark.parametrize(
    "text",
    [
        "z = x + y\nw = z*z",
        "\n\n    z = x + y\n\n    w = z*z\n    ",
        "z = x + y;\r\nw = z*z;\r\n",
        "z = (x\n+ y); w = (\n    z\n    *z\n)",
        "z = x + y\n        w = z*z\n        ",
    ],
)
def test_a_program_may_have_line_breaks(text: str) -> None:
    assert str(Assignments.parse(text)) == "z = x + y; w = z * z"


def test_an_expression_may_have_line_breaks() -> None:
    assert str(Expression.parse("\n    (x\n     + y)\n")) == "x + y"
    assert str(Expression.parse("max(x,\n    y)")) == "max(x, y)"


def test_the_documentation_lists_all_functions() -> None:
    for path in ("docs/equations.md", "docs/templates/map.md", "docs/templates/update.md"):
        words = set(re.findall(r"\w+", (Path(__file__).parents[2] / path).read_text()))
        assert words >= FUNCTIONS.keys(), path
