"""A template whose own schedule of some problem is refused does not pass verification."""

from __future__ import annotations

from pathlib import Path

import pytest

import tikgen
from tikgen.errors import ParameterError, TemplateError
from tikgen.verification.strategies import check_own_schedule, drawn, trials

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    for i in range(x.shape[0]):
        y[i] = x[i] # {{ s.way }}
"""
CODE = """\
from typing import Literal

from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter


class Ways(Template):
    "Copy."

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f64, choices=("f32", "f64"))

    class Schedule(ScheduleModel):
        way: Literal[1, 2] = parameter("how", 1, needs={1: {"dtype": "f64"}})

    def arguments(self, p):
        return Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out")

    @staticmethod
    def reference(p, x, y):
        return x
"""
UNSUPPORTED = """\
    def unsupported(self, p, arch):
        return "no f32" if p.dtype == "f32" else None
"""
MENDED = '    def default_schedule(self, p, arch, sizes):\n        return {"way": 2}\n'
BY_SIZES = """\
    def default_schedule(self, p, arch, sizes):
        return {"way": 1 if (sizes or {"n": 0})["n"] > 2000 else 2}
"""


def make(folder: Path, more: str = "") -> tikgen.Template:
    folder = folder / "ways"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE + "\n" + more)
    return tikgen.load_template(folder)


def draw(template: tikgen.Template, fixed: dict[str, object]) -> set[tuple[str, int]]:
    cases = drawn(trials(template, "cpu", fixed, lambda _: None, lambda _: None), 20, 0)
    return {(str(each[0].params["dtype"]), each[0].params["way"]) for each in cases}


def test_the_own_schedule_of_each_drawn_problem_is_looked_at(tmp_path: Path) -> None:
    template = make(tmp_path)
    tikgen.render(template)
    problem = "'way' cannot be 1 where dtype=f32; .*; no value was given, and this one is the temp"
    with pytest.raises(ParameterError, match=problem):
        tikgen.render(template, dtype="f32")
    told = "default schedule of a drawn problem cannot be built on cpu"
    with pytest.raises(TemplateError, match=f"{told}: .*{problem}"):
        draw(template, {})
    assert draw(template, {"dtype": "f64"}) == {("f64", 1), ("f64", 2)}
    assert draw(template, {"way": 2}) == {("f32", 2), ("f64", 2)}


def test_its_sizes_are_told(tmp_path: Path) -> None:
    rest = make(tmp_path, BY_SIZES), {"dtype": "f32"}, "cpu"
    check_own_schedule(*rest, {"n": 2000}, "default")
    with pytest.raises(TemplateError, match=r"on cpu, for n=5000: .*'way' cannot"):
        check_own_schedule(*rest, {"n": 5000}, "default")


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (MENDED, {("f32", 2), ("f64", 1), ("f64", 2)}),
        (UNSUPPORTED, {("f64", 1), ("f64", 2)}),
    ],
)
def test_what_can_be_built_or_is_unsupported_passes(
    tmp_path: Path, more: str, found: set[tuple[str, int]]
) -> None:
    assert draw(make(tmp_path, more), {}) == found
