"""What is wrong with a program shows before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH, init_taichi
from tikgen.errors import ProgramError

pytestmark = pytest.mark.usefixtures("ti_arch")


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def adding() -> tikgen.Kernel:
    return tikgen.elementwise("y = x + a")


def counting(**names: Any) -> tikgen.Program:
    return tikgen.Program(["n = n + 1"], n=zeros(1), **names)


def swapped(other: Any, array: Any = None) -> list[Any]:
    x = zeros(4) if array is None else array
    step = tikgen.elementwise("x = x + 1", dtype=str(other.dtype), dim=other.ndim)
    first = tikgen.elementwise("x = x + 1")
    return [first.bind(x), step.bind(other), tikgen.swap((x, other))]


def shared() -> list[Any]:
    whole = zeros(8)
    return [adding().bind(x=zeros(8), y=whole, a=1), *swapped(whole[2:6])]


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (lambda: tikgen.Program([]), "at least one part"),
    "no kernel": (
        lambda: tikgen.Program([tikgen.loop(2, [])]),
        "a program takes at least one kernel",
    ),
    "no list": (lambda: tikgen.Program(7), "takes a list of parts; got int"),  # type: ignore[arg-type]
    "one element in twenty": (
        lambda: counting(x=zeros(80)[::20]),
        r"take ndarray float32 of shape \(4,\) and strides \(80,\): .* of at most 16 elements",
    ),
    "a kernel that is not bound": (
        lambda: tikgen.Program([adding()]),
        r"got tikgen.pipeline.sized.SizedKernel; bind it: kernel.bind\(...\)",
    ),
    "a swap of another shape": (
        lambda: tikgen.Program(swapped(zeros(5))),
        r"swap takes arrays of one kind, dtype, shape and layout; got x_1 \(ndarray float32 of "
        r"shape \(4,\)\) and x_2 \(ndarray float32 of shape \(5,\)\)",
    ),
    "a swap of another dtype": (
        lambda: tikgen.Program(swapped(zeros(4, dtype=np.float64))),
        "ndarray float64",
    ),
    "a swap of another number of axes": (
        lambda: tikgen.Program(swapped(zeros(2, 2))),
        r"shape \(2, 2\)",
    ),
    "a swap of an array that no kernel takes": (
        lambda: tikgen.Program(
            [adding().bind(zeros(3), 1, zeros(3)), tikgen.swap((zeros(3), zeros(3)))]
        ),
        "an array that no kernel of the program takes: ndarray float32",
    ),
    "a swap of names": (lambda: tikgen.swap(("u", "v")), "swap takes arrays; got str"),
    "a swap of an array and nothing": (lambda: tikgen.swap((zeros(3), None)), "got NoneType"),
    "a copy of numbers": (lambda: tikgen.copy(1, 2), "copy takes arrays; got int"),
    "a copy into itself": (lambda: tikgen.copy(x := zeros(3), x), "one array as source and target"),
    "no condition": (lambda: tikgen.when(None, []), "a condition is a text"),  # type: ignore[arg-type]
    "an end that is none": (lambda: tikgen.loop(3, [], until=5), "a condition is a text"),  # type: ignore[arg-type]
    "a condition that is malformed": (lambda: tikgen.when("n <", []), "Expression 'n <'"),
    "a function without a step": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3)), a=lambda: 3),
        r"scalar 'a' takes a function of the number of the step, .*<lambda>\(\) does not take one",
    ),
    "a table without values": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3)), a=[]),
        "scalar 'a' takes a value for each step; got no values",
    ),
    "a call without the program": (
        lambda: counting().run(1, every=1, call=lambda: None),
        r"call takes a function of the program, .*<lambda>\(\) does not take one argument",
    ),
    "an unknown name of a program without names": (
        lambda: tikgen.Program(["n = n + 1"]),
        r"'n' is unknown. Name an array with Program\(\[...\], n=array\)",
    ),
    "a swap of the parent of a view": (
        lambda: tikgen.Program(
            [adding().bind((x := zeros(9))[3:6], 1, zeros(3)), tikgen.swap((x, zeros(9)))]
        ),
        r"'x' shares memory with it, but is another: ndarray float32 of shape \(3,\)",
    ),
    "a condition in Python": (
        lambda: tikgen.Program([tikgen.when(lambda p: True, ["n = n + 1"])], n=zeros(1)),  # type: ignore[arg-type]
        "such as 'rr < 1e-8'; got function. Python code runs between steps",
    ),
    "a swap with a number": (
        lambda: tikgen.Program([adding().bind(x := zeros(3), 1, zeros(3)), tikgen.swap((x, 0))]),
        "swap takes arrays; got int",
    ),
    "a swap of unlike arrays, of which a kernel takes one": (
        lambda: tikgen.Program(
            [adding().bind(x := zeros(3), 1, zeros(3)), tikgen.swap((x, zeros(4)))]
        ),
        r"swap takes arrays of one kind, .*; got ndarray float32 of shape \(3,\) and ndarray",
    ),
    "native in words": (lambda: tikgen.Program(["n = n"], native="no", n=zeros(1)), "got 'no'"),  # type: ignore[arg-type]
    "an array with the name of an option": (
        lambda: counting(native=zeros(1)),
        "native is an option of Program and takes None, True or False; got an array, which takes "
        "another name, such as native_1",
    ),
    "an array for temporal_blocking": (
        lambda: counting(temporal_blocking=zeros(4)),
        "temporal_blocking is an option of Program .* such as temporal_blocking_1",
    ),
    "a copy with the name of an argument": (
        lambda: tikgen.Program([adding().bind(zeros(3), 1, zeros(3))], x=zeros(3)),
        r"'x' names an array that no part of the program takes, ndarray float32 of shape \(3,\), "
        r"and a kernel takes another one as 'x'; pass the very array that was bound, no copy: "
        r"Program\(\[...\], x=array\), or choose another name",
    ),
    "progress in words": (lambda: counting().run(1, progress="no"), "True or False; got 'no'"),  # type: ignore[arg-type]
    "a checkpoint without a path": (lambda: counting().save(None), "save takes the path of a"),  # type: ignore[arg-type]
    "a checkpoint with another ending": (
        lambda: counting().save("run.zr"),
        "save writes no file whose name ends in '.zr'. Did you mean '.zarr'. Known: .npz, .h5, "
        ".hdf5, .zarr, as in 'run.zr.npz'",
    ),
    "a checkpoint of a run with another ending": (
        lambda: counting().run(1, checkpoint="run.ckpt"),
        "checkpoint writes no file whose name ends in '.ckpt'. Known: .npz",
    ),
    "a swap of a view": (lambda: tikgen.Program(shared()), "shares memory with it"),
    "a swap of a single array": (lambda: tikgen.swap(zeros(2)), "takes pairs"),  # type: ignore[arg-type]
    "a swap with itself": (lambda: tikgen.swap((x := zeros(2), x)), "one array twice"),
    "a swap of nothing": (lambda: tikgen.swap(), "at least one pair"),
    "a copy into another shape": (
        lambda: tikgen.Program([tikgen.copy(zeros(3), zeros(4))]),
        r"copy takes arrays of one kind, dtype, shape and layout",
    ),
    "a copy of a number": (lambda: tikgen.Program([tikgen.copy(1, zeros(4))]), "copy takes arrays"),
    "a loop without times": (lambda: tikgen.loop(-1, ["n = n + 1"]), "0 or more; got -1"),
    "a name of no array": (lambda: counting(n_next="x"), "takes an array or a number; got str"),
    "a name that is none": (
        lambda: tikgen.Program(["n = n + 1"], **{"n": zeros(1), "../n": zeros(1)}),
        "'../n' is no name",
    ),
    "two names for one array": (
        lambda: tikgen.Program(["n = n + 1"], n=(x := zeros(1)), m=x),
        "'n' and 'm' name one array",
    ),
    "a number with the name of a constant": (
        lambda: counting(e=1e-3),
        "'e' is 2.71828 in every text; choose another name",
    ),
    "an array with the name of a constant": (
        lambda: counting(pi=zeros(1)),
        "'pi' is 3.14159 in every text",
    ),
    "a condition on a constant": (
        lambda: tikgen.Program([tikgen.when("e > 2", ["n = n + 1"])], n=zeros(1)),
        "the condition 'e > 2' reads no array, so that it never changes; e is 2.71828 in every",
    ),
    "an assignment without =": (
        lambda: tikgen.Program(["n >= 1"], n=zeros(1)),
        "the assignment 'n >= 1' has no =; write what it changes, as in 'n = n [+] 1'",
    ),
    "a number in place of an array": (
        lambda: counting(tol=0.5)["tol"],
        "'tol' is the number 0.5, which never changes",
    ),
    "an unknown name in an assignment": (
        lambda: tikgen.Program(["alpha = rr / pk"], alpha=zeros(1), rr=zeros(1), pq=zeros(1)),
        "the name 'pk' is unknown. Did you mean 'pq'. Known: alpha, rr, pq",
    ),
    "an assignment to a number": (
        lambda: tikgen.Program(["tol = n"], n=zeros(1), tol=0.1),
        "'tol' is a number; only arrays can be assigned",
    ),
    "an assignment to a large array": (
        lambda: tikgen.Program(["n = n + 1"], n=zeros(2)),
        r"of shape \(1,\), as reductions write them; 'n' is ndarray float32 of shape \(2,\)",
    ),
    "an assignment of two dtypes": (
        lambda: tikgen.Program(["n = m"], n=zeros(1), m=zeros(1, dtype=np.int32)),
        "takes arrays of one dtype; m is i32, n is f32",
    ),
    "text that is no arithmetic": (
        lambda: tikgen.Program(["n = open('f')"], n=zeros(1)),
        "calls 'open', which is not a function",
    ),
    "a scalar that is not there": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3)), b=abs),
        "has no scalar 'b'; it takes a",
    ),
    "a scalar without a function": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3)), a=2),  # type: ignore[arg-type]
        "takes a function of the step or a value for each step; got int",
    ),
    "scalars by step in a dict": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3)), a={1: 2.0}),  # type: ignore[arg-type]
        "takes a function of the step or a value for each step; got dict",
    ),
    "scalars of no kernel": (lambda: tikgen.varying(7, a=abs), "takes a bound kernel"),  # type: ignore[arg-type]
    "no scalars": (
        lambda: tikgen.varying(adding().bind(zeros(3), 1, zeros(3))),
        "takes scalars by name, such as dt=",
    ),
    "too many arrangements": (
        lambda: tikgen.Program(many_arrangements()),
        "more than 10000 launches for different arrays; swap fewer arrays",
    ),
    "steps below 0": (lambda: counting().run(-1), "steps takes a number of 0 or more; got -1"),
    "steps that are no whole number": (lambda: counting().run(1.5), "whole number; got 1.5"),  # type: ignore[arg-type]
    "neither steps nor until": (lambda: counting().run(), "either steps, or until with most"),
    "steps and until": (lambda: counting().run(1, until="n > 1", most=2), "either steps, or until"),
    "until without most": (lambda: counting().run(until="n > 1"), "until needs most="),
    "every without call": (lambda: counting().run(1, every=1), "every and call belong together"),
    "call without every": (lambda: counting().run(1, call=print), "every and call belong together"),
    "every 0": (
        lambda: counting().run(1, every=0, call=print),
        "every takes a number of 1 or more",
    ),
    "a call that cannot be called": (
        lambda: counting().run(1, every=1, call=3),  # type: ignore[arg-type]
        "call takes a function; got int",
    ),
    "check_every without until": (
        lambda: counting().run(1, check_every=2),
        "check_every belongs to until and watch",
    ),
    "a condition with the program's own name": (
        lambda: tikgen.Program([tikgen.when("flag > 1", ["flag = 2"])], flag=zeros(1)),
        "the name 'flag' is used by the program; choose another",
    ),
    "an assignment that a dtype cannot do": (
        lambda: tikgen.Program(["n = sin(n)"], n=zeros(1, dtype=np.int32)),
        "the assignment 'n = sin.n.':",
    ),
    "most without until": (lambda: counting().run(1, most=3), "most belongs to until"),
    "an unknown name in until": (
        lambda: counting(tol=1).run(until="n < toll", most=1),
        "the condition 'n < toll': the name 'toll' is unknown. Did you mean 'tol'",
    ),
    "until without an array": (
        lambda: counting(tol=1).run(until="tol < 1", most=1),
        "reads no array, so that it never changes",
    ),
    "an unknown array": (lambda: counting()["m"], "the name 'm' is unknown. Known: n"),
    "no name": (
        lambda: counting()[zeros(1)],
        r"takes a name; got ndarray. For an array write program.current",
    ),  # type: ignore[index]
    "an ambiguous name": (
        lambda: tikgen.Program(swapped(zeros(4)))["x"],
        r"'x' may be x_1 or x_2; give the array a name of its own: Program\(\[...\], x=array\)",
    ),
}


def many_arrangements() -> list[Any]:
    """Return parts that swap in rings of 2, 3, 5, 7 and 11 arrays."""
    listed: list[Any] = []
    for count in (2, 3, 5, 7, 11):
        ring = [zeros(2) for _ in range(count)]
        listed += [tikgen.elementwise("x = x + 1").bind(x) for x in ring]
        listed.append(tikgen.swap(*itertools.pairwise(ring)))
    return listed


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    action, message = WRONG[name]
    with pytest.raises(ProgramError, match=message):
        action()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.__setattr__("shape", (2, 2)),
        lambda x: x.__setattr__("dtype", np.int32),
    ],
    ids=["reshaped", "of another dtype"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_array_that_changed_is_refused(change: Any) -> None:
    x = zeros(4)
    program = tikgen.Program([tikgen.elementwise("x = x + 1").bind(x)])
    program.run(1)
    change(x)
    with pytest.raises(ProgramError, match="array 'x' was freed, moved or resized since"):
        program.run(1)
    assert program.steps == 1


def test_a_tensor_that_was_moved_is_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4)
    program = tikgen.Program([tikgen.elementwise("x = x + 1").bind(x)])
    program.run(2)
    assert x.tolist() == [2, 2, 2, 2]
    x.resize_(4000)
    with pytest.raises(ProgramError, match="array 'x' was freed, moved or resized since"):
        program.run(1)


def test_an_unloaded_kernel_is_refused() -> None:
    kernel = tikgen.elementwise("x = x + 117")
    program = tikgen.Program([kernel.bind(zeros(4))])
    program.run(1)
    kernel.loaded.unload()
    with pytest.raises(tikgen.TikgenError, match="was unloaded; build"):
        program.run(1)
    tikgen.clear()


def test_an_error_within_a_step_says_how_far_it_came() -> None:
    n = zeros(1)

    def fail(step: int) -> float:
        if step == 5:
            raise ZeroDivisionError
        return 1.0

    add = tikgen.elementwise("x = x + a").bind(x=n, a=0)
    program = tikgen.Program([tikgen.varying(add, a=fail)], native=False)
    with pytest.raises(ZeroDivisionError):
        program.run(10)
    assert program.steps == 5
    assert n.tolist() == [5.0]
    wrong = tikgen.Program([tikgen.varying(add, a=lambda step: "x")])
    with pytest.raises(ProgramError, match=r"step 0: argument 'a' takes a number"):
        wrong.run(1)


def test_native_steps_that_cannot_be_are_refused() -> None:
    field = ti.field(ti.f32, 4)
    kernel = tikgen.build("stencil", dim=1, storage="field")
    parts = [kernel.bind(field, ti.field(ti.f32, 4))]
    assert "fields" in tikgen.Program(parts).why_not_native or ARCH != "cpu"
    with pytest.raises(ProgramError, match="native=True: "):
        tikgen.Program(parts, native=True)


def test_a_program_of_another_init_is_refused() -> None:
    program = counting()
    bound = adding().bind(zeros(3), 1, zeros(3))
    init_taichi()
    with pytest.raises(ProgramError, match=r"was made before the last ti\.init; make it again"):
        program.run(1)
    with pytest.raises(ProgramError, match=r"was bound before the last ti\.init; bind it again"):
        tikgen.Program([bound])


@pytest.mark.parametrize(
    "text", ["a = m/e", "a = a + 0*exp(e)", "e = 2*m", tikgen.when("5*m < e", ["a = m"])]
)
def test_a_constant_beside_an_array_of_its_name_is_refused(text: Any) -> None:
    # In the equations `e` is the array.
    kernel = tikgen.update("u' = u; e = sum(u*u)", dim=1)
    u, e, a, m = zeros(4) + 1, zeros(1), zeros(1), zeros(1) + 1
    step = kernel.bind(u=u, u_next=zeros(4), e=e)
    with pytest.raises(ProgramError, match=r"takes an array as 'e', which is e_1 .*energy=array\)"):
        tikgen.Program([step, text], a=a, m=m)
    program = tikgen.Program([step, "a = energy + 0*e; m = e"], a=a, m=m, energy=e)
    program.run(1)
    assert (a[0], m[0]) == (4, np.float32(np.e))


def test_a_condition_reads_no_constant_beside_an_array_of_its_name() -> None:
    kernel = tikgen.update("u' = u; pi = max(u); m = min(u)", dim=1)
    step = kernel.bind(u=zeros(4), u_next=zeros(4), m=zeros(1), pi=zeros(1))
    program = tikgen.Program([step])
    for text in ("m < pi", "pi < 1"):
        with pytest.raises(ProgramError, match=r"'pi' is 3\.14159 in every text, and a kernel"):
            program.run(until=text, most=3)
