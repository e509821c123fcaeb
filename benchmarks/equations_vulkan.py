"""Times whole steps of simulations on a GPU by Vulkan, beside cuda.

``python benchmarks/equations_vulkan.py`` draws grids from a new seed, ``--seed N`` from that one.
Each arch has a process of its own. They begin with the same fields, do the same steps, must agree
before they are timed, and take turns.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import taichi as ti

import physics
import tikgen
from page import drawn_seed, write_works
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


# Each takes what makes an array of a name, and returns the names of the fields that change as well.
Maker = Callable[[Callable[[str], Any]], tuple[tikgen.Program, Iterable[str]]]


def gray_scott(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return two reacting fields on a torus."""
    return physics.gray_scott(*_now_and_after(array, "uv")), "uv"


def shallow_water(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return water that flows over a rough bottom on a torus."""
    fields, after = _now_and_after(array, "huv")
    return physics.shallow_water(fields | {"b": array("b")}, after, 0.1), "huv"


def wave(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return the wave equation of order 8 with a speed for each point."""
    return physics.wave(*(array(name) for name in "pqc")), "pq"


def maxwell(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return Maxwell's equations on Yee's grid, six fields."""
    return physics.maxwell({name: array(name) for name in physics.YEE}), physics.YEE


def poisson(array: Callable[[str], Any]) -> tuple[tikgen.Program, Iterable[str]]:
    """Return conjugate gradients for Poisson's equation."""
    r, p = array("r"), array("r")
    one = {name: ti.ndarray(ti.f32, 1) for name in ("pq", "a", "b", "rr_next", "rr")}
    one["rr"].fill(float((r.to_numpy().astype(np.float64) ** 2).sum()))
    return physics.conjugate_gradients(array("x_next"), r, p, array("q_next"), one), ("x",)


def _now_and_after(
    array: Callable[[str], Any], names: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    now = {name: array(name) for name in names}
    return now, {name: array(f"{name}_next") for name in names}


MAKERS: dict[str, Maker] = {
    "Gray-Scott": gray_scott,
    "shallow water": shallow_water,
    "wave, order 8": wave,
    "Maxwell": maxwell,
    "conjugate gradients": poisson,
}


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
            # With greater speeds the wave would grow in each step.
            most = np.float32(0.1 if name == "c" else 1)
            made.from_numpy(most * draw.random(work.shape, np.float32))
        return made

    program, names = MAKERS[work.name](array)
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
    for number, (name, shape) in enumerate(physics.gpu_grids(seed)):
        work = Work(name, shape, seed + number)
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
