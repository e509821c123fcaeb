"""What grids of any number of processes have to compute: each case, and the same in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import tikgen
from tikgen.taichi import runtime

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Equations on a grid, or arithmetic at each point.

    Attributes:
        text: the equations.
        shape: shape of the grid.
        options: further arguments of `of`; `periodic` and `halo` of the grid.
        swaps: names of fields that change places.
        results: dtypes of the results of reductions.
        numbers: scalars, and arrays over faces.
        vectors: number of components of fields that have some.
        ranks: numbers of processes with which it runs.
        counts: number of processes along each axis, by number of processes.
        weights: how fast each process is, by number of processes.
        steps: how many steps.
        of: what makes the kernel: `tikgen.update`, `tikgen.elementwise` or `tikgen.reduce`.
    """

    text: str
    shape: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    periodic: bool | tuple[bool, ...] = False
    halo: int | None = None
    swaps: tuple[tuple[str, str], ...] = (("u", "u_next"),)
    results: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=lambda: {"dt": 0.1})
    varying: Mapping[str, Callable[[int], float]] = field(default_factory=dict)
    vectors: Mapping[str, int] = field(default_factory=dict)
    layout: Any = "first"
    ranks: tuple[int, ...] = (2, 3, 4, 6)
    counts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    weights: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    steps: int = 6
    of: Callable[..., tikgen.Kernel] = tikgen.update

    @property
    def given(self) -> Arrays:
        """Return scalars, and arrays over faces, which a program may change."""
        return {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in self.numbers.items()
        }

    def kernel(self) -> tikgen.Kernel:
        """Return the kernel, launched by Taichi, as its peers would compile it at leisure."""
        scalars = [
            name for name, value in self.numbers.items() if not isinstance(value, np.ndarray)
        ]
        options = {"scalars": scalars, "dim": len(self.shape), "engine": "taichi"}
        if self.vectors:
            options |= {"vectors": self.vectors, "layout": self.layout}
        return self.of(self.text, **options, **self.options)

    def fields(self, kernel: tikgen.Kernel) -> Arrays:
        """Return whole arrays of random numbers, the same on all processes."""
        found = {}
        for argument in kernel.signature.arguments:
            name = argument.name
            if name in self.numbers or name in self.results or name.startswith("cpml_"):
                continue
            assert isinstance(argument, tikgen.Array)
            sizes = dict(zip(("n0", "n1", "n2"), self.shape, strict=False))
            shape = tuple(sizes.get(n, n) for n in argument.shape)  # type: ignore[call-overload]
            rng = np.random.default_rng(sum(name.encode()))
            if argument.dtype.is_float:
                found[name] = rng.random(shape).astype(argument.dtype.numpy)
            else:
                found[name] = (rng.random(shape) < 0.2).astype(argument.dtype.numpy)
        return found


wall = {"x-": "clamp", "x+": tikgen.dirichlet(1.5), "y-": "reflect", "y+": tikgen.neumann(0.25)}
cpml = partial(tikgen.absorbing, kind="cpml")
at = {"p": "centre", "ux": "face x", "uy": "face y"}
sound = "ux' = ux - dt*dx(p); uy' = uy - dt*dy(p); p' = p - dt*(dx(ux) + dy(uy))"
triples = (("p", "p_next"), ("ux", "ux_next"), ("uy", "uy_next"))
profile = np.linspace(0, 1, 23, dtype=np.float32) ** 2

