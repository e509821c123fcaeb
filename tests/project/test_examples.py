"""Every script in examples/ runs, and its own checks hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from programs import Ran, run_programs

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
# What takes long and shows nothing more: sizes and numbers of examples.
SMALLER = {
    "aot_python": ("max_examples=5", "max_examples=1"),
    "sweep_stencil": ("shape=[32, 64]", "shape=[8, 16]"),
}


def test_there_are_examples() -> None:
    assert {"quickstart.py", "heat_fields.py"} <= {path.name for path in EXAMPLES}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Run the scripts."""
    programs = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES}
    for name, (size, smaller) in SMALLER.items():
        assert size in programs[name]
        programs[name] = programs[name].replace(size, smaller)
    return run_programs(programs, tmp_path_factory.mktemp("examples"), {})


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, ran: dict[str, Ran]) -> None:
    assert "error" in ran[script.stem].output  # Each tells how far from the truth it is.
