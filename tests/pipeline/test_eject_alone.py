"""Ejected files compute what their templates do, whatever these ask of p and are called."""

from __future__ import annotations

from pathlib import Path

import pytest

import tikgen
from ejected_files import run_alone
from tikgen.errors import TemplateError

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: {{ arguments[0].annotation }}, y: {{ arguments[1].annotation }}):
    for i in range(x.shape[0]):
        y[i] = x[i] + 1
"""
CODE = '''\
import numpy as np
from tikgen import Array, DType, ProblemModel, Template, parameter

ONE = 1


class Adder(Template):
    """Adds one."""

    class Problem(ProblemModel):
        dtype: DType = parameter("element type", DType.f32)
        pair: tuple[DType, ...] = parameter("some types", (DType.f32, DType.f64))

        @property
        def one(self):
            return 1

    def arguments(self, p):
        return Array("x", p.dtype, ("n",)), Array("y", p.dtype, ("n",), role="out")

    @staticmethod
    def reference(p, x, y):
        return WHAT

    @staticmethod
    def tolerance(p, inputs, expected):
        return {}  # What is left out is exact.
'''
PLAIN = "x + 1"


def adder(folder: Path, what: str = PLAIN, name: str = "adder", more: str = "") -> str:
    """Return the ejected file of a template whose reference returns ``what``."""
    folder = folder / name
    folder.mkdir(exist_ok=True)
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE.replace("WHAT", what) + more)
    return tikgen.build(tikgen.load_template(folder), arch="cpu").eject("cpu")


def run(folder: Path, texts: dict[str, str]) -> None:
    """Run ejected files in one process, without tikgen."""
    for name, text in texts.items():
        (folder / f"ejected_{name}.py").write_text(text)
    printed = run_alone(folder, [f"ejected_{name}.py" for name in texts])
    assert printed.count("of what is allowed") == len(texts)


@pytest.mark.once
def test_p_answers_as_in_the_template(ti_arch: str, tmp_path: Path) -> None:
    references = {
        "equal": "x + (1 if p.dtype == 'f32' else 9)",
        "contained": "x + (1 if p.dtype in ('f32', 'f64') else 9)",
        "text": "x + (1 if str(p.dtype) == f'{p.dtype}' == 'f32' else 9)",
        "named": "x + (1 if p.dtype.name == p.dtype.value == 'f32' else 9)",
        "keyed": "x + {'f32': 1, 'f64': 9}[p.dtype]",
        "tuple": "x + (1 if p.pair[1].bits == 64 and 'f64' in p.pair else 9)",
        "working": "x + (1 if p.dtype.working == 'f32' else 9)",
        "property": "x + p.one",
        "dict": "{'y': x + ONE}",
        "single": "(x + 1,)",
    }
    run(tmp_path, {n: adder(tmp_path, what, f"by_{n}") for n, what in references.items()})


@pytest.mark.once
def test_the_name_of_a_template_may_be_any(ti_arch: str, tmp_path: Path) -> None:
    names = ["dict", "zip", "np", "float", "p", "inputs", "reference", "errors", "worst", "range"]
    names += ["self_check", "ElementType"]
    run(tmp_path, {name: adder(tmp_path, name=name) for name in names})


@pytest.mark.once
def test_a_function_of_the_template_may_have_a_name_of_tikgen(ti_arch: str, tmp_path: Path) -> None:
    more = "\n\ndef errors(a):\n    return a + 1\n\n\nfractions = errors\n"
    what = "errors(x) if x is None else fractions(x)"
    run(tmp_path, {"errors": adder(tmp_path, what, more=more)})


REFUSED = {
    "hidden": ("x + (1 if hasattr(p, 'model_dump') else 9)", r"file gives y \[9.*gives \[1"),
    "failing": ("x + len(p.model_dump()) - 1", "reference.. of the file fails: AttributeError"),
    "taken": ("self_check(x)", "'self_check' is a name of template.py, and of tikgen's own part"),
    "shadow": ("zip(x)", "'zip' is a name of template.py, and of Python; tikgen's own part uses"),
    "tikgens": (
        "x + 0 * len(tikgen.__version__)",
        "reference uses the module tikgen; the file must",
    ),
    "own": ("x + numbers_module()", "numbers_module uses the module tikgen.dtypes; the file must"),
    "file": ("x + beside.ONE", "reference uses the file beside.py as a module; import what"),
    "twins": ("second(first(x))", "two functions are called second"),
}
FUNCTIONS = """

import tikgen

def self_check(a):
    return a + 1


def numbers_module():
    from tikgen.dtypes import DType

    return 1 if DType else 2


def second(a):
    return a


zip = first = second


def second(a):
    return a + 1
"""


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_differ_in_the_file_is_refused(name: str, tmp_path: Path) -> None:
    what, problem = REFUSED[name]
    more = FUNCTIONS
    if name == "file":
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text("ONE = 1\n")
        more += "\n\nfrom . import beside\n"
    with pytest.raises(TemplateError, match=f"cannot be ejected: .*{problem}"):
        adder(tmp_path, what, name, more)
