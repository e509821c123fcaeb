"""Rules of parameters: what applies, what is refused, drawn, searched, shown and documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

import tikgen
from tikgen import ProblemModel, ScheduleModel, parameter
from tikgen.errors import ParameterError, TemplateError
from tikgen.pipeline.builder import resolve
from tikgen.template.parameters import make_model, parameter_infos
from tikgen.template.rules import Not
from tikgen.template.schedules import fitted
from tikgen.tuning.space import Space

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(y.shape[0]):
        y[i] = {{ s.way | length }} + {{ s.unroll }} + {{ s.wide }} + {{ s.depth }}
"""
CODE = """\
from typing import Literal
from tikgen import Array, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter
from tikgen.template.rules import Not

class Ways(Template):
    "Template with rules."

    class Problem(ProblemModel):
        sides: int = parameter("how many", 1, ge=1, le=3)

    class Schedule(ScheduleModel):
        wide: Literal[0, 16, 32] = parameter("width", 0, only={"way": "far"}, needs=NEEDS)
        way: Literal["near", "far", "shared"] = parameter(
            "how", "near", needs={"far": {"sides": (2, 3)}, "shared": {"arch": "cuda"}}
        )
        unroll: Literal[1, 2, 4] = parameter("steps", 4, only={"way": "near"}, neutral=1)
        depth: Literal[0, 1, 2] = parameter(
            "depth", 0, only=[{"way": "far", "wide": Not(0)}, {"sides": 3, "arch": "cuda"}]
        )

    def arguments(self, p):
        return (Array("y", DType.f32, ("n",), role="out"),)

    def check(self, p, s, arch):
        if s.wide == 32 and s.depth == 2:
            raise Invalid("depth", "is too deep")
""".replace("NEEDS", '{0: {"way": Not("far")}}')


@pytest.fixture
def ways(tmp_path: Path) -> Any:
    folder = tmp_path / "ways"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    return tikgen.load_template(folder)


def test_what_does_not_apply_is_neutral_where_it_was_not_given(ways: Any) -> None:
    schedule = resolve(ways, arch="cpu", sides=2, way="far", wide=16).schedule
    assert dict(schedule) == {"wide": 16, "way": "far", "unroll": 1, "depth": 0}
    assert schedule.model_fields_set == {"way", "wide"}
    assert resolve(ways, arch="cpu").params["unroll"] == 4


