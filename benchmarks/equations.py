"""Times whole steps of simulations by tikgen and by its peers.

Numba runs fused loops that a person wrote for speed; Taichi, JAX, pystencils, Devito, and SciPy
with a sparse matrix what their documentation shows. JAX, pystencils and Devito are left out where
they are not installed.

``python benchmarks/equations.py`` draws grids from a new seed, ``--seed N`` from that one. All
forms begin with the same fields, do the same steps, and must agree before they are timed. They are
timed in turn; a row shows medians.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import taichi as ti

import physics
from page import drawn_seed, write_works
from peers import numba_equations, taichi_equations
from tikgen.units import duration
from timing import steps_in_turn

PAGE = Path(__file__).parents[1] / "docs" / "equations.md"
WARM_UP_SECONDS = 3.0
ROUNDS = 15
Array = np.ndarray[Any, Any]
Fields = dict[str, Array]
# Takes fields; returns what does steps, and what returns the fields after them.
Form = Callable[[Fields], tuple[Callable[[int], object], Callable[[], Fields]]]
PEERS = ("Numba", "plain Taichi", "JAX", "pystencils", "Devito", "SciPy")

WEIGHTS = np.array([-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560], np.float32)


@dataclass(frozen=True)
class Work:
    """A simulation: its fields, and what does some steps of it, for each form."""

    title: str
    fields: Fields
    forms: dict[str, Form]


def gray_scott(shape: tuple[int, ...], rng: np.random.Generator) -> Work:
    """Return two reacting fields on a torus."""
    u, v = rng.random((2, *shape), np.float32)
    fields = {"u": u, "v": v, "un": np.zeros_like(u), "vn": np.zeros_like(v)}
    numbers = [np.float32(physics.NUMBERS[name]) for name in ("dt", "Du", "Dv", "F", "k")]

    def ours(f: Fields) -> Any:
        return physics.gray_scott(f, {"u": f["un"], "v": f["vn"]}).run, lambda: f

    def numba(f: Fields) -> Any:
        pairs = [(f["u"], f["v"], f["un"], f["vn"]), (f["un"], f["vn"], f["u"], f["v"])]

        def run(steps: int) -> None:
            for number in range(steps):
                numba_equations.gray_scott(*pairs[number % 2], *numbers)

        return run, lambda: f

    def plain(f: Fields) -> Any:
        pairs = [(f["u"], f["v"], f["un"], f["vn"]), (f["un"], f["vn"], f["u"], f["v"])]

        def run(steps: int) -> None:
            for number in range(steps):
                taichi_equations.gray_scott(*pairs[number % 2])

        return run, lambda: f

    forms: dict[str, Form] = {"tikgen": ours, "Numba": numba, "plain Taichi": plain}
    for peer in ("JAX", "pystencils"):
        if module := _peer(peer):
            forms[peer] = lambda f, m=module: m.gray_scott(f["u"], f["v"], physics.NUMBERS)
    return Work(f"Gray-Scott, {_grid(shape)}", fields, forms)


def wave(shape: tuple[int, ...], rng: np.random.Generator) -> Work:
    """Return the wave equation of order 8 with a speed for each point."""
    p = rng.random(shape, np.float32)
    # The same where nothing is computed, since Devito keeps three fields instead of two.
    q, inner = p.copy(), (slice(4, -4),) * 3
    q[inner] = rng.random(q[inner].shape, np.float32)
    fields = {"p": p, "q": q, "c": 0.05 + 0.05 * rng.random(shape, np.float32)}

    def ours(f: Fields) -> Any:
        return physics.wave(f["p"], f["q"], f["c"]).run, lambda: f

    def numba(f: Fields) -> Any:
        pairs = [(f["p"], f["q"]), (f["q"], f["p"])]

        def run(steps: int) -> None:
            for number in range(steps):
                numba_equations.wave(*pairs[number % 2], f["c"], WEIGHTS)

        return run, lambda: f

    forms: dict[str, Form] = {"tikgen": ours, "Numba": numba}
    if devito := _peer("Devito"):
        forms["Devito"] = lambda f: devito.wave(f["p"], f["q"], f["c"])
    return Work(f"wave, order 8, {_grid(shape)}", fields, forms)


def maxwell(shape: tuple[int, ...], rng: np.random.Generator) -> Work:
    """Return Maxwell's equations on Yee's grid, six fields."""
    fields = {name: rng.random(shape, np.float32) for name in physics.YEE}

    def ours(f: Fields) -> Any:
        return physics.maxwell(f).run, lambda: f

    def numba(f: Fields) -> Any:
        arrays = [f[name] for name in physics.YEE]

        def run(steps: int) -> None:
            for _ in range(steps):
                numba_equations.magnetic(*arrays, np.float32(0.4))
                numba_equations.electric(*arrays, np.float32(0.4))

        return run, lambda: f

    return Work(f"Maxwell, {_grid(shape)}", fields, {"tikgen": ours, "Numba": numba})


def shallow_water(shape: tuple[int, ...], rng: np.random.Generator) -> Work:
    """Return water that flows over a rough bottom, islands among it, on a torus."""
    names = ("h", "u", "v")
    fields = {name: np.zeros(shape, np.float32) for name in (*names, "hn", "un", "vn")}
    fields["h"] += np.maximum(rng.random(shape, np.float32) - np.float32(0.2), 0)
    fields["b"] = 2 * rng.random(shape, np.float32)

    def ours(f: Fields) -> Any:
        after = {name: f[name + "n"] for name in names}
        return physics.shallow_water(f, after, 0.1).run, lambda: f

    def numba(f: Fields) -> Any:
        old, new = [f[name] for name in names], [f[name + "n"] for name in names]
        pairs, dt = [(old, new), (new, old)], np.float32(0.1)

        def run(steps: int) -> None:
            for number in range(steps):
                (h, u, v), (hn, un, vn) = pairs[number % 2]
                numba_equations.depth(h, u, v, hn, dt)
                numba_equations.speed(hn, f["b"], u, v, un, vn, dt)

        return run, lambda: f

    return Work(f"shallow water, {_grid(shape)}", fields, {"tikgen": ours, "Numba": numba})


def poisson(shape: tuple[int, ...], rng: np.random.Generator) -> Work:
    """Return conjugate gradients for Poisson's equation between walls, a number of steps."""
    fields = {"r": rng.random(shape, np.float32), "x": np.zeros(shape, np.float32)}

    def ours(f: Fields) -> Any:
        x, r, q = f["x"], f["r"], np.zeros_like(f["r"])
        one = {name: np.zeros(1, np.float32) for name in ("pq", "a", "b", "rr_next")}
        one["rr"] = np.full(1, (r.astype(float) ** 2).sum(), np.float32)
        return physics.conjugate_gradients(x, r, r.copy(), q, one).run, lambda: {"x": x}

    def scipy(f: Fields) -> Any:
        from scipy import sparse

        matrix: Any = 0
        for axis, points in enumerate(shape):
            sides = shape[:axis], shape[axis + 1 :]
            before, behind = (sparse.eye_array(math.prod(extents)) for extents in sides)
            line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(points, points))
            matrix = matrix + sparse.kron(sparse.kron(before, line), behind)
        matrix, right = matrix.tocsr().astype(np.float32), f["r"].ravel()
        found = f["x"].reshape(-1)

        def run(steps: int) -> None:
            found[:], _ = sparse.linalg.cg(matrix, right, rtol=0, maxiter=steps)

        return run, lambda: {"x": f["x"]}

    return Work(f"conjugate gradients, {_grid(shape)}", fields, {"tikgen": ours, "SciPy": scipy})


