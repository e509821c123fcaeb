"""Random programs do what their parts say, one after the other, natively and from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, reject, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples
from steppers import graphs_on_cpu, stepped
from tikgen.errors import ProgramError

pytestmark = pytest.mark.usefixtures("ti_arch")
ARRAYS, SCALARS = ("u", "v", "w", "z"), ("n", "m", "k")
# What a kernel does, and the same in NumPy. Integers wrap around, so that nothing is rounded.
KERNELS: dict[str, Any] = {
    "y = x + 3*y": lambda x, y, a: x + 3 * y,
    "y = 5*x - y + a": lambda x, y, a: 5 * x - y + a,
}
ASSIGNMENTS: dict[str, Any] = {
    "n = 5*m + 1": ("n", lambda s: 5 * s["m"] + 1),
    "m = n - 2*k": ("m", lambda s: s["n"] - 2 * s["k"]),
    "k = k + 1": ("k", lambda s: s["k"] + 1),
}
CONDITIONS: dict[str, Any] = {
    "n > m": lambda s: s["n"] > s["m"],
    "k % 3 == 1": lambda s: s["k"] % 3 == 1,
    "m < 7": lambda s: s["m"] < 7,
}

array_pairs = st.lists(st.sampled_from(ARRAYS), min_size=2, max_size=2, unique=True)
scalar_pairs = st.lists(st.sampled_from(SCALARS), min_size=2, max_size=2, unique=True)
leaves = st.one_of(
    st.tuples(st.just("launch"), st.sampled_from(list(KERNELS)), array_pairs, st.integers(-9, 9)),
    st.tuples(st.just("varying"), array_pairs, st.integers(1, 5)),
    st.tuples(st.just("assign"), st.sampled_from(list(ASSIGNMENTS))),
    st.tuples(st.just("swap"), st.lists(array_pairs | scalar_pairs, min_size=1, max_size=2)),
    st.tuples(st.just("copy"), array_pairs),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(
            st.just("loop"),
            st.integers(1, 5),
            st.lists(inner, min_size=1, max_size=3),
            st.none() | st.sampled_from(list(CONDITIONS)),
        ),
        st.tuples(
            st.just("when"),
            st.sampled_from(list(CONDITIONS)),
            st.lists(inner, min_size=1, max_size=2),
            st.lists(inner, max_size=2),
        ),
    ),
    max_leaves=8,
)


def made(tree: Any, named: dict[str, Any]) -> Any:
    """Return the part of a program."""
    match tree:
        case ("launch", text, (x, y), a):
            kernel = tikgen.elementwise(text, dtype="i32")
            scalars = {"a": a} if "a" in text else {}
            return kernel.bind(x=named[x], y=named[y], **scalars)
        case ("varying", (x, y), factor):
            kernel = tikgen.elementwise("y = 5*x - y + a", dtype="i32")
            return tikgen.varying(
                kernel.bind(x=named[x], y=named[y], a=0), a=lambda step: factor * step
            )
        case ("assign", text):
            return text
        case ("swap", pairs):
            return tikgen.swap(*((named[one], named[other]) for one, other in pairs))
        case ("copy", (source, target)):
            return tikgen.copy(named[source], named[target])
        case ("loop", times, parts, until):
            return tikgen.loop(times, [made(part, named) for part in parts], until=until)
        case ("when", condition, parts, otherwise):
            return tikgen.when(
                condition,
                [made(part, named) for part in parts],
                otherwise=[made(part, named) for part in otherwise],
            )
    raise AssertionError(tree)


def do(tree: Any, values: dict[str, Any], step: int) -> None:
    """Do the same in NumPy; a swap exchanges values."""
    match tree:
        case ("launch", text, (x, y), a):
            values[y] = KERNELS[text](values[x], values[y], np.int32(a))
        case ("varying", (x, y), factor):
            values[y] = 5 * values[x] - values[y] + np.int32(factor * step)
        case ("assign", text):
            name, compute = ASSIGNMENTS[text]
            values[name] = compute(values)
        case ("swap", pairs):
            for one, other in pairs:
                values[one], values[other] = values[other], values[one]
        case ("copy", (source, target)):
            values[target] = values[source].copy()
        case ("loop", times, parts, until):
            for _ in range(times):
                for part in parts:
                    do(part, values, step)
                if until is not None and CONDITIONS[until](values):
                    break
        case ("when", condition, parts, otherwise):
            for part in parts if CONDITIONS[condition](values) else otherwise:
                do(part, values, step)


@stepped
@settings(max_examples=examples(40, 8) if ARCH == "cpu" else 4)
@given(st.lists(trees, min_size=1, max_size=5), st.integers(0, 5), st.integers(0, 5))
def test_random_programs(native: bool, listed: list[Any], first: int, second: int) -> None:
    check(native, listed, first, second)


@pytest.mark.skipif(ARCH != "cpu", reason="cuda has graphs")
@settings(max_examples=examples(40, 8))
@given(st.lists(trees, min_size=1, max_size=5), st.integers(0, 5), st.integers(0, 600))
def test_random_programs_as_graphs(listed: list[Any], first: int, second: int) -> None:
    with graphs_on_cpu():
        check(True, listed, first, second)


def check(native: bool, listed: list[Any], first: int, second: int) -> None:
    """Run a program twice, and compare with NumPy."""
    numbers = np.random.default_rng(0)
    named = {name: numbers.integers(-99, 99, 5, np.int32) for name in ARRAYS}
    named |= {name: numbers.integers(0, 9, 1, np.int32) for name in SCALARS}
    expected = {name: array.copy() for name, array in named.items()}
    try:
        program = tikgen.Program([made(tree, named) for tree in listed], native=native, **named)
    except ProgramError as error:
        note(str(error))
        assert "at least one kernel" in str(error) or "10000" in str(error)
        reject()
    note(str(program))
    by_reference = program.reference(first)
    for steps in (first, second):
        for step in range(program.steps, program.steps + steps):
            for tree in listed:
                do(tree, expected, step)
        program.run(steps)
        for name, values in expected.items():
            assert program[name].tolist() == values.tolist()
            if by_reference:
                assert by_reference[name].tolist() == values.tolist()
        by_reference = {}
    program.settle()
    assert {name: array.tolist() for name, array in named.items()} == {
        name: values.tolist() for name, values in expected.items()
    }
    assert program.verify(1).ok
