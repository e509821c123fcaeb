"""Examples print the same alone and on several processes, and end with the same numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ranks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "grids.md").read_text(encoding="utf-8")
(SHOWN,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = ("conjugate_gradient", "gray_scott", "maxwell", "shallow_water", "wave")
# What tells the time, and a program in words.
UNLIKE = re.compile(r"[\d,.]+ (steps/s|ms each).*|^\[.*|^(exchange|join|swap|update)_?.*", re.M)


def ran(command: list[str]) -> str:
    """Return what a command prints, each process with one thread."""
    environment = os.environ | {"TI_CPU_MAX_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize(
    "command", ["python", pytest.param("mpiexec -n 4 python", marks=pytest.mark.slow)]
)
def test_the_example_prints_what_the_page_shows(command: str) -> None:
    script = "examples/heat_grid.py"
    line = re.escape(f"$ {command} {script}")
    found = re.search(rf"^{line}\n(.*)$", SHOWN, re.MULTILINE)
    assert found is not None
    start = [] if command == "python" else [ranks.mpiexec(), "-n", "4"]
    out = ran([*start, sys.executable, script])
    assert out.count(found[1]) == 1, out


@pytest.mark.slow
def test_conjugate_gradients_join_their_scalar_products(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "conjugate_gradient.py").read_text(encoding="utf-8")
    assert "(31, 63)" in text
    script = tmp_path / "smaller.py"
    script.write_text(text.replace("(31, 63)", "(15, 31)"), encoding="utf-8")
    out = ran([ranks.mpiexec(), "-n", "2", sys.executable, str(script)])
    assert out.count("order of accuracy 2.0") == 1, out  # It checks itself.


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], Any]]:
    """Return what each example prints in one process, and its numbers."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: found_on(1, name, folder / f"{name}.npz") for name in EXAMPLES}


def found_on(count: int, name: str, path: Path) -> tuple[list[str], Any]:
    """Return the lines that an example prints on some processes, and the numbers it ends with."""
    start = [ranks.mpiexec(), "-n", str(count)] if count > 1 else []
    script = str(ROOT / "examples" / f"{name}.py")
    out = ran([*start, sys.executable, str(ranks.HERE / "example.py"), script, str(path)])
    with np.load(path) as numbers:
        return UNLIKE.sub("", out).split("\n"), dict(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_with_the_same_numbers(
    name: str, count: int, alone: dict[str, tuple[list[str], Any]], tmp_path: Path
) -> None:
    lines, numbers = found_on(count, name, tmp_path / "several.npz")
    expected, wanted = alone[name]
    assert [line for line in lines if line] == [line for line in expected if line]
    assert numbers.keys() == wanted.keys()
    if name == "conjugate_gradient":  # Its sums are rounded in another order.
        np.testing.assert_allclose(numbers["x"], wanted["x"], atol=1e-12)
        return
    for key, values in wanted.items():
        np.testing.assert_array_equal(numbers[key], values, err_msg=key)
