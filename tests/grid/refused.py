"""Asks three processes for what does not fit; each of them has to get the same kind of error."""

from __future__ import annotations

import errno
import functools
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from mpi4py import MPI

import start
import tikgen
from tikgen.errors import GridError, ProgramError
from tikgen.grid import mpi
from tikgen.program import checkpoints, reference, zarr_arrays

FOLDER = Path(sys.argv[1])
start.init()
grid = tikgen.Grid((30, 9), ranks=(3, 1))
rank = grid.rank
TEXT = "u' = u + dt*lap(u)"
heat = tikgen.update(TEXT, dim=2, scalars="dt", boundary="zero", engine="taichi")
u, un = grid.full(1), grid.zeros()


def refuses(told: str, act: Callable[[], object], kind: type[Exception] = GridError) -> None:
    """Check the error of this process."""
    with pytest.raises(kind, match=told):
        act()


def stops(program: tikgen.Program, before: int) -> None:
    """Stop a run once it has done some steps."""
    while program.steps == before:
        time.sleep(0.001)
    program.stop()


def wide(order: int) -> tikgen.Kernel:
    """Return a kernel that reaches far."""
    return tikgen.update(TEXT, dim=2, scalars="dt", boundary="zero", order=order)


refuses("axis 0, .* layers, 1; 2 fit", lambda: tikgen.Grid((2, 9), ranks=(3, 1)))
refuses("along axis 0, each as wide", lambda: tikgen.Grid((8, 8), halo=3, ranks=(3, 1)))
strange: Any
for strange in ((1, 2), (1, 2, 3, 4), [[1, 2, 3]], 1.0):
    refuses("a number for each of 3", functools.partial(tikgen.Grid, 9, weights=strange))
for wrong in (0, -3, np.nan, np.inf, "a", None):
    strange = (1, wrong, 2)
    refuses("numbers greater than 0", functools.partial(tikgen.Grid, 9, weights=strange))
