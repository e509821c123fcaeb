"""Runs several commands in one process: Python and Taichi are loaded once for all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import forked
from tikgen.children import safe_path

# What each command prints goes to files, so that it finds no terminal, as in a pipe. Each runs in
# a folder of its own unless all share one, and with variables of its own.
PROGRAM = """
import json, os, sys
from tikgen.cli import main
for number, (arguments, folder, variables) in enumerate(json.loads(sys.argv[1])):
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv = ["tikgen", *arguments]
    for stream, name in ((1, "output"), (2, "errors")):
        file = os.open(os.path.join({results!r}, f"{{number}}.{{name}}"), os.O_CREAT | os.O_WRONLY)
        os.dup2(file, stream)
        os.close(file)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    with open(os.path.join({results!r}, f"{{number}}.code"), "w") as file:
        file.write(str(code))
    for name in variables:
        del os.environ[name]
"""


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    output: str
    errors: str
    code: int


def run_cli(
    *commands: Sequence[str],
    results: Path,
    folders: Sequence[Path] = (),
    environment: Mapping[str, str] = {},
    variables: Sequence[Mapping[str, str]] = (),
) -> list[Done]:
    """Run commands one after another in a process; return the outcome of each.

    Args:
        commands: their words.
        results: an empty folder for what they print.
        folders: the working directory of each, ``results`` where none is given.
        environment: variables of the process.
        variables: variables for one command each.
    """
    given = [
        (list(words), str(folder), dict(more))
        for words, folder, more in zip(
            commands,
            folders or [results] * len(commands),
            variables or [{}] * len(commands),
            strict=True,
        )
    ]
    with tempfile.TemporaryFile() as said:
        process = forked.popen(
            [sys.executable, "-c", PROGRAM.format(results=str(results)), json.dumps(given)],
            env={**safe_path.environment(), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            forks=True,
        )
        process.communicate(timeout=300)
        said.seek(0)
        errors = said.read().decode() + "".join(
            path.read_text() for path in sorted(results.glob("*.errors"))
        )
    assert process.returncode == 0, errors
    return [
        Done(
            *((results / f"{number}.{name}").read_text() for name in ("output", "errors")),
            code=int((results / f"{number}.code").read_text()),
        )
        for number in range(len(commands))
    ]
