"""What a release promises: its version, its public names, how to cite it and report a problem."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml

import tikgen
from tikgen.cli import exit_codes

ROOT = Path(__file__).parents[2]
PUBLIC = (ROOT / "docs" / "public-api.md").read_text(encoding="utf-8")
NAMES = {
    module: set(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(r"(?ms)^### `([\w.]+)`\n\n(.*?)\n\n", PUBLIC)
}


@pytest.mark.parametrize(
    "module", ["tikgen", "tikgen.aot", "tikgen.live", "tikgen.ring", "tikgen.scaling"]
)
def test_the_public_names_are_those_of_all(module: str) -> None:
    assert NAMES[module] == set(importlib.import_module(module).__all__)


def test_the_public_errors_are_those_of_tikgen() -> None:
    found = {
        name
        for name, value in vars(tikgen.errors).items()
        if isinstance(value, type) and issubclass(value, BaseException) and name[0] != "_"
    }
    assert NAMES["tikgen.errors"] == found


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_importable(module: str) -> None:
    for name in NAMES[module]:
        assert getattr(importlib.import_module(module), name) is not None


def test_the_exit_codes_are_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PUBLIC, re.MULTILINE)}
    assert listed == {int(code) for code in re.findall(r"\b\d+\b", exit_codes.MEANING)}


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] == "tikgen"
    assert citation["version"] == tikgen.__version__
    assert citation["authors"]
    assert citation["license"] == "MIT"


def test_the_security_policy_supports_this_version() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    minor = tikgen.__version__.rpartition(".")[0]
    assert f"| {minor}.x | yes |" in policy
    assert "docs/security.md" in policy
