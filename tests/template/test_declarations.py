"""Declarations of a template that cannot be used are refused, with what is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen import Array, DType
from tikgen.errors import DeclarationError, ParameterError, TemplateError
from tikgen.template.arguments import Scalar
from tikgen.template.declared import as_numbers, reason_against
from tikgen.template.outputs import allowed_errors

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    for i in range(x.shape[0]):
        y[i] = x[i]
"""
CODE = '''\
from typing import Literal

from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter


class Smooth(Template):
    """Copy."""

    class Problem(ProblemModel):
        radius: int = parameter("points on either side", 1, ge=1, le=50)
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64"))

    class Schedule(ScheduleModel):
        lane: Literal[1, 2] = parameter("elements", 1)

    def arguments(self, p):
        return (Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out"))
'''
HERE = "    def arguments("
# Methods that return what they must not.
METHODS = [
    (f"    def {given}\n        return {found}\n\n{HERE}", problem)
    for given, found, problem in [
        (
            "default_schedule(self, p, arch, sizes):",
            "None",
            r"default_schedule\(\) returned None; it must return a dict \(in template.py:16\)",
        ),
        (
            "default_schedule(self, p, arch, sizes):",
            "{'lanes': 2}",
            r"default_schedule\(\) names 'lanes', which is no schedule param.* has lane \(in",
        ),
        (
            "default_schedule(self, p, arch, sizes):",
            "{'lane': 7}",
            r"default_schedule\(\) returned {'lane': 7}: parameter 'lane' takes 1 or 2; got 7 \(in",
        ),
        (
            "check(self, p, s, arch):",
            "'no'",
            r"check\(\) returned 'no'; it must return nothing, and raise Invalid \(in template.py",
        ),
        ("context(self, p, s):", "None", r"context\(\) returned None; it must return a dict \("),
        (
            "context(self, p, s):",
            "{'p': 1}",
            r"context\(\) names 'p', which the text has already, as p, s, name, .*py:16\)",
        ),
        (
            "workspace(self, p, s):",
            '(Array("w", p.dtype, ("q",), role="work"),)',
            r"workspace\(\) declares a size 'q', which no argument has; sizes of .* are n \(",
        ),
        (
            "workspace(self, p, s):",
            '(Array("x", p.dtype, ("n",), role="work"),)',
            r"workspace\(\) declares two arguments named 'x'; each takes a name of its own \(in",
        ),
        (
            "workspace(self, p, s):",
            '(Array("w", p.dtype, ("n",), role="out"),)',
            r"workspace\(\) declares w with role='out'; scratch arrays have role='work', and arg",
        ),
        (
            "workspace(self, p, s):",
            '(Array("w", p.dtype, ("n",), storage="field"),)',
            r"workspace\(\) declares w with storage='field'; tikgen allocates scratch arrays as",
        ),
        ("set_apart(self, p):", "p", r"set_apart\(\) returned .*; it must return a problem and a"),
        ("largest_sizes(self, p):", "4", r"largest_sizes\(\) returned 4; it must return a dict"),
    ]
]
Make = Callable[[str, str], tikgen.Template]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that loads the template with one change."""

    def made(old: str, new: str) -> tikgen.Template:
        folder = tmp_path / "smooth"
        folder.mkdir()
        (folder / "kernel.py.j2").write_text(TEXT)
        assert old in CODE
        (folder / "template.py").write_text(CODE.replace(old, new))
        return tikgen.load_template(folder)

    return made


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"role": "output"}, r"y: role takes 'in', 'out', 'inout' or 'work'; got 'output'. Did"),
        ({"storage": "nd"}, "y: storage takes 'ndarray' or 'field'; got 'nd'"),
        ({"dtype": "f32"}, r"y: dtype takes a DType, .* of i8, .*, f64; got 'f32'"),
        ({"shape": "n"}, r"y: shape takes a tuple of extents .*; got 'n'; write \('n',\)"),
        ({"shape": ["n"]}, r"y: shape takes a tuple of extents such as .*; got \['n'\]"),
        ({"shape": ("n-1",)}, "y: shape has 'n-1'; an extent is a number such as 4, 'n' or"),
        ({"shape": (-1,)}, "y: shape has -1"),
        ({"shape": (None,)}, "y: shape has None"),
        ({"values": "all"}, "y: values takes 'small' or 'any'; got 'all'"),
        ({"name": "a b"}, "an array 'a b': its name must be an identifier"),
    ],
)
def test_an_array_says_what_it_takes(given: dict[str, Any], problem: str) -> None:
    usual = {"name": "y", "dtype": DType.f32, "shape": ("n", 4, "n + 1")}
    Array(**usual)
    with pytest.raises(DeclarationError, match=problem):
        Array(**(usual | given))


def test_a_scalar_says_what_it_takes() -> None:
    with pytest.raises(DeclarationError, match=r"a: dtype takes a DType, .*; got <class 'float'>"):
        Scalar("a", float)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('side", 1', 'side", 0', "'radius' takes an integer from 1 to 50; its default is 0"),
        ('side", 1', 'side", "a"', "'radius' takes an integer from 1 to 50; its default is 'a'"),
        ("DType.f32", "DType.i32", "'dtype' takes f32 or f64; its default is i32"),
        (
            '"f64")',
            '"f65")',
            r"'dtype' lists 'f65' among its choices, which is no dtype; dtypes .*'f64'",
        ),
        ("le=50)", 'choices=("few", 1))', "'radius' lists 'few' among its choices"),
        (
            '"points on either side", 1',
            "1",
            r"parameter\(\) takes what it means first, as text: .*; got 1 \(in template.py:10\)",
        ),
        (
            "radius: int",
            "radius",
            r"Field 'radius' requires a type annotation \(in template.py:9\)$",
        ),
        ("radius: int", "radius: str", r"Smooth.Problem: .*'radius' has type str, .*py:9\)$"),
        ("Problem(ProblemModel)", "Problem", r"Problem must be a subclass of Prob.*py:9\)$"),
        ("lane:", "radius:", r"radius is both a problem and a schedule parameter \(.*py:14\)$"),
        (
            'ments", 1)',
            'ments", 3)',
            r"'lane' takes 1 or 2; its default is 3 \(in template.py:14\)$",
        ),
        (
            'ments", 1)',
            'ments", 1, needs={2: {"lanes": 1}})',
            r"mentions 'lanes', which it cannot; it may mention radius, dtype, arch \(in .*:14\)$",
        ),
        (
            'ments", 1)',
            'ments", 1, only={"dtype": "f16"})',
            r"'lane' mentions dtype='f16', which dtype never is \(in template.py:14\)$",
        ),
        (
            'ments", 1)',
            'ments", 1, needs={2: {"radius": (51, 60)}})',
            r"'lane' mentions radius=51, which radius never is \(in template.py:14\)$",
        ),
        ('ments", 1)', 'ments", 1, only={"radius": ()})', r"mentions radius=\(\), which radius n"),
        (
            'ments", 1)',
            'ments", 1, only={"dtype": "f32"}, neutral=5)',
            r"neutral value of parameter 'lane' is none of its values: it takes 1 or 2; got 5 \(in",
        ),
        (
            'ments", 1)',
            'ments", only={"dtype": "f32"})',
            r"'lane' has `only`, and needs a default or a neutral value \(in template.py:14\)$",
        ),
        (
            'ments", 1)',
            'ments", 1, needs={1: {"dtype": "f64"}})',
            r"by default parameter 'lane' cannot be 1 where dtype=f32; .*dtype='f64' \(in .*:14\)$",
        ),
        (
            'side", 1',
            'side", 1, needs={1: {"dtype": "f64"}}',
            r"by default parameter 'radius' cannot be 1 where dtype=f32; .* \(in template.py:10\)$",
        ),
        (
            HERE,
            f"    def tolerances(p, inputs, expected):\n        pass\n\n{HERE}",
            r"knows no method 'tolerances', .* Did you mean 'tolerance'\? .* \(in .*:16\)$",
        ),
    ],
)
def test_parameters_are_checked_when_a_template_is_loaded(
    make: Make, old: str, new: str, problem: str
) -> None:
    with pytest.raises(TemplateError, match=problem):
        make(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('ments", 1)', 'ments", 1, only={"radius": 2.0, "dtype": ("f32", "f64")})'),
        ('ments", 1)', 'ments", 1, needs={1: {"arch": "cpu"}})'),
        ('ments", 1)', 'ments", 1, only={"dtype": "f64"}, needs={1: {"radius": 2}})'),
        ('side", 1, ge', 'side", ge'),
    ],
)
def test_rules_that_may_hold_and_defaults_that_may_be_are_loaded(
    make: Make, old: str, new: str
) -> None:
    make(old, new)


def test_a_refusal_of_a_value_that_nobody_gave_says_so(make: Make) -> None:
    refused = 'default_schedule(self, p, arch, sizes):\n        return {"lane": p.radius % 3 + 1}'
    template = make(
        HERE,
        f"    def {refused}\n\n    def check(self, p, s, arch):\n"
        "        from tikgen import Invalid\n\n        if s.lane == 2:\n"
        f"            raise Invalid('lane', 'is too wide')\n\n{HERE}",
    )
    own = "no value was given, and this one is the template's own"
    with pytest.raises(ParameterError, match=f"'lane' is too wide; {own}"):
        tikgen.render(template)
    with pytest.raises(ParameterError, match=r"'lane' is too wide\.$"):
        tikgen.render(template, lane=2)
    tikgen.render(template, lane=1)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            'role="out"',
            'role="output"',
            r"Template 'smooth': arguments\(\) declares y: role takes .* \(in template.py:17\)",
        ),
        (
            'return (Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out"))',
            'return "x", "y"',
            r"arguments\(\) returned \('x', 'y'\); it must return a tuple of Array and Scalar",
        ),
        (
            'return (Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out"))',
            'return Array("x", p.dtype, ("n",))',
            r"arguments\(\) returned Array\(name='x'.*it must return a tuple of Array and Scalar",
        ),
        ("p.dtype", "p.dtypes", r"arguments\(\) fails: AttributeError: .* \(in template.py:17\)"),
        (
            'role="out"))',
            'role="out"), Array("w", p.dtype, ("n",)))',
            r"text takes x, y, but arguments\(\) declares x, y, w: it lacks w",
        ),
        (
            'return (Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out"))',
            'return Array("y", p.dtype, ("n",), role="out"), Array("x", p.dtype, ("n",))',
            r"takes x, y, but arguments\(\) declares y, x: their order differs \(smooth/kern.*:4\)",
        ),
        (
            'Array("x"',
            'Array("z"',
            r"declares z, y: it lacks z and x is not declared \(smooth/kernel.py.j2:4\)",
        ),
        (
            'role="out"',
            "",
            r"declares no array that is written; one needs role='out' or",
        ),
        (
            'role="out"))',
            'role="out"), Array("w", p.dtype, ("n",), role="work"))',
            r"arguments\(\) declares w with role='work'; scratch arrays are declared by workspace",
        ),
        ('Array("y"', 'Array("x"', r"arguments\(\) declares two arguments named 'x'; .*py:16\)"),
        ('Array("y"', 'Array("ti"', "declares an argument 'ti', which is Taichi in the text; take"),
        *((HERE, method, problem) for method, problem in METHODS),
    ],
)
def test_what_methods_return_is_checked_when_a_kernel_is_built(
    make: Make, old: str, new: str, problem: str
) -> None:
    template = make(old, new)
    with pytest.raises(TemplateError, match=problem):
        tikgen.build(template)


def test_an_array_of_a_workspace_has_its_role_by_default(make: Make) -> None:
    method = 'workspace(self, p, s):\n        return (Array("w", p.dtype, ("n",)),)'
    source = tikgen.render(make(HERE, f"    def {method}\n\n{HERE}"))
    assert [array.role for array in source.variant.workspace] == ["work"]


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, r"tolerance\(\) returned None; it must return a dict"),
        ({"z": 0}, r"tolerance\(\) names 'z', which is no output of the template\. It has y"),
        ({"y": -1e-6}, r"gives y -1e-06; it takes a number that is not negative, or one for each"),
        ({"y": [0, -2]}, r"gives y -2\.0"),
        ({"y": float("nan")}, "gives y nan"),
        ({"y": [0] * 3}, r"gives y the shape \(3,\), not \(2,\)"),
        ({"y": "a"}, r"tolerance\(\) fails: ValueError"),
    ],
)
def test_a_tolerance_is_checked(make: Make, found: Any, problem: str) -> None:
    template = make("", "")
    with pytest.raises(TemplateError, match=problem):
        allowed_errors(template, found, {"y": np.ones(2)})


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("{'n': (0, 1)}", r"sizes\(\) must give n sizes of 1 and more, .*; gives \[0, 1\] .*py:16"),
        ("{'n': ()}", r"sizes of 1 and more, since no array may be empty; gives \[\]"),
        ("{'m': (1,)}", r"sizes\(\) names 'm', which is no size of the template\. It has n"),
        ("{'n': 3}", r"sizes\(\) fails: TypeError"),
    ],
)
def test_sizes_are_checked(make: Make, found: str, problem: str) -> None:
    template = make(HERE, f"    def sizes(self, p):\n        return {found}\n\n{HERE}")
    with pytest.raises(TemplateError, match=problem):
        template.middle_sizes(template.Problem())


def test_a_cost_is_checked(make: Make) -> None:
    template = make(HERE, f"    def flops(self, p, sizes):\n        pass\n\n{HERE}")
    with pytest.raises(TemplateError, match=r"flops\(\) returned None; it must return a number \("):
        template.cost(template.Problem(), {"n": 2})


def test_why_an_arch_is_not_supported_is_text(make: Make) -> None:
    template = make(HERE, f"    def unsupported(self, p, arch):\n        return True\n\n{HERE}")
    with pytest.raises(TemplateError, match=r"unsupported\(\) returned True; it must return a rea"):
        reason_against(template, template.Problem(), "cpu")


def test_data_of_a_template_is_real(make: Make) -> None:
    x, given = Array("x", DType.f32, ("n",)), np.ones(2, np.complex64)
    with pytest.raises(
        TemplateError, match=r"inputs\(\) gives x values of complex64; it takes f32"
    ):
        as_numbers(make("", ""), "inputs()", x, given)


def test_a_tolerance_may_leave_out_outputs_and_be_undefined_where_they_are(make: Make) -> None:
    template, lost = make("", ""), np.full(2, np.nan)
    given = {"y": [1, np.nan], "z": np.nan}
    allowed = allowed_errors(template, given, {"x": lost, "y": np.ones(2), "z": lost})
    assert (allowed["x"] == 0).all()
    assert np.isnan(allowed["y"]).tolist() == [False, True]
    assert np.isnan(allowed["z"]).all()
