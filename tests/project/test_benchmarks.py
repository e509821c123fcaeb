"""The benchmarks are not run here, but they must be able to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
# The others import peers, which are not installed for the tests.
SCRIPTS = (
    "aot",
    "aot_native",
    "core",
    "live",
    "machine",
    "page",
    "parts",
    "portfolio",
    "programs",
    "report",
    "ring",
    "tables",
    "timing",
    "tuning_truth",
    "tutorial",
    "variants",
)


def test_scripts_can_be_imported() -> None:
    program = "\n".join(f"import {name}" for name in SCRIPTS)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