@pytest.mark.parametrize(
    ("given", "arch", "problem"),
    [
        ({"wide": 16}, "cpu", "'wide' must be 0 where way='near'; it matters only where way='far'"),
        ({"way": "far"}, "cpu", "'way' cannot be 'far' where sides=1; it works only where sides=2"),
        ({"way": "shared"}, "cpu", "'way' cannot be 'shared' on cpu; it works only on cuda"),
        (
            {"way": "far", "sides": 2},
            "cpu",
            "cannot be 0 where way='far'; it takes 16 or 32 there; no value was given",
        ),
        ({"depth": 1, "sides": 3}, "cpu", "'depth' must be 0 on cpu; it matters only where way"),
        ({"way": "far", "sides": 2, "wide": 32, "depth": 2}, "cpu", "'depth' is too deep"),
    ],
)
def test_what_breaks_a_rule_is_refused(ways: Any, given: Any, arch: str, problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        resolve(ways, arch=arch, **given)
    assert problem in str(caught.value)


def test_a_neutral_value_may_be_given_anywhere(ways: Any) -> None:
    assert resolve(ways, arch="cpu", wide=0, depth=0).params["wide"] == 0


@pytest.mark.parametrize("arch", ["cpu", "cuda"])
@pytest.mark.parametrize("sides", [1, 2, 3])
def test_every_schedule_can_be_drawn_and_no_other(ways: Any, arch: str, sides: int) -> None:
    reached = set()
    for way in ("near", "far", "shared"):
        for wide in (0, 16, 32):
            for depth in (0, 1, 2):
                drawn = {"sides": sides, "way": way, "wide": wide, "depth": depth, "unroll": 2}
                params = fitted(ways, drawn, arch)
                assert resolve(ways, arch=arch, **params).params == params
                reached.add(params["way"])
    wanted = {"near": True, "far": sides > 1, "shared": arch == "cuda"}
    assert reached == {way for way, there in wanted.items() if there}


def test_what_is_fixed_stays(ways: Any) -> None:
    drawn = {"sides": 2, "way": "far", "wide": 0, "depth": 0, "unroll": 1}
    assert fitted(ways, drawn, "cpu", fixed=("wide",))["way"] == "near"
    assert fitted(ways, drawn, "cpu", fixed=("way",))["wide"] == 16


def test_the_space_holds_each_schedule_once(ways: Any) -> None:
    space = Space(ways, ways.Problem(sides=2), "cpu", {"n": 8})
    points = [space.schedule(point) for point in space.points]
    assert len(points) == 3 + 2 * 3 - 1
    assert {p["unroll"] for p in points if p["way"] == "far"} == {1}
    assert all(p["way"] != "shared" for p in points)


def test_the_header_names_what_matters(ways: Any) -> None:
    def header(**params: Any) -> str:
        return tikgen.render(ways, **params).text.splitlines()[2]

    assert header(arch="cpu") == "# schedule: way='near', unroll=4"
    far = {"sides": 2, "way": "far", "wide": 16}
    assert header(arch="cpu", **far) == "# schedule: wide=16, way='far', depth=0"
    assert header(arch="cuda", sides=3, depth=1) == "# schedule: way='near', unroll=4, depth=1"


def test_the_documentation_says_the_rules(ways: Any) -> None:
    told = {info.name: info.meaning for info in ways.parameters}
    assert told["unroll"] == "steps; only where way='near'"
    assert told["wide"] == "width; only where way='far'; 0 only where way is not 'far'"
    assert told["way"] == "how; 'far' only where sides=2 or 3; 'shared' only on cuda"
    where = "only where way='far' and wide is not 0, or where sides=3, on cuda"
    assert told["depth"] == f"depth; {where}"
    assert f"depth; {where}" in str(tikgen.describe(ways))


def test_rules_of_problem_parameters() -> None:
    class Problem(ProblemModel):
        weighted: bool = parameter("whether", False)
        weight: Literal["f32", "f64"] = parameter(
            "dtype", "f64", only={"weighted": True}, neutral="f32"
        )

    assert make_model(Problem, {}, "demo").weight == "f32"  # type: ignore[attr-defined]
    assert make_model(Problem, {"weighted": True}, "demo").weight == "f64"  # type: ignore[attr-defined]
    with pytest.raises(ParameterError, match="'weight' must be 'f32' where weighted=False"):
        make_model(Problem, {"weight": "f64"}, "demo")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('only={"way": "near"}', 'only={"wya": "near"}', "'unroll' mentions 'wya', which"),
        ('only={"way": "near"}', 'only={"way": "nera"}', "mentions way='nera', which way never is"),
        ('{"arch": "cuda"}', '{"arch": "gpu"}', "mentions arch='gpu', which arch never is"),
        ('needs={"far"', 'needs={"fra"', "mentions way='fra', which way never is"),
        ('"far": {"sides": (2, 3)}', '"far": {"wide": 16}', "rules of way and wide form a circle"),
        ("1, ge=1, le=3)", '1, ge=1, le=3, only={"arch": "cpu"})', "'sides' mentions 'arch'"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_when_the_template_is_loaded(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE.replace(old, new))
    with pytest.raises(TemplateError, match=problem):
        tikgen.load_template(folder)


def test_conditions_are_shown_as_words() -> None:
    class Schedule(ScheduleModel):
        a: Literal[1, 2, 3] = parameter("first", 1)
        b: bool = parameter("second", False, only={"a": Not(1, 2), "arch": ("cuda", "vulkan")})

    (_, info) = parameter_infos(Schedule, "schedule")
    assert info.meaning == "second; only where a is not 1 or 2, on cuda or vulkan"
    assert repr(Not(1, 2)) == "Not(1, 2)"
