"""Runs programs that exchange wider ghost layers every few steps, and says what differs.

``python several.py FILE SEED COUNT``: a program whose outermost points keep their values, and those
drawn from ``COUNT`` seeds, are compared with those of one process; the process of rank 0 writes a
line for each into the file. Programs in native code go slab by slab, as if caches were small.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from mpi4py import MPI

import start
import tikgen
from tikgen.grid import mailboxes
from tikgen.grid.mpi import meet
from tikgen.program import temporal_blocking

PATH, SEED, COUNT = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
WORLD = MPI.COMM_WORLD
RULES = ("interior", "clamp", "zero", "reflect", "antireflect", "symmetric", "antisymmetric")
# Kernels of fields a, b, c and d: what they write, whether it was read before, and what is left.
TEXTS = (
    ("a' = a + 0.1*lap(a) + 0.01*b",),
    ("c = a + 0.1*lap(b)", "a' = a + 0.1*dx(c) + 0.1*lap(c)"),
    ("b' = b + 0.1*(a[{}] - b)*d",),
    ("b = 2*a - b + 0.1*lap(a)",),
    ("c = c*0.5 + b*d",),
    ("a' = a + 0.1*lap(c)",),
)


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """Return the kernels of a step, and what the grid is, at random."""
    if rng.random() < 0.2:  # Most others have no room for slabs.
        text = str(rng.choice([TEXTS[0][0], TEXTS[3][0], "a' = a + 0.1*lap(a)"]))
        shape = (int(rng.integers(22, 30)) * WORLD.size, int(rng.integers(7, 10)))
        return kept() | {"texts": [text], "shape": shape, "runs": rng.integers(4, 12, 3).tolist()}
    dim = int(rng.choice([1, 2, 2, 3]))
    order = int(rng.choice([2, 4]))
    texts = [text for n in rng.integers(0, len(TEXTS), rng.integers(1, 3)) for text in TEXTS[n]]
    step = ", ".join(map(str, rng.integers(-2, 3, dim)))
    periodic = tuple(bool(each) for each in rng.random(dim) < 0.4)
    rules = RULES[:1] if rng.random() < 0.4 else RULES
    boundary = {
        letter + sign: "periodic" if is_periodic else str(rng.choice(rules))
        for letter, is_periodic in zip("xyz", periodic, strict=False)
        for sign in "-+"
    }
    options = {"dim": dim, "order": order, "boundary": boundary}
    if rng.random() < 0.4:
        options |= {"mask": "solid", "types": {"solid": "u8"}}
    if rng.random() < 0.2:
        options["loop"] = "points"
    counts = [1] * dim
    for prime in {1: [], 2: [2], 3: [3], 4: [2, 2], 6: [2, 3]}[WORLD.size]:
        counts[rng.integers(dim)] *= prime
    every = int(rng.choice([2, 3, 4, 4]))
    return {
        "texts": [text.format(step) for text in texts],
        "options": options,
        "periodic": periodic,
        "counts": tuple(counts),
        "shape": tuple(int(c * rng.integers(5, 30) + rng.integers(0, 5)) for c in counts),
        "every": every,
        "halo": int(rng.integers(2, 6)),
        "overlap": bool(rng.random() < 0.2),
        "blocks": bool(rng.random() < 0.8),
        "runs": [int(n) for n in rng.integers(1, 12, 3)],
    }


def kept() -> dict[str, Any]:
    """Return a program whose outermost points, those in ghost layers too, keep their values."""
    return {
        "texts": ["a' = a + 0.1*lap(a)"],
        "options": {"dim": 2, "boundary": "interior"},
        "periodic": False,
        "counts": (WORLD.size, 1),
        "shape": (25 * WORLD.size, 9),
        "every": 4,
        "halo": 4,
        "overlap": False,
        "blocks": True,
        "runs": [8],
    }


def values_of(name: str, shape: tuple[int, ...]) -> Any:
    """Return the first values of a field, the same on all processes."""
    found = np.random.default_rng(ord(name[0])).random(shape)
    return (found < 0.2).astype(np.uint8) if name == "solid" else found.astype(np.float32)


def result(case: dict[str, Any], comm: Any, **options: Any) -> tuple[dict[str, Any], str]:
    """Return the fields after all steps, and how they were done."""
    grid = tikgen.Grid(case["shape"], case["periodic"], comm, halo=case["halo"], **options)
    fields: dict[str, Any] = {}
    parts: list[Any] = []
    for text in case["texts"]:
        kernel = tikgen.update(text, **case["options"])
        names = list(kernel.signature.names)
        for name in names:
            if name not in fields:
                fields[name] = grid.field(values_of(name, case["shape"]))
        parts.append(grid.bind(kernel, **{name: fields[name] for name in names}))
        for name in names:
            if name.endswith("_next"):
                parts.append(grid.swap((fields[name.removesuffix("_next")], fields[name])))
    program = tikgen.Program(parts, temporal_blocking=case["blocks"], **fields)
    for count in case["runs"]:
        program.run(count)
    return {name: grid.gather(program.current(fields[name])) for name in fields}, repr(program)


# A few planes of each field are in the cache.
temporal_blocking._LEAST = 0.0
temporal_blocking.cache_bytes = lambda: (2**11, 2**13)
start.init(fast_math=False, cpu_max_num_threads=1 + SEED % 2)
for seed in (-1, *range(SEED, SEED + COUNT)):
    case = kept() if seed < 0 else drawn(np.random.default_rng(seed))
    with patch.object(mailboxes, "problem", mailboxes.problem if seed % 3 else lambda _: "a test"):
        how = {"ranks": case["counts"], "overlap": case["overlap"], "exchange_every": case["every"]}
        try:
            found, by = result(case, WORLD, **how)
        except tikgen.errors.GridError as error:  # It reaches too far, on all processes.
            found, by = {}, str(error)
    if WORLD.rank == 0:
        wanted, _ = result(case, MPI.COMM_SELF) if found else ({}, "")
        differ = [n for n in found if not np.array_equal(found[n], wanted[n], equal_nan=True)]
        with PATH.open("a", encoding="utf-8") as file:
            print(f"{seed}: {', '.join(differ) or 'nothing'} differs: {by}; {case}", file=file)
    meet(WORLD)  # Those that wait leave the processor to the first.
