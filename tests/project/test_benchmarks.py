"""The benchmarks are not run here, but they must be able to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
# The others import peers, which are not installed for the tests.
SCRIPTS = (
    "aot",
    "core",
    "live",
    "machine",
    "page",
    "parts",
    "report",
    "ring",
    "tables",
    "timing",
    "tuning_truth",
    "tutorial",
    "variants",
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_imported(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
