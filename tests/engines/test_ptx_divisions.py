"""Divisions by numbers that the host knows are multiplications, with the same results."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tikgen.dtypes import DType
from tikgen.engines import direct_cuda, ptx_divisions, ptx_numbers, ptx_text

TEXT = (Path(__file__).parent / "ptx" / "loop-0.ptx").read_text()
INTEGERS = st.integers(-(2**31), 2**31 - 1)
LEAST, MOST = -(2**31), 2**31 - 1


def parts(name: str) -> list[ptx_text.Instruction]:
    """Return what takes the place of a division of %r1 by %r2, with factor and shift at 0 and 4."""
    divided = ptx_text.Instruction("", name, ("%r3", "%r1", "%r2"))
    loaded = ptx_text.Instruction("", "ld.param.u32", ("%r2", "[task_param_0+8]"))
    lines = [f"\t{name} \t%r3, %r1, %r2;"]
    task = ptx_text.Task(
        "task", 128, "\n".join(lines), (loaded, divided), frozenset(), frozenset(), frozenset()
    )
    text = ptx_divisions.by_multiplication(task, {8: 0}).text
    made = [one for line in text.splitlines() if (one := ptx_text.instruction(line))]
    assert not any(one.name.startswith(("div", "rem")) for one in made)
    return [one for one in made if not one.name.startswith(".")]


DIVISION, REMAINDER = parts("div.s32"), parts("rem.s32")


@given(
    number=INTEGERS | st.integers(-1000, 1000),
    divisor=(INTEGERS | st.integers(-100, 100)).filter(bool),
)
@example(number=LEAST, divisor=LEAST)
@example(number=LEAST, divisor=1)
@example(number=MOST, divisor=MOST)
@example(number=MOST, divisor=MOST - 1)
@example(number=MOST, divisor=2**30 + 1)
def test_results_are_those_of_a_division(number: int, divisor: int) -> None:
    memory = bytearray(struct.pack("=IIi", *ptx_divisions.factor(divisor), divisor))
    quotient = abs(number) // abs(divisor) * (1 if (number < 0) == (divisor < 0) else -1)
    for made, expected in (
        (DIVISION, (quotient + 2**31) % 2**32 - 2**31),
        (REMAINDER, number - divisor * quotient),
    ):
        held = ptx_numbers.run(made, memory, {"%r1": number, "%r2": divisor})
        assert ptx_numbers.value("%r3", held, "s32") == expected


@given(quotient=st.integers(0, 2**31), divisor=st.integers(1, 2**31))
def test_numbers_beside_multiples_are_no_exception(quotient: int, divisor: int) -> None:
    factor, shift = ptx_divisions.factor(divisor)
    assert factor < 2**32 and shift < 64
    for number in (quotient * divisor - 1, quotient * divisor, quotient * divisor + 1):
        if 0 <= number <= 2**31:
            assert number * factor >> shift == number // divisor


def test_a_number_that_the_host_does_not_know_stays_a_divisor() -> None:
    kinds = [(DType.f32, 3)] * 2
    _, (serial, task) = ptx_text.translated(TEXT, direct_cuda.behind(kinds))
    known = {direct_cuda.behind(kinds) + offset for offset in serial.sets}
    divisors = ptx_divisions.divisors(task, known)
    assert len(divisors) == 3 and task.text.count("div.s32") + task.text.count("rem.s32") == 3
    first = min(divisors)
    assert ptx_divisions.divisors(task, {first}) == {first}
    places = {first: 200}
    text = ptx_divisions.by_multiplication(task, places).text
    assert text.count("\n\tdiv.s32") + text.count("\n\trem.s32") == 2
    assert ptx_divisions.by_multiplication(task, {}) is task
    # A register that is set twice may hold something else.
    twice = task._replace(instructions=(*task.instructions, *task.instructions))
    assert not ptx_divisions.divisors(twice, known)
