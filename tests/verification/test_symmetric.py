"""Functions whose arguments may change places, and those where that is a difference."""

from __future__ import annotations

import pytest

import tikgen
from some_cases import examples
from tikgen.verification.mutator import mutants_of
from tikgen.verification.same_code import is_same_code

SIZE = """\
@ti.func
def size(a: ti.f32):
    return ti.bit_cast(a, ti.i32) & 0x7FFFFFFF
"""
KERNEL = """\
@ti.kernel
def k(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in x:
        x[i] = f({})
"""
CALLS = ("x[i], 2.0 * x[i + 1]", "2.0 * x[i + 1], x[i]")
GIVEN = "a: ti.f32, b: ti.f32"


@pytest.mark.parametrize(
    ("given", "body", "same"),
    [
        (GIVEN, "return a * b", True),
        (GIVEN, "c = a + b; return c * 0.5", True),
        (GIVEN, "return ti.select(ti.min(size(a), size(b)) == 0, ti.f32(0.0), a * b)", True),
        (GIVEN, "return a - b", False),
        (GIVEN, "return a + b * b", False),
        (GIVEN, "return ti.select(a < b, a, b)", False),
        # Of two zeros, or of a number and NaN, the order decides.
        (GIVEN, "return ti.min(a, b)", False),
        # What the arguments are cast to, or that they are assigned, is not known to be alike.
        ("a: ti.f32, b: ti.f64", "return a * b", False),
        ("a, b", "return a * b", False),
        ("a: ti.template(), b: ti.template()", "return a * b", False),
        # Another function may do anything.
        (GIVEN, "return g(a) * g(b)", False),
        (GIVEN, "c = a * b; f.total = c; return c", True),
        (GIVEN, "f.total = a; return a * b", False),
    ],
)
def test_swapped_arguments_are_the_same_where_the_function_is(
    given: str, body: str, same: bool
) -> None:
    function = f"@ti.func\ndef f({given}):\n    {body}\n"
    texts = ["\n\n".join((SIZE, function, KERNEL.format(call))) for call in CALLS]
    assert is_same_code(*texts) is same


def test_arguments_that_do_more_than_give_a_number_keep_their_order() -> None:
    function = f"@ti.func\ndef f({GIVEN}):\n    return a * b\n"
    calls = ("ti.atomic_add(x[0], 1), x[0]", "x[0], ti.atomic_add(x[0], 1)")
    assert not is_same_code(*(function + KERNEL.format(call) for call in calls))


def test_a_function_that_lost_its_only_statement_is_no_function_of_numbers() -> None:
    function = f"@ti.func\ndef f({GIVEN}):\n    {{}}\n"
    call = KERNEL.format(CALLS[0])
    assert not is_same_code(function.format("return a * b") + call, function.format("pass") + call)


def test_a_product_of_a_scan_is_symmetric() -> None:
    text = tikgen.render("scan", op="prod", dtype="f32", arch="cpu").text
    swaps = [m for m in mutants_of(text) if "+ running = times(" in m.diff(text)]
    swaps = [m for m in swaps if m.kind == "swapped arguments"]
    assert swaps
    assert all(is_same_code(m.text, text) for m in swaps)
    kinds = ("sign", "dropped statement", "comparison", "operator")
    others = [mutant for mutant in mutants_of(text) if mutant.kind in kinds]
    for mutant in others[:: examples(1, 4)]:
        assert not is_same_code(mutant.text, text), mutant.diff(text)


def test_arrays_of_a_product_may_change_places_in_a_function_of_many_elements() -> None:
    params = {"expr": "z = a*x*y - b", "scalars": (), "loop": "flat", "unroll": 1, "serial": True}
    text = tikgen.render("map", arch="cpu", **params).text
    call = "chunk(a, x, y, b, z, 0, z.shape[0])"
    assert call in text
    for order, same in (
        ("x, a, y, b, z, 0", True),
        ("a, x, b, y, z, 0", False),
        ("a, x, y, z, b, 0", False),
        ("a, x, y, b, 0, z", False),
    ):
        changed = text.replace("chunk(a, x, y, b, z, 0", f"chunk({order}")
        assert changed != text
        assert is_same_code(changed, text) is same, order
