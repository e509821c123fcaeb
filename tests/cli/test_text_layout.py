"""The layout of what commands print: it fits the terminal, breaks no word and loses none."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import tikgen
from cli_process import run_cli
from tikgen.cli import app
from tikgen.text_layout import fit, reflow, table

WORDS = st.text("abcXYZ-_.,/`*", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def longest(text: str) -> int:
    return max(map(len, text.split()), default=0)


@given(st.lists(TEXTS, max_size=4).map("\n".join), st.integers(1, 60), st.integers(0, 6))
def test_a_text_is_wrapped_at_words(text: str, width: int, hang: int) -> None:
    shown = fit(text, width, hang)
    assert shown.split() == text.split()
    assert all(len(line) <= max(width, hang + longest(text)) for line in shown.splitlines())
    assert fit(text, None) == text
    assert reflow(text, width).split() == text.split()


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    st.integers(1, 90),
)
def test_a_table_breaks_no_word(cells: list[list[str]], width: int) -> None:
    columns, rows = cells[0], cells[1:]
    head, body = table(columns, rows, width)
    words = sorted(" ".join(head + body).split())
    if head:
        assert words == sorted(" ".join(map(" ".join, cells)).split())
        assert all(len(line) <= width for line in head + body)
    else:
        assert set(words) <= set(" ".join(map(" ".join, cells)).split())
        assert {w for row in rows for cell in row for w in cell.split()} <= set(words)
    every, _ = table(columns, rows, None)
    assert len(every) <= 1


def test_paragraphs_are_filled_anew_and_lists_are_left() -> None:
    text = "one two\nthree four\n\n- five\n- six\n  seven\n\n    code here\n"
    filled = "one two three four\n\n- five\n- six\n  seven\n\n    code here\n"
    assert reflow(text, 40) == filled
    assert reflow(text, None) == text
    assert reflow(text, 9).splitlines()[:3] == ["one two", "three", "four"]


def output_of(*arguments: str, columns: int | None) -> str:
    environment = {"COLUMNS": None if columns is None else str(columns)}
    result = CliRunner(env=environment).invoke(app, arguments)
    assert result.exit_code in (0, 2), result.output
    return result.output


@pytest.mark.some
@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        *(("describe", name) for name in tikgen.list_templates()),
        ("describe", "map", "-p", "expr=z = exp(a*x) + y", "-p", "dtype=f64"),
        ("cache", "show"),
        ("tuned", "show"),
        ("render", "stencil", "-p", "dim=7"),
        ("build", "stensil"),
        ("render", "stencil", "-p", "points={(0, 0, 0, 0): 'x'}"),
    ],
    ids=" ".join,
)
def test_80_columns_hold_the_same_words(command: tuple[str, ...]) -> None:
    wide, narrow = (output_of(*command, columns=columns) for columns in (None, 80))
    paths = [word for word in wide.split() if len(word) > 70]
    assert all(len(line) <= 80 or line.strip() in paths for line in narrow.splitlines()), narrow
    assert sorted(narrow.split()) == sorted(wide.split())


FEW = [
    ("build", "stencil", "-p", "dim=2"),
    ("verify", "scan", "--max-examples", "1", "--arch", "cpu"),
    ("why", "scan"),
    ("build", "scan", "--arch", "cuda"),
]


@pytest.mark.parametrize(
    "commands", [FEW, pytest.param([("doctor",)], marks=pytest.mark.slow)], ids=len
)
def test_80_columns_are_enough(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    narrow = {"COLUMNS": "80", "CUDA_VISIBLE_DEVICES": "", "TI_ENABLE_CUDA": "0"}
    for done in run_cli(*commands, results=tmp_path, environment=narrow):
        assert done.code in (0, 2), done.errors
        lines = (done.output + done.errors).splitlines()
        assert lines
        # A path, or the name of a kernel, may be longer than that; nothing stands beside it then.
        assert not [line for line in lines if len(line) > 80 and len(line.split()) > 2], lines


def test_a_table_that_is_too_wide_becomes_blocks() -> None:
    head, body = table(("name", "value"), [("a" * 30, "b" * 30), ("c", "")], 40)
    assert head == []
    assert body == [f"name   {'a' * 30}", f"value  {'b' * 30}", "", "name   c"]


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_terminal_shows_code_to_the_end_of_each_line() -> None:
    import fcntl
    import pty
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "tikgen", "render", "scan"], stdout=slave, env=environment
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # The other end is closed.
                break
            if not part:
                break
            shown += part
    os.close(master)
    assert process.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    lines = [line.rstrip() for line in plain.splitlines()]
    assert "\n".join(lines).strip() == tikgen.render("scan", arch="cpu").text.strip()


def test_describe_shows_what_build_takes_on_each_arch() -> None:
    found = json.loads(output_of("describe", "stencil", "--json", columns=None))
    for arch in ("cpu", "cuda", "vulkan"):
        taken = tikgen.pipeline.builder.resolve("stencil", arch=arch).schedule
        assert found["schedules"][arch] == {
            name: tikgen.template.parameters.canonical(value) for name, value in taken
        }
    text = output_of("describe", "stencil", columns=None)
    assert "cpu='function', cuda='lanes', vulkan='sweep'" in text


def test_describe_takes_the_problem_and_the_shape() -> None:
    text = output_of("describe", "map", columns=None)
    assert "The schedule follows from the problem: tikgen describe map -p expr=..." in text
    text = output_of("describe", "map", "-p", "expr=z = exp(x)", "-p", "dtype=f64", columns=None)
    assert "On vulkan: not supported, exp of an f64 does not work there" in text
    small = tikgen.describe("map", expr="z = a*x", shape=(64,))
    large = tikgen.describe("map", expr="z = a*x", shape=(2**26,))
    assert small.schedules["cuda"] != large.schedules["cuda"]
    assert "parameter 'expr'" in output_of("describe", "map", "-p", "dim=2", columns=None)


def test_describe_shows_what_was_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    from tikgen.pipeline import builder

    variant = builder.resolve("scan", schedule={"unroll": 16}, arch="cpu")
    monkeypatch.setattr(builder, "choose", lambda *_: (variant, "tuned for n0=1000 on a CPU"))
    described = tikgen.describe("scan")
    assert described.schedules["cpu"]["unroll"] == "16"
    assert described.notes[0] == "On cpu: tuned for n0=1000 on a CPU."
