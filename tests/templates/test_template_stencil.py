"""The stencil template's schedules against its reference: awkward sizes, boundaries, edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from spread import spread
from tikgen.errors import ParameterError

SHAPES = {
    1: [(1,), (2,), (33,), (2100,)],
    2: [(1, 1), (3, 70), (40, 41)],
    3: [(2, 3, 1), (9, 7, 40)],
}


def check(kernel: tikgen.Kernel, dim: int, rng: np.random.Generator) -> None:
    """Launch the kernel for several shapes and compare with its reference."""
    for shape in SHAPES[dim]:
        x = rng.standard_normal(shape).astype(np.float32)
        y = np.full(shape, np.nan, np.float32)
        expected = kernel.reference(x, y)
        kernel(x, y)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("boundary", ["interior", "zero", "clamp", "periodic"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_default_schedule(
    dim: int, boundary: Any, ti_arch: str, rng: np.random.Generator
) -> None:
    check(tikgen.build("stencil", dim=dim, order=4, boundary=boundary), dim, rng)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_sweep_of_several_slabs(dim: int, ti_arch: str, rng: np.random.Generator) -> None:
    block = {"block_x": 32, "block_y": 2 if dim == 3 else 1, "sweep": 4, "block_dim": 0}
    neutral = {"unroll": 1, "row_buffer": 0, "rows": 1}
    kernel = tikgen.build("stencil", dim=dim, order=4, loop="sweep", **block, **neutral)
    check(kernel, dim, rng)


def test_points_off_the_axes_and_to_one_side(ti_arch: str, rng: np.random.Generator) -> None:
    points = {(-2, 1, 0): 0.5, (0, -1, 3): -1.5, (1, 0, 0): 2.0}
    check(tikgen.build("stencil", points=points), 3, rng)


FACES: dict[str, dict[str, Any]] = {
    "on the axes": {"order": 4},
    "off the axes": {
        "points": {(-2, 1, 0): 0.5, (0, -1, 3): -1.5, (1, 0, 0): 2.0, (1, 2, -2): 1.0}
    },
    "behind": {"points": {(-2, 0, 0): 0.5, (0, 0, 0): 1.0}},
}


@spread(
    "points, boundary, ahead_blocks_and_block_y",
    [*FACES],
    ["interior", "zero", "clamp", "periodic"],
    [(0, 0, 2), (2, 2, 1), (1, 0, 0), (0, 2, 0)],
)
def test_a_sweep_near_faces_and_far_from_them(
    points: str,
    boundary: str,
    ahead_blocks_and_block_y: tuple[int, int, int],
    ti_arch: str,
    rng: np.random.Generator,
) -> None:
    ahead, blocks, block_y = ahead_blocks_and_block_y
    schedule = {"loop": "sweep", "unroll": 1, "block_x": 32, "block_y": block_y, "sweep": 4}
    schedule |= {"ahead": ahead, "blocks": blocks}
    problem = {"boundary": boundary, **FACES[points]}
    kernel = tikgen.build("stencil", dtype="f64", schedule=schedule, **problem)
    for shape in ((2, 3, 1), (9, 7, 102)):
        x = rng.standard_normal(shape)
        y = np.full(shape, np.nan)
        kernel(x, y)
        np.testing.assert_allclose(y, kernel.reference(x, y), rtol=1e-12, atol=1e-12)


LINES: dict[str, dict[str, Any]] = {
    "both sides": {"order": 4},
    "ahead": {"points": {(1,): 0.5, (3,): -1.5}},
    "nowhere": {"points": {(0,): 2.0}},
}


@spread("points, boundary, items", [*LINES], ["interior", "zero", "clamp", "periodic"], [1, 2, 8])
def test_several_points_of_a_line_a_thread(
    points: str, boundary: str, items: int, ti_arch: str, rng: np.random.Generator
) -> None:
    schedule = {"loop": "blocks", "unroll": 1, "items": items, "block_dim": 32}
    problem = {"dim": 1, "boundary": boundary, **LINES[points]}
    kernel = tikgen.build("stencil", dtype="f64", schedule=schedule, **problem)
    # Fewer points than the stencil has, whole blocks of threads, and points beyond them.
    for length in (1, 2, 3, 32 * items, 32 * items + 5, 96 * items + 1):
        x = rng.standard_normal(length)
        y = np.full(length, np.nan)
        kernel(x, y)
        np.testing.assert_allclose(y, kernel.reference(x, y), rtol=1e-12, atol=1e-12)


def test_a_gpu_takes_more_points_a_thread_on_a_longer_line() -> None:
    template = tikgen.build("stencil", dim=1).template
    problem = template.Problem(dim=1)

    def items(arch: str, points: int) -> int:
        schedule = template.default_schedule(problem, arch, {"n0": points})
        template.check_schedule(problem, template.Schedule(**schedule), arch)
        return schedule.get("items", 1)

    for arch in ("cuda", "vulkan"):
        assert [items(arch, 10**n) for n in (3, 5, 6, 7, 8)] == [1, 1, 2, 4, 8]


GROUPS: dict[str, dict[str, Any]] = {
    **FACES,
    "no step along the first axis": {"points": {(0, -1, 0): 1.0, (0, 2, 1): 0.5}},
}


@spread(
    "points, boundary, items_and_rows, update",
    [*GROUPS],
    ["interior", "zero", "clamp", "periodic"],
    [(1, 1), (2, 2), (4, 1), (2, 4), (8, 1)],
    [False, True],
)
def test_several_points_a_thread(
    points: str,
    boundary: str,
    items_and_rows: tuple[int, int],
    update: bool,
    ti_arch: str,
    rng: np.random.Generator,
) -> None:
    items, item_rows = items_and_rows
    schedule = {"loop": "lanes", "unroll": 1, "items": items, "item_rows": item_rows}
    problem = {**GROUPS[points], "boundary": boundary, "update": update}
    kernel = tikgen.build("stencil", schedule=schedule, **problem)
    # Axes of as many points as a group has, fewer, or some more; none that a step leads round.
    for shape in ((1, 1, 1), (2, 3, 1), (9, 7, 40), (16, 8, 5), (3, 13, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        y = np.full(shape, np.nan, np.float32)
        given = (x, y, 0.25) if update else (x, y)
        expected = kernel.reference(*given)
        kernel(*given)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def test_what_lies_outside_is_0_beside_an_infinity(ti_arch: str) -> None:
    x = np.array([[1] * 99 + [np.inf]], np.float32)
    y = np.zeros_like(x)
    tikgen.build("stencil", dim=2, boundary="zero")(x, y)
    assert y[0, 97:].tolist() == [-2, np.inf, -np.inf]


@pytest.mark.parametrize("problem", [{"dim": 1}, {"storage": "field"}])
def test_a_sweep_is_refused_where_it_does_not_fit(problem: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="cannot be 'sweep' where"):
        tikgen.render("stencil", arch="vulkan", loop="sweep", unroll=1, **problem)


LOOPS: dict[str, dict[str, Any]] = {
    "cpu": {"function": {"row_buffer": 16}, "rows": {"unroll": 4}, "points": {}},
    "gpu": {"linear": {}, "sweep": {"ahead": 1}, "lanes": {"items": 2}, "rows": {"unroll": 1}},
}


@pytest.mark.parametrize("update", [False, True])
def test_halves_are_computed_in_single_precision_and_rounded_once(
    update: bool, ti_arch: str, rng: np.random.Generator
) -> None:
    x = rng.uniform(-1, 1, (40, 41)).astype(np.float16)
    for loop, more in LOOPS["cpu" if ti_arch == "cpu" else "gpu"].items():
        schedule = {"loop": loop, "unroll": 1, **more}
        kernel = tikgen.build(
            "stencil", dim=2, dtype="f16", order=8, spacing=0.1, update=update, schedule=schedule
        )
        y = np.zeros_like(x)
        arguments = (x, y, 0.001) if update else (x, y)
        exact = kernel.reference(*arguments).astype(np.float64)
        kernel(*arguments)
        # Half a step of a half, and what single precision loses where terms cancel.
        allowed = 0.501 * np.finfo(np.float16).eps * np.abs(exact) + 1e-3 * 0.001**update
        np.testing.assert_array_less(np.abs(y - exact), allowed)
