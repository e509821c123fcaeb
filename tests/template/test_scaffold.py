"""A scaffolded template: verifies at once, and bad names are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tikgen
from tikgen.errors import TemplateError
from tikgen.template.scaffold import scaffold
from tikgen.verification import verify

pytestmark = pytest.mark.once


def test_a_new_template_verifies_at_once(tmp_path: Path, ti_arch: str, one_process: None) -> None:
    folder = scaffold("my_kernel", tmp_path / "templates")
    assert sorted(p.name for p in folder.iterdir()) == ["kernel.py.j2", "template.py"]
    template = tikgen.load_template(folder)
    assert type(template).__name__ == "MyKernel"
    report = verify(template, archs=(ti_arch,), max_examples=4)
    assert report.ok, str(report)


def test_its_text_is_clean(tmp_path: Path) -> None:
    template = tikgen.load_template(scaffold("mine", tmp_path))
    source = tikgen.render(template, power=3, unroll=1)
    assert "y[i] = scale * x[i] * x[i] * x[i]" in source.text
    assert "NAME" not in template.text
    assert "CLASS" not in (tmp_path / "mine" / "template.py").read_text()


@pytest.mark.parametrize("name", ["", "a b", "../up", "a-b", "class", "_x", "1x", "ti", "é"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    told = {
        "class": "'class' is a keyword of Python",
        "ti": "'ti' is what generated code calls Taichi",
    }
    with pytest.raises(
        TemplateError, match=told.get(name, "it takes letters of ASCII, digits and")
    ):
        scaffold(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="'stencil': there is a template of that name"):
        scaffold("stencil", tmp_path)


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    with pytest.raises(TemplateError, match="exists already; nothing was changed"):
        scaffold("mine", tmp_path)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TemplateError, match="cannot write"):
        scaffold("mine_too", tmp_path / "file")


def test_the_documented_template_is_short() -> None:
    page = (Path(__file__).parents[2] / "docs" / "writing-templates.md").read_text(encoding="utf-8")
    files = re.findall(r"^`affine/\S+`\n\n```\w+\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    text, code = (len(file.split("\n")) - file.split("\n").count("") for file in files)
    assert text <= 12
    assert code <= 30
