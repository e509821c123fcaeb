"""Programs whose arrays are different views of one memory, and their references."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples

pytestmark = [
    pytest.mark.usefixtures("ti_arch"),
    pytest.mark.skipif(ARCH != "cpu", reason="GPUs take no views on the host"),
]
MEMORIES = ("u", "v", "w")
# Views of the memory of a (4, 6) array: of all of it, and of a part.
WHOLE: dict[str, Any] = {
    "2d": lambda a: a,
    "1d": lambda a: a.ravel(),
    "other 2d": lambda a: a.reshape(6, 4),
}
PARTS: dict[str, Any] = {
    "row": lambda a: a[1],
    "row in 2d": lambda a: a[2:3],
    "inner": lambda a: a[1:-1, 1:-1],
    "inner, flat": lambda a: a.ravel()[7:15].reshape(2, 4),
    "every other": lambda a: a[::2, ::2],
    "last rows": lambda a: a[2:].ravel(),
}
VIEWS = WHOLE | PARTS
# Launches that take every view that may be swapped.
TAKEN = [("launch", ((x, how), (y, how))) for how in WHOLE for x, y in (("u", "v"), ("v", "w"))]
SHAPES = {how: view(np.zeros((4, 6))).shape for how, view in VIEWS.items()}


def alike(kinds: Any) -> st.SearchStrategy[Any]:
    """Draw two views of one shape, of different memories."""
    pairs = itertools.product(kinds, kinds)
    return st.builds(
        lambda memories, kinds: tuple(zip(memories, kinds, strict=True)),
        st.sampled_from(list(itertools.permutations(MEMORIES, 2))),
        st.sampled_from([(a, b) for a, b in pairs if SHAPES[a] == SHAPES[b]]),
    )


launches = st.tuples(st.just("launch"), alike(VIEWS))
whole_launches = st.tuples(st.just("launch"), alike(WHOLE))
swaps = st.tuples(st.just("swap"), st.lists(alike(WHOLE), min_size=1, max_size=3))
steps = st.lists(launches, min_size=1, max_size=6) | st.lists(
    whole_launches | swaps, min_size=2, max_size=6
)


@functools.cache
def kernel(ndim: int) -> Any:
    return tikgen.update("q = p + 3*q", dim=ndim, dtype="i32")


def view_of(arrays: dict[str, Any], which: tuple[str, str]) -> Any:
    return VIEWS[which[1]](arrays[which[0]])


def made(part: Any, arrays: dict[str, Any]) -> Any:
    """Return the part of a program."""
    what, given = part
    if what == "swap":
        return tikgen.swap(*((view_of(arrays, a), view_of(arrays, b)) for a, b in given))
    p, q = (view_of(arrays, which) for which in given)
    return kernel(p.ndim).bind(p=p, q=q)


def do(part: Any, arrays: dict[str, Any]) -> None:
    """Do the same in NumPy; a swap exchanges the values of two memories."""
    what, given = part
    if what == "launch":
        p, q = (view_of(arrays, which) for which in given)
        q[...] = p + 3 * q
        return
    for (a, _), (b, _) in given:
        arrays[a], arrays[b] = arrays[b], arrays[a]


@settings(max_examples=examples(60, 12))
@given(steps, st.integers(0, 4))
def test_views_of_one_memory(listed: list[Any], count: int) -> None:
    parts = [*listed, *TAKEN]
    start = np.random.default_rng(0).integers(-99, 99, (3, 4, 6), np.int32)
    arrays, values = (dict(zip(MEMORIES, start.copy(), strict=True)) for _ in range(2))
    program = tikgen.Program([made(part, arrays) for part in parts], **arrays)
    note(str(program))
    for done in (count, 3):
        found = program.reference(done)
        for _ in range(done):
            for part in parts:
                do(part, values)
        program.run(done)
        for name in MEMORIES:
            np.testing.assert_array_equal(program[name], values[name])
            np.testing.assert_array_equal(found[name], values[name])


@pytest.mark.parametrize("native", [None, False])
def test_strides_on_axes_of_one_element_do_not_count(native: bool | None) -> None:
    heat = tikgen.update("u' = u + dt*lap(u)", dim=2, scalars="dt", boundary="clamp")
    found = []
    for u in (np.arange(7, dtype=np.float32).reshape(7, 1).T, np.arange(7.0, dtype="f4")[None]):
        after = np.zeros((1, 7), np.float32)
        program = tikgen.Program(
            [heat.bind(u=u, u_next=after, dt=0.1), tikgen.swap((u, after))], native=native
        )
        program.run(5)
        found.append(program.current(u).copy())
    assert found[0].tobytes() == found[1].tobytes()
