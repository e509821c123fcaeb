"""What equations read of axes with no more points than they reach, by any rule, of any field."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tikgen
from spread import spread
from test_template_update import launched

pytestmark = pytest.mark.usefixtures("without_fast_math")
MOST = 9
STEPS = tuple(step for step in range(-MOST, MOST + 1) if step)
# What a kernel is compiled with, once for each rule.
SOME_STEPS = (-7, -3, -2, -1, 2, 3, 7)
SPACING = 0.5
CENTRE = [
    *("periodic", "clamp", "zero", "reflect", "antireflect", "symmetric", "antisymmetric"),
    *("wall", "free_surface"),
    *(own(2.0) for own in (tikgen.dirichlet, tikgen.neumann)),
    *(own(2.0, at="wall") for own in (tikgen.dirichlet, tikgen.neumann)),
]
# What is symmetric about the upper wall has a value on it that no array holds.
ABOVE = ["clamp", "reflect", "antireflect", "antisymmetric", "wall", *CENTRE[9:12]]
ON_WALLS = [("periodic",) * 2] + [(low, high) for low in CENTRE[1:] for high in ABOVE]
PAIRS = [("centre", rule, rule) for rule in CENTRE] + [("face x", *pair) for pair in ON_WALLS]
LAUNCHED = [
    ("centre", "symmetric", "symmetric"),
    *(("face x", low, "wall") for low in ("wall", "free_surface", "antireflect", CENTRE[-1])),
    ("face x", CENTRE[11], CENTRE[11]),
]


def kind_of(rule: Any, on_walls: bool) -> tuple[str, float]:
    """Return what a rule does to values on walls, or between them, and its number."""
    kind, number = rule if isinstance(rule, tuple) else (rule, 0.0)
    physical = {"wall": "anti" * on_walls, "free_surface": "anti" * (not on_walls)}
    if kind in physical:
        kind = physical[kind] + "symmetric"
    return {"wall_value": "antisymmetric", "zero": "value"}.get(kind, kind), number


def value_at(u: np.ndarray, place: int, on_walls: bool, low: Any, high: Any) -> float:
    """Return the value at a place, one step of the definition at a time.

    The image of a place outside is found by turning about one end of the axis, and about the other,
    until it is inside; the sign, slope or value of the rule counts once.
    """
    n = len(u)
    if 0 <= place < n:
        return float(u[place])
    kind, number = kind_of(low if place < 0 else high, on_walls)
    about_walls = kind.endswith("symmetric") or kind == "wall_flux"
    edge = 0 if place < 0 else n - 1
    match kind:
        case "periodic":
            return float(u[place % n])
        case "clamp":
            return float(u[edge])
        case "value":
            return number
    # Twice the place of each end.
    first, last = (-1, 2 * n - 1) if about_walls and not on_walls else (0, 2 * n - 2)
    upper, on_upper = kind_of(high, on_walls)
    has_wall = on_walls and upper == "antisymmetric"
    if has_wall:
        last = 2 * n
    image, out = place, abs(2 * place - (first if place < 0 else last)) * SPACING
    while first != last and not first <= 2 * image <= last:
        image = (first if 2 * image < first else last) - image
    found = on_upper if has_wall and image == n else float(u[0 if first == last else image])
    if has_wall and image == n and place >= n:
        return found  # The wall itself.
    match kind:
        case "antireflect":
            return 2 * float(u[edge]) - found
        case "antisymmetric":
            return 2 * number - found
        case "flux" | "wall_flux":
            return found + number * out
    return found


@functools.cache
def kernel_of(
    place: str, low: Any, high: Any, steps: Any = STEPS, dim: int = 1, **options: Any
) -> Any:
    zeros = ", 0" * (dim - 1)
    text = "; ".join(f"q{i} = u[{step}{zeros}]" for i, step in enumerate(steps))
    sides = {"x": low} if low == high else {"x-": low, "x+": high}
    others = dict.fromkeys("yz"[: dim - 1], "periodic")
    return tikgen.update(
        text, dim, dtype="f64", spacing=SPACING, boundary=sides | others, at={"u": place}, **options
    )


def expected_of(u: np.ndarray, pair: tuple[str, Any, Any], steps: Any = STEPS) -> list[np.ndarray]:
    on_walls = pair[0] == "face x"
    rows = u.reshape(len(u), -1).T
    return [
        np.array(
            [[value_at(row, i + step, on_walls, *pair[1:]) for i in range(len(u))] for row in rows]
        ).T.reshape(u.shape)
        for step in steps
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 10, 11])
def test_the_reference_mirrors_as_the_definition(n: int, rng: np.random.Generator) -> None:
    for pair in PAIRS:
        u = rng.uniform(-9, 9, n)
        found = kernel_of(*pair).reference(u=u)
        for step, own, wanted in zip(STEPS, found, expected_of(u, pair), strict=True):
            np.testing.assert_allclose(own, wanted, atol=1e-12, err_msg=f"{pair} u[{step}]")


@spread("pair, loop, dim", [*range(len(LAUNCHED))], ["function", "points"], [1, 2, 3])
def test_a_kernel_mirrors_as_the_definition(
    pair: int, loop: str, dim: int, ti_arch: str, rng: np.random.Generator
) -> None:
    if ti_arch == "vulkan":
        pytest.skip("no f64")
    own = LAUNCHED[pair]
    schedule = {"loop": loop} if ti_arch == "cpu" else {}
    kernel = kernel_of(*own, SOME_STEPS, dim, **schedule)
    for n in (1, 2, 3, 5, 9):
        u = rng.uniform(-9, 9, (n, *(2, 35)[: dim - 1]))
        found, expected = launched(kernel, u=u), expected_of(u, own, SOME_STEPS)
        for step, its, wanted in zip(SOME_STEPS, found, expected, strict=True):
            np.testing.assert_allclose(its, wanted, atol=1e-12, err_msg=f"{own} u[{step}]")
