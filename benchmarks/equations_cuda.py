"""Times whole steps of simulations on a GPU, beside torch.compile, JAX and CuPy.

``python benchmarks/equations_cuda.py`` draws grids from a new seed, ``--seed N`` from that one. All
forms begin with the same fields, do the same steps, and must agree before they are timed. They are
timed in turn; a row shows medians, and the bytes that a step must move at least, each array read or
written once by each kernel, beside those of a copy of 1 GiB.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# Before JAX is imported: it would take most of the memory for itself.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import taichi as ti
import torch

import physics
from page import drawn_seed, write_works
from peers import torch_equations
from tikgen.units import duration
from timing import steps_in_turn

PAGE = Path(__file__).parents[1] / "docs" / "equations.md"
ROUNDS = 15
ENGINE = "direct-cuda"
PEERS = ("torch.compile", "JAX")
Fields = dict[str, torch.Tensor]
# Takes fields; returns what does steps, and what returns the fields after them.
Form = Callable[[Fields], tuple[Callable[[int], object], Callable[[], Fields]]]


@dataclass(frozen=True)
class Work:
    """A simulation: its fields, the bytes of a step, and each form's way to do steps."""

    title: str
    fields: Fields
    bytes_a_step: float
    forms: dict[str, Form]


def gray_scott(shape: tuple[int, ...]) -> Work:
    """Return two reacting fields on a torus."""
    fields = {name: _random(shape) for name in ("u", "v")}

    def ours(f: Fields) -> Any:
        program = physics.gray_scott(f, {name: torch.zeros_like(f[name]) for name in "uv"}, ENGINE)
        return program.run, lambda: {name: program[name] for name in "uv"}

    forms: dict[str, Form] = {
        "tikgen": ours,
        "torch.compile": lambda f: torch_equations.gray_scott(f["u"], f["v"], physics.NUMBERS),
    }
    if importlib.util.find_spec("jax"):
        from peers import jax_equations

        forms["JAX"] = lambda f: jax_equations.gray_scott(
            f["u"].cpu().numpy(), f["v"].cpu().numpy(), physics.NUMBERS
        )
    return Work(f"Gray-Scott, {_grid(shape)}", fields, _bytes(4, shape), forms)


def wave(shape: tuple[int, ...]) -> Work:
    """Return the wave equation of order 8 with a speed for each point."""
    fields = {name: _random(shape) for name in "pq"} | {"c": 0.05 + 0.05 * _random(shape)}
    for name in "pq":  # Nothing is computed there.
        edge = torch.ones(shape, dtype=torch.bool, device="cuda")
        edge[4:-4, 4:-4, 4:-4] = False
        fields[name][edge] = 0

    def ours(f: Fields) -> Any:
        program = physics.wave(f["p"], f["q"], f["c"], ENGINE)
        return program.run, lambda: {name: program[name] for name in "pq"}

    forms: dict[str, Form] = {
        "tikgen": ours,
        "torch.compile": lambda f: torch_equations.wave(f["p"], f["q"], f["c"]),
    }
    return Work(f"wave, order 8, {_grid(shape)}", fields, _bytes(4, shape), forms)


def maxwell(shape: tuple[int, ...]) -> Work:
    """Return Maxwell's equations on Yee's grid, six fields."""
    fields = {name: _random(shape) for name in physics.YEE}
    forms: dict[str, Form] = {
        "tikgen": lambda f: (physics.maxwell(f, ENGINE).run, lambda: f),
        "torch.compile": lambda f: torch_equations.maxwell(f, 0.4),
    }
    return Work(f"Maxwell, {_grid(shape)}", fields, _bytes(18, shape), forms)


def shallow_water(shape: tuple[int, ...]) -> Work:
    """Return water that flows over a rough bottom, islands among it, on a torus."""
    fields = {"h": torch.clamp(_random(shape) - 0.2, min=0), "b": 2 * _random(shape)}
    fields |= {name: torch.zeros(shape, device="cuda") for name in "uv"}

    def ours(f: Fields) -> Any:
        after = {name: torch.zeros_like(f[name]) for name in "huv"}
        program = physics.shallow_water(f, after, 0.1, ENGINE)
        return program.run, lambda: {name: program[name] for name in "huv"}

    forms: dict[str, Form] = {
        "tikgen": ours,
        "torch.compile": lambda f: torch_equations.shallow_water(f, 0.1),
    }
    return Work(f"shallow water, {_grid(shape)}", fields, _bytes(10, shape), forms)


