"""Grids in one process: as plain arrays, in native code, with MPI or without it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from cases import CASES, alone, made
from conftest import ARCH
from tikgen.errors import ArgumentError, GridError, ProgramError
from tikgen.grid import processes
from tikgen.program.parts import Swap

pytestmark = pytest.mark.usefixtures("ti_arch")
needs_views = pytest.mark.skipif(
    ARCH == "cuda" and importlib.util.find_spec("torch") is None,
    reason="arrays of a GPU have views by torch, an extra: pip install tikgen[torch]",
)


@pytest.fixture
def without_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    monkeypatch.setattr(processes, "_world", processes._world.__wrapped__)


@pytest.fixture
def heat() -> tikgen.Kernel:
    return tikgen.update("u' = u + dt*lap(u); m = max(u')", dim=2, scalars="dt", boundary="zero")


@pytest.mark.usefixtures("without_mpi", "without_fast_math")
@pytest.mark.parametrize("name", ["mixed", "faces and masks", "vectors behind"])
def test_one_process_computes_what_plain_arrays_hold(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    kernel = case.kernel()
    grid = tikgen.Grid(case.shape, case.periodic)
    whole = case.fields(kernel)
    held: dict[str, Any] = {
        n: grid.field(v, components=case.vectors.get(n[0], 0), layout=case.layout)
        for n, v in whole.items()
    }
    results = {n: np.zeros(1, np.float32) for n in case.results}
    program = made(case, grid, kernel, held | results | case.given)
    program.verify(2).raise_for_failure()
    program.run(case.steps - 1)
    program.save(tmp_path / "one.npz")
    program.run(3)
    program.load(tmp_path / "one.npz")
    program.run(1)
    expected = alone(case)
    for field in whole:
        np.testing.assert_array_equal(grid.gather(program[field]), expected[field])
        np.testing.assert_array_equal(program[field][:], expected[field])
    for result in results:
        np.testing.assert_array_equal(program[result], expected[result])


@needs_views
@pytest.mark.usefixtures("without_mpi")
def test_a_program_knows_fields_by_name(heat: tikgen.Kernel) -> None:
    grid = tikgen.Grid((8, 9))
    u, un, m = grid.full(1.0), grid.zeros(), np.zeros(1, np.float32)
    program = tikgen.Program(
        [grid.bind(heat, u=u, u_next=un, dt=0.1, m=m), grid.swap((u, un))], start=u, m=m
    )
    assert program["start"] is u
    assert program.current(un) is un
    program.run(1)
    assert program["start"] is un
    assert program.current(u) is un
    u.array[...] = 5
    assert (u.owned == 5).all()
    program.settle()
    assert program["start"] is u
    assert "start" in str(program)
    with pytest.raises(ProgramError, match=r"'u' names an array .* a field of shape \(8, 9\), and"):
        tikgen.Program([grid.bind(heat, u=u, u_next=un, dt=0.1, m=m)], u=grid.zeros())
    copied = tikgen.Program([tikgen.copy(u, un)])
    copied.run(1)
    assert (u.array == un.array).all()


@needs_views
@pytest.mark.usefixtures("without_mpi")
def test_fields_take_arrays_and_functions_and_whole_arrays(heat: tikgen.Kernel) -> None:
    grid = tikgen.Grid((4, 5))
    u = grid.field(lambda i, j: 10 * i + j, "f64")
    np.testing.assert_array_equal(grid.gather(u), np.add.outer(10.0 * np.arange(4), np.arange(5)))
    grid.scatter(u, np.ones((4, 5)))
    assert (u.owned == 1).all()
    assert grid.field(np.ones((4, 5), np.int32)).dtype is tikgen.DType.i32
    assert grid.zeros(components=3, layout="last").array.shape == (4, 5, 3)
    for told, act in {
        "'f33' is not": lambda: grid.zeros("f33"),
        "components takes a whole number of 0": lambda: grid.zeros(components=-1),
        "components .* got 'a'": lambda: grid.zeros(components="a"),  # type: ignore[arg-type]
        "array of numbers or a function of indices; got None": lambda: grid.field(None),  # type: ignore[arg-type]
        r"function of i, j; <lambda>\(\) does not take 2 arguments": lambda: grid.field(
            lambda i: i
        ),
        "layout takes": lambda: grid.zeros(layout="middle"),  # type: ignore[arg-type]
        "layout takes 'first'": lambda: grid.zeros(layout=np.zeros(2)),  # type: ignore[arg-type]
        "sums takes 'fast'": lambda: tikgen.Grid(3, sums=np.zeros(2)),  # type: ignore[arg-type]
        "field takes numbers in one array": lambda: grid.field([[1, 2], [3]]),  # type: ignore[arg-type]
        "1, 2 or 3 axes": lambda: tikgen.Grid((1, 2, 3, 4)),
        "periodic takes": lambda: tikgen.Grid((3, 4), periodic=(True,)),
        "halo takes": lambda: tikgen.Grid((3, 4), halo=(1, 2, 3)),
        "shape takes": lambda: tikgen.Grid((3, 0)),
    }.items():
        with pytest.raises(GridError, match=told):
            act()
    assert isinstance(grid.swap((u, grid.zeros("f64"))), Swap)


@pytest.mark.usefixtures("without_mpi")
def test_elements_are_written_before_and_after_a_field_has_an_array(heat: tikgen.Kernel) -> None:
    grid = tikgen.Grid((6, 7))
    u, values = grid.full(2), np.ones(6)
    u[1:3, 2] = 5
    u[:, -1] = values
    values[:] = 9
    grid.bind(heat, u=u, u_next=grid.zeros(), dt=0.1, m=np.zeros(1, np.float32))  # Not too late.
    expected = np.full((6, 7), 2.0)
    expected[1:3, 2], expected[:, -1] = 5, 1
    np.testing.assert_array_equal(u[...], expected)
    u[[0, 5], [0, 6]] = [7, 8]
    assert (u[0, 0], u[5, 6], u[0, 6]) == (7, 8, 1)
    copied = u[0]
    copied[:] = 0
    assert u[0, 0] == 7
    with pytest.raises(GridError, match=r"shape \(2, 7\) of a field of f32 takes an array"):
        u[:2] = np.ones(3)
    with pytest.raises(IndexError):
        u[7]


@pytest.mark.usefixtures("without_mpi")
@pytest.mark.parametrize("layout", ["first", "last"])
def test_a_function_returns_what_each_component_holds(layout: Any) -> None:
    grid = tikgen.Grid((4, 2))

    def field(function: Any, components: int = 2) -> Any:
        made = grid.field(function, components=components, layout=layout)[...]
        return made if layout == "first" else np.moveaxis(made, -1, 0)

    i, j = np.ogrid[:4, :2]
    expected = [np.broadcast_to(10 * i, (4, 2)), np.broadcast_to(j, (4, 2))]
    np.testing.assert_array_equal(field(lambda i, j: (10 * i, j)), expected)
    expected = [np.full((4, 2), 5), np.full((4, 2), 6)]
    np.testing.assert_array_equal(field(lambda i, j: [5, 6.0]), expected)
    np.testing.assert_array_equal(field(lambda i, j: 5), np.full((2, 4, 2), 5))
    for told, function, components in (
        (r"takes 2 components; got 3 values", lambda i, j: (1, 2, 3), 2),
        (r"a component of a field of f32 from <lambda>\(\) takes an array of shape \(4, 2\)",
         lambda i, j: (i, np.zeros(3)), 2),
        ("takes numbers in one array; got a list of parts", lambda i, j: [i, 0.0], 0),
        ("takes an array or a number; got 2 values, .* takes components=2", lambda i, j: (5, 6), 0),
    ):  # fmt: skip
        with pytest.raises(GridError, match=told):
            field(function, components)


@pytest.mark.usefixtures("without_mpi")
def test_numbers_that_no_field_holds_are_refused() -> None:
    grid = tikgen.Grid((4, 5))
    u, count = grid.zeros(), grid.zeros("u8")

    def nothing(i: Any, j: Any) -> None:
        """Return nothing."""

    for told, act in {
        r"nothing\(\) returned None; a field takes numbers": lambda: grid.field(nothing).array,
        r"from <lambda>\(\) takes real .* complex128": lambda: (
            grid.field(lambda i, j: 1j * i).array
        ),
        "of u8, from 0 to 255; got numbers from 0 to 300": lambda: (
            grid.field(lambda i, j: 100 * i, "u8").array
        ),
        r"an array of shape \(4, 5\), or one that broad.*\(3,\)": lambda: (
            grid.field(lambda i, j: np.zeros(3)).array
        ),
        "from nan to nan": lambda: grid.full(float("nan"), "i32"),
        "full of f32 takes real numbers": lambda: grid.full("abc"),  # type: ignore[arg-type]
        "got numbers from -1.0 to": lambda: grid.field(-np.eye(4, 5), "u8"),
        "from_numpy takes an array of shape": lambda: u.from_numpy(np.zeros(3)),
        "takes numbers of u8": lambda: count.__setitem__(0, 256),
        "takes real numbers; got complex128": lambda: u.__setitem__(0, 1j),
        r"no array of NumPy, .* field\[\.\.\.\] .* grid.gather.field. .* field.owned": lambda: (
            np.sum(u)
        ),
    }.items():
        with pytest.raises(GridError, match=told):
            act()
    assert (grid.field(lambda i, j: i > 1)[:, 0] == [0, 0, 1, 1]).all()


@pytest.mark.usefixtures("without_mpi")
@pytest.mark.skipif(ARCH == "cuda", reason="values over faces are taken before a run")
def test_a_kernel_follows_the_array_of_a_face() -> None:
    heat = tikgen.update(
        "u' = u[-1]", dim=1, boundary={"x-": tikgen.dirichlet("inflow"), "x+": "clamp"}
    )
    grid = tikgen.Grid(5)
    u, un, inflow = grid.zeros(), grid.zeros(), np.zeros(1, np.float32)
    step = grid.bind(heat, u=u, u_next=un, inflow=inflow)
    program = tikgen.Program(["inflow = inflow + 1", step, grid.swap((u, un))], inflow=inflow)
    ahead = program.reference(2)["u"]
    program.verify(2).raise_for_failure()
    program.run(2)
    assert program["u"][...].tolist() == ahead.tolist() == [2, 1, 0, 0, 0]
    assert program["inflow"] is inflow
    assert program.names == ("inflow", "u", "u_next")
    inflow[0] = 7
    step()
    assert un.owned[0] == 7
    sides = {"x": tikgen.dirichlet("inflow"), "y": "clamp"}
    plane = tikgen.update("u' = u[-1, 0]", dim=2, boundary=sides)
    square, values = tikgen.Grid((3, 3)), np.zeros((3, 2), np.float32)[:, 0]
    with pytest.raises(GridError, match=r"'inflow' takes a contiguous array, .* got a view"):
        square.bind(plane, u=square.zeros(), u_next=square.zeros(), inflow=values)
    with pytest.raises(GridError, match=r"'inflow' takes dtype f32 \(float32\); got float64"):
        square.bind(plane, u=square.zeros(), u_next=square.zeros(), inflow=np.zeros(3))


@pytest.mark.usefixtures("without_mpi")
def test_exact_sums_have_the_same_names(heat: tikgen.Kernel, tmp_path: Path) -> None:
    text = "u' = u; s = sum(u); top = max(u)"
    names = []
    for sums in ("fast", "exact"):
        grid = tikgen.Grid((3, 4), sums=sums)  # type: ignore[arg-type]
        s, top = np.zeros((2, 1), np.float32)
        bound = grid.bind(tikgen.update(text, dim=2), grid.full(1), grid.zeros(), s=s, top=top)
        program = tikgen.Program([bound])
        names.append(program.names)
        if sums == "exact":
            program.load(tmp_path / "fast.npz")
            assert program["s"] == 12
            launch, added = str(program).splitlines()
            assert "s=(scratch)" in launch
            assert added == "add exactly s"
            assert re.fullmatch(r"<Program of 1 part by [\w ]+, step 1>", repr(program))
        for wrong, told in (
            (s.astype(float), "dtype f32.* got float64"),
            (np.zeros(2, np.float32), "shape .1,.; got .2,"),
        ):
            with pytest.raises(GridError, match=f"argument 's' takes {told}"):
                grid.bind(bound.kernel, grid.full(1), grid.zeros(), s=wrong, top=top)
        program.run(1)
        program.save(tmp_path / "fast.npz")
    assert names[0] == names[1] == ("u", "u_next", "s", "top")


@pytest.mark.usefixtures("without_mpi")
def test_one_process_prints(capsys: pytest.CaptureFixture[str]) -> None:
    tikgen.Grid(3).print("a", 1)
    assert capsys.readouterr().out == "a 1\n"


@needs_views
@pytest.mark.usefixtures("without_mpi")
def test_a_step_can_be_launched_alone(heat: tikgen.Kernel) -> None:
    grid = tikgen.Grid((6, 7))
    u, un, m = grid.full(2.0), grid.zeros(), np.zeros(1, np.float32)
    step = grid.bind(heat, u, 0.0, un, m)
    step()
    assert (un.owned == 2).all()
    step(dt=0.25)
    assert m == 2
    assert un.owned[0, 0] == 1
    with pytest.raises(
        ArgumentError, match=r"got tikgen.grid.field.Field; pass fields .* grid.bind"
    ):
        heat(u, 0.0, un, m)


@pytest.mark.usefixtures("without_mpi")
def test_several_processes_need_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tikgen.Grid(8).size == 1
    monkeypatch.setenv("PMI_SIZE", "4")
    with pytest.raises(GridError, match=r"4 processes .* need mpi4py .*pip install tikgen\[mpi\]"):
        tikgen.Grid(8)


@pytest.mark.usefixtures("without_mpi")
def test_a_condition_over_a_field_is_refused_with_the_shape_of_the_whole(ti_arch: str) -> None:
    grid = tikgen.Grid((4, 5))
    u = grid.zeros()
    program = tikgen.Program([grid.bind(tikgen.update("u = u + 1", dim=2), u=u)])
    with pytest.raises(ProgramError, match=r"'u' is a field of shape \(4, 5\)"):
        program.run(until="u < 1", most=3)


@pytest.mark.usefixtures("without_mpi")
def test_a_field_has_the_shape_of_the_whole_and_takes_no_arithmetic() -> None:
    grid = tikgen.Grid((4, 5))
    u, v = grid.zeros("f64"), grid.zeros(components=3, layout="last")
    assert (u.shape, v.shape, len(u), u.dtype) == ((4, 5), (4, 5, 3), 4, tikgen.DType.f64)
    for act in (
        lambda: 2 * u,
        lambda: u / v,
        lambda: -u,
        lambda: u**2,
        lambda: u - 1,
        lambda: u < 1,
        lambda: np.ones((4, 5)) * u,
        lambda: abs(u),
    ):
        with pytest.raises(GridError, match=r"field takes no arithmetic|no array of NumPy"):
            act()
    assert {u: 1, v: 2}[u] == 1


@pytest.mark.usefixtures("without_mpi")
def test_an_array_with_components_is_told_how_to_be_taken() -> None:
    grid = tikgen.Grid((4, 5))
    with pytest.raises(GridError, match=r"; one with 2 components takes components=2$"):
        grid.field(np.zeros((2, 4, 5)))
    with pytest.raises(GridError, match=r"components takes components=3, layout='last'$"):
        grid.field(np.zeros((4, 5, 3)))
    with pytest.raises(GridError, match=r"takes no array of \(5, 4\)$"):
        grid.field(np.zeros((5, 4)))
