"""What exports that were killed leave behind, and the locks of those that go on."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tikgen.aot.exporting import staging

EXPORTS = """
import sys
from pathlib import Path
from tikgen.aot.exporting import staging
with staging.staged(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("x")
    print(folder.name, flush=True)
    sys.stdin.read()
"""
COUNTS = """
import sys
from pathlib import Path
from tikgen.aot.exporting import staging
counter = Path(sys.argv[1])
for _ in range(25):
    with staging.held(counter.with_suffix(".lock"), 60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "bundles").mkdir()
    return tmp_path / "bundles" / "heat"


@contextlib.contextmanager
def exporting(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Give a process that exports to ``path`` forever, and the name of the folder that it fills."""
    process = subprocess.Popen(
        [sys.executable, "-c", EXPORTS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_an_export_clears_what_a_killed_one_left(path: Path) -> None:
    with exporting(path) as (process, name):
        assert name in names_in(path.parent)
        process.kill()
        process.wait()
        assert name in names_in(path.parent), "nothing was left, so the test proves nothing"
    with staging.staged(path) as folder:
        assert names_in(path.parent) == {folder.name, f"{folder.stem}.lock"}
    assert names_in(path.parent) == set()


def test_an_export_leaves_alone_what_a_living_process_owns(path: Path) -> None:
    with exporting(path) as (_, name):
        with staging.staged(path):
            pass
        assert name in names_in(path.parent)
        assert (path.parent / name / "half").exists()


def test_only_what_exports_to_this_path_left_is_cleared(path: Path) -> None:
    kept = {".heat.tmp", ".heat.0123456789ab.txt", ".heat2.0123456789ab.tmp", "heat.zip", "other"}
    for name in kept:
        (path.parent / name).mkdir()
    gone = path.parent / ".heat.0123456789ab.tmp"
    gone.mkdir()
    gone.with_suffix(".zip").touch()
    staging.clear(path)
    assert names_in(path.parent) == kept


def test_the_bundle_that_was_moved_aside_is_no_leftover_while_there_is_no_other(
    path: Path,
) -> None:
    aside = path.parent / ".heat.0123456789ab.old"
    aside.mkdir()
    staging.clear(path)
    assert aside.exists()
    path.mkdir()
    staging.clear(path)
    assert not aside.exists()


def test_locks_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name in ("a", "b"):
        with staging.locked(tmp_path / name):
            assert len(names_in(tmp_path / "temporary")) == 1
    assert names_in(tmp_path / "temporary") == set()


def test_a_lock_whose_file_comes_and_goes_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTS, str(counter)]) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "75"
    assert names_in(tmp_path) == {"counter"}