CASES = {
    # Corners are read, and all sides have other rules; coordinates are those of the whole grid.
    "mixed": Case(
        "u' = u + dt*(lap(u) + dxy(u)) + 0.001*x*y; m = max(abs(u' - u)); least = min(u')",
        (17, 23),
        {"boundary": wall},
        results=("m", "least"),
        counts={4: (2, 2), 6: (2, 3)},
    ),
    "periodic": Case(
        "u' = u + dt*(lap(u) + u[-2, 1])",
        (13, 11),
        {"boundary": "periodic", "dtype": "f64", "order": 4},
        periodic=True,
        ranks=(2, 4, 6),
        counts={2: (1, 2), 6: (3, 2)},
    ),
    # There are more processes than points that they can own: some are idle.
    "too few points": Case(
        "u' = u + dt*(lap(u) + dxy(u)) + 0.01*x; m = max(u'); low = min(u'); n = sum(1 + 0*u)",
        (2, 2),
        {"boundary": wall},
        results=("m", "low", "n"),
        ranks=(3, 6),
    ),
    # Each process owns one plane of a prime number of them.
    "planes": Case(
        "u' = u + dt*lap(u)*k; top = max(u')",
        (5, 6, 7),
        {"boundary": "antisymmetric", "spacing": (1.0, 0.5, 2.0)},
        results=("top",),
        ranks=(5,),
        counts={5: (5, 1, 1)},
    ),
    "far": Case(
        "u' = u + dt*lap(u); old = 2*u - old + 0.1*lap(u)",
        (9, 11, 26),
        {"order": 8, "boundary": {"x": "reflect", "y": "periodic", "z": "antireflect"}},
        periodic=(False, True, False),
        ranks=(2, 6),
        counts={2: (2, 1, 1), 6: (2, 1, 3)},
        steps=3,
    ),
    # The mirror image of what lies below the first process lies in the second one.
    "one side": Case(
        "u' = dt*u[-2] - u[-1]",
        (6,),
        {"boundary": "reflect"},
        ranks=(3,),
    ),
    "nothing outside": Case(
        "u' = u + dt*lap(u); n = sum(1 + 0*u)",
        (19,),
        {"order": 6, "boundary": "interior"},
        results=("n",),
        ranks=(1, 3),
    ),
    "layers": Case(
        "u' = u + dt*lap(u)",
        (14, 31),
        {"boundary": {"x": tikgen.absorbing(6), "y": tikgen.absorbing(9, 0.3, "clamp")}},
        ranks=(4,),
        counts={4: (2, 2)},
    ),
    # Layers of some processes hold points of one side, of both, or none.
    "matched layers": Case(
        "old = 2*p - old + dt*lap(p)",
        (19, 23),
        {"boundary": {"x": cpml(4), "y-": "reflect", "y+": cpml(9)}, "dtype": "f64"},
        swaps=(("p", "old"),),
        ranks=(2, 3, 6),
        counts={2: (2, 1), 3: (1, 3), 6: (3, 2)},
    ),
    "thin matched layers": Case(
        sound.replace("y", "z"),
        (7, 6, 12),
        {
            "at": {"p": "centre", "ux": "face x", "uz": "face z"},
            "boundary": {"x": cpml(4), "y": "wall", "z-": "wall", "z+": cpml(3)},
            "order": 4,
        },
        swaps=(("p", "p_next"), ("ux", "ux_next"), ("uz", "uz_next")),
        halo=2,
        ranks=(3, 4),
        counts={4: (2, 1, 2), 3: (3, 1, 1)},
        steps=4,
    ),
    "staggered": Case(
        sound,
        (12, 10),
        {"at": at, "boundary": {"x-": "free_surface", "x+": "wall", "y": "periodic"}},
        periodic=(False, True),
        swaps=triples,
        ranks=(3, 4),
        counts={4: (2, 2), 3: (3, 1)},
    ),
    "vectors": Case(
        "each q in f: f'.q = f.q[-cx.q, -cy.q] + dt*w",
        (11, 12),
        {
            "boundary": "periodic",
            "constants": {"cx": [0, 1, -1, 1, -1], "cy": [0, 0, 1, 1, -1], "w": 0.5},
        },
        periodic=True,
        swaps=(("f", "f_next"),),
        vectors={"f": 5},
        ranks=(4,),
        counts={4: (2, 2)},
    ),
    "vectors behind": Case(
        "v'.x = v.x + dt*lap(v.x) + div(v); v'.y = v.y + dt*lap(v.y)",
        (11, 12),
        {"boundary": {"v": "symmetric"}},
        swaps=(("v", "v_next"),),
        vectors={"v": 2},
        layout="last",
        ranks=(2,),
    ),
    "faces and masks": Case(
        "u' = u + dt*(lap(u) + dxy(u)) + pulse*(i == 3)",
        (16, 23),
        {
            "boundary": {"x-": tikgen.dirichlet("inflow"), "x+": "zero", "y": "periodic"},
            "mask": "solid",
            "types": {"solid": "u8"},
        },
        periodic=(False, True),
        numbers={"dt": 0.1, "pulse": 0.0, "inflow": profile},
        varying={"pulse": lambda step: float(step % 3)},
        ranks=(3, 6),
        counts={3: (1, 3), 6: (2, 3)},
    ),
    "wide ghost layers": Case(
        "u' = u + dt*dx(u); total = sum(u'*0 + i)",
        (24, 8),
        {"boundary": "clamp", "dtype": "f64"},
        halo=3,
        results=("total",),
        ranks=(3,),
        counts={3: (3, 1)},
    ),
    # Yee's grid: fields in place, on edges, whose walls lie within the last process alone.
    "edges": Case(
        "ex = ex + dt*(dy(hz) - dz(hy)); ey = ey + dt*(dz(hx) - dx(hz)); "
        "ez = ez + dt*(dx(hy) - dy(hx))",
        (7, 9, 8),
        {
            "at": {"hx": "face x", "hy": "face y", "hz": "face z"}
            | {"ex": "edge x", "ey": "edge y", "ez": "edge z"},
            "boundary": "clamp",
            "outputs": ("ex", "ey", "ez"),
        },
        swaps=(),
        ranks=(2,),
        counts={2: (1, 2, 1)},
    ),
    # The sponge of the first shot of a wave, of which some processes have nothing.
    "waves in a sponge": Case(
        "old = 2*p - old + c**2*(lap(p) + shot*now)",
        (19, 40),
        {"order": 8, "boundary": {"p": "zero", "old": tikgen.absorbing(7, 0.1, order=2)}},
        swaps=(("p", "old"),),
        numbers={"now": 0.0},
        varying={"now": lambda step: float(step == 1)},
        ranks=(3,),
        counts={3: (1, 3)},
    ),
    "one field": Case(
        "top = max(abs(u)); least = min(u*i)",
        (13,),
        swaps=(),
        numbers={},
        results=("top", "least"),
        ranks=(2,),
    ),
    "elementwise": Case(
        "y = dt*x + y; w = x - y; top = max(w); n = sum(1 + 0*w)",
        (9, 11, 10),
        {"dtype": "f64"},
        halo=2,
        swaps=(("x", "w"),),
        results=("top", "n"),
        ranks=(4,),
        counts={4: (1, 2, 2)},
        of=tikgen.elementwise,
    ),
    "bytes": Case(
        "y = x; x = y + 1",
        (17, 3),
        {"dtype": "u8"},
        halo=1,
        swaps=(),
        numbers={},
        ranks=(2,),
        of=tikgen.elementwise,
    ),
    "reduce": Case(
        "s = sum(x*x); low = min(x)",
        (31, 4),
        {"dtype": "i64"},
        halo=1,
        swaps=(),
        numbers={},
        results=("s", "low"),
        ranks=(2,),
        of=tikgen.reduce,
    ),
    "integers": Case(
        "u' = u + u[1] - u[-1]*3; s = sum(u')",
        (29,),
        {"boundary": "periodic", "dtype": "i32"},
        periodic=True,
        results=("s",),
        numbers={},
        ranks=(6,),
    ),
    "unequal processes": Case(
        "u' = u + dt*(lap(u) + dxy(u))*j; m = max(u')",
        (17, 12),
        {"boundary": {"x": "periodic", "y": "reflect"}},
        periodic=(True, False),
        results=("m",),
        ranks=(3, 4),
        counts={4: (2, 2)},
        weights={3: (1, 0.3, 2), 4: (1, 2, 3, 9)},
    ),
}