def poisson(shape: tuple[int, ...]) -> Work:
    """Return conjugate gradients for Poisson's equation, a fixed number of steps."""
    fields = {"r": _random(shape), "x": torch.zeros(shape, device="cuda")}

    def ours(f: Fields) -> Any:
        x, r, q = f["x"], f["r"], torch.zeros_like(f["r"])
        one = {n: torch.zeros(1, device="cuda") for n in ("pq", "a", "b", "rr_next")}
        one["rr"] = (r**2).sum().reshape(1)
        program = physics.conjugate_gradients(x, r, r.clone(), q, one, ENGINE)
        return program.run, lambda: {"x": x}

    forms: dict[str, Form] = {
        "tikgen": ours,
        "torch.compile": lambda f: torch_equations.poisson(f["r"], f["x"]),
    }
    return Work(f"conjugate gradients, {_grid(shape)}", fields, _bytes(11, shape), forms)


MAKERS = {
    "Gray-Scott": gray_scott,
    "shallow water": shallow_water,
    "wave, order 8": wave,
    "Maxwell": maxwell,
    "conjugate gradients": poisson,
}


def works(seed: int) -> Iterator[Callable[[], Work]]:
    """Yield what makes each simulation, on grids that are drawn."""
    for name, shape in physics.gpu_grids(seed):
        yield partial(MAKERS[name], shape)


def measured(work: Work) -> dict[str, float]:
    """Return seconds a step of each form; raise AssertionError where they disagree."""
    runs: dict[str, Callable[[int], object]] = {}
    after: dict[str, Fields] = {}
    for form, made in work.forms.items():
        runs[form], read = made({name: value.clone() for name, value in work.fields.items()})
        runs[form](4)
        torch.cuda.synchronize()
        after[form] = {n: _copied(v) for n, v in read().items()}
    for found in after.values():
        for name, value in found.items():
            torch.testing.assert_close(value, after["tikgen"][name], rtol=2e-3, atol=2e-3)
    return steps_in_turn(runs, torch.cuda.synchronize, rounds=ROUNDS)


def copy_speed() -> float:
    """Return the bytes a second of a copy, both directions counted."""
    x = torch.zeros(1 << 28, device="cuda")
    y = torch.ones_like(x)

    def run(steps: int) -> None:
        for _ in range(steps):
            y.copy_(x)

    seconds = steps_in_turn({"copy": run}, torch.cuda.synchronize, rounds=ROUNDS)
    return 8.0 * x.numel() / seconds["copy"]


def _copied(values: Any) -> torch.Tensor:
    return values.cpu().clone() if isinstance(values, torch.Tensor) else torch.tensor(values)


def _random(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.rand(*shape, device="cuda")


def _grid(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _bytes(arrays: int, shape: tuple[int, ...]) -> float:
    return 4.0 * arrays * torch.Size(shape).numel()


def main() -> None:
    """Measure all works, and write the section."""
    seed = drawn_seed(__doc__)
    torch.manual_seed(seed)
    ti.init(arch=ti.cuda, log_level=ti.ERROR)
    copied = copy_speed()
    rows = []
    for make in works(seed):
        work = make()
        times = measured(work)
        ours = times["tikgen"]
        moved = work.bytes_a_step / ours
        ratios = (f"{times[peer] / ours:.2f}x" if peer in times else "" for peer in PEERS)
        speed = (f"{moved / 1e12:.2f} TB/s", f"{moved / copied:.0%}")
        rows.append((work.title, duration(ours), *speed, *ratios))
        print(*rows[-1], sep=" | ", flush=True)
        torch.cuda.empty_cache()
    method = (
        f"Grids of seed {seed}, drawn for this run; medians of {ROUNDS} rounds in turn, f32; "
        f"a copy moves {copied / 1e12:.2f} TB/s"
    )
    head = ("work", "a step", "bytes a second", "of a copy")
    write_works(PAGE, "cuda", method, (*head, *(f"as fast as {p}" for p in PEERS)), rows)


if __name__ == "__main__":
    main()
