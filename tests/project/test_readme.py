"""The README's numbers and lists are those of the tables, the code and the command line."""

from __future__ import annotations

import re
import shlex
import statistics
from pathlib import Path

import pytest
import typer

import tikgen
from conftest import built_in_templates
from tikgen.cli import app
from tikgen.template.catalogue import find_template
from tikgen.template.parameters import listed_values

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = " ".join(README.split())
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ tikgen (.*?)(?: +#.*)?$", README, re.MULTILINE)
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def test_the_speeds_are_those_of_the_table() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    section = page.partition("<!-- cpu: begin -->")[2].partition("<!-- cpu: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    head = next(row for row in rows if row[0] == "work" and "hand-written Taichi" in row)
    works = rows[rows.index(head) + 2 :]

    def ratios(peer: str) -> list[float]:
        cells = [row[head.index(peer)] for row in works]
        return [float(match[1]) for cell in cells if (match := re.match(r"([\d.]+)x", cell))]

    claimed = re.search(
        r"on a CPU of (\d+) cores, the better of default and tuned schedule is ([\d.]+) to "
        r"([\d.]+) times as fast as what one writes by hand in Taichi \(median ([\d.]+)\) and "
        r"([\d.]+) to ([\d.]+) times as fast as C",
        TEXT,
    )
    assert claimed is not None
    cores, least, most, median, least_c, most_c = claimed.groups()
    by_hand, c = ratios("hand-written Taichi"), ratios("C, OpenMP")
    assert f", {cores} cores," in section
    assert (f"{min(by_hand):.1f}", f"{max(by_hand):.0f}") == (least, most)
    assert f"{statistics.median(by_hand):.0f}" == median
    assert (f"{min(c):.2f}", f"{max(c):.2f}") == (least_c, most_c)


def test_the_templates_are_what_the_table_says() -> None:
    for name in built_in_templates():
        fields = find_template(name).Problem.model_fields
        assert "dtype" in fields, "all of them take a dtype"
        assert ("storage" in fields) is (name == "stencil"), "fields are for stencil"
    order = listed_values(find_template("stencil").Problem, "order")
    assert f"Laplacians of order {min(order)} to {max(order)}" in TEXT
    assert "any permutation of up to four axes" in TEXT
    with pytest.raises(tikgen.errors.ParameterError, match="perm"):
        tikgen.render("transpose", perm=(0, 1, 2, 3, 4))
    assert tikgen.render("transpose", perm=(3, 2, 1, 0)).text


def test_versions_and_extras_are_those_of_the_project() -> None:
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', PYPROJECT).groups()  # type: ignore[union-attr]
    assert f"Python 3.{low} to 3.{int(high) - 1}" in TEXT
    section = PYPROJECT.partition("[project.optional-dependencies]")[2].partition("\n[project")[0]
    extras = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE)) - {"dev", "docs"}
    named = TEXT.partition("All the extras are ")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", named)) == extras


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_and_their_options_exist(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, words = typer.main.get_command(app), shlex.split(command)
    context = found.make_context("tikgen", list(words))
    while hasattr(found, "get_command"):
        name = words.pop(0)
        found = found.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        context = found.make_context(name, list(words), parent=context)


def test_the_commands_of_the_readme_are_all_there_are() -> None:
    listed = {command.split()[0] for command in COMMANDS}
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert listed <= known
    assert known - listed == {"demo", "cache"}  # `make demo`, and what one rarely needs.


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    from tikgen.cli.exit_codes import FAILED, INTERRUPTED, MEANING, MISUSED, OK, UNREAD

    assert f"The exit status is {OK} where all is well, {FAILED} where what was asked for" in TEXT
    assert f"{MISUSED} where it cannot be done as asked" in TEXT
    assert f"{INTERRUPTED} after Ctrl-C, and {UNREAD} where the reader of a pipe stops" in TEXT
    for cause in ("agree with its reference, a proof, a disk", "an unknown template or file"):
        assert cause in TEXT
        assert cause in MEANING


@pytest.mark.parametrize(("page", "folder"), [("docs/actors/index.md", "examples/ring")])
def test_programs_are_counted(page: str, folder: str) -> None:
    count = len(list((ROOT / folder).glob("*.py")))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"{NUMBERS[count - 1].capitalize()} programs are in [`{folder}`]" in text


def test_nothing_speaks_of_another_number_of_templates() -> None:
    count = NUMBERS[len(built_in_templates()) - 1]
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for said in re.findall(r"all (\w+) templates", path.read_text(encoding="utf-8")):
            assert said == count or said not in NUMBERS, path.name
