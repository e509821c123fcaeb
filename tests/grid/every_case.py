"""Runs each case on some of these processes, and says what differs from one process alone.

``python every_case.py FOLDER SEED DRAWN CASES``; the process of rank 0 compares, and writes a line
for each case into a file. ``DRAWN`` of them are drawn at random; none but these with 8 processes.
``CASES`` is ``all``, on all numbers of processes, or names some in JSON, each with its number.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import taichi as ti
from mpi4py import MPI

import start
from cases import CASES, Case, alone, drawn, shared
from tikgen.grid import mailboxes
from tikgen.grid.mpi import meet

FOLDER, SEED, DRAWN, NAMED = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

WORLD = MPI.COMM_WORLD
OVERLAPS = ("far", "vectors", "one side")


def found_on(comm: Any, case: Case, is_native: bool, overlap: bool) -> dict[str, Any]:
    """Return what processes compute together; half of the steps are done after a checkpoint.

    Args:
        comm: their communicator.
        case: what to compute.
        is_native: whether native code does the steps, over mailboxes; else Python and MPI do.
        overlap: whether messages travel while inner points are computed.
    """
    with patch.object(mailboxes, "problem", mailboxes.problem if is_native else no_mailboxes):
        grid, program = shared(case, comm, overlap=overlap)
    needs_none = not any(word in str(program) for word in ("exchange", "join"))  # No messages.
    may_be_native = (is_native or needs_none) and ARCH == "cpu"
    assert program.is_native is may_be_native or comm.size == 1, program.why_not_native
    program.verify(1).raise_for_failure()
    ahead = program.reference(2)
    half = case.steps // 2
    program.run(half)
    path = FOLDER / "half.npz"
    program.save(path)
    program.run(2)
    program.load(path)
    assert program.steps == half
    program.run(case.steps - half)
    found = {}
    for name in program:
        value = program[name]
        found[f"reference of {name}"] = ahead[name]
        if isinstance(value, np.ndarray):
            found[name] = value
            continue
        found[name], everywhere = grid.gather(value), value.whole(value.array)
        assert comm.rank or np.array_equal(found[name], everywhere)
    return found


def no_mailboxes(_: Any) -> str:
    """Return why there are no mailboxes."""
    return "the test wants messages"


def differences(case: Case, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return which arrays differ in a bit."""
    said = []
    for name, wanted in expected.items():
        if np.array_equal(wanted, found[name], equal_nan=True):
            continue
        many = np.count_nonzero(wanted != found[name])
        said.append(f"{name} differs at {many} of {wanted.size} points")
    return "; ".join(said)


ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
start.init(arch=getattr(ti, ARCH), fast_math=False)
seeds = range(SEED, SEED + DRAWN)
every = CASES if WORLD.size < 8 else {}
ranks = {name: case.ranks for name, case in every.items()}
if NAMED != "all":
    ranks = {name: (count,) for name, count in json.loads(NAMED).items()}
every = {name: every[name] for name in ranks} | {f"drawn {n}": drawn(n, WORLD.size) for n in seeds}
ranks |= {name: every[name].ranks for name in every if name not in ranks}
for count in range(WORLD.size, 0, -1):
    # Native code and messages take turns; overlaps have several kernels to compile.
    mine = [
        (name, (count + number) % 2 == 0, name in OVERLAPS)
        for number, name in enumerate(every)
        if count in ranks[name]
    ]
    comm = WORLD.Split(0 if WORLD.rank < count else MPI.UNDEFINED)
    for name, *how in mine if comm != MPI.COMM_NULL else ():
        try:
            found = found_on(comm, every[name], *how)
        except Exception:
            traceback.print_exc()
            comm.Abort(1)
        if comm.rank == 0:
            said = differences(every[name], found, alone(every[name])) or "equal"
            with (FOLDER / "said").open("a", encoding="utf-8") as file:
                print(f"{name} on {count}: {said}", file=file)
    meet(WORLD)