def _peer(name: str) -> Any:
    """Return the module of a peer, or None if it is not installed."""
    package = name.lower()
    found = importlib.util.find_spec(package)
    return importlib.import_module(f"peers.{package}_equations") if found else None


def _grid(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def works(seed: int) -> Iterator[Work]:
    """Yield each simulation on grids that are drawn."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for low, high in ((60, 200), (300, 700), (1500, 2300)):
        yield gray_scott((draw.randint(low, high), draw.randint(low, high)), rng)
    for low, high in ((40, 70), (120, 200), (220, 320)):
        yield wave(tuple(draw.randint(low, high) for _ in range(3)), rng)
        yield maxwell(tuple(draw.randint(low, high) for _ in range(3)), rng)
    for low, high in ((60, 200), (300, 700), (1500, 2300)):
        yield shallow_water((draw.randint(low, high), draw.randint(low, high)), rng)
    for low, high in ((40, 70), (180, 220)):
        yield poisson(tuple(draw.randint(low, high) for _ in range(3)), rng)


class Runner:
    """A form of a work in a process of its own, where no threads of other libraries are."""

    def __init__(self, seed: int, number: int, form: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, seed, number, form))
        self._process.start()

    def fields(self) -> Fields:
        """Return some points of the fields."""
        self._pipe.send(0)
        return self._pipe.recv()  # type: ignore[no-any-return]

    def __call__(self, steps: int) -> None:
        """Do some steps."""
        self._pipe.send(steps)
        self._pipe.recv()

    def end(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()


def serve(pipe: Any, seed: int, number: int, form: str) -> None:
    """Do the steps that the other process asks for."""
    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    work = next(itertools.islice(works(seed), number, None))
    run, read = work.forms[form](work.fields)
    while (steps := pipe.recv()) is not None:
        if steps:
            run(steps)
        found = {} if steps else {name: value.flat[::101] for name, value in read().items()}
        pipe.send(found)


def measured(seed: int, number: int, work: Work) -> dict[str, float]:
    """Return seconds a step of each form; raise AssertionError where they disagree."""
    runs = {form: Runner(seed, number, form) for form in work.forms}
    try:
        for run in runs.values():
            run(4)
        ours = runs["tikgen"].fields()
        for run in runs.values():
            for name, value in run.fields().items():
                np.testing.assert_allclose(value, ours[name], rtol=2e-3, atol=2e-3)
        # Programs find out what is fastest once they have run for a second.
        for run in runs.values():
            until = time.perf_counter() + WARM_UP_SECONDS
            while time.perf_counter() < until:
                run(32)
        return steps_in_turn(runs, rounds=ROUNDS, seconds_a_round=0.2)
    finally:
        for run in runs.values():
            run.end()


def main() -> None:
    """Measure all works, and write the section."""
    seed = drawn_seed(__doc__)
    rows = []
    for number, work in enumerate(works(seed)):
        times = measured(seed, number, work)
        ours = times["tikgen"]
        ratios = (f"{times[peer] / ours:.2f}x" if peer in times else "" for peer in PEERS)
        rows.append((work.title, duration(ours), *ratios))
        print(*rows[-1], sep=" | ", flush=True)
    method = (
        f"Grids of seed {seed}, drawn for this run; a process each, medians of {ROUNDS} rounds in "
        "turn, f32"
    )
    head = ("work", "a step", "as fast as Numba", *(f"as {peer}" for peer in PEERS[1:]))
    write_works(PAGE, "cpu", method, head, rows)


if __name__ == "__main__":
    main()