RULES = ("interior", "clamp", "zero", "reflect", "antireflect", "symmetric", "antisymmetric")

PRIMES = {2: [2], 3: [3], 4: [2, 2], 5: [5], 6: [2, 3], 7: [7], 8: [2, 2, 2]}


def drawn(seed: int, most: int) -> Case:
    """Return a case at random: dimensions, sizes, reach, rules, dtype, numbers of processes.

    Some processes may own a plane, or nothing.

    Args:
        seed: says which.
        most: the most processes.
    """
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 4))
    ranks = int(rng.integers(2, most + 1))
    order = int(rng.choice([2, 4, 6, 8] if dim < 3 else [2, 4]))
    counts = [1] * dim
    for prime in PRIMES[ranks]:
        counts[rng.integers(dim)] *= prime
    far = int(rng.integers(1, 3))
    reach = max(order // 2, far)  # Processes may own so few points; one plane where it is 1.
    shape = tuple(int(count * reach + rng.integers(0, 8)) for count in counts)
    speeds = {ranks: tuple(rng.random(ranks) + 0.01)} if rng.random() < 0.3 else {}
    is_small = rng.random() < 0.3  # Too small for all processes, as a rule: some are idle.
    if is_small:
        shape = tuple(int(n) for n in rng.integers(reach, 2 * reach + 1, dim))
    periodic = tuple(bool(each) for each in rng.random(dim) < 0.4)
    boundary = {}
    for letter, is_periodic in zip("xyz", periodic, strict=False):
        for sign in "-+":
            boundary[letter + sign] = "periodic" if is_periodic else str(rng.choice(RULES))
    step = ", ".join(map(str, rng.integers(-far, far + 1, dim)))
    text = f"u' = u + dt*(lap(u) + u[{step}]); m = max(u'*{'ijk'[dim - 1]})"
    options = {"boundary": boundary, "order": order, "dtype": str(rng.choice(["f32", "f64"]))}
    if rng.random() < 0.5:
        options["loop"] = "points"
    return Case(
        *(text, shape, options, periodic),
        halo=reach if is_small or speeds else None,
        results=("m",),
        ranks=(ranks,),
        counts={} if is_small else {ranks: tuple(counts)},
        weights=speeds,
        steps=3,
    )


def with_layers(case: Case, kernel: tikgen.Kernel, make: Callable[..., Arrays]) -> Arrays:
    """Return the arrays of matched layers, if the case has some."""
    return make(kernel, courant=0.4) if "cpml" in str(case.options.get("boundary")) else {}


def alone(case: Case) -> Arrays:
    """Return what a program computes with plain arrays, and the results of the last step."""
    kernel = case.kernel()
    fields = case.fields(kernel)
    fields |= with_layers(case, kernel, partial(tikgen.matched_layers, shape=case.shape))
    results = {name: np.zeros(1, kernel.problem.dtype.numpy) for name in case.results}
    program = made(case, tikgen, kernel, fields | results | case.given)
    ahead = program.reference(2)
    program.run(case.steps)
    found = {name: np.array(program[name]) for name in (*fields, *results)}
    return found | {f"reference of {name}": ahead[name] for name in fields}


def shared(case: Case, comm: Any, **options: Any) -> tuple[tikgen.Grid, tikgen.Program]:
    """Return the grid of some processes, and the program of a case on it.

    Args:
        case: what to compute.
        comm: a communicator of mpi4py, or ``torch.distributed``.
        options: further arguments of the grid.
    """
    kernel = case.kernel()
    size = comm.size if hasattr(comm, "size") else comm.get_world_size()
    counts = case.counts.get(size)
    options |= {"ranks": counts, "weights": case.weights.get(size)}
    grid = tikgen.Grid(case.shape, case.periodic, comm, halo=case.halo, **options)
    whole = case.fields(kernel)
    behind = case.layout == "last"
    fields = {
        name: grid.field(
            values,
            components=0 if values.ndim == len(case.shape) else values.shape[-1 if behind else 0],
            layout=case.layout,
        )
        for name, values in whole.items()
    }
    fields |= with_layers(case, kernel, grid.matched_layers)
    results = {name: np.zeros(1, kernel.problem.dtype.numpy) for name in case.results}
    return grid, made(case, grid, kernel, fields | results | case.given)


def made(case: Case, of: Any, kernel: tikgen.Kernel, values: Arrays) -> tikgen.Program:
    """Return the program of a case, with parts that a grid makes, or tikgen."""
    bound = kernel.bind(**values) if of is tikgen else of.bind(kernel, **values)
    step = tikgen.varying(bound, **case.varying) if case.varying else bound
    pairs = [(values[one], values[other]) for one, other in case.swaps]
    parts = [step, of.swap(*pairs)] if pairs else [step]
    if runtime.current_arch() != "cuda":  # There, values over faces are taken before each run.
        fade = tikgen.elementwise("a = 0.9*a + 0.01", engine="taichi")
        faces = [
            value
            for name, value in values.items()
            if isinstance(case.numbers.get(name), np.ndarray)
        ]
        parts = [*map(fade.bind, faces), *parts]
    names = {name: value for name, value in values.items() if not isinstance(value, float)}
    native = False if of is tikgen else None  # Launched by Taichi, as on several processes.
    return tikgen.Program(parts, native=native, **names)
