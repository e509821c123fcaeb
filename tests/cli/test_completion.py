"""Completion: in an editor, which reads files, and in a shell, which asks the command line."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tikgen
from cli_process import run_cli

jedi = pytest.importorskip("jedi")


@pytest.mark.parametrize("package", ["tikgen", "tikgen.aot", "tikgen.live", "tikgen.ring"])
def test_an_editor_finds_every_public_name(package: str) -> None:
    found = jedi.Script(f"import {package}\n{package}.").complete()
    assert set(importlib.import_module(package).__all__) <= {name.name for name in found}


def test_an_editor_knows_what_a_name_is() -> None:
    assert "build" in {name.name for name in jedi.Script("import tikgen\ntikgen.b").complete()}
    (signature,) = jedi.Script("import tikgen\ntikgen.build(").get_signatures()
    assert signature.params[0].name == "name"


STENCIL = ("tikgen", "build", "stencil", "-p")
# What is typed, and what is offered for the last word, among other things.
TYPED = [
    (("tikgen", "bu"), {"build", "bundle"}),
    (("tikgen", "build", ""), set(tikgen.list_templates())),
    (("tikgen", "verify", "st"), {"stencil"}),
    (("tikgen", "tuned", "show", "g"), {"gemm"}),
    ((*STENCIL, "d"), {"dim=", "dtype="}),
    ((*STENCIL, "dim="), {"dim=1", "dim=2", "dim=3"}),
    ((*STENCIL, "dim=2", "-p", "bou"), {"boundary=interior", "boundary=periodic"}),
    ((*STENCIL, "boundary=p"), {"boundary=periodic"}),
    (("tikgen", "render", "--arch", "cpu", "stencil", "-p", "upd"), {"update=True"}),
    (("tikgen", "sweep", "map", "-p", "dt"), {"dtype=f32", "dtype=f64"}),
    (("tikgen", "describe", "stencil", "--param", "or"), {"order=2", "order=8"}),
    (("tikgen", "export", "stencil", "dim=2", "sc"), {"scan"}),
    (("tikgen", "export", "stencil", "unr"), {"unroll=4"}),
    (("tikgen", "build", "map", "-p", "exp"), {"expr="}),
    (("tikgen", "build", "scan", "--arch", "c"), {"cpu", "cuda"}),
]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Give an environment in which a shell finds the command."""
    command = Path(sys.executable).parent / "tikgen"
    if not command.exists():
        pytest.skip("tikgen is not installed as a command")
    return os.environ | {"PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])}


def tikgen_with(environment: dict[str, str], **more: str) -> str:
    done = subprocess.run(
        ["tikgen"], env=environment | more, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr == ""
    return done.stdout


# Each takes a process.
@pytest.mark.parametrize("some", [TYPED[5:6], pytest.param(TYPED, marks=pytest.mark.slow)], ids=len)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_templates_parameters_and_values(
    some: list[tuple[tuple[str, ...], set[str]]], environment: dict[str, str]
) -> None:
    lines = [tikgen_with(environment, _TIKGEN_COMPLETE="source_bash")]
    for words, _ in some:
        # As bash parts them.
        parts = [part for word in words for part in word.replace("=", "\n=\n").split("\n")]
        if words[-1].endswith("="):
            parts.pop()
        given = " ".join(f"'{part}'" for part in parts)
        lines.append(f"COMP_WORDS=({given}) COMP_CWORD={len(parts) - 1}; _tikgen_completion tikgen")
        lines.append('printf "%s " "${COMPREPLY[@]}"; echo')
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == ""
    for (words, wanted), offered in zip(some, done.stdout.splitlines(), strict=True):
        before = words[-1].partition("=")[0] + "=" if "=" in words[-1] else ""
        assert {word.removeprefix(before) for word in wanted} <= set(offered.split()), words


def test_zsh_offers_them_too_and_runs_no_folder_that_is_typed(tmp_path: Path) -> None:
    (results := tmp_path / "results").mkdir()
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "kernel.py.j2").write_text("")
    (tmp_path / "evil" / "template.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    lines = [*(" ".join(words) for words, _ in TYPED), f"tikgen build {tmp_path}/evil -p d"]
    variables = [
        {"_TYPER_COMPLETE_ARGS": line, "_TIKGEN_COMPLETE": "complete_zsh"} for line in lines
    ]
    found = run_cli(*[()] * len(lines), results=results, variables=variables)
    assert not any(done.errors for done in found)
    for (words, wanted), done in zip(TYPED, found, strict=False):
        assert all(f'"{word}"' in done.output for word in wanted), (words, done.output)
    assert not (tmp_path / "ran").exists()
