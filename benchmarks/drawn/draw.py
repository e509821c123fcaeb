"""Draws works: template, problem, dtype and sizes over six orders of magnitude, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from works.work import Arguments, Machine, Work

Random = np.random.Generator
# The most elements of an array.
MOST = {"cpu": 3e7, "gpu": 1e8, "lavapipe": 1e6}
LEAST = 100
# The most products of a gemm whose reference computes in long double, without BLAS.
MOST_LONG_DOUBLES = 300_000_000
ORDERS = (2, 4, 6, 8)
BOUNDARIES = ("interior", "zero", "clamp", "periodic")
# Equations of fields u and v, with the numbers in them; half of the works have a system of drawn
# ones instead.
EQUATIONS = {
    "heat": "u' = u + 0.05*lap(u)",
    "advection": "u' = u + 0.02*lap(u) - 0.1*v*dx(u)",
    "wave": "q = 2*u - v + 0.05*lap(u)",
    "reaction": "u' = u + 0.05*lap(u) - u*v*v; v' = v + 0.02*lap(v) + u*v*v - 0.1*v",
}

# Terms of drawn equations, which stay finite.
TERMS = (
    *("lap({f})", "lap({f})", "dx({f})", "{f}*dx({g})", "{f}*lap({g})", "{f}*{g}", "{f}*{f}*{g}"),
    *("sqrt(abs({f}) + 1)", "max({f}, {g})", "exp(-abs({f}))", "where({f} > {g}, {f}, 2*{g})"),
    "{f}/(1 + abs({g}))",
)


def drawn_works(seed: int, machine: Machine) -> Iterator[Work]:
    """Yield works without end, the templates in turn, each in an order of its own."""
    rng = np.random.default_rng(seed)
    while True:
        for template in rng.permutation(list(MAKERS)):
            yield MAKERS[template](rng, machine)


def _count(rng: Random, machine: Machine, share: float = 1.0) -> int:
    """Return a number of elements, each order of magnitude as often as the others."""
    least, most = np.log(LEAST), np.log(MOST[machine] * share)
    return int(np.exp(rng.uniform(least, most)))


def _shape(rng: Random, count: int, dim: int, least: int = 1) -> tuple[int, ...]:
    """Return extents of about ``count`` elements: cubes, thin and long ones, odd and even ones."""
    parts = rng.dirichlet([rng.choice([0.7, 50.0])] * dim)
    extents = [max(least, round(count**part)) for part in parts]
    kind = rng.choice(["any", "odd", "of 32"])
    if kind == "odd":
        extents = [extent | 1 for extent in extents]
    elif kind == "of 32":
        extents = [(extent + 16) // 32 * 32 if extent >= 32 else extent for extent in extents]
    return tuple(extents)


def _work(
    template: str,
    title: str,
    machine: Machine,
    problem: Mapping[str, Any],
    shape: tuple[int, ...],
    sizes: Mapping[str, int] | None = None,
    inputs: Callable[[Mapping[str, int], Random], Arguments] = lambda _, __: {},
) -> Work:
    dtype = str(problem.get("dtype", "f32"))
    return Work(
        kind=template,
        title=f"{title}, {dtype}",
        size=" x ".join(map(str, shape)),
        machine=machine,
        template=template,
        problem=problem,
        sizes=sizes or {f"n{axis}": extent for axis, extent in enumerate(shape)},
        inputs=inputs,
        rtol={"f32": 1e-4, "f64": 1e-10}.get(dtype, 0.0),
        # NumPy and plain loops add numbers of one dtype one after another.
        peers_rtol={"f32": 1e-2, "f64": 1e-8}.get(dtype, 0.0),
    )


def _expression(rng: Random, depth: int) -> str:
    """Return an expression of x, y and numbers that stays finite."""
    if depth == 0:
        # Constants that f32 holds: where a number is equal to one, all compare alike.
        return str(rng.choice(["x", "y", "x", "y", "0.75", "1.5"]))
    one, other = (_expression(rng, depth - 1) for _ in range(2))
    form = rng.choice(
        [
            "({a} + {b})",
            "({a} - {b})",
            "{a}*{b}",
            "min({a}, {b})",
            "max({a}, {b})",
            "sqrt(abs({a}) + 1)",
            "exp(-abs({a}))",
            "sin({a})",
            "where({a} > {b}, {a}, 2*{b})",
            "{a}/(1 + abs({b}))",
        ]
    )
    return str(form).format(a=one, b=other)


def _map(rng: Random, machine: Machine) -> Work:
    dim = int(rng.integers(1, 4))
    text = "z = x + y*" + _expression(rng, int(rng.integers(0, 4)))
    problem = {"expr": text, "dim": dim, "dtype": _float(rng)}
    return _work("map", f"map {text}", machine, problem, _shape(rng, _count(rng, machine), dim))


def _stencil(rng: Random, machine: Machine) -> Work:
    dim, order, boundary = int(rng.integers(1, 4)), int(rng.choice(ORDERS)), rng.choice(BOUNDARIES)
    shape = _shape(rng, _count(rng, machine), dim, order + 1)
    problem = {"dim": dim, "order": order, "boundary": str(boundary), "dtype": _float(rng)}
    return _work("stencil", f"stencil of order {order}, {boundary}", machine, problem, shape)


def _update(rng: Random, machine: Machine) -> Work:
    dim, order, boundary = int(rng.integers(1, 4)), int(rng.choice(ORDERS)), rng.choice(BOUNDARIES)
    name = str(rng.choice(list(EQUATIONS)))
    equations = EQUATIONS[name]
    if rng.random() < 0.5:
        name = equations = _equations(rng)
    shape = _shape(rng, _count(rng, machine, 0.5), dim, order + 1)
    problem = {"equations": equations, "dim": dim, "order": order}
    problem |= {"boundary": str(boundary), "dtype": _float(rng)}
    return _work("update", f"{name} of order {order}, {boundary}", machine, problem, shape)


def _equations(rng: Random) -> str:
    """Return equations of one to three fields, the first of which has a Laplacian."""
    fields = list("uvw")[: int(rng.integers(1, 4))]
    found = []
    for number, field in enumerate(fields):
        text = "lap(u)" if number == 0 else ""
        for _ in range(int(rng.integers(int(number > 0), 4))):
            f, g = rng.choice(fields, 2)
            term = str(rng.choice(TERMS)).format(f=f, g=g)
            text += (str(rng.choice([" + ", " - "])) if text else "") + term
        found.append(f"{field}' = {field} + 0.01*({text})")
    return "; ".join(found)


def _reduce(rng: Random, machine: Machine) -> Work:
    op, dim = str(rng.choice(["sum", "max", "mean", "argmax"])), int(rng.integers(1, 4))
    axis = None if rng.random() < 0.4 else int(rng.integers(dim))
    dtype = str(rng.choice(["f32", "f64", "i32"])) if op == "max" else _float(rng)
    problem = {"op": op, "dim": dim, "axis": axis if dim > 1 else None, "dtype": dtype}
    title = f"{op} along axis {axis}" if problem["axis"] is not None else f"{op} of all"
    shape = _shape(rng, _count(rng, machine), dim)

    def inputs(sizes: Mapping[str, int], numbers: Random) -> Arguments:
        if dtype == "i32":
            return {"x": numbers.integers(-(2**20), 2**20, shape, np.int32)}
        # Equal elements have no one place; a walk has its extreme anywhere.
        return {"x": (numbers.permutation(int(np.prod(shape))) / 2.0**20).reshape(shape)
                .astype(np.float32 if dtype == "f32" else np.float64)}  # fmt: skip

    return _work("reduce", title, machine, problem, shape, inputs=inputs)


def _scan(rng: Random, machine: Machine) -> Work:
    dtype = str(rng.choice(["f32", "f64", "i32", "i64"]))
    shape = (_count(rng, machine),)

    def inputs(sizes: Mapping[str, int], numbers: Random) -> Arguments:
        if dtype[0] == "f":
            return {}
        return {"x": numbers.integers(-9, 9, shape, np.int32 if dtype == "i32" else np.int64)}

    return _work("scan", "scan", machine, {"dtype": dtype}, shape, inputs=inputs)


def _transpose(rng: Random, machine: Machine) -> Work:
    dim = int(rng.integers(2, 5))
    perm = list(range(dim))
    while perm == sorted(perm):
        perm = [int(axis) for axis in rng.permutation(dim)]
    problem = {"perm": tuple(perm), "dtype": _float(rng)}
    shape = _shape(rng, _count(rng, machine), dim)
    return _work("transpose", f"transpose {tuple(perm)}", machine, problem, shape)


def _gemm(rng: Random, machine: Machine) -> Work:
    most = {"cpu": 2_000, "gpu": 8_000, "lavapipe": 200}[machine]
    m, n, k = (int(np.exp(rng.uniform(np.log(4), np.log(most)))) for _ in range(3))
    layout = str(rng.choice(["nn", "nt", "tn", "tt"]))
    problem = {"layout": layout, "dtype": _float(rng)}
    if problem["dtype"] == "f64":  # Its reference takes 50 ns a product: sums of long doubles.
        k = max(4, min(k, MOST_LONG_DOUBLES // (m * n)))
    return _work(
        "gemm", f"gemm {layout}", machine, problem, (m, n, k), {"m": m, "n": n, "k": k},
        lambda _, __: {"alpha": 1.0, "beta": 0.0},
    )  # fmt: skip


def _spmv(rng: Random, machine: Machine) -> Work:
    kind = str(rng.choice(["rows of 1 to 40", "power law", "banded"]))
    rows = max(10, _count(rng, machine, 1 / 30))
    cols, seed = max(40, int(rows * rng.uniform(0.5, 2))), int(rng.integers(2**31))
    numbers = np.random.default_rng(seed)
    if kind == "banded":
        cols, lengths = max(rows, 40), np.full(rows, 7)
    elif kind == "power law":
        lengths = np.minimum(np.ceil(numbers.pareto(1.1, rows) * 3), cols).astype(int)
    else:
        lengths = numbers.integers(1, 41, rows)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

    def inputs(sizes: Mapping[str, int], _: Random) -> Arguments:
        own = np.repeat(np.arange(rows), lengths)
        if kind == "banded":
            places = np.clip(own + np.tile(np.arange(-3, 4), rows), 0, cols - 1)
        else:
            places = numbers.integers(0, cols, bounds[-1])
        arrays = {"indices": places.astype(np.int32), "indptr": bounds}
        return arrays | {"alpha": 1.0, "beta": 0.0}

    problem = {"format": "csr", "dtype": _float(rng)}
    sizes = {"rows": rows, "cols": cols, "nnz": int(bounds[-1])}
    return _work("spmv", f"spmv, {kind}", machine, problem, (rows, cols), sizes, inputs)


def _histogram(rng: Random, machine: Machine) -> Work:
    bins, data = int(2 ** rng.uniform(2, 12)), str(rng.choice(["uniform", "constant", "sorted"]))
    shape = (_count(rng, machine),)

    def inputs(sizes: Mapping[str, int], numbers: Random) -> Arguments:
        # Not near an edge, where each competitor may count on either side.
        place = numbers.integers(0, bins, shape) + numbers.uniform(0.25, 0.75, shape)
        x = (place / bins).astype(np.float32)
        x = np.full_like(x, x[0]) if data == "constant" else np.sort(x) if data == "sorted" else x
        return {"x": x, "lo": 0.0, "hi": 1.0}

    title = f"histogram of {data} numbers, {bins} bins"
    return replace(
        _work("histogram", title, machine, {"bins": bins}, shape, inputs=inputs),
        rtol=0.0,
        peers_rtol=0.0,
    )


def _float(rng: Random) -> str:
    return str(rng.choice(["f32", "f32", "f64"]))


MAKERS: dict[str, Callable[[Random, Machine], Work]] = {
    "map": _map,
    "stencil": _stencil,
    "update": _update,
    "reduce": _reduce,
    "scan": _scan,
    "transpose": _transpose,
    "gemm": _gemm,
    "spmv": _spmv,
    "histogram": _histogram,
}
