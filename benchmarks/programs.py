"""Times a program's steps beside the same bound launches from Python, and writes a page's table.

``python benchmarks/programs.py`` does so on the processor, ``TIKGEN_TEST_ARCH=cuda python
benchmarks/programs.py`` on a GPU. It draws sizes from a new seed, with ``--seed N`` from that one.
Results are compared before they are timed. The forms are timed in turn. A row shows the time of a
launch in the shortest round, since loops over threads take far longer while other programs run; on
few elements that is the host's part.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti

import tikgen
from page import drawn_seed, write_works
from tikgen.units import duration

PAGE = Path(__file__).parents[1] / "docs" / "programs.md"
ROUNDS = 60
STEPS = 300
ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
ENGINE = "direct-cuda" if ARCH == "cuda" else "direct-cpu"
Array = Any
# A program's parts with its bound kernels, which stand for the same launches from Python.
Made = tuple[list[Any], dict[str, Array], list[Any]]


def on_device(values: np.ndarray[Any, Any]) -> Array:
    """Return an array of the arch with these values."""
    if ARCH == "cpu":
        return values
    array = ti.ndarray(ti.f32, values.shape)
    array.from_numpy(values)
    return array


def maps(rng: random.Random, engine: str) -> Made:
    """Return three maps over a few elements."""
    n = rng.randint(4, 60)
    x, y, z = (on_device(np.full(n, 0.5, np.float32)) for _ in range(3))
    texts = ("y = 0.5*x + z", "z = 0.5*y + x", "x = 0.5*z + y")
    kernels = [tikgen.elementwise(text, scalars=()).with_engine(engine) for text in texts]
    bound = [kernel.bind(x=x, y=y, z=z) for kernel in kernels]
    return bound, {"x": x, "y": y, "z": z}, bound


def scalars(rng: random.Random, engine: str) -> Made:
    """Return arithmetic on device scalars."""
    a, b = (on_device(np.full(1, rng.random(), np.float32)) for _ in range(2))
    kernel = tikgen.elementwise("q = 0.5*p + 0.25", scalars=()).with_engine(engine)
    bound = [kernel.bind(p=a, q=b), kernel.bind(p=b, q=a)]
    return bound, {"p": a, "q": b}, bound


def heat(dim: int, low: int, high: int) -> Callable[[random.Random, str], Made]:
    """Return what makes a stencil whose arrays change places."""

    def made(rng: random.Random, engine: str) -> Made:
        shape = tuple(rng.randint(low, high) for _ in range(dim))
        u = on_device(np.random.default_rng(7).random(shape, np.float32))
        un = on_device(np.zeros(shape, np.float32))
        kernel = tikgen.build("stencil", dim=dim, update=True, boundary="periodic")
        kernel = kernel.with_engine(engine)
        step = kernel.bind(u, un, 0.1)
        back = kernel.bind(un, u, 0.1)
        return [step, tikgen.swap((u, un))], {"u": u, "un": un}, [step, back]

    return made


WORKS = {
    "three maps, 4 to 60 elements": maps,
    "device scalars": scalars,
    "heat, 2D, 10 to 40 points a side": heat(2, 10, 40),
    "heat, 3D, 24 to 48 points a side": heat(3, 24, 48),
    "heat, 2D, 500 to 900 points a side": heat(2, 500, 900),
}


def measured(made: Callable[[random.Random, str], Made], seed: int) -> list[float]:
    """Return seconds a launch: bound by Taichi, bound by a direct engine, and in a program."""
    forms: dict[str, Callable[[], object]] = {}
    results: dict[str, dict[str, Array]] = {}
    launches: dict[str, int] = {}
    for form in ("taichi", ENGINE, "program"):
        engine = "taichi" if form == "taichi" else ENGINE
        parts, arrays, bound = made(random.Random(seed), engine)
        results[form] = arrays
        if form == "program":
            program = tikgen.Program(parts, native=True, **arrays)
            kernels = sum(not isinstance(part, type(tikgen.swap((0, 1)))) for part in parts)
            forms[form] = lambda p=program: p.run(STEPS)
            launches[form] = STEPS * kernels
        else:
            rounds = max(1, STEPS // len(bound))
            forms[form] = lambda b=tuple(bound), n=rounds: [f() for _ in range(n) for f in b]
            launches[form] = rounds * len(bound)
    for call in forms.values():
        call()
    if len(set(launches.values())) == 1:
        for form in (ENGINE, "program"):
            for name, values in results["taichi"].items():
                found, expected = (
                    array if ARCH == "cpu" else array.to_numpy()
                    for array in (results[form][name], values)
                )
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    shortest = dict.fromkeys(forms, float("inf"))
    for _ in range(ROUNDS):
        for form, call in forms.items():
            start = time.perf_counter()
            call()
            ti.sync()
            shortest[form] = min(shortest[form], time.perf_counter() - start)
    return [shortest[form] / launches[form] for form in forms]


def main() -> None:
    """Measure all works, and write the section."""
    seed = drawn_seed(__doc__)
    ti.init(arch=getattr(ti, ARCH), enable_fallback=False, log_level=ti.ERROR)
    rows = []
    for title, made in WORKS.items():
        taichi, direct, program = measured(made, seed)
        times = (duration(taichi), duration(direct), duration(program))
        rows.append((title, *times, f"{taichi / program:.1f}x"))
        print(*rows[-1], sep=" | ", flush=True)
    method = (
        f"Sizes of seed {seed}, drawn for this run; time of a launch in the shortest of {ROUNDS} "
        "rounds in turn"
    )
    head = ("work", "Taichi, bound", f"{ENGINE}, bound", "in a program", "as fast as Taichi")
    write_works(PAGE, ARCH, method, head, rows)


if __name__ == "__main__":
    main()
