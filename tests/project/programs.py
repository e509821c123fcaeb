"""Runs several programs in one process: Python and Taichi are loaded once for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Each runs in a folder of its own, as ``python page.py`` would there, and prints into a file.
RUN = """
import os, runpy, sys, traceback
path = list(sys.path)
for folder in sys.argv[1:]:
    page = os.path.join(folder, "page.py")
    os.chdir(folder)
    for stream, name in ((1, "output"), (2, "errors")):
        file = os.open(name, os.O_CREAT | os.O_WRONLY)
        os.dup2(file, stream)
        os.close(file)
    sys.path[:] = [folder, *path]
    try:
        sys.argv = [page]
        runpy.run_path(page, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        open("failed", "w").close()
    sys.stdout.flush()
    sys.stderr.flush()
"""


@dataclass(frozen=True)
class Ran:
    """Where a program ran."""

    folder: Path

    @property
    def output(self) -> str:
        """What it printed, if it did not fail."""
        assert not (self.folder / "failed").exists(), (self.folder / "errors").read_text()
        return (self.folder / "output").read_text()


def run_programs(
    programs: Mapping[str, str], folder: Path, environment: Mapping[str, str]
) -> dict[str, Ran]:
    """Run programs one after another, each in a folder of its name."""
    for name, text in programs.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "page.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, *(str(folder / name) for name in programs)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + "".join(
        path.read_text() for path in folder.glob("*/errors")
    )
    return {name: Ran(folder / name) for name in programs}
