"""Conditions with ``and``, ``or`` and ``not``: their values, and code without branches."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from test_expression_constants import COMPARISONS, COMPILED, by_numpy
from tikgen import DType

TYPES = {"b": "u8", "c": "i8", "d": "u16", "w": "i32"}
N = 67
LOOPS = (("points",), ("points", "function"))


def conditions(names: str, operators: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts of conditions over names, numbers and quotients that may be guarded or not."""
    leaves = st.one_of(st.sampled_from(names), st.integers(0, 3).map("({})".format))
    numbers = st.one_of(
        leaves,
        st.builds("({} {} {})".format, leaves, st.sampled_from(operators), leaves),
    )
    compared = st.builds("({} {} {})".format, numbers, st.sampled_from(COMPARISONS), numbers)

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(("and", "or")), inner),
            st.builds("({0} {2} {1} {2} {3})".format, inner, inner, st.just("or"), inner),
            st.builds("(not {})".format, inner),
            st.builds("{} < {} <= {}".format, numbers, numbers, numbers).map("({})".format),
        )

    return st.recursive(st.one_of(compared, compared, leaves), grow, max_leaves=7)


def has_branch(text: str) -> bool:
    """Return whether a rendered kernel has ``and`` or ``or`` in what it computes.

    Where loops begin and end, ``if`` may say with both.
    """
    code = re.sub(r'"""[^"]*"""|#.*', "", text)
    return any(re.search(r"^(?! *(el)?if ).*\b(and|or)\b", line) for line in code.splitlines())


@COMPILED
@given(st.data())
@pytest.mark.parametrize("dtype", ("f32", "i32", "f64", "i64"))
def test_conditions_over_mixed_types_are_those_of_numpy(
    ti_arch: str, dtype: str, data: Any
) -> None:
    kind = DType(dtype)
    # Fast math knows no quotient of floats by 0.
    operators = ("+", "*") if kind.is_float else ("+", "//", "%")
    drawn = [data.draw(conditions("bcdwp", operators)) for _ in range(6)]
    types = {
        name: stored for name, stored in TYPES.items() if re.search(rf"\b{name}\b", " ".join(drawn))
    }
    *wholes, region = drawn
    # As a condition, as a number, and of a region.
    lines = [f"z{n} = where({text}, p + 1, 2*p)" for n, text in enumerate(wholes)]
    lines += [f"y = 1 - (not {wholes[0]})", "r = p", f"where {region}:", "    r = p - 5"]
    kernel = tikgen.update(
        "\n".join(lines),
        dim=1,
        dtype=dtype,
        types=types or None,
        loop=data.draw(
            st.sampled_from(("points", "function") if ti_arch == "cpu" else ("points",))
        ),
        outputs=(*(f"z{n}" for n in range(5)), "y", "r"),
    )
    assert not has_branch(kernel.source.text)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    given_values = {n: rng.integers(0, 4, N).astype(DType(t).numpy) for n, t in types.items()}
    given_values["p"] = rng.integers(0, 4, N).astype(kind.numpy)
    known = {name: value.astype(kind.numpy) for name, value in given_values.items()}
    with np.errstate(all="ignore"):
        truths = [np.broadcast_to(by_numpy(text, kind, **known) != 0, N) for text in drawn]
    p = known["p"]
    expected = {f"z{n}": np.where(truth, p + 1, 2 * p) for n, truth in enumerate(truths[:-1])}
    expected |= {"y": truths[0].astype(kind.numpy), "r": np.where(truths[-1], p - 5, p)}
    arrays = given_values | {name: np.full(N, 77, kind.numpy) for name in expected}
    kernel(**{name: arrays[name] for name in kernel.signature.names})
    for name, value in expected.items():
        np.testing.assert_array_equal(arrays[name], value, err_msg=f"{name} of {lines}")


@pytest.mark.parametrize("dtype", ["i32", "u8", "i64"])
def test_a_quotient_by_zero_is_safe_on_both_sides_of_and(ti_arch: str, dtype: str) -> None:
    kernel = tikgen.elementwise("z = where(q != 0 and p // q > 2 or p % q == 1, p, 0)", dtype)
    q = np.array([0, 1, 2, 0, 3, 5], DType(dtype).numpy)
    p = np.array([9, 9, 9, 1, 9, 6], q.dtype)
    z = np.full_like(p, 77)
    kernel(p=p, q=q, z=z)
    assert z.tolist() == [0, 9, 9, 0, 9, 6]


KERNELS = {
    "map": lambda: tikgen.elementwise("z = where(p == 2 and q == 1 or q > 7, p, q)", "u8"),
    "reduction": lambda: tikgen.elementwise("t = sum(where(p > 2 and q < 1, p, 0))"),
    "region": lambda: tikgen.update(
        "where c == 2 and b == 1:\n    u' = u[1]\nelsewhere c == 1 or b == 3:\n    u' = 0",
        dim=1,
        types={"c": "u8", "b": "u8"},
    ),
    "named": lambda: tikgen.update("where s: u' = 0", dim=1, where={"s": "x > 1 and u < 1"}),
    "epilogue": lambda: tikgen.build("gemm", epilogue="where(v > 1 and v < 2, v, 0)"),
    "powers": lambda: tikgen.elementwise("z = round(x)**y"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_no_choice_is_a_branch(name: str) -> None:
    assert not has_branch(KERNELS[name]().source.text)
