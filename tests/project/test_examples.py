"""Every script in examples/ runs, and its own checks hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs import Ran, run_programs

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
# The command does the same in test_sweep_cli.py with fewer kernels, and a page of the documentation
# exports bundles too.
LONG = ("sweep_stencil", "aot_python")
# What takes long and shows nothing more: sizes and numbers of examples.
SMALLER = {
    "aot_python": ("max_examples=5", "max_examples=1"),
    "conjugate_gradient": ("(31, 63)", "(15, 31)"),
    "sweep_stencil": ("shape=[32, 64]", "shape=[8, 16]"),
}


def test_there_are_examples() -> None:
    assert {"quickstart.py", "heat_fields.py"} <= {path.name for path in EXAMPLES}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Run the scripts that do not take long."""
    programs = {path.stem: quick(path) for path in EXAMPLES if path.stem not in LONG}
    return run_programs(programs, tmp_path_factory.mktemp("examples"), {})


def quick(script: Path) -> str:
    """Return the text of a script, with smaller sizes."""
    text = script.read_text(encoding="utf-8")
    size, smaller = SMALLER.get(script.stem, ("", ""))
    assert size in text
    return text.replace(size, smaller) if size else text


@pytest.mark.parametrize(
    "script", [path for path in EXAMPLES if path.stem not in LONG], ids=lambda path: path.stem
)
def test_an_example_runs(script: Path, ran: dict[str, Ran]) -> None:
    assert "error" in ran[script.stem].output  # Each tells how far from the truth it is.


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_example_runs(name: str, tmp_path: Path) -> None:
    (script,) = (path for path in EXAMPLES if path.stem == name)
    assert "error" in run_programs({name: quick(script)}, tmp_path, {})[name].output
