"""A folder on the template path that cannot be read is told, and stands in nobody's way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tikgen
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


@pytest.mark.parametrize("method", ["iterdir", "is_dir"])
def test_a_folder_that_cannot_be_read_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    (tmp_path / "closed").mkdir()
    scaffold("found_behind_it", tmp_path / "open")
    paths = (tmp_path / "closed", tmp_path / "open")
    monkeypatch.setenv(catalogue.ENVIRONMENT_VARIABLE, os.pathsep.join(map(str, paths)))
    locked(monkeypatch, method, tmp_path / "closed")
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


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody_of_this_name/x"])
def test_a_path_that_cannot_be_is_a_warning(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(catalogue.ENVIRONMENT_VARIABLE, name)
    with pytest.warns(UserWarning):
        assert tikgen.build("map", expr="out = x + 1", dim=1, arch="cpu").name