refuses(
    r"different grids: .* has weights=\(1, 1, 1\), rank 2 has weights=\(1, 1, 2\)$",
    lambda: tikgen.Grid(9, weights=(1, 1, 1 + rank // 2)),
)
refuses("(rank 1: )?weights takes", lambda: tikgen.Grid(9, weights=(1, 1, 1)[rank == 1 :]))
assert tikgen.Grid(10, weights=(2, 5, 3)).owned[0].start == (0, 2, 7)[rank]
refuses("number of processes, 3", lambda: tikgen.Grid((8, 8), ranks=(2, 1)))
for strange, told in (
    (lambda: tikgen.Grid((8 + rank, 8)), r"shape=\(8, 8\), rank 1 has shape=\(9, 8\)"),
    (lambda: tikgen.Grid(8, not rank), r"periodic=\(True,\), rank 1 has periodic=\(False,\)"),
    (lambda: tikgen.Grid(9, ranks=3, halo=rank or None), r"halo=None, rank 1 has halo=\(1,\)"),
    (lambda: tikgen.Grid((6, 6), ranks=(3, 1)[:: 1 - 2 * (rank == 2)]),
     r"ranks=\(3, 1\), rank 2 has ranks=\(1, 3\)"),
    (lambda: tikgen.Grid(9, sums="exact" if rank else "fast", overlap=not rank),
     "overlap=True, sums='fast', rank 1 has overlap=False, sums='exact'"),
):  # fmt: skip
    refuses(f"^the processes make different grids: rank 0 has {told}$", strange)
assert tikgen.Grid((9, 9), ranks=(3, 1) if rank else None).ranks == (3, 1)
refuses("(rank 1: )?shape takes whole numbers", lambda: tikgen.Grid(8.5 if rank == 1 else 8))
refuses(
    "communicator of mpi4py, as MPI.COMM_WORLD, or torch.distributed; got str",
    lambda: tikgen.Grid(8, comm="world"),
)

refuses(
    "bind .* differently: rank 0 has dt=0.0, rank 1 has dt=0.5",
    lambda: grid.bind(heat, u=u, u_next=un, dt=rank / 2),
)
refuses("rank 0 has u is field 0, rank 2 has u is field 1", lambda: grid.bind(
    heat, u=un if rank == 2 else u, u_next=u if rank == 2 else un, dt=0.1
))  # fmt: skip
other = tikgen.Grid((30, 9), ranks=(3, 1))
strange = other.zeros()
refuses("field of another grid", lambda: grid.bind(heat, u=strange, u_next=un, dt=0.1))
refuses("'u_next' takes dtype f32; got a field of f64", lambda: grid.bind(
    heat, u=u, u_next=grid.zeros("f64"), dt=0.1
))  # fmt: skip
whole = np.zeros((30, 9), np.float32)
refuses("takes a field of the grid; got ndarray; make", lambda: grid.bind(
    heat, u=whole, u_next=un, dt=0.1
))  # fmt: skip
refuses("takes a field with no components", lambda: grid.bind(
    heat, u=grid.zeros(components=2), u_next=un, dt=0.1
))  # fmt: skip
around = tikgen.update(TEXT, dim=2, scalars="dt", boundary="periodic")
refuses("is not periodic along axis 0", lambda: grid.bind(around, u=u, u_next=un, dt=0.1))
line = tikgen.update(TEXT, dim=1, scalars="dt", boundary="zero")
refuses("has 1 axes, and the grid", lambda: grid.bind(line, u=u, u_next=un, dt=0.1))
spread = tikgen.build("stencil", dim=2)
refuses("knows no ghost points", lambda: grid.bind(spread, x=u, y=un))
open_sides = {"x": tikgen.absorbing(4, kind="cpml"), "y": "zero"}
open_air = tikgen.update(TEXT, dim=2, scalars="dt", boundary=open_sides)
kept = tikgen.matched_layers(open_air, (30, 9), courant=0.5)
refuses("'cpml_dxx_u' takes what grid.matched_layers.* makes .*; got ndarray", lambda: grid.bind(
    open_air, u=u, u_next=un, dt=0.1, **kept
))  # fmt: skip
layers = grid.matched_layers(open_air, courant=0.5)
refuses("'u' takes nothing that layers keep", lambda: grid.bind(
    heat, u=layers["cpml_dxx_u"], u_next=un, dt=0.1
))  # fmt: skip
wider = tikgen.update(TEXT, dim=2, scalars="dt", boundary={
    "x": tikgen.absorbing(5, kind="cpml"), "y": "zero"
})  # fmt: skip
refuses("makes for this kernel and grid; got <Layers", lambda: grid.bind(
    wider, u=u, u_next=un, dt=0.1, **layers
))  # fmt: skip
refuses("has no layers of kind 'cpml'", lambda: grid.matched_layers(heat, 0.5), ValueError)
square = tikgen.reduce("s = sum(x*x)", dim=2)
refuses("takes no field; got <Field", lambda: grid.bind(square, x=u, s=un))
refuses("takes no field; it is a scalar", lambda: grid.bind(heat, u=u, u_next=un, dt=un))
refuses("takes a field of the grid; got ndarray", lambda: grid.bind(square, x=whole, s=whole[0]))
refuses("shape \\(30,\\) of a field of f32 takes", lambda: u.__setitem__((..., 2), [1, 2]))
refuses("an element of a field of f32 takes", lambda: u.__setitem__((0, 2), [1, 2]))
refuses("out of bounds", lambda: u[30], IndexError)
refuses("takes a kernel", lambda: grid.bind(3))  # type: ignore[arg-type]
refuses("swap takes fields of this grid", lambda: grid.swap((u, strange)))
refuses("got array|got ndarray", lambda: grid.swap((whole, u)))  # type: ignore[arg-type]
refuses("gather takes fields", lambda: grid.gather(whole))  # type: ignore[arg-type]
refuses("shape \\(30, 9\\); got shape \\(3,\\)", lambda: grid.scatter(u, np.zeros(3)))
refuses("dtype f32; got complex", lambda: grid.scatter(u, np.zeros((30, 9), complex)))
refuses("takes no array of \\(9, 30\\)", lambda: grid.field(whole.T))

local = np.full(1, rank, np.float32)
program = tikgen.Program(
    [grid.bind(heat, u=u, u_next=un, dt=0.1), grid.swap((u, un))], local=local, most=0.5
)
refuses("2 points away along axis 0, and ghost layers are 1 wide, since", lambda: grid.bind(
    wide(4), u=u, u_next=un, dt=0.1
))  # fmt: skip
refuses("disagree about a condition", lambda: program.run(until="local > most", most=3))
refuses("native=True: .* agree about conditions within a step", lambda: tikgen.Program(
    [tikgen.when("local > 5", [grid.bind(heat, u=u, u_next=un, dt=0.1)])], native=True, local=local
), ProgramError)  # fmt: skip
again = tikgen.Grid((30, 9), ranks=(3, 1), comm=MPI.COMM_WORLD)
mixed = [
    grid.bind(heat, u=u, u_next=un, dt=0.1),
    again.bind(heat, u=again.zeros(), u_next=again.zeros(), dt=0.1),
]
refuses("different processes", lambda: tikgen.Program(mixed), ProgramError)
thin = tikgen.Grid((30, 9), ranks=(1, 3))
refuses("owns 3 of 9 points; .* of which 2 fit", lambda: thin.bind(
    wide(8), u=thin.zeros(), u_next=thin.zeros(), dt=0.1
))  # fmt: skip
small = tikgen.Grid(5)  # Two idle processes are refused what does not fit the third one.
refuses("owns 1 of 5 points; .* of which 2 fit", lambda: small.bind(
    tikgen.update("u' = u + u[2]", dim=1, boundary="zero"), u=small.zeros(), u_next=small.zeros()
))  # fmt: skip
told = tikgen.Grid((30, 9), ranks=(3, 1), halo=1)
refuses("as the grid was told", lambda: told.bind(
    wide(4), u=told.zeros(), u_next=told.zeros(), dt=0.1
))  # fmt: skip

# Fields are written and read while ghost layers may still grow; their arrays settle these.
early = tikgen.Grid((30, 9), ranks=(3, 1))
before, behind = early.zeros(), early.zeros()
before[0] = 3
whole = np.arange(270, dtype=np.float32).reshape(30, 9)
early.scatter(before, whole if rank == 0 else None)
before[4:26, 8] = 7
whole[4:26, 8] = 7
gathered, moved = early.gather(before), early.redistribute(before, thin)
before.from_numpy(before.to_numpy() + 1)
assert (before[3, 4], moved[29, 0], before[15, 8]) == (32, 261, 8)
assert gathered is None if rank else np.array_equal(gathered, whole)
early.bind(heat, u=before, u_next=behind, dt=0.0)()
np.testing.assert_array_equal(behind[...], whole + 1)
late = tikgen.Grid((30, 9), ranks=(3, 1))
before, behind = late.zeros(), late.zeros()
assert before.owned.shape == (10, 9)
refuses("0 wide, since .*field.owned, .*; bind the kernel before that, or .*halo=1", lambda: (
    late.bind(heat, u=before, u_next=behind, dt=0.1)
))  # fmt: skip
refuses("scatter takes numbers in one array; got a list of parts", lambda: grid.scatter(
    u, [[1, 2], [3]]
))  # fmt: skip

# What differs between processes is an error on all of them, and keeps none waiting.
plain, steps = grid.bind(heat, u=u, u_next=un, dt=0.1), grid.swap((u, un))
for listed, told in (
    ([plain, steps] if rank else [plain], "rank 0 has nothing more, rank 1 has swap u <-> u_next"),
    ([tikgen.loop(2 + rank, [plain])], "rank 0 has 2 times:, rank 1 has 3 times:"),
    ([tikgen.varying(plain, dt=[1.0 + rank] * 3)], "dt=.1.0, 1.0.* rank 1 has .*dt=.2.0, 2.0"),
):
    refuses(f"make different programs: .*{told}", functools.partial(tikgen.Program, listed),
            ProgramError)  # fmt: skip
refuses("different programs: rank 0 has tol = 0.*, rank 1 has tol = 1", lambda: tikgen.Program(
    [plain], tol=rank / 1
), ProgramError)  # fmt: skip
by_function = tikgen.Program([tikgen.varying(plain, dt=lambda step: 0.1 + rank)], local=local)
call: Any
for call, told in (
    (lambda: by_function.run(2), "rank 0 has dt = 0.1 in step 0, rank 1 has dt = 1.1 in step 0"),
    (lambda: program.run(2 + rank), r"rank 0 has program.run\(steps=2, .*, rank 1 .*steps=3"),
    (lambda: program.run(until=f"local > {rank + 7}", most=1), "until='local > 7', .* > 8', "),
    (lambda: program.run(1, every=1 + rank, call=print), "every=1, .* every=2"),
    (lambda: program.save(FOLDER / f"{rank}.npz"), r"rank 0 has program.save\('0.npz'\), .*1"),
    (lambda: program.verify(rank), r"rank 0 has program.verify\(0\), rank 1"),
    (lambda: program.reference(1) if rank else program.settle(), r"settle\(\), rank 1"),
):
    refuses(f"call a program differently: .*{told}", call, ProgramError)
# What does not fit on some processes is an error on all that says where, and keeps none waiting.
first, earlier, where = program.steps, program.state(), {0: "rank 1: ", 1: "", 2: "rank 1: "}[rank]
number, file = "5" if rank == 1 else 5, 5 if rank == 1 else "5"
for call, told in (
    (lambda: program.run(number), "steps takes a whole number; got '5'$"),
    (lambda: program.run(5, every=number, call=print), "every takes a whole number; got '5'$"),
    (lambda: program.run(5, every=2, call=3 if rank == 1 else print), "call takes a function; got"),
    (
        lambda: program.run(until="f > 1" if rank == 1 else "local > 9", most=5),
        "the condition 'f >",
    ),
    (lambda: program.run(1, checkpoint=file), "checkpoint takes the path of a file; got 5$"),
    (lambda: program.run(1, progress=number == 5 or None), "progress takes True or False; got Non"),
    (lambda: program.verify(number), "steps takes a whole number; got '5'$"),
    (lambda: program.reference(number), "steps takes a whole number; got '5'$"),
    (lambda: program.save(file), "save takes the path of a file; got 5$"),
    (lambda: program.load(file), "load takes the path of a file; got 5$"),
    (lambda: tikgen.Program([plain, 3][: 1 + (rank == 1)]), "a program takes bound kernels, "),
    (lambda: tikgen.Program([plain], native=None if rank != 1 else "no"), "native takes None, "),
    (lambda: tikgen.Program([steps, plain], local=() if rank == 1 else 2), "name 'local' takes an"),
):
    refuses(f"^{where}{told}", call, ProgramError)
refuses("^(rank 0: )?every and call belong", lambda: program.run(5, every=2, call=print if rank
    else None), ProgramError)  # fmt: skip
fields = grid.zeros().number
for call, told in (
    (lambda: grid.field(None if rank == 1 else whole), "field takes an array of numbers or a func"),
    (lambda: grid.field(whole.T if rank == 1 else whole), "a field of shape "),
    (lambda: grid.field(lambda i: i) if rank == 1 else grid.field(whole), "field takes a function"),
    (lambda: grid.zeros("f33" if rank == 1 else "f32"), "'f33' is not"),
    (lambda: grid.swap((u, whole if rank == 1 else un)), "swap takes fields of the grid; got nd"),
    (lambda: grid.gather(whole if rank == 1 else u), "gather takes fields of the grid; got nd"),
    (lambda: grid.redistribute(u, 3 if rank == 1 else grid), "redistribute takes a grid; got in"),
):
    refuses(f"^{where}{told}", call)
assert grid.zeros().number == fields + 1
refuses("^(rank 0: )?scatter takes fields", lambda: grid.scatter(u if rank else whole, whole))
refuses(f"^{where}index 30 is out of bounds", lambda: u[30 if rank == 1 else 3], IndexError)
called: list[int] = []  # Only rank 0 has to call something.
program.run(2, every=1, call=None if rank else lambda program: called.append(program.steps))
assert called == ([] if rank else [first + 1, first + 2])
program.restore(earlier)
refuses("gather different fields, by rank: 0, 1, 1", lambda: grid.gather(un if rank else u))


class Told:
    """An error stream that others can see."""

    def write(self, text: str) -> None:
        """Keep a text."""
        with (FOLDER / "told").open("a", encoding="utf-8") as file:
            file.write(text)

    def flush(self) -> None:
        """Do nothing."""


if rank == 0:  # A process that waits for others says for which call.
    with patch.object(mpi, "_PATIENCE", 0.0), patch.object(sys, "stderr", Told()):
        program.settle()
else:
    told_by = "tikgen: rank 0 has waited 0 s in program.settle(), which all processes"
    while not (FOLDER / "told").exists() or told_by not in (FOLDER / "told").read_text():
        time.sleep(0.001)
    program.settle()
only_copies = tikgen.Program([tikgen.copy(u, un)], u=u, un=un)
only_copies.save(FOLDER / "copies.npz")
MPI.COMM_WORLD.barrier()
with np.load(FOLDER / "copies.npz") as copies:
    assert copies["u"].shape == (30, 9)

path = FOLDER / "grid.npz"
program.save(path)
if rank == 0:
    path.with_name("damaged.npz").write_bytes(path.read_bytes()[:100])
refuses("no checkpoint", lambda: program.load(path.with_name("damaged.npz")), ProgramError)
refuses("cannot be read", lambda: program.load(path.with_name("missing.npz")), ProgramError)
refuses("cannot be written", lambda: program.save(FOLDER / "no" / "such.npz"), ProgramError)
refuses("cannot be written", lambda: program.run(
    1, checkpoint=FOLDER / "no" / "such.npz"
), ProgramError)  # fmt: skip
assert not program.load(path.with_name("missing.npz"), missing_ok=True)
store = FOLDER / "grid.zarr"  # Each process has a chunk of u.
program.save(store)
refuses("cannot be read", lambda: program.load(FOLDER / "missing.zarr"), ProgramError)
refuses("cannot be written", lambda: program.save(FOLDER / "no" / "such.zarr"), ProgramError)
refuses("cannot be written", lambda: program.run(
    1, checkpoint=FOLDER / "no" / "such.zarr"
), ProgramError)  # fmt: skip
assert not program.load(FOLDER / "missing.zarr", missing_ok=True)
for damaged in ("u/2.0", "u_next/1.0", ".zattrs"):
    if rank == 0:
        content = (store / damaged).read_bytes()
        (store / damaged).write_bytes(content[:-1])
    MPI.COMM_WORLD.barrier()
    refuses("is no checkpoint of a program", lambda: program.load(store), ProgramError)
    if rank == 0:
        (store / damaged).write_bytes(content)
assert program.load(store)


def failing(error: Exception) -> Callable[..., object]:
    """Return what raises an error: that of a disk that is full, or any."""

    def fail(*_: object) -> None:
        raise error

    return fail


written = zarr_arrays.write
for each, told in (
    (OSError(errno.ENOSPC, ""), "the disk is full"),
    (RuntimeError("no such thing"), "no such thing"),
):
    if rank == 1:
        zarr_arrays.write = failing(each)
    told = f"(rank 1: )?.* cannot be written: {told}"
    refuses(told, lambda: program.save(store), ProgramError)
    zarr_arrays.write = written
for function, call, told in (
    ("_write_npz", program.save, "cannot be written: no such thing"),
    ("_read_npz", program.load, "is no checkpoint of a program: no such thing"),
):
    with patch.object(checkpoints, function, failing(RuntimeError("no such thing"))):
        refuses(f"(rank 0: )?.*{told}", functools.partial(call, path), ProgramError)
other_state = tikgen.Program([plain, steps]).state()
refuses("(rank 1: )?the state has no local", lambda: program.restore(
    other_state if rank == 1 else program.state()
), ProgramError)  # fmt: skip
assert sorted(found.name for found in FOLDER.glob("*.zarr")) == ["grid.zarr"]
assert not list(FOLDER.glob(".*"))
assert program.load(store)
single = tikgen.Program([grid.bind(heat, u=u, u_next=un, dt=0.1)])
for other_path in (path, store):
    refuses(
        "has local, which the program", functools.partial(single.load, other_path), ProgramError
    )
program.run(100, every=2, call=lambda program: rank == 1 and program.stop())
assert program.steps == 2, program.steps  # One process ended the run of all.
assert ", on 3 processes, step 2>" in repr(program), repr(program)
program.verify(2).raise_for_failure()
if rank == 1:  # What is wrong on one process is so on all.
    reference._expected = lambda call, given: {"u_next": 9 + 0 * given["u_next"]}
checked = program.verify(1)
assert checked.message.startswith("rank 1: step 2: update"), checked.message
assert checked.worst > 1
assert not checked.ok
step = [grid.bind(heat, u=u, u_next=un, dt=0.1), grid.swap((u, un))]
from_python = tikgen.Program(step, native=False)
for stopped in (program, from_python):  # Another thread stops it within steps.
    before = stopped.steps
    if rank == 1:
        threading.Thread(target=stops, args=(stopped, before)).start()
    stopped.run(10**12)
    assert len(set(MPI.COMM_WORLD.allgather(stopped.steps))) == 1
    assert stopped.steps > before
assert program.is_native and not from_python.is_native
print("all is refused", flush=True)
