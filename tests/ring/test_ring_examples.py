"""Every script in examples/ring runs on the arch of this process, and its checks hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "ring").glob("*.py"))
ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")


def ran(script: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Messages of asyncio about tasks that were never awaited, or lost errors.
    assert "never retrieved" not in done.stderr
    assert "was never awaited" not in done.stderr
    return done.stdout


def test_the_examples_of_pydotcompute_exist() -> None:
    names = {path.stem for path in EXAMPLES}
    assert {"quickstart", "vector_add", "pagerank_actor", "streaming_pipeline"} <= names
    assert {"lifecycle", "unified_buffer"} <= names  # The examples of its README.


@pytest.mark.once
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, ti_arch: str, tmp_path: Path) -> None:
    takes_arch = "sys.argv" in script.read_text(encoding="utf-8")
    printed = ran(script, tmp_path, *([ARCH] if takes_arch else []))
    assert "error" in printed  # Each prints its error.
    assert all(float(error) < 1e-4 for error in re.findall(r"error (\S+)", printed))
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
