"""Several steps over slabs of a grid: the same bits as one step after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from some_cases import examples
from tikgen.errors import ProgramError
from tikgen.program import native, paces, temporal_blocking
from tikgen.program.paces import Paces
from tikgen.program.temporal_blocking import Block, lags, slab_size, slabs_of

pytestmark = pytest.mark.usefixtures("ti_arch")
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="blocks are instructions for native code")


@settings(max_examples=examples(100, 20))
@given(st.data())
def test_stages_find_what_they_read_and_leave_what_others_need(data: st.DataObject) -> None:
    """Sums over a reach, wide or none, from any array into any other, are those of whole steps."""
    wraps = data.draw(st.booleans())
    names = st.integers(0, 2)
    stage = st.tuples(names, names, st.integers(0, 3)).map(
        # What is updated in place reads its own points alone.
        lambda found: (*found[:2], 0 if found[0] == found[1] else found[2])
    )
    stages = data.draw(st.lists(stage, min_size=1, max_size=9))
    reaches = [reach for _, _, reach in stages]
    last = lags(reaches)[-1]
    parts = data.draw(st.integers(1, 4))
    points = parts * 2 * (last + max(reaches)) + data.draw(st.integers(1, 40))
    size = data.draw(st.integers(1, 20))
    start = np.random.default_rng(points).integers(0, 1000, (3, points))

    def compute(arrays: Any, number: int, low: int, high: int) -> None:
        source, target, reach = stages[number]
        for point in range(low, high):
            at = point + np.arange(-reach, reach + 1)
            at = at % points if wraps else np.clip(at, 0, points - 1)
            found = arrays[source][at] @ np.arange(1, 2 * reach + 2)
            arrays[target, point] = (found + 5 * arrays[target, point]) % 65521

    whole, by_slabs = start.copy(), start.copy()
    for number in range(len(stages)):
        compute(whole, number, 0, points)
    for phase in slabs_of(points, parts, reaches, wraps, size):
        # Lists of a phase run at once: here what comes next is of any of them.
        waiting = [list(slabs) for slabs in phase if slabs]
        while waiting:
            chosen = data.draw(st.sampled_from(waiting))
            compute(by_slabs, *chosen.pop(0))
            waiting = [slabs for slabs in waiting if slabs]
    assert (by_slabs == whole).all()


def test_slabs_fit_the_cache_and_leave_room_for_the_lags() -> None:
    reaches = [2] * 8  # The last one lags behind by 14.
    assert slab_size(room=100, points=1000, parts=2, reaches=reaches) == 86
    assert slab_size(room=28, points=1000, parts=2, reaches=reaches) == 14
    assert slab_size(room=27, points=1000, parts=2, reaches=reaches) == 0
    # A part holds two slabs, and the wedges at its ends.
    assert slab_size(room=100, points=200, parts=2, reaches=reaches) == 50
    assert slab_size(room=100, points=64, parts=2, reaches=reaches) == 16
    assert slab_size(room=100, points=63, parts=2, reaches=reaches) == 0


TEXTS: dict[str, dict[str, Any]] = {
    "u' = u + 0.1*lap(u)": {"dim": 3, "boundary": "periodic"},
    "u' = u + 0.1*lap(u); v' = v + 0.05*lap(v) - 0.1*u*v": {"dim": 2, "boundary": "reflect"},
    "u' = u - 0.1*u[-3, 0] + 0.2*u[0, 2]": {"dim": 2, "boundary": {"x": "periodic", "y": "zero"}},
    "v = 2*u - v + 0.1*lap(u)": {"dim": 3, "order": 8, "boundary": "interior"},
    "v = 2*u - v + 0.2*lap(u) ": {"dim": 2, "order": 4, "boundary": "wall"},
    "u' = u + 0.1*div(grad(u))": {"dim": 2, "boundary": "clamp", "mask": "solid"},
    "u' = u + 0.0005*i*lap(u)": {
        "dim": 2,
        "boundary": {"x-": ("value", 2.0), "x+": ("flux", 0.5), "y": "zero"},
    },
    "each q in f:\n  f'.q = 0.5*f.q + 0.4*f.q[1, 0] + 0.1*f.q[-2, 1]": {
        "dim": 2,
        "boundary": "periodic",
        "vectors": {"f": 3},
    },
}


def program_of(
    text: str, shape: tuple[int, ...], seed: int, **options: Any
) -> tuple[tikgen.Program, list[Any]]:
    rng = np.random.default_rng(seed)
    kernel = tikgen.update(text, **TEXTS[text])
    given = {}
    for argument in kernel.signature.arguments:
        extents = [n if isinstance(n, int) else shape[int(n[1:])] for n in argument.shape]
        values = rng.random(extents) if argument.dtype.is_float else rng.random(extents) < 0.2
        given[argument.name] = values.astype(argument.dtype.numpy)
    pairs = [(given[n], given[f"{n}_next"]) for n in given if f"{n}_next" in given]
    pairs = pairs or [(given["u"], given["v"])]
    parts = [kernel.bind(**given), *(tikgen.swap(pair) for pair in pairs)]
    return tikgen.Program(parts, **options), [array for pair in pairs for array in pair]


def blocks_of(program: tikgen.Program) -> list[Block]:
    found = program._walk.stepper._paces._blocks.values()  # type: ignore[attr-defined]
    return [block for block in found if block is not None]


def small_cache(patch: pytest.MonkeyPatch, size: float) -> None:
    """Have slabs and arrays fill a cache of some bytes, shared by two threads as grids are here."""
    patch.setattr(native.runtime, "threads", lambda: 2)
    patch.setattr(temporal_blocking, "_LEAST", 0.0)
    patch.setattr(temporal_blocking, "cache_bytes", lambda: (size / 4, size))


@on_cpu
@pytest.mark.parametrize("text", TEXTS)
@settings(deadline=None, max_examples=examples(4, 2))
@given(seed=st.integers(0, 2**30), data=st.data())
def test_blocks_give_the_bits_of_single_steps(text: str, seed: int, data: st.DataObject) -> None:
    others = data.draw(st.sampled_from([(9, 1), (3, 70), (5, 33), (1, 40)]))
    shape = (data.draw(st.integers(140, 300)), *others)[: TEXTS[text]["dim"]]
    room = data.draw(st.integers(20, 60))
    held = sum(a.nbytes for a in program_of(text, shape, seed)[0]._slots.arrays)
    counts = data.draw(st.lists(st.integers(16, 50), min_size=1, max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        small_cache(patch, 2 * room * held / shape[0] / temporal_blocking._SHARE_OF_LAST)
        program, arrays = program_of(text, shape, seed, temporal_blocking=True)
        patch.setattr(paces, "_WORTH", np.inf)  # What runs for less does one step at a time.
        single, expected = program_of(text, shape, seed)
        for count in counts:
            program.run(count)
            single.run(count)
    assert blocks_of(program) and not blocks_of(single)
    for one, other in zip(arrays, expected, strict=True):
        assert one.tobytes() == other.tobytes()
    never, close = program_of(text, shape, seed, temporal_blocking=False)
    never.run(sum(counts))
    for one, other in zip(arrays, close, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3 * np.abs(other).max())


@on_cpu
def test_launches_are_those_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    small_cache(monkeypatch, 2**14)
    text = "u' = u - 0.1*u[-3, 0] + 0.2*u[0, 2]"
    program, _ = program_of(text, (200, 40), 5, temporal_blocking=True)
    kernel = program.parts[0].kernel  # type: ignore[union-attr]
    before = kernel.launches
    program.run(50)
    assert kernel.launches == before + 50
    assert program.verify(steps=2)
    assert kernel.launches == before + 52


@on_cpu
def test_programs_whose_steps_make_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    small_cache(monkeypatch, 2**14)
    kernel = tikgen.update("u' = u + a*lap(u)", dim=2, boundary="periodic", scalars="a")
    total = tikgen.update("u' = u + 0.1*lap(u); s = sum(u')", dim=2, boundary="periodic")
    other = tikgen.elementwise("y = 2*y", dim=2)
    u, un, s = np.ones((2, 200, 40), np.float32)[0], np.ones((200, 40), np.float32), np.zeros(1)
    bound, swap = kernel.bind(u=u, u_next=un, a=0.1), tikgen.swap((u, un))
    summed = total.bind(u=u, u_next=un, s=s.astype(np.float32))
    for parts, why in (
        ([bound, swap], ""),
        ([tikgen.loop(3, [bound, swap])], ""),
        (
            [bound, swap, tikgen.loop(2, [bound, swap], until="n > 1"), "n = n + 1"],
            "without a condition",
        ),
        ([summed, swap], "a kernel of 'update' has reductions"),
        ([tikgen.varying(bound, a=lambda step: 0.1), swap], "scalars that change with the step"),
        ([bound, swap, other.bind(y=un)], "the template 'map' computes all points"),
    ):
        n = np.zeros(1, np.float32)
        names = {"n": n} if "n = n + 1" in parts else {}
        program = tikgen.Program(parts, temporal_blocking=True, **names)
        program.run(50)
        assert bool(blocks_of(program)) == (not why)
        assert why in program.why_not_blocked
        assert program.steps == 50


@on_cpu
def test_steps_of_blocks_stop_save_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    small_cache(monkeypatch, 2**14)
    text, seen = "u' = u - 0.1*u[-3, 0] + 0.2*u[0, 2]", []
    program, (u, _) = program_of(text, (200, 40), 5, temporal_blocking=True)

    def call(given: tikgen.Program) -> None:
        seen.append(given.steps)
        if given.steps == 60:
            given.stop()

    program.run(200, every=30, call=call)
    assert seen == [30, 60] and program.steps == 60
    assert "steps at a time" in repr(program)
    state = program.state()
    program.run(25)
    once = program.current(u).copy()
    program.restore(state)
    program.run(7)
    program.run(18)
    assert program.current(u).tobytes() == once.tobytes()


def paced(plain: float, blocked: float) -> Paces:
    """Return paces after some runs in which steps took so many seconds."""
    block = Block(4, np.zeros((1, 4), np.int64), {})
    found = Paces(lambda at, most: block if most >= 4 else None, None)
    for _ in range(40):
        given, count = found.next((0, 1), 8)
        assert given is None or count % given.steps == 0
        found.took(given, count, count * (plain if given is None else blocked))
    return found


def test_blocks_are_chosen_where_they_take_less_time() -> None:
    assert paced(0.1, 0.05).next((0, 1), 9)[1] == 8
    assert paced(0.1, 0.099).next((0, 1), 9) == (None, 9)
    assert paced(0.1, 0.2).together == 1
    # A program that has not run for a second, and one whose steps take too long for several.
    assert paced(paces._WORTH / 400, 1e-9).next((0, 1), 9) == (None, 9)
    assert paced(0.5, 0.1).next((0, 1), 9) == (None, 9)
    # Fewer steps than a block has.
    assert paced(0.1, 0.05).next((0, 1), 3) == (None, 3)


@on_cpu
def test_what_is_too_small_or_unwanted_says_so() -> None:
    text = "u' = u - 0.1*u[-3, 0] + 0.2*u[0, 2]"
    program, _ = program_of(text, (60, 40), 5, temporal_blocking=True)
    assert "stay in the caches" in program.why_not_blocked
    program, _ = program_of(text, (60, 40), 5, temporal_blocking=False)
    assert program.why_not_blocked == "temporal_blocking=False"


def test_a_wrong_choice_is_refused() -> None:
    u = np.zeros((9, 9), np.float32)
    bound = tikgen.update("u' = u", dim=2).bind(u=u, u_next=u.copy())
    with pytest.raises(ProgramError, match="takes None, True or False; got 'auto'"):
        tikgen.Program([bound], temporal_blocking="auto")  # type: ignore[arg-type]
