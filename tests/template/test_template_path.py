"""A folder on the template path that cannot be read is told, and stands in nobody's way."""

from __future__ import annotations

import errno
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tikgen
from tikgen.errors import TemplateError
from tikgen.template import catalogue
from tikgen.template.scaffold import scaffold


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(catalogue, "_warned", set())
    yield
    monkeypatch.undo()
    catalogue._follow_variable()


def locked(monkeypatch: pytest.MonkeyPatch, method: str, path: Path) -> None:
    """Let a folder be one that this user may not read, even where the user is root."""
    real = getattr(Path, method)

    def refusing(self: Path) -> object:
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(Path, method, refusing)


def test_a_folder_that_cannot_be_read_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    scaffold("found_behind_it", tmp_path / "open")
    paths = (tmp_path / "closed", tmp_path / "open")
    monkeypatch.setenv(catalogue.ENVIRONMENT_VARIABLE, os.pathsep.join(map(str, paths)))
    locked(monkeypatch, "iterdir", tmp_path / "closed")
    with pytest.warns(UserWarning, match=r"closed cannot be searched .*Permission denied"):
        assert tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu").name
    assert "found_behind_it" in catalogue.list_templates()


def test_a_template_that_cannot_be_read_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaffold("closed_one", tmp_path)
    scaffold("open_one", tmp_path)
    monkeypatch.setenv(catalogue.ENVIRONMENT_VARIABLE, str(tmp_path))
    locked(monkeypatch, "is_file", tmp_path / "closed_one" / "kernel.py.j2")
    with pytest.warns(UserWarning, match="closed_one cannot be searched for a template"):
        names = catalogue.list_templates()
    assert "open_one" in names
    assert "closed_one" not in names


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody_of_this_name/x", "/nowhere"])
def test_a_path_that_cannot_be_is_a_warning(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(catalogue.ENVIRONMENT_VARIABLE, name)
    with pytest.warns(UserWarning, match="which is no folder|cannot be searched"):
        assert tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu").name


def test_the_folder_that_was_added_last_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        scaffold("twice_there", folder)
    monkeypatch.setattr(catalogue, "_paths", [])
    for folder in (one, other, one):
        tikgen.add_template_path(folder)
        assert catalogue.find_template("twice_there").folder.parent == folder
    assert catalogue._paths == [one, other]


def test_a_package_that_is_gone_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = importlib.metadata.EntryPoint(
        "gone", "no_such_package.templates", catalogue.ENTRY_POINTS
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [gone])
    with pytest.warns(UserWarning, match="the templates of 'no_such_package.templates' cannot be"):
        assert "map" in catalogue.list_templates()


def test_a_template_that_cannot_be_used_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scaffold("said_twice", tmp_path)
    code = folder / "template.py"
    code.write_text(code.read_text().replace("unroll", "power"))
    with pytest.raises(TemplateError, match="power is both a problem and a schedule parameter"):
        catalogue.load_template(folder)
    locked(monkeypatch, "is_dir", folder / "kernel.py.j2")
    with pytest.raises(TemplateError, match=r"said_twice.*cannot be read: Permission denied"):
        catalogue.load_template(folder)
