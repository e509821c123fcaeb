"""Every script in examples/ runs, and its own checks hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import Programs

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
# Most of their time goes into machine code. The command does what sweep_stencil does, with fewer
# kernels (test_sweep_cli.py); a page exports bundles as aot_python does (test_docs.py). The others
# are programs on grids, as heat_grid and shallow_water are; what is theirs alone is tested where it
# belongs: step lengths on the device, staggered grids, sponges, vectors.
LONG = (
    "aot_python",
    "conjugate_gradient",
    "lattice_boltzmann",
    "maxwell",
    "sweep_stencil",
    "wave",
)
# What takes long and shows nothing more: sizes and numbers of examples.
SMALLER = {
    "aot_python": ("max_examples=5", "max_examples=1"),
    "conjugate_gradient": ("(31, 63)", "(15, 31)"),
    "implicit_heat": ("max_examples=10", "max_examples=1"),
    "multigrid": ("(127, 255, 511)", "(31, 63)"),
    "sweep_stencil": ("shape=[32, 64]", "shape=[8, 16]"),
}


def test_there_are_examples() -> None:
    assert {"quickstart.py", "heat_fields.py"} <= {path.name for path in EXAMPLES}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Run the scripts that tests ask for."""
    scripts = {path.stem: quick(path) for path in EXAMPLES}
    with Programs(scripts, tmp_path_factory.mktemp("examples")) as programs:
        yield programs


def quick(script: Path) -> str:
    """Return the text of a script, with smaller sizes; it runs in another folder than its own."""
    text = script.read_text(encoding="utf-8").replace("__file__", repr(str(script)))
    size, smaller = SMALLER.get(script.stem, ("", ""))
    assert size in text
    return text.replace(size, smaller) if size else text


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=pytest.mark.slow) if path.stem in LONG else path.stem
        for path in EXAMPLES
    ],
)
def test_an_example_runs(name: str, ran: Programs) -> None:
    assert "error" in ran[name].output  # Each tells how far from the truth it is.
