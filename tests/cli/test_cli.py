"""The command line: what each command prints, as text and as JSON, and its exit codes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tikgen
from cli_process import run_cli
from tikgen.cli import app
from tikgen.errors import ParameterError
from tikgen.store import default_store
from tikgen.template.literals import parse_params


def run(*arguments: str, exit_code: int = 0) -> str:
    """Run a command in this process and return what it printed."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == exit_code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def run_process(*arguments: str, exit_code: int = 0) -> tuple[str, str]:
    """Run a command that starts Taichi in a process of its own; return its two outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "tikgen", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def new(folder: Path, name: str, product: str) -> None:
    """Write a new template that has another text in place of its product."""
    run("new", name, "--path", str(folder))
    text = folder / name / "kernel.py.j2"
    text.write_text(text.read_text().replace("= scale *", f"= {product}"))


def test_version() -> None:
    assert run("--version") == f"tikgen {tikgen.__version__}\n"


def test_help_names_every_command_and_the_exit_codes() -> None:
    text = run("--help")
    commands = (
        "list describe render build verify eject tune tuned sweep demo doctor cache new "
        "watch trace ir why export bundle submit"
    )
    for command in commands.split():
        assert f" {command} " in text
    assert "Exit codes" in text


@pytest.mark.parametrize(
    "arguments", [("bla",), ("render",), ("list", "--bla"), ("demo", "--n", "x"), ("cache", "bla")]
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert "Usage:" in run(*arguments, exit_code=2)


def test_list() -> None:
    text = run("list")
    found = json.loads(run("list", "--json"))
    assert [f["name"] for f in found] == list(tikgen.list_templates())
    for template in found:
        assert template["name"] in text
        assert template["summary"] in text


def test_list_shows_a_broken_template_and_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "kernel.py.j2").write_text("")
    monkeypatch.setenv("TIKGEN_TEMPLATE_PATH", str(tmp_path))
    text = run("list")
    assert "template.py is missing" in text
    assert "stencil" in text


def test_describe() -> None:
    text = run("describe", "stencil")
    description = json.loads(run("describe", "stencil", "--json"))
    assert description["name"] == "stencil"
    names = [p["name"] for p in description["parameters"]]
    assert {"dim", "dtype", "unroll"} <= set(names)
    for parameter in description["parameters"]:
        assert parameter["meaning"] in text
        assert parameter["kind"] in ("problem", "schedule")


def test_render_prints_the_source_byte_for_byte(tmp_path: Path) -> None:
    source = tikgen.render("stencil", dim=2, points={(0, 1): 0.5}, unroll=2, arch="cpu")
    arguments = ("render", "stencil", "-p", "dim=2", "-p", "points={(0, 1): 0.5}", "-p", "unroll=2")
    assert run(*arguments) == source.text
    data = json.loads(run(*arguments, "--json"))
    assert data["text"] == source.text
    assert data["digest"] == source.digest
    assert data["params"]["dtype"] == "f32"
    assert len(data["line_map"]) == len(source.text.splitlines())
    output = tmp_path / "kernel.py"
    assert str(output) in run(*arguments, "-o", str(output))
    assert output.read_text() == source.text


@pytest.mark.parametrize("shape", ["20,30", "n0=20, n1=30", "(20,30"])
def test_render_bakes_a_shape_in(shape: str) -> None:
    arguments = ("render", "stencil", "-p", "dim=2", "--shape", shape)
    if shape.startswith("("):
        assert "takes a positive integer for n0; got '(20'" in run(*arguments, exit_code=2)
    else:
        assert run(*arguments) == tikgen.render("stencil", dim=2, arch="cpu", shape=(20, 30)).text


def test_render_takes_the_default_schedule_of_an_arch() -> None:
    assert run("render", "stencil", "--arch", "vulkan") != run("render", "stencil")


def test_a_file_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    text = run("render", "stencil", "-o", str(tmp_path / "absent" / "kernel.py"), exit_code=2)
    assert "Cannot write" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("render", "map", "--arch", "tpu"),
            "'--arch': 'tpu' is not one of 'cpu', 'cuda', 'vulkan'",
        ),
        (("ir", "map", "foo"), "'kind': 'foo' is not one of 'python', 'ast'"),
        (("demo", "foo"), "'what': 'foo' is not one of 'heat', 'gray-scott'"),
        (("verify", "map", "--max-examples", "0"), "'--max-examples': must be greater than or"),
        (("verify", "map", "--max-examples", "a"), "must be a valid integer; got 'a'"),
    ],
)
def test_a_wrong_option_is_told_in_words(arguments: tuple[str, ...], message: str) -> None:
    text = " ".join(run(*arguments, exit_code=2).replace("│", " ").split())
    assert message in text
    assert "Input should" not in text


@pytest.mark.some
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stensil",), "There is no template 'stensil'. Did you mean 'stencil'?"),
        (("./absent",), "'./absent': there is no such folder"),
        (("stencil", "-p", "dimm=2"), "parameter 'dimm' is unknown. Did you mean 'dim'?"),
        (("stencil", "-p", "dim=7"), "parameter 'dim' takes an integer from 1 to 3; got 7"),
        (("stencil", "-p", "dim"), "parameter 'dim' has no value"),
        (("stencil", "-p", "dim=2", "-p", "dim=3"), "parameter 'dim' is given twice"),
        (("stencil", "-p", "arch=cpu"), "parameter 'arch' is not a parameter of a template"),
        (("stencil", "-p", "dtype=f32; import os"), "parameter 'dtype'"),
    ],
)
@pytest.mark.parametrize("command", ["render", "build", "eject", "verify"])
def test_bad_input_is_one_clean_message(
    command: str, arguments: tuple[str, ...], message: str
) -> None:
    # Otherwise it looks for the archs that work here, which takes long.
    more = ("--arch", "cpu") if command == "verify" else ()
    text = " ".join(run(command, *arguments, *more, exit_code=2).split())
    assert text.startswith("error: ")
    assert message in text


def test_parameters_are_literals_or_text() -> None:
    given = [
        "dim=3",
        "spacing=(0.5, 1)",
        "dtype=f32",
        "expr=a*x == y",
        "update=True",
        "p={(0,): 1}",
    ]
    assert parse_params("t", given) == {
        "dim": 3,
        "spacing": (0.5, 1),
        "dtype": "f32",
        "expr": "a*x == y",
        "update": True,
        "p": {(0,): 1},
    }
    assert parse_params("t", None) == {}
    with pytest.raises(ParameterError, match="has no value"):
        parse_params("t", ["dim"])


def test_eject_writes_a_file_that_is_python(tmp_path: Path) -> None:
    output = tmp_path / "mine.py"
    run("eject", "stencil", "-p", "dim=1", "-o", str(output))
    text = output.read_text()
    ast.parse(text)
    assert "tikgen." not in text
    assert run("eject", "stencil", "-p", "dim=1") == text


def test_cache_show_and_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "store"))
    assert "The store is empty." in run("cache", "show")
    default_store().write("evidence", "ab", {"n": 1})
    default_store().write("sources", "cd", {"n": 2})
    text = run("cache", "show")
    assert str(tmp_path / "store") in text
    assert "evidence" in text
    data = json.loads(run("cache", "show", "--json"))
    assert data["folder"] == str(tmp_path / "store")
    assert data["kinds"]["sources"]["entries"] == 1
    assert run("cache", "clear", "--kind", "evidence") == "removed 1 entries\n"
    assert default_store().keys("sources") == ("cd",)
    assert run("cache", "clear") == "removed 1 entries\n"
    assert default_store().keys("sources") == ()
    default_store().write("evidence", "ab", {"n": 1})
    text = run("cache", "clear", "--kind", "evidenc", exit_code=2)
    assert "'evidenc' is no kind of entries. Did you mean 'evidence'? Kinds are code, " in text
    assert run("cache", "clear", "--kind", "tuning") == "removed 0 entries\n"
    assert "is no kind of entries" in run("cache", "clear", "--kind", "../..", exit_code=2)


@pytest.mark.once
def test_build_reports_each_stage_also_as_json(ti_arch: str, tmp_path: Path) -> None:
    words = ("build", "stencil", "-p", "dim=1", "--arch", ti_arch)
    shown, as_json = run_cli(words, (*words, "--json"), results=tmp_path)
    assert (shown.code, as_json.code) == (0, 0), shown.errors + as_json.errors
    stages = [line.split()[0] for line in shown.output.splitlines()]
    assert stages[:5] == ["resolve", "render", "load", "compile", "launch"]
    assert f"works on {ti_arch}" in shown.output
    assert "\x1b" not in shown.output + shown.errors
    assert shown.errors == ""
    data: dict[str, Any] = json.loads(as_json.output)
    assert data["ok"] is True
    assert data["arch"] == ti_arch
    assert data["params"]["dim"] == 1
    assert [s["name"] for s in data["stages"]] == ["resolve", "render", "load", "compile", "launch"]
    assert all(s["seconds"] > 0 for s in data["stages"])


@pytest.mark.once
def test_a_kernel_that_fails_exits_with_1(tmp_path: Path, ti_arch: str) -> None:
    new(tmp_path, "wrong", "scale +")
    new(tmp_path, "refused", "(lambda v: v)(scale) *")
    (tmp_path / "results").mkdir()
    wrong, refused = run_cli(
        ("build", "./wrong", "--arch", ti_arch),
        ("build", "./refused"),
        results=tmp_path / "results",
        folders=(tmp_path, tmp_path),
    )
    assert (wrong.code, refused.code) == (1, 1)
    assert "disagrees with its reference" in wrong.output
    errors = refused.errors
    assert errors.startswith("error: Template 'refused': Taichi cannot compile the kernel")
    assert "refused/kernel.py.j2:" in errors
    assert "Traceback" not in wrong.errors + errors


@pytest.mark.once
def test_a_failed_verification_is_reported_once_and_exits_with_1(
    tmp_path: Path, ti_arch: str, one_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    new(tmp_path, "falsified", "scale +")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKGEN_TEMPLATE_PATH", "")  # The command adds to it.
    arguments = ("verify", "./falsified", "--arch", ti_arch, "--max-examples", "3", "--seed", "1")
    told = run(*arguments, exit_code=1)
    assert told.count("mismatch: ") == 1
    assert told.count("reproduce it with") == 1
    assert json.loads(run(*arguments, "--json", exit_code=1))["ok"] is False


def test_verify_passes_with_0(ti_arch: str, one_process: None) -> None:
    arguments = ("verify", "stencil", "-p", "dim=1", "-p", "dtype=f32", "--arch", ti_arch)
    report = json.loads(run(*arguments, "--max-examples", "2", "--seed", "7", "--json"))
    assert report["ok"] is True
    assert report["seed"] == 7
    assert run(*arguments, "--max-examples", "1").startswith("stencil: ok")


def test_an_arch_that_does_not_work_is_one_clean_message(tmp_path: Path) -> None:
    missing = {"VK_ICD_FILENAMES": "", "CUDA_VISIBLE_DEVICES": "", "TI_ENABLE_CUDA": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "tikgen", "build", "stencil", "-p", "dim=1", "--arch", "cuda"],
        capture_output=True,
        text=True,
        env=os.environ | missing,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "error: stencil is not supported on cuda: Taichi cannot start there" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_terminal_gets_colours() -> None:
    import pty

    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "tikgen", "list"],
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"},
        timeout=300,
        check=True,
    )
    os.close(slave)
    assert b"\x1b[" in os.read(master, 100_000)
    os.close(master)


def test_a_warning_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path / "file"))
    _, errors = run_process("build", "scan")
    assert errors.startswith("warning: Store ")
    assert len(errors.splitlines()) == 1
