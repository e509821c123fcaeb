"""Programs: swaps that copy nothing, loops, conditions, and the same from Python and natively."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from steppers import stepped
from tikgen.errors import ProgramError
from tikgen.program.slots import Slots

pytestmark = pytest.mark.usefixtures("ti_arch")


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def heat(
    native: bool | None = None, points: int = 40, **names: Any
) -> tuple[Any, Any, tikgen.Program]:
    """Return two arrays and a program that steps from one to the other."""
    step = tikgen.build("stencil", dim=1, update=True, boundary="periodic")
    u = np.random.default_rng(1).random(points, np.float32)
    un = np.zeros_like(u)
    program = tikgen.Program([step.bind(u, un, 0.2), tikgen.swap((u, un))], native=native, **names)
    return u, un, program


def stepped_by_hand(u: Any, steps: int) -> Any:
    for _ in range(steps):
        u = u + np.float32(0.2) * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)
    return u


def test_an_argument_with_the_name_of_a_constant_is_numbered() -> None:
    slots = Slots({})
    for name in ("e", "x"):
        slots.add(f32(0), name)
    slots.give_names()
    assert list(slots.names) == ["e_1", "x"]


@stepped
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_a_swap_exchanges_what_arrays_stand_for(native: bool, steps: int) -> None:
    u, un, program = heat(native)
    start = u.copy()
    ran = program.run(steps)
    assert ran.steps == program.steps == steps
    newest = un if steps % 2 else u
    assert program.current(u) is newest
    assert program["x"] is newest  # The stencil takes x and y.
    np.testing.assert_allclose(newest, stepped_by_hand(start, steps), rtol=1e-5)


@stepped
def test_runs_go_on_where_the_last_one_ended(native: bool) -> None:
    u, _, whole = heat(native)
    v, _, parts = heat(native)
    whole.run(9)
    for steps in (1, 3, 0, 5):
        parts.run(steps)
    assert (whole.current(u) == parts.current(v)).all()


@pytest.mark.skipif(ARCH != "cpu", reason="native steps run on cpu")
@pytest.mark.parametrize("points", [40, 20_000])  # In one thread, and in several.
@pytest.mark.usefixtures("without_fast_math")
def test_native_steps_equal_those_from_python_bit_for_bit(points: int) -> None:
    u, _, native = heat(None, points)
    v, _, python = heat(False, points)
    assert native.is_native
    assert not native.why_not_native
    assert not python.is_native
    native.run(101)
    python.run(101)
    assert (native.current(u) == python.current(v)).all()


@stepped
@pytest.mark.parametrize("times", [2, 3, 5, 6])
def test_swaps_within_a_loop(native: bool, times: int) -> None:
    step = tikgen.elementwise("y = x + 1")
    x, y = f32(0, 0), f32(0, 0)
    looped = tikgen.loop(times, [step.bind(x, y), tikgen.swap((x, y))])
    program = tikgen.Program([looped], native=native)
    program.run(3)
    assert program["x"].tolist() == [3 * times] * 2
    assert program.current(x) is (y if 3 * times % 2 else x)


@stepped
def test_three_arrays_change_places_in_a_ring(native: bool) -> None:
    a, b, c = f32(1), f32(2), f32(3)
    same = tikgen.elementwise("z = x + 0*y", scalars=())
    program = tikgen.Program(
        [same.bind(x=a, y=b, z=c), tikgen.swap((a, b), (b, c))],
        native=native,
        one=a,
        two=b,
        three=c,
    )
    held = [1.0, 2.0, 3.0]
    for _ in range(4):
        held[2] = held[0]
        held = [held[1], held[2], held[0]]
        program.run(1)
        assert [float(program[name][0]) for name in ("one", "two", "three")] == held


@stepped
def test_assignments_copies_and_conditions_are_steps(native: bool) -> None:
    rr, pq, alpha, big = f32(8), f32(2), f32(0), f32(0)
    program = tikgen.Program(
        [
            "alpha = rr / pq",
            tikgen.copy(alpha, rr),
            tikgen.when("alpha >= least", ["big = big + 1"], otherwise=["big = big + 100"]),
        ],
        native=native,
        rr=rr,
        pq=pq,
        alpha=alpha,
        big=big,
        least=2,
    )
    program.run(3)
    assert alpha.tolist() == rr.tolist() == [1.0]
    assert big.tolist() == [102.0]


@stepped
def test_a_loop_ends_where_its_condition_holds(native: bool) -> None:
    n, total = f32(0), f32(0)
    count = tikgen.loop(10, ["n = n + 1"], until="n >= 4")
    program = tikgen.Program(
        [count, "total = total + n", "n = 0*n"], native=native, n=n, total=total
    )
    program.run(5)
    assert total.tolist() == [20.0]


@stepped
@pytest.mark.parametrize("most", [1, 2, 3, 4, 7])
def test_a_loop_with_a_swap_may_end_after_any_time(native: bool, most: float) -> None:
    x, y, n = f32(0, 0), f32(0, 0), f32(0)
    add = tikgen.elementwise("y = x + 1").bind(x, y)
    sweeps = tikgen.loop(6, [add, tikgen.swap((x, y)), "n = n + 1"], until="n >= most")
    program = tikgen.Program([sweeps, "n = 0*n"], native=native, x=x, y=y, n=n, most=most)
    for steps in (1, 2, 5):
        program.run(steps)
        times = int(min(most, 6)) * program.steps
        assert program["x"].tolist() == [times] * 2
        assert program["x"] is (y if times % 2 else x)


@stepped
def test_a_swap_on_one_branch_depends_on_what_the_device_computed(native: bool) -> None:
    x, y, n = f32(1), f32(2), f32(0)
    turn = tikgen.when("n > 2", [tikgen.swap((x, y))])
    program = tikgen.Program(["n = n + 1", "x = x + 10", turn], native=native, x=x, y=y, n=n)
    seen = []
    program.run(5, every=1, call=lambda p: seen.append((float(p["x"][0]), float(p["y"][0]))))
    assert seen == [(11, 2), (21, 2), (2, 31), (31, 12), (12, 41)]
    ran = program.run(until="x > 45", most=10)
    assert (ran.steps, float(program["x"][0])) == (3, 51.0)


@stepped
def test_scalars_change_with_the_step(native: bool) -> None:
    x, y = f32(0), f32(0)
    most = 2000 if native else 60  # In native code, more than are prepared at once.
    steps = 3 * most // 4
    add = tikgen.elementwise("x = x + a")
    program = tikgen.Program(
        [
            tikgen.varying(add.bind(x=x, a=0), a=np.array),
            tikgen.loop(0, [add.bind(x=x, a=9)]),
            tikgen.varying(add.bind(x=y, a=0), a=[0.5] * most),
        ],
        native=native,
    )
    program.run(3)
    program.run(steps - 3)
    assert x.tolist() == [sum(range(steps))]
    assert y.tolist() == [steps / 2]
    problem = f"'a' has values for {most} steps; {most + 1} are needed"
    with pytest.raises(ProgramError, match=problem):
        program.run(most - steps + 1)
    assert program.steps == steps


@stepped
def test_calls_come_after_steps_whose_number_is_a_multiple(native: bool) -> None:
    _, _, program = heat(native)
    seen: list[int] = []
    program.run(5)
    program.run(12, every=4, call=lambda p: seen.append(p.steps))
    assert seen == [8, 12, 16]


@stepped
def test_steps_end_where_a_condition_holds(native: bool) -> None:
    n = f32(0)
    program = tikgen.Program(["n = n + 1"], native=native, n=n, enough=7.5)
    ran = program.run(until="n > enough", most=100)
    assert (ran.steps, ran.reached) == (8, True)
    ran = program.run(until="n > 100", check_every=5, most=10)
    assert (ran.steps, ran.reached, program.steps) == (10, False, 18)
    assert [program.run(until=f"n > {most}", most=0).reached for most in (17, 18)] == [True, False]
    ran = program.run(until="n > 30", check_every=20, most=1000)
    assert (ran.steps, n.tolist()) == (22, [40.0])


@stepped
def test_a_condition_that_is_watched_ends_a_run_where_it_does_not_hold(native: bool) -> None:
    n = f32(0)
    program = tikgen.Program(["n = n + 1"], native=native, n=n, dt=0.25)
    assert program.run(6, watch="dt*n < 2", check_every=3).steps == 6
    with pytest.raises(ProgramError, match=r"after step 9 'dt\*n < 2' does not hold: dt = 0.25, n"):
        program.run(100, watch="dt*n < 2", check_every=3)
    assert program.steps == n[0] == 9
    n.fill(0)
    ran = program.run(until="n > 3", most=5, watch="dt*n < 2")
    assert (ran.steps, ran.reached) == (4, True)
    with pytest.raises(ProgramError, match="n = nan"):
        n.fill(np.nan)
        program.run(1, watch="dt*n < 2")


@stepped
def test_a_condition_follows_swaps(native: bool) -> None:
    n, m = f32(0), f32(50)
    program = tikgen.Program(["m = n + 1", tikgen.swap((n, m))], native=native, n=n, m=m)
    ran = program.run(until="n == 3", most=10)
    assert (ran.steps, float(program["n"][0])) == (3, 3.0)


@stepped
def test_a_call_may_stop_the_run(native: bool) -> None:
    _, _, program = heat(native)
    ran = program.run(1000, every=10, call=lambda p: p.stop() if p.steps == 30 else None)
    assert ran.steps == program.steps == 30
    assert program.run(5).steps == 5  # The order does not outlast the run.


@stepped
def test_an_error_of_a_call_leaves_whole_steps(native: bool) -> None:
    u, _, program = heat(native)
    start = u.copy()

    def fail(_: Any) -> None:
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        program.run(100, every=7, call=fail)
    assert program.steps == 7
    np.testing.assert_allclose(program["x"], stepped_by_hand(start, 7), rtol=1e-5)


@stepped
def test_two_threads_cannot_run_one_program(native: bool) -> None:
    _, _, program = heat(native)
    within, problems = threading.Event(), []

    def second() -> None:
        within.wait()
        try:
            program.run(1)
        except ProgramError as error:
            problems.append(str(error))

    other = threading.Thread(target=second)
    other.start()

    def during(_: Any) -> None:
        within.set()
        other.join()

    program.run(1, every=1, call=during)
    assert problems == ["the program is running already"]


def test_launches_are_counted() -> None:
    _, _, program = heat()
    kernel = tikgen.build("stencil", dim=1, update=True, boundary="periodic")
    before = kernel.launches
    program.run(50)
    assert kernel.launches == before + 50


@stepped
def test_a_run_takes_new_code_of_a_kernel(native: bool) -> None:
    from tikgen.pipeline import builder
    from tikgen.pipeline.rendering import hashed

    x = f32(0, 0)
    kernel = tikgen.elementwise("x = x + 1025")
    program = tikgen.Program([kernel.bind(x)], native=native)
    program.run(1)
    source = kernel.source
    text = source.text.replace("1025.0", "2.0")
    assert text != source.text
    builder.replace(kernel, hashed(kernel.variant, text, source.line_map), lambda error: None)
    program.run(2)
    assert x.tolist() == [1029.0] * 2
    tikgen.clear()


def test_arrays_are_numbered_where_several_have_an_argument() -> None:
    one = tikgen.elementwise("x_1 = x + 1")
    first, second, third = f32(1), f32(2), f32(3)
    program = tikgen.Program([one.bind(x=first, x_1=third), one.bind(x=second, x_1=third)])
    assert program.names == tuple(program) == ("x_2", "x_3", "x_1")
    assert "x_1" in program
    assert "x" not in program
    held = [program[name] for name in program.names]
    assert [array.tolist() for array in held] == [[1], [2], [3]]


def test_names_of_arguments_may_be_those_of_arrays_that_other_parts_take() -> None:
    one = tikgen.elementwise("y = x + 1", dim=2)
    x, y, n = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), f32(0)
    step = [one.bind(x=x, y=y), tikgen.swap((x, y))]
    assert tikgen.Program([*step, "x = x + 1"], x=n).names == ("x", "x_1", "y")
    assert tikgen.Program([*step, tikgen.copy(f32(1), n)], x=n)["x"] is n
    seen = tikgen.Program(step, x=x.ravel())  # A view of the very array.
    seen.run(3)
    assert seen["x"].tolist() == [3] * 6


def test_a_program_reads_as_it_was_written() -> None:
    n, u, un = f32(0), f32(1, 2), f32(0, 0)
    step = tikgen.elementwise("y = a*x")
    program = tikgen.Program(
        [
            tikgen.varying(step.bind(2, u, un), a=[1.0]),
            tikgen.loop(3, ["n = n + 1", tikgen.copy(un, u)], until="n > 2"),
            tikgen.when("n > 1", [tikgen.swap((u, un))], otherwise=[tikgen.swap((u, un))]),
        ],
        u=u,
        un=un,
        n=n,
    )
    assert str(program).splitlines() == [
        f"{step.name}(a=by step, x=u) -> y=un",
        "3 times, until n > 2:",
        "    n = n + 1",
        "    copy un -> u",
        "when n > 1:",
        "    swap u <-> un",
        "otherwise:",
        "    swap u <-> un",
    ]
    assert "n &gt; 1" in program._repr_html_()
    assert repr(program).endswith(", step 0>")
