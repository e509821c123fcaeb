"""Names that parameters cannot have, since calls or models have them already."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tikgen
from tikgen import ProblemModel, ScheduleModel, parameter
from tikgen.cli.app import app
from tikgen.errors import ParameterError, TemplateError
from tikgen.template.literals import parse_params
from tikgen.template.parameters import is_reserved
from tikgen.template.reserved import EVERY, OPTIONS, RESERVED

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(y.shape[0]):
        y[i] = 2
"""
CODE = """\
from tikgen import Array, DType, ProblemModel, ScheduleModel, Template, parameter


class Named(Template):
    "Template with one parameter."

    class Problem(ProblemModel):
        pass

    class Schedule(ScheduleModel):
        pass

    def arguments(self, p):
        return (Array("y", DType.f32, ("n",), role="out"),)
"""


@pytest.fixture
def named(tmp_path: Path) -> Callable[..., tikgen.Template]:
    """Return a function that loads a template with a parameter of some name."""

    def made(name: str, model: str = "Problem") -> tikgen.Template:
        folder = tmp_path / "named"
        folder.mkdir(exist_ok=True)
        (folder / "kernel.py.j2").write_text(TEXT)
        head = f"class {model}({model}Model):\n        "
        line = f'{name}: float = parameter("any", 2.0)'
        assert head + "pass" in CODE
        (folder / "template.py").write_text(CODE.replace(head + "pass", head + line))
        return tikgen.load_template(folder)

    return made


def test_the_options_are_those_of_the_functions() -> None:
    found = {}
    for name in tikgen.__all__:
        function = getattr(tikgen, name)
        if not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters
        kinds = [each.kind for each in parameters.values()]
        if next(iter(parameters), "") == "name" and inspect.Parameter.VAR_KEYWORD in kinds:
            own = {n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
            found[name] = own - RESERVED
    assert {name for name, own in found.items() if own} == OPTIONS.keys()
    assert {name: own for name, own in found.items() if own} == {
        name: set(options) for name, options in OPTIONS.items()
    }
    assert {"describe", "render"} < found.keys()


@pytest.mark.parametrize("model", ["Problem", "Schedule"])
@pytest.mark.parametrize("name", ["engine", "fresh", "budget", "arguments", "timeout", "ranks"])
def test_an_option_is_no_name_of_a_parameter(
    named: Callable[..., tikgen.Template], name: str, model: str
) -> None:
    problem = rf"'{name}' is reserved: tikgen\.\w+\(\) takes an option of that name \(in template"
    with pytest.raises(TemplateError, match=problem):
        named(name, model)


@pytest.mark.parametrize("name", ["copy", "dict", "json", "schema", "model_fields", "check"])
def test_an_attribute_of_models_is_refused_without_a_warning(
    named: Callable[..., tikgen.Template], name: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TemplateError, match=f"'{name}' is reserved; every model has an attr"):
            named(name)
        with pytest.raises(ParameterError, match=f"'{name}' has a reserved name; these are arch"):
            tikgen.from_string(TEXT, **{name: 1})


def test_other_names_are_free(named: Callable[..., tikgen.Template]) -> None:
    for name in ("seeds", "report", "model_size", "self", "kernel"):
        assert not is_reserved(name)
        assert tikgen.render(named(name), **{name: 3.0}).variant.params[name] == 3.0

    class Configured(ProblemModel):
        model_config = ProblemModel.model_config
        seed: int = parameter("of a text of its own", 1)

    assert Configured().seed == 1
    assert tikgen.from_string(TEXT.replace("= 2", "= {{ seed }}"), seed=3).params == {"seed": 3}


def test_an_option_is_no_parameter_of_a_command() -> None:
    for name in sorted(EVERY):
        with pytest.raises(ParameterError, match=f"'{name}' is not a parameter of a template"):
            parse_params("stencil", [f"{name}=1"])
    for command in (["tune", "--shape", "9"], ["sweep", "--shape", "9"], ["verify"]):
        name, *options = command
        found = CliRunner().invoke(app, [name, "stencil", *options, "-p", "timeout=3"])
        assert found.exit_code == 2, found.output
    found = CliRunner().invoke(app, ["build", "stencil", "-p", "report=3"])
    assert "'report' is unknown" in found.output


@pytest.mark.parametrize("model", ["Problem", "Schedule"])
@pytest.mark.parametrize("error", ["KeyError", "ValueError"])
def test_the_check_of_a_model_that_fails_is_reported_with_its_line(
    tmp_path: Path, model: str, error: str
) -> None:
    (tmp_path / "kernel.py.j2").write_text(TEXT)
    head, fails = f"({model}Model):", f"        def check(self):\n            raise {error}('a')"
    (tmp_path / "template.py").write_text(CODE.replace(f"{head}\n        pass", f"{head}\n{fails}"))
    template = tikgen.load_template(tmp_path)
    problem = rf"{model}\.check\(\) fails: {error}: '?a'? \(in template.py:\d+\)"
    with pytest.raises(TemplateError, match=rf"^Template '{template.name}': {problem}"):
        tikgen.render(template)


def test_the_check_of_a_model_without_a_template_is_named() -> None:
    class Wrong(ScheduleModel):
        def check(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(TemplateError, match=r"Wrong\.check\(\) fails: ZeroDivisionError"):
        Wrong()
