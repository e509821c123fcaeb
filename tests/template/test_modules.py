"""Python files beside a ``template.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.errors import TemplateError
from tikgen.template import catalogue

TEXT = """
import taichi as ti


@ti.kernel
def {{ name }}(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in x:
        x[i] = x[i] * {{ factor }}
"""
CODE = """
from tikgen import Array, DType, Template

from .numbers import factor, reference, tolerance


class Scale(Template):
    '''Multiplies.'''

    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="inout"),)

    def context(self, p, s):
        return {"factor": factor()}

    reference = staticmethod(reference)
    tolerance = staticmethod(tolerance)
"""
NUMBERS = """
from .constants import FACTOR


def factor():
    return FACTOR


def reference(p, x):
    return x * factor()


def tolerance(p, inputs, expected):
    return {"x": 0.0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "scale"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    (folder / "numbers.py").write_text(NUMBERS)
    (folder / "constants.py").write_text("FACTOR = 2.0\n")
    return folder


def test_a_file_beside_is_imported_and_read_anew(folder: Path) -> None:
    template = tikgen.load_template(folder)
    assert "x[i] * 2.0" in tikgen.render(template).text
    (folder / "constants.py").write_text("FACTOR = 3.0\n")
    again = catalogue.reload_template(folder)
    assert again.fingerprint != template.fingerprint
    assert "x[i] * 3.0" in tikgen.render(again).text
    assert template.reference(None, np.ones(1)) == [2.0], "a known template keeps its files"


def test_an_error_in_a_file_beside_is_located_and_changes_nothing(folder: Path) -> None:
    template = tikgen.load_template(folder)
    (folder / "constants.py").write_text("FACTOR = 3.0\nraise ValueError('lost')\n")
    with pytest.raises(TemplateError, match=r"ValueError: lost \(in constants\.py:2\)"):
        catalogue.reload_template(folder)
    assert template in catalogue.loaded_templates()
    assert sys.modules[type(template).__module__].factor() == 2.0


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    (folder / "numbers.py").unlink()
    with pytest.raises(TemplateError, match=r"No module named numbers\.py \(in template\.py:4\)"):
        tikgen.load_template(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "numbers.py",
            "def factor",
            "def factors",
            "cannot import name 'factor' from numbers.py (",
        ),
        (
            "template.py",
            "from .numbers",
            "from . import no\nfrom .numbers",
            "'no' from template.py",
        ),
        ("template.py", "(Template)", "(Template, Template)", "duplicate base class Template"),
        ("numbers.py", "def factor", "class C: ...\nC + 1\ndef factor", "operand type"),
    ],
)
def test_errors_name_files_and_no_modules(
    folder: Path, file: str, old: str, new: str, told: str
) -> None:
    (folder / file).write_text((folder / file).read_text().replace(old, new, 1))
    with pytest.raises(TemplateError) as caught:
        tikgen.load_template(folder)
    assert told in str(caught.value)
    assert "tikgen_template" not in str(caught.value)


def test_files_whose_names_are_no_identifiers_do_not_belong_to_it(folder: Path) -> None:
    before = tikgen.load_template(folder).fingerprint
    (folder / ".#template.py").write_text("1 / 0\n")
    assert catalogue.reload_template(folder).fingerprint == before


@pytest.mark.once
@pytest.mark.process
def test_ejected_files_hold_the_functions_of_files_beside(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "ejected.py"
    text = tikgen.build(tikgen.load_template(folder), arch="cpu").eject()
    assert "FACTOR = 2.0" in text
    target.write_text(text)
    environment = {**os.environ, "PYTHONPATH": ""}
    subprocess.run([sys.executable, target], check=True, env=environment, timeout=120)
