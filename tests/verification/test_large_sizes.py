"""Verification launches large arrays, as far as the reference of a template allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.pipeline.builder import resolve
from tikgen.template.base import Template
from tikgen.template.catalogue import find_template
from tikgen.verification import Trial, verify
from tikgen.verification.case import Case, Outcome
from tikgen.verification.large import (
    MOST_ELEMENTS,
    MOST_ON_CPU,
    Ladder,
    at_least_fixed,
    elements,
    large_sizes,
)
from tikgen.verification.strategies import drawn, launches

TEXT = """\
#% from "_shared/signature.j2" import signature
import taichi as ti


@ti.kernel
def {{ name }}(
    {{ signature(arguments) }}
):
    for i in ti.grouped(x):
        y[i] = BODY
"""
CODE = '''\
import numpy as np
from tikgen import Array, DType, ProblemModel, Template, parameter


class Copy(Template):
    """Copies."""

    class Problem(ProblemModel):
        dim: int = parameter("axes", 1, ge=1, le=3)

    def arguments(self, p):
        shape = tuple(f"n{axis}" for axis in range(p.dim))
        return Array("x", DType.f32, shape), Array("y", DType.f32, shape, role="out")

    @staticmethod
    def reference(p, x, y):
        return WHAT

    @staticmethod
    def tolerance(p, inputs, expected):
        return {}
'''
MORE = "\n    def largest_sizes(self, p):\n        return {'n0': 2000}\n"


def template(
    folder: Path, name: str, body: str = "x[i]", what: str = "x", more: str = ""
) -> Template:
    (folder / name).mkdir()
    (folder / name / "kernel.py.j2").write_text(TEXT.replace("BODY", body))
    (folder / name / "template.py").write_text(CODE.replace("WHAT", what) + more)
    return tikgen.load_template(folder / name)


def draws(template: Template, arch: str = "cpu", count: int = 200, **params: int):
    variant = resolve(template, arch=arch, **params)
    sizes = large_sizes(template, variant, arch)
    assert sizes is not None
    found = drawn(sizes, count, 1)
    limit = MOST_ON_CPU if arch == "cpu" else MOST_ELEMENTS
    assert all(elements(variant, one) <= limit for one in found)
    return found


def test_sizes_lie_on_a_logarithmic_scale(tmp_path: Path) -> None:
    found = [one["n0"] for one in draws(template(tmp_path, "line"))]
    assert min(found) >= 1000
    for bound in (3_000, 40_000, 100_000):
        assert sum(n <= bound for n in found) >= len(found) / 8
        assert sum(n > bound for n in found) >= len(found) / 16
    assert len(set(found)) > len(found) / 3


def test_some_arrays_are_thin_and_some_are_not(tmp_path: Path) -> None:
    plane = template(tmp_path, "plane")
    found = draws(plane, dim=2)
    for name, other in (("n0", "n1"), ("n1", "n0")):
        assert sum(one[name] >= 1_000 and one[other] == 1 for one in found) >= len(found) / 12
        assert any(one[name] >= 10_000 and 2 <= one[other] <= 9 for one in found)
    assert any(min(one.values()) > 100 for one in found)
    assert max(one["n0"] * one["n1"] for one in found) > MOST_ON_CPU // 2
    assert any(min(one.values()) > 10 for one in draws(plane, dim=3))


def test_many_iterations_write_few_elements(tmp_path: Path) -> None:
    """Threads lose updates of elements that they share, as ``y[k] = y[k] + 1``."""
    y = 'Array("y", DType.f32, ("n1",), role="out")'
    more = f"\n    def arguments(self, p):\n        return Array('x', DType.f32, ('n0',)), {y}\n"
    found = draws(template(tmp_path, "counts", more=more))
    few = [one for one in found if one["n0"] >= 10_000 and 2 <= one["n1"] <= 64]
    assert len(few) >= len(found) / 12


def test_some_sizes_of_each_axis_are_multiples_or_beside_them(tmp_path: Path) -> None:
    for dim in (1, 2):
        found = draws(template(tmp_path, f"multiples{dim}"), dim=dim)
        for axis in range(dim):
            sizes = [one[f"n{axis}"] for one in found]
            assert any(n % 1000 == 0 for n in sizes)
            for step in (64, 256):
                for rest in (0, 1, step - 1):
                    least = len(found) / (20 if rest == 0 else 100)
                    assert sum(n > step and n % step == rest for n in sizes) >= least


def test_some_sizes_of_each_axis_are_powers_of_two_or_beside_them(tmp_path: Path) -> None:
    for dim in (1, 2):
        found = draws(template(tmp_path, f"powers{dim}"), dim=dim)
        for axis in range(dim):
            sizes = [one[f"n{axis}"] for one in found]
            powers = {2**k for k in range(11, 19)}
            exact = [n for n in sizes if n in powers]
            assert len(set(exact)) >= 4
            assert any(n >= 2**16 for n in exact)
            for beside in (-1, 1):
                assert any(n + beside in powers for n in sizes)


def test_the_limits_of_a_template_and_of_an_arch_hold(tmp_path: Path) -> None:
    bounded = template(tmp_path, "bounded", more=MORE)
    assert max(one["n0"] for one in draws(bounded, dim=2)) == 2000
    assert max(one["n0"] for one in draws(template(tmp_path, "free"), "vulkan")) <= MOST_ELEMENTS
    lists = "\n    def sizes(self, p):\n        return {'n0': (1, 5)}\n"
    own = template(tmp_path, "own", more=lists)
    assert large_sizes(own, resolve(own, arch="cpu"), "cpu") is None


def test_a_workspace_of_fixed_shape_leaves_room_for_sizes() -> None:
    histogram = find_template("histogram")
    variant = resolve(histogram, arch="cpu", bins=4096, chunks=32, buffer=64, copies=2)
    assert at_least_fixed(MOST_ON_CPU, variant) > MOST_ON_CPU
    found = drawn(launches(histogram, variant, "cpu"), 40, 1)
    assert max(one["sizes"]["n"] for one in found) > 32 * 64  # Full buffers of all chunks.
    sizes = large_sizes(histogram, variant, "cpu")
    assert sizes is None or max(one["n"] for one in drawn(sizes, 40, 1)) > 100_000


@pytest.mark.parametrize(("power", "least", "most"), [(1, 200_000, 200_000), (2, 4_000, 20_000)])
def test_arrays_grow_until_the_reference_is_slow(
    power: int, least: int, most: int, tmp_path: Path
) -> None:
    line = template(tmp_path, "line")
    ladder = Ladder(line)
    small = Case("line", str(line.folder), "cpu", {"dim": 1}, {"n0": 1000})
    ran = []

    def run(case: Case) -> None:
        ran.append(case.sizes["n0"])
        seconds = 1e-2 * (ran[-1] / 4096) ** 2 if power == 2 else 1e-8 * ran[-1]
        ladder.note(case, Outcome("passed", elements=ran[-1], seconds=seconds))

    large = replace(small, sizes={"n0": 200_000}, large=True)
    ladder.climb(large, run)
    assert ran == []  # What cannot be launched at all is not launched here.
    run(small)
    large = replace(large, seed=1)
    ladder.climb(large, run)
    assert least <= max(ran) <= most
    assert all(after <= max(4096, 4 * before) for before, after in itertools.pairwise(ran))
    assert all(n % 64 == 0 for n in ran if n not in (1000, 200_000))
    once = len(ran)
    ladder.climb(large, run)
    assert ran[once:] == ran[1:once]  # Hypothesis wants to see the same again.
    ladder.climb(replace(large, seed=2), run)
    assert ran[2 * once - 1 :] == ([200_000] if power == 1 else [])


def verified(template: Template, arch: str, folder: Path, count: int) -> tikgen.verification.Report:
    settings = {"max_examples": count, "seed": 1, "shrink_seconds": 5, "dim": 1}
    return verify(template, archs=(arch,), scripts=folder / "scripts", **settings)


@pytest.mark.once
@pytest.mark.parametrize("limit", [1100, 40_000])
def test_a_fault_in_large_arrays_is_found(limit: int, ti_arch: str, tmp_path: Path) -> None:
    body = f"ti.select(i[0] < {limit}, x[i], x[i] + 1)"
    report = verified(template(tmp_path, f"to{limit}", body), ti_arch, tmp_path, 100)
    (found,) = report.archs
    assert found.failure is not None, str(report)
    assert f"y[{limit}] is" in found.failure.outcome.message
    assert limit < found.failure.case.sizes["n0"] < 1.2 * limit


@pytest.mark.slow
@pytest.mark.once
def test_the_square_of_a_large_array_is_not_taken(ti_arch: str, tmp_path: Path) -> None:
    square = "x + (x.astype('f8')[:, None] - x).sum(1) * 0"
    report = verified(template(tmp_path, "square", what=square), ti_arch, tmp_path, 30)
    assert report.ok, str(report)
    (found,) = report.archs
    assert found.largest == {"n0": found.elements}
    assert 1031 < found.elements < 20_000
    assert f"sizes up to n0={found.elements}; arrays up to {found.elements:,} elements" in str(
        report
    )
    assert report.to_dict()["archs"][0]["largest"] == dict(found.largest)


@pytest.mark.once
def test_a_launch_that_is_right_at_first_only_is_found(ti_arch: str, tmp_path: Path) -> None:
    if ti_arch != "cpu":
        pytest.skip("launches are repeated on cpu")
    launches, started = [], []

    def launch(values: Sequence[np.ndarray]) -> None:
        x, y = values
        started.append(y.tobytes())
        launches.append(x[0])
        y[...] = x
        y[2] += len(launches) == 3

    line = template(tmp_path, "racing")
    settings = {"sizes": {"n0": 5}, "launch": launch}
    assert Trial(line, {"dim": 1}, **settings).run().ok
    launches.clear()
    outcome = Trial(line, {"dim": 1}, repeats=20, **settings).run()
    assert len(launches) == 3
    assert len({*started}) == 1  # Each launch finds what the first one found.
    assert outcome.kind == "mismatch"
    assert outcome.message.endswith("1 of 5 elements are wrong; the same launch was right before")
