"""Runs programs in one process, when they are asked for: Python and Taichi are loaded once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import forked
from tikgen.children import safe_path

# Each runs in a folder of its own, as ``python page.py`` would there, and prints into a file.
RUN = """
import os, runpy, sys, traceback
path = list(sys.path)
told = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    folder = line.rstrip("\\n")
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
    print(folder, file=told, flush=True)
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


class Programs:
    """Programs by name, each in a folder of its name; one runs when it is first asked for."""

    def __init__(
        self,
        programs: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._programs = programs
        self._folder = folder
        self._ran: dict[str, Ran] = {}
        with Path(os.devnull).open("wb") as nothing:
            self._process = forked.popen(
                [sys.executable, "-c", RUN],
                env={**safe_path.environment(), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=nothing,
                text=True,
                forks=True,
            )

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)  # It ends where its input ends.
        assert self._process.returncode == 0

    def __getitem__(self, name: str) -> Ran:
        """Return where a program ran, and run it there unless it has."""
        if name not in self._ran:
            folder = self._folder / name
            folder.mkdir(exist_ok=True)
            (folder / "page.py").write_text(self._programs[name], encoding="utf-8")
            assert self._process.stdin is not None and self._process.stdout is not None
            print(folder, file=self._process.stdin, flush=True)
            told = self._process.stdout.readline()
            assert told.rstrip("\n") == str(folder), (folder / "errors").read_text()
            self._ran[name] = Ran(folder)
        return self._ran[name]
