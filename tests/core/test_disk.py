"""A full disk and a name that is too long are reported wherever files are written."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tikgen
from tikgen.aot.exporting import staging
from tikgen.aot.recording import recording_file
from tikgen.cli import exit_codes
from tikgen.cli.app import app
from tikgen.cli.common import write_text
from tikgen.disk import whole, why
from tikgen.errors import StoreWarning, TikgenError
from tikgen.store import Store
from tikgen.template import scaffold
from tikgen.tuning import exchange
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.sweeps.results_file import Done, ResultsFile
from tikgen.tuning.sweeps.table import SweepResult

LONG = "x" * 300
MACHINE = tikgen.scaling.Machine(1, {"copy": ((1e3, 1e-6),)}, None)
ROW = {"template": "map", "arch": "cpu", "digest": "d", "kind": "timed", "message": None}


def test_words() -> None:
    assert why(OSError(errno.ENOSPC, "No space left on device", "file")) == "the disk is full"
    assert "quota" in why(OSError(errno.EDQUOT, "x"))
    assert why(OSError(errno.ENAMETOOLONG, "x")) == "the name is too long"
    assert why(PermissionError(errno.EACCES, "Permission denied", "file")) == "Permission denied"
    assert why(OSError("of its own")) == "of its own"
    assert why(ValueError("no")) == "no"


def stored(path: Path) -> None:
    with pytest.warns(StoreWarning) as caught:
        Store(path).write("kind", "key", {})
    raise TikgenError(str(caught[0].message))


def staged(path: Path) -> None:
    with staging.staged(path) as folder:
        (folder / "file").write_text("x")


def output(path: Path) -> None:
    write_text(path / "mine.py", "x")


def appended(path: Path) -> None:
    results = ResultsFile(None, {"folder": "f"})
    results._path = path / "sweep.jsonl"
    job = Job("map", "folder", "cpu", {}, {})
    with pytest.warns(StoreWarning) as caught:
        results.add(job, Done("w", Measurement("timed"), "d"))
    raise TikgenError(str(caught[0].message))


def traced(path: Path) -> None:
    with tikgen.trace() as trace:
        pass
    trace.save(path.with_suffix(".json"))


WRITES: dict[str, Callable[[Path], Any]] = {
    "store": stored,
    "export": staged,
    "output of a command": output,
    "sweep table": lambda path: SweepResult([ROW]).save(path.with_suffix(".csv")),
    "sweep lines": appended,
    "trace": traced,
    "recording": lambda path: recording_file.write(
        recording_file.File(format=1, tikgen="0", taichi="1.7.4", arch="cpu"), path
    ),
    "template": lambda path: scaffold.scaffold("unwritten", path),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_name_that_is_too_long_is_reported(what: str, tmp_path: Path) -> None:
    with pytest.raises(TikgenError) as caught:
        WRITES[what](tmp_path / LONG)
    # Where a long path stands before it, a frame on a terminal breaks the line anywhere.
    assert "the name is too long" in " ".join(str(caught.value).split())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "command", ["eject transpose -o", "render transpose -o", "new mine --path"]
)
def test_commands_fail_on_a_full_disk_and_do_not_call_it_misuse(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "/dev/full"])
    if command.startswith("new"):
        assert shown.exit_code == exit_codes.MISUSED, shown.output  # It is no folder.
    else:
        assert shown.exit_code == exit_codes.FAILED, shown.output
        assert "the disk is full" in shown.output


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("what", WRITES)
def test_a_full_disk_is_reported(
    what: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(real: Callable[..., Any]) -> Callable[..., Any]:
        def method(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.is_relative_to(tmp_path):
                raise OSError(code, os.strerror(code))
            return real(path, *arguments, **options)

        return method

    for name in ("write_text", "write_bytes", "open", "mkdir"):
        monkeypatch.setattr(Path, name, full(getattr(Path, name)))
    with pytest.raises(TikgenError, match="the disk is full") as caught:
        WRITES[what](tmp_path / "new")
    # Not that of wrong usage.
    if what not in ("store", "sweep lines"):  # Those are warnings.
        assert exit_codes.of_error(caught.value) == exit_codes.FAILED


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no links")
def test_a_file_that_cannot_be_written_keeps_what_it_held(tmp_path: Path) -> None:
    file, link = tmp_path / "file.py", tmp_path / "link.py"
    write_text(file, "before")
    file.chmod(0o640)
    link.symlink_to(file)
    with pytest.raises(OSError, match="full"), whole(link) as new:
        new.write_text("half of")
        raise OSError(errno.ENOSPC, "full")
    assert file.read_text() == "before"
    write_text(link, "after")
    assert file.read_text() == "after"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [file, link]
    circle = tmp_path / "circle.py"
    circle.symlink_to(circle)
    with pytest.raises(TikgenError, match="symbolic links"):
        write_text(circle, "nowhere")
    assert circle.is_symlink()


def test_a_store_with_too_long_a_name_works_in_memory(tmp_path: Path) -> None:
    store = Store(tmp_path / LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StoreWarning)
        assert store.read("a", "b") is None
        store.write("a", "b", {"c": 1})
        assert store.update("a", "d", lambda document: {"e": 2}) == {"e": 2}
        assert store.keys("a") == ("b", "d")
        assert store.sizes()["a"] == (2, 0)
        assert store.clear() == 2


def test_bundles_at_invalid_paths() -> None:
    for read in (tikgen.aot.Bundle, tikgen.aot.load):
        with pytest.raises(TikgenError, match="the name is too long"):
            read(LONG)


TAKES_PATHS: dict[str, tuple[Callable[[Any], object], str]] = {
    "Machine.save": (MACHINE.save, "save takes the path of a file"),
    "Machine.load": (tikgen.scaling.Machine.load, "load takes the path of a file"),
    "SweepResult.save": (SweepResult((), {}).save, "SweepResult.save: parameter 'path' takes the"),
    "SweepResult.load": (SweepResult.load, "SweepResult.load: parameter 'path' takes the path"),
    "export_records": (exchange.export_records, "export_records: parameter 'path' takes the path"),
    "import_records": (exchange.import_records, "import_records: parameter 'path' takes the path"),
    "export": (lambda path: tikgen.aot.export([], path), "no path of a folder or an archive"),
    "Module.save": (lambda path: tikgen.aot.Module().archive(path), "no path of a folder or an"),
    "Bundle": (tikgen.aot.Bundle, "no path of a folder or an archive"),
    "load": (tikgen.aot.load, "no path of a folder or an archive"),
    "record": (lambda path: tikgen.aot.record(path).__enter__(), "record takes the path of a file"),
    "export_recording": (
        lambda path: tikgen.aot.export_recording(path, "b"),
        "file takes the path of a file",
    ),
    "Trace.save": (tikgen.Trace.__new__(tikgen.Trace).save, "takes the path of a file"),
    "load_template": (tikgen.load_template, "is not the path of a folder"),
}


@pytest.mark.parametrize("given", [None, 5, [], "a\0b"], ids=repr)
@pytest.mark.parametrize("name", TAKES_PATHS)
def test_what_is_no_path_is_refused(name: str, given: Any) -> None:
    use, told = TAKES_PATHS[name]
    with pytest.raises(TikgenError, match=told):
        use(given)
