"""Times whole steps of simulations on a GPU by Vulkan, beside cuda.

``python benchmarks/equations_vulkan.py`` draws grids from a new seed, ``--seed N`` from that one.
Each arch has a process of its own. They begin with the same fields, do the same steps, must agree
before they are timed, and take turns.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import taichi as ti

import tikgen
from page import drawn_seed, write_works
from physics import ELECTRIC, GRAY_SCOTT, MAGNETIC, NUMBERS, conjugate_gradients
from physics import shallow_water as flowing_water
from tikgen.units import duration
from timing import steps_in_turn

PAGE = Path(__file__).parents[1] / "docs" / "equations.md"
ARCHS = ("vulkan", "cuda")
# Each arch is timed for some rounds, then the other, and so on.
TURNS, ROUNDS = 3, 5
COMPARED = 2000
Array = np.ndarray[Any, Any]


class Work(NamedTuple):
    """A simulation: its name, its grid, and the seed of its fields."""

    name: str
    shape: tuple[int, ...]
    seed: int

    @property
    def title(self) -> str:
        """Return the name with the grid."""
        return f"{self.name}, {' x '.join(map(str, self.shape))}"


def works(seed: int) -> Iterator[Work]:
    """Yield simulations on grids that are drawn."""
    draw = random.Random(seed)
    grids = [
        (name, low, high, 2)
        for low, high in ((150, 400), (900, 1200), (7000, 8500))
        for name in FLAT
    ]
    grids += [(name, low, high, 3) for low, high in ((60, 130), (350, 520)) for name in SOLID]
    for name, low, high, dim in grids:
        yield Work(name, tuple(draw.randint(low, high) for _ in range(dim)), draw.randrange(2**31))


# Each takes what makes an array of a name, and returns the names of the fields that change as well.
def gray_scott(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return two reacting fields on a torus."""
    fields = {name: array(name) for name in ("u", "v", "u_next", "v_next")}
    kernel = tikgen.update(GRAY_SCOTT, dim=2, boundary="periodic", scalars="dt Du Dv F k")
    swap = tikgen.swap(*((fields[name], fields[f"{name}_next"]) for name in "uv"))
    return tikgen.Program([kernel.bind(**fields, **NUMBERS), swap]), "uv"


def shallow_water(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return water that flows over a rough bottom on a torus."""
    fields = {name: array(name) for name in "huvb"}
    after = {name: array(f"{name}_next") for name in "huv"}
    return flowing_water(fields, after, 0.1), "huv"


def wave(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return the wave equation of order 8 with a speed for each point."""
    p, q, c = (array(name) for name in "pqc")
    kernel = tikgen.update("q = 2*p - q + 0.1*c*lap(p)", dim=3, order=8)
    return tikgen.Program([kernel.bind(p=p, q=q, c=c), tikgen.swap((p, q))]), "pq"


def maxwell(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return Maxwell's equations on Yee's grid, six fields."""
    names = ("ex", "ey", "ez", "hx", "hy", "hz")
    fields = {name: array(name) for name in names}
    kernels = [tikgen.update(text, dim=3, scalars="a") for text in (MAGNETIC, ELECTRIC)]
    return tikgen.Program([kernel.bind(**fields, a=0.4) for kernel in kernels]), names


def poisson(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return conjugate gradients for Poisson's equation."""
    r, p = array("r"), array("r")
    one = {name: ti.ndarray(ti.f32, 1) for name in ("pq", "a", "b", "rr_next", "rr")}
    one["rr"].fill(float((r.to_numpy().astype(np.float64) ** 2).sum()))
    return conjugate_gradients(array("x_next"), r, p, array("q_next"), one), ("x",)


FLAT = {"Gray-Scott": gray_scott, "shallow water": shallow_water}
SOLID = {"wave, order 8": wave, "Maxwell": maxwell, "conjugate gradients": poisson}


# That of this process, once it is prepared.
_programs: list[tikgen.Program] = []


def begin(arch: str) -> None:
    """Start Taichi in this process."""
    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR)


def prepare(work: Work) -> dict[str, Array]:
    """Make the program of a work, run four steps, and return some values of its fields."""
    _programs.clear()

    def array(name: str) -> Any:
        made = ti.ndarray(ti.f32, work.shape)
        if not name.endswith("_next"):
            draw = np.random.default_rng([work.seed, *name.encode()])
            made.from_numpy(draw.random(work.shape, np.float32))
        return made

    program, names = (FLAT | SOLID)[work.name](array)
    _programs.append(program)
    program.run(4)
    ti.sync()
    chosen = np.random.default_rng(work.seed).integers(0, math.prod(work.shape), COMPARED)
    return {name: program[name].to_numpy().ravel()[chosen] for name in names}


def seconds_a_step() -> float:
    """Return the median of the seconds that a step of the prepared program takes."""
    return steps_in_turn({"it": _programs[0].run}, ti.sync, rounds=ROUNDS)["it"]


def main() -> None:
    """Measure all works, and write the section."""
    seed = drawn_seed(__doc__)
    spawn = multiprocessing.get_context("spawn")
    processes = {
        arch: ProcessPoolExecutor(1, mp_context=spawn, initializer=begin, initargs=(arch,))
        for arch in ARCHS
    }
    rows = []
    for work in works(seed):
        found = [processes[arch].submit(prepare, work).result() for arch in ARCHS]
        for name, values in found[0].items():
            np.testing.assert_allclose(values, found[1][name], rtol=2e-3, atol=2e-3)
        times: dict[str, list[float]] = {arch: [] for arch in ARCHS}
        for _ in range(TURNS):
            for arch in ARCHS:
                times[arch].append(processes[arch].submit(seconds_a_step).result())
        vulkan, cuda = (statistics.median(times[arch]) for arch in ARCHS)
        rows.append((work.title, duration(vulkan), duration(cuda), f"{cuda / vulkan:.2f}x"))
        print(*rows[-1], sep=" | ", flush=True)
    method = (
        f"Grids of seed {seed}, drawn for this run; medians of {TURNS * ROUNDS} rounds in turn, f32"
    )
    write_works(
        PAGE, "vulkan", method, ("work", "a step by Vulkan", "by cuda", "as fast as cuda"), rows
    )


if __name__ == "__main__":
    main()
