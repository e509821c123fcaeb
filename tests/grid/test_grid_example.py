"""The example of the page about grids prints the same alone and on several processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ranks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "grids.md").read_text(encoding="utf-8")
(SHOWN,) = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("command", ["python", "mpiexec -n 4 python"])
def test_the_example_prints_what_the_page_shows(command: str) -> None:
    script = "examples/heat_grid.py"
    line = re.escape(f"$ {command} {script}")
    found = re.search(rf"^{line}\n(.*)$", SHOWN, re.MULTILINE)
    assert found is not None
    start = [] if command == "python" else [ranks.mpiexec(), "-n", "4"]
    done = subprocess.run(
        [*start, sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(found[1]) == 1, done.stdout
