"""Processes that are forked in place of a start do what started ones do."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked
from tikgen.children.process import ChildProcess

# It tells of what it was given, and ends as it is told.
TEXT = """
import os, sys
line = sys.stdin.readline().strip()
print("an error", file=sys.stderr, flush=True)
print(sys.argv[1:], os.getcwd(), os.environ.get("TIKGEN_CACHE_DIR"), __name__, flush=True)
if line == "abort":
    os.abort()
if line == "wait":
    sys.stdin.readline()
sys.exit(int(line))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[forked.Server]:
    server = forked.Server()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("line", "status"), [("0", 0), ("7", 7), ("abort", -signal.SIGABRT), ("wait", -signal.SIGKILL)]
)
def test_a_forked_process_ends_as_a_started_one(
    server: forked.Server, tmp_path: Path, line: str, status: int
) -> None:
    variables = {**server.variables, "TIKGEN_CACHE_DIR": "elsewhere"}
    with tempfile.TemporaryFile() as errors:
        process = server.fork([TEXT, "one", "two"], variables, errors.fileno(), tmp_path)
        assert process.poll() is None and process.stdin is not None
        print(line, file=process.stdin, flush=True)
        told = process.stdout.readline()
        assert told == f"['one', 'two'] {tmp_path} elsewhere __main__\n"
        if line == "wait":
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0)
            process.kill()
        process.communicate()
        assert process.wait() == process.returncode == status
        errors.seek(0)
        assert errors.read().startswith(b"an error\n")
    process.kill()  # It does nothing: another process may have the number by now.


def test_what_reads_variables_at_its_import_is_started(server: forked.Server) -> None:
    assert server.can_fork({**server.variables, "TIKGEN_CACHE_DIR": "elsewhere"})
    assert not server.can_fork({**server.variables, "TIKGEN_ENGINE": "taichi"})
    assert not server.can_fork({})


def test_children_of_tikgen_are_forked(
    server: forked.Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "_server", server)
    forked.fork_children(monkeypatch)
    with ChildProcess("tikgen.verification.worker", "nowhere", str(tmp_path)) as child:
        assert child.start() == "ValueError: Taichi knows no arch 'nowhere'"
        assert isinstance(child._process, forked.Forked)


GRANDCHILD = """
from tikgen.children.process import ChildProcess
with ChildProcess("tikgen.verification.worker", "nowhere", "{folder}") as child:
    print(child.start(), type(child._process).__name__, flush=True)
"""


@pytest.mark.parametrize(("forks", "kind"), [(True, "Forked"), (False, "Popen")])
def test_children_of_a_forked_process_are_forked_where_it_is_asked_for(
    server: forked.Server, tmp_path: Path, forks: bool, kind: str
) -> None:
    text = GRANDCHILD.format(folder=tmp_path)
    with tempfile.TemporaryFile() as errors:
        process = server.fork([text], server.variables, errors.fileno(), tmp_path, forks)
        output, _ = process.communicate()
        errors.seek(0)
        assert output == f"ValueError: Taichi knows no arch 'nowhere' {kind}\n", errors.read()
