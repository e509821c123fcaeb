"""Launches that fill every part of a schedule: what overflows shows nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tikgen.pipeline.builder import resolve
from tikgen.pipeline.rendering import render_variant
from tikgen.template.catalogue import find_template
from tikgen.verification.case import Case, literal
from tikgen.verification.large import MOST_ON_CPU
from tikgen.verification.process import ArchProcess
from tikgen.verification.strategies import drawn, full_launches, launches

# As many parts as in a default schedule, but of few elements.
SCAN = {"dtype": "u8", "op": "sum", "chunks": 1024, "grain": 64}
REDUCE = {"dtype": "u8", "op": "sum", "dim": 1, "chunks": 1024, "grain": 64}


def cases(name: str, **params: Any) -> tuple[list[Case], str]:
    """Return the launches that fill a schedule, and the text of the kernel."""
    template = find_template(name)
    variant = resolve(template, arch="cpu", **params)
    values = {key: literal(value) for key, value in variant.params.items()}
    found = [
        Case(name, str(template.folder), "cpu", values, **launch)
        for launch in full_launches(template, variant, "cpu")
    ]
    return found, render_variant(variant).text


class Launches:
    """Runs cases; those of an unchanged kernel once, whatever faults are made in it."""

    def __init__(self, process: ArchProcess) -> None:
        self._process = process
        self._passed: set[str] = set()

    def assert_passed(self, found: Sequence[Case]) -> None:
        for case in found:
            if case.line not in self._passed:
                outcome = self._process.run(case)
                assert outcome.kind == "passed", (case, outcome)
                self._passed.add(case.line)

    def shows(self, found: Sequence[Case], text: str, *kinds: str) -> bool:
        """Tell whether a launch of a changed text ends in one of ``kinds``, or does not pass."""
        ends = (self._process.run(replace(case, text=text)).kind for case in found)
        return any(kind in kinds if kinds else kind != "passed" for kind in ends)


@pytest.fixture(scope="module")
def launched() -> Iterator[Launches]:
    """Give what runs cases in a process on cpu."""
    with ArchProcess("cpu", 60) as process:
        assert not process.start()
        yield Launches(process)


@pytest.mark.some
@pytest.mark.parametrize(
    ("name", "params", "old", "new"),
    [
        ("scan", SCAN, "range(1, used):", "range(1, used + 1):"),
        ("scan", SCAN, "// 1024 + 1, 64)", "// 1024 - 1, 64)"),
        ("scan", SCAN, "(count - 1) // 1024 +", "(count - 2) // 1024 +"),
        ("reduce", REDUCE, "for chunk in range(used):", "for chunk in range(used + 1):"),
        ("reduce", REDUCE, "// 1024 + 1, 64)", "// 1025 + 1, 64)"),
        ("reduce", REDUCE, "ti.max((count", "ti.min((count"),
    ],
)
def test_one_part_too_many_is_found(
    launched: Launches, name: str, params: dict[str, Any], old: str, new: str
) -> None:
    found, text = cases(name, **params)
    found = found[:2]
    assert [case.sizes["n0"] for case in found] == [65536, 65537]
    changed = text.replace(old, new, 1)
    assert changed != text
    launched.assert_passed(found)
    assert launched.shows(found, changed, "mismatch")


def test_the_default_schedule_is_filled_on_cpu_where_memory_allows() -> None:
    template = find_template("scan")
    for dtype, count in (("u8", 2), ("f16", 2), ("f32", 0)):
        variant = resolve(template, arch="cpu", dtype=dtype)
        found = full_launches(template, variant, "cpu")
        assert [launch["sizes"]["n0"] for launch in found] == [2**24, 2**24 + 1][:count]
        assert not full_launches(template, variant, "vulkan")


def test_sizes_are_larger_on_cpu() -> None:
    template = find_template("scan")
    variant = resolve(template, arch="cpu", chunks=7, grain=3)
    most = {
        arch: max(each["sizes"]["n0"] for each in drawn(launches(template, variant, arch), 60, 1))
        for arch in ("cpu", "vulkan")
    }
    assert most["vulkan"] < 2**16 < most["cpu"] <= MOST_ON_CPU


@pytest.mark.some
@pytest.mark.parametrize(
    "params",
    [{"dim": 1, "chunks": 7}, {"dim": 2, "axis": 0, "strip": 0}, {"dim": 1, "chunks": 1}],
    ids=str,
)
def test_totals_of_small_integers_leave_f32(launched: Launches, params: dict[str, Any]) -> None:
    found, text = cases("reduce", op="mean", dtype="i8", **params)
    changed = text.replace("total = ti.f64(0.0)", "total = ti.f32(0.0)", 1)
    assert changed != text
    assert launched.shows(found, changed, "mismatch")
    launched.assert_passed(found)


@pytest.mark.some
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("first = line * 256", "first = line * 257"),
        ("ti.min(first + 256, x.shape[1])", "ti.min(first + 255, x.shape[1])"),
        ("for i in range(x.shape[0] -", "for i in range(x.shape[0] + 1 -"),
        ("x[i + 3, j]", "x[i + 2, j]"),
    ],
)
def test_strips_are_filled(launched: Launches, right: str, wrong: str) -> None:
    found, text = cases("reduce", op="sum", dtype="f32", dim=2, axis=0, strip=256, unroll=4)
    assert right in text
    assert launched.shows(found, text.replace(right, wrong), "mismatch", "error")
    launched.assert_passed(found)


@pytest.mark.parametrize(
    "params",
    [
        {"name": "stencil", "order": 4},
        {"name": "stencil", "order": 4, "boundary": "interior"},
        {"name": "update", "equations": "u' = u[-2, 0, 1] + lap(u)", "boundary": "periodic"},
        {"name": "update", "equations": "u' = u[-2, 0, 1] + lap(u)", "boundary": "interior"},
    ],
)
def test_a_row_fills_the_longest_buffer_far_from_the_faces(params: dict[str, Any]) -> None:
    template = find_template(params["name"])
    variant = resolve(
        template,
        arch="cpu",
        dim=3,
        **{name: value for name, value in params.items() if name != "name"},
        loop="function",
        row_buffer=64,
    )
    launch = full_launches(template, variant, "cpu")[0]
    extents = launch["sizes"].values()
    # The stencils above reach over up to three points along the last axis, two along others.
    assert min(extents) > 4 and list(extents)[-1] > 64 + 6


BLOCKS = {"expr": "y = a*x + y", "loop": "blocks", "unroll": 1, "items": 4, "block_dim": 32}
FLAT = {"expr": "z = x + y", "dim": 2, "loop": "flat", "unroll": 1, "chunk": 4096}
FLAT_MAX = {"expr": "h = max(x)", "loop": "flat", "unroll": 1, "dtype": "i32", "chunk": 256}


@pytest.mark.some
@pytest.mark.parametrize(
    ("params", "old", "new"),
    [
        (BLOCKS, "if i + 96 <", "if i + 96 <="),
        (BLOCKS, "if i + 96 <", "if i + 97 <"),
        (BLOCKS, "range(3)", "range(2)"),
        # A block too many repeats what another one did, which shows in place.
        (BLOCKS | {"blocks": 1056}, "ti.ndrange(1056, 32)", "ti.ndrange(1057, 32)"),
        (BLOCKS | {"blocks": 1056}, "i_turn * 1056", "i_turn * 1057"),
        # Only the last of 16 parts is left out.
        (FLAT_MAX, "step * 8 + lane", "step * 7 + lane"),
        (FLAT_MAX, "// 16384 + 1, 256)", "// 16384 - 1, 256)"),
        (FLAT_MAX | {"loop": "points"}, "ti.max((count", "ti.min((count"),
        (FLAT, "range((z.shape[0] * z", "range((z.shape[0] + z"),
    ],
)
def test_parts_of_a_map_are_filled(
    launched: Launches, params: dict[str, Any], old: str, new: str
) -> None:
    if params.get("loop") == "points":
        params = {name: value for name, value in params.items() if name != "chunk"}
    found, text = cases("map", **params)
    assert old in text
    launched.assert_passed(found)
    assert launched.shows(found, text.replace(old, new))


DOTS = {"via": "dots", "layout": "nt", "tile_m": 1, "tile_n": 2, "unroll": 2, "split_k": 64}
ROWS = {"via": "rows", "tile_m": 4, "tile_n": 64, "unroll": 4, "split_k": 64, "iterations": 8}
COUNTED = {"bins": 5, "bins_in": "local", "chunks": 1024, "unroll": 8, "serial": True}


@pytest.mark.some
@pytest.mark.parametrize(
    ("name", "params", "steps"),
    [
        ("gemm", DOTS, "range((k_stop - k_start) // 32)"),
        ("gemm", ROWS, "range((k_stop - k_start) // 4)"),
        ("histogram", COUNTED, "range(ti.max(stop - start, 0) // 8)"),
        ("histogram", COUNTED | {"buffer": 64, "unroll": 1}, "range(steps)"),
    ],
)
def test_steps_of_a_part_are_done(
    launched: Launches, name: str, params: dict[str, Any], steps: str
) -> None:
    found, text = cases(name, **params)
    assert steps in text
    launched.assert_passed(found)
    assert launched.shows(found, text.replace(steps, "range(0)"), "mismatch")


def test_parts_of_a_grid_have_points_between_their_ghost_points() -> None:
    template = find_template("map")
    part = ((1, 4, 5, 97), (4, 1, 8, 96), (2, 4, 7, 83), (2, 1, 3, 47))
    variant = resolve(template, arch="cpu", expr="z = x + y", dim=4, part=part)
    found = drawn(launches(template, variant, "cpu"), 240, 1)
    ghosts = [low + high for low, high, *_ in part]
    inner = [
        min(n - edge for n, edge in zip(one["sizes"].values(), ghosts, strict=True))
        for one in found
    ]
    assert sum(n > 0 for n in inner) > 30 and min(inner) <= 0
