"""Completion: in an editor, which reads files, and in a shell, which asks the command line."""

from __future__ import annotations

import importlib

import pytest

jedi = pytest.importorskip("jedi")


@pytest.mark.parametrize("package", ["tikgen", "tikgen.aot", "tikgen.live", "tikgen.ring"])
def test_an_editor_finds_every_public_name(package: str) -> None:
    found = jedi.Script(f"import {package}\n{package}.").complete()
    assert set(importlib.import_module(package).__all__) <= {name.name for name in found}


def test_an_editor_knows_what_a_name_is() -> None:
    assert "build" in {name.name for name in jedi.Script("import tikgen\ntikgen.b").complete()}
    (signature,) = jedi.Script("import tikgen\ntikgen.build(").get_signatures()
    assert signature.params[0].name == "name"
