"""Closed standard streams, readers that stop, and a full disk behind the output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tikgen.cli.exit_codes import FAILED, MISUSED, OK, UNREAD
from tikgen.text_layout import width_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows starts processes differently")

# What a command has open under the numbers of the standard streams, at its end.
OPEN = """
import os, sys
from tikgen.cli import main
try:
    main()
except SystemExit as end:
    for number in range(3):
        assert os.path.samestat(os.fstat(number), os.stat(os.devnull)), number
        assert os.get_inheritable(number), number
    sys.exit(end.code)
"""


def outcome(*words: str, closed: tuple[int, ...] = (), stdout: int = subprocess.PIPE) -> str:
    """Return the exit status of a command, and what it printed to streams that it has."""

    def close() -> None:
        for number in closed:
            os.close(number)

    start = ["-c", OPEN] if len(closed) == 3 else ["-m", "tikgen"]
    done = subprocess.run(
        [sys.executable, *start, *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=100,
        preexec_fn=close,
    )
    return " ".join([str(done.returncode), *(done.stdout or "").split(), *done.stderr.split()])


@pytest.mark.some
@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(("word", "code"), [("transpose", OK), ("nothere", MISUSED)])
def test_a_command_works_with_closed_streams(word: str, code: int, closed: tuple[int, ...]) -> None:
    told = outcome("render", word, closed=closed)
    assert told.split()[0] == str(code)
    assert "Traceback" not in told
    assert ("There is no template" in told) == (code == MISUSED and 2 not in closed)
    assert ("@ti.kernel" in told) == (code == OK and 1 not in closed)


def test_a_table_is_printed_to_no_stream() -> None:
    assert outcome("list", closed=(1,)) == str(OK)


@pytest.mark.some
@pytest.mark.parametrize("words", ["list", "render transpose", "--version", "--help"])
def test_a_reader_that_has_stopped_ends_the_command_in_silence(words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert outcome(*words.split(), stdout=writing) == str(UNREAD)
    finally:
        os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", ["list", "render transpose"])
def test_output_that_does_not_fit_on_the_disk_is_reported(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        assert outcome(*words.split(), stdout=full.fileno()) == f"{FAILED} error: the disk is full"


def test_no_stream_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width_of(None) is None
