"""Files of checkpoints: full disks, damage, what a killed save leaves, links."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import ProgramError
from tikgen.program import checkpoints, replacing, saving, zarr_arrays
from tikgen.program import state as states

pytestmark = pytest.mark.usefixtures("ti_arch")
FILES = ["run.npz", "run.h5"]


def program() -> tikgen.Program:
    """Return a program of arrays that HDF5 writes late, being small."""
    u = np.random.default_rng(3).random((60, 50))
    return tikgen.Program(["n = n + 1"], n=np.zeros(1), u=u, v=u + 1)


def needs(name: str) -> None:
    """Skip the test if what a file needs is missing."""
    if name.endswith("h5"):
        pytest.importorskip("h5py")


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have the system write no file that is larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", [*FILES, "run.zarr"])
def test_a_checkpoint_that_is_cut_off_is_an_error_and_the_last_one_stays(
    name: str, tmp_path: Path
) -> None:
    needs(name)
    path, made = tmp_path / name, program()
    made.save(path)
    made.run(1)
    made["u"][...] = 7
    for size in range(0, 24_000, 1500):
        with largest_file(size), pytest.raises(ProgramError, match=f"{name}' cannot be written"):
            made.save(path)
        assert list(tmp_path.iterdir()) == [path]
    again = program()
    expected = again.state().arrays
    again.load(path)
    assert again.steps == 0
    assert all((again[name] == values).all() for name, values in expected.items())


class Waiting:
    """Two processes, of which the other one waits for this one, of rank 0."""

    rank, size = 0, 2

    def check(self, problem: str) -> None:
        """Tell the other one what is wrong."""
        if problem:
            raise ProgramError(f"told: {problem}")

    def shared(self, value: Any) -> Any:
        """Return a value that the other one gets."""
        return value

    @contextlib.contextmanager
    def ending_together(self) -> Iterator[None]:
        """End the other one at an error."""
        try:
            yield
        except Exception as error:
            raise SystemExit(str(error)) from error


WRONG = [RuntimeError("no such thing"), TypeError("wrong"), MemoryError(), SystemError("bad")]


@pytest.mark.parametrize("error", WRONG)
@pytest.mark.parametrize("name", ["run.npz", "run.zarr"])
def test_any_error_of_a_checkpoint_is_told_to_the_other_processes(
    name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path, team = program(), tmp_path / name, Waiting()
    every: Any = (made._walk, made._slots, team, path)
    saving.save(*every, "about")

    def fails(*_: object) -> None:
        raise error

    reason = str(error) or "MemoryError"
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_write_npz", fails)
        patched.setattr(zarr_arrays, "write", fails)
        told = f"told: the checkpoint '{path}' cannot be written: {reason}"
        with pytest.raises(ProgramError, match=told):
            saving.save(*every, "about")
        assert list(tmp_path.iterdir()) == [path]
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_read_npz", fails)
        patched.setattr(zarr_arrays, "read", fails)
        with pytest.raises(ProgramError, match=f"told: .*{path}' .*: {reason}"):
            saving.load(*every, missing_ok=False)
    assert saving.load(*every, missing_ok=False)
    monkeypatch.setattr(np, "empty", fails)  # No room for whole arrays.
    if name.endswith("npz"):
        with pytest.raises(ProgramError, match=f"told: .* cannot be written: {reason}"):
            saving.save(*every, "about")


def test_a_state_that_does_not_fit_is_told_to_the_other_processes() -> None:
    made: Any = program()
    wrong = states.State(0, {"n": np.zeros(1)})
    for found, told in ((wrong, "told: the state has no u, v"), (None, "told: restore takes")):
        with pytest.raises(ProgramError, match=told):
            states.restore(made._walk, made._slots, found, Waiting())  # type: ignore[arg-type]


def test_an_error_between_messages_ends_the_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, team = program(), Waiting()
    every: Any = (made._walk, made._slots, team)
    for name in ("run.npz", "run.zarr"):
        saving.save(*every, tmp_path / name, "about")

    def fails(*_: object) -> None:
        raise RuntimeError("the device is lost")

    for function in ("to_host", "write"):
        monkeypatch.setattr(states.arrays, function, fails)
    for name in ("run.npz", "run.zarr"):
        with pytest.raises(SystemExit, match="the device is lost"):
            saving.save(*every, tmp_path / name, "about")
        with pytest.raises(SystemExit, match="the device is lost"):
            saving.load(*every, tmp_path / name, missing_ok=False)


@pytest.mark.parametrize("name", FILES)
def test_damage_is_an_error_or_changes_nothing(
    name: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    needs(name)
    path, made = tmp_path / name, program()
    made.run(2)
    expected = made.state().arrays
    made.save(path)
    content = path.read_bytes()
    found = set()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ProgramError, match=rf"{name}' is no checkpoint .*: it is damaged"):
        made.load(path)
    for place in [*range(0, 600, 7), *rng.integers(len(content), size=100), -1, len(content) - 25]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        if place % 10 == 5:
            del damaged[place:]
        path.write_bytes(damaged)
        try:
            made.load(path)
        except ProgramError as error:
            assert str(path) in str(error)
            found.add(True)
        else:
            assert made.steps == 2
            assert all((made[each] == values).all() for each, values in expected.items())
            found.add(False)
    assert True in found


def test_a_file_that_other_programs_change_or_an_earlier_version_wrote_is_read(
    tmp_path: Path,
) -> None:
    h5py = pytest.importorskip("h5py")
    path, made = tmp_path / "run.h5", program()
    made.save(path)
    content = path.read_bytes()
    with h5py.File(path, "r+") as file:
        file["u"][1, 2] = 99
        file.attrs["note"] = "changed"
    made.load(path)
    assert made["u"][1, 2] == 99
    made["u"][...] = 0
    end = content.rindex(b"\ntikgen crc32 ")
    for at in (end - 1, end + 1, len(content) - 1):  # Cut off within the checksum, or before it.
        path.write_bytes(content[:at])
        with pytest.raises(ProgramError, match=r"run.h5' is no .*: it is damaged: .* is cut off"):
            made.load(path)
    for wrong in (content[:end] + content[end + 1 :], content.replace(b" crc32 ", b" crc23 ")):
        path.write_bytes(wrong)
        with pytest.raises(ProgramError, match=r"it is damaged: its checksum is cut off or change"):
            made.load(path)
    path.write_bytes(content[:end])
    made.load(path)
    assert (made["u"] == program()["u"]).all()
    changed = bytearray(content)
    changed[content.index(made["u"].tobytes()[-64:])] ^= 1  # One bit of an element.
    path.write_bytes(changed)
    with pytest.raises(ProgramError, match=r"run.h5' is no checkpoint of a program: it is damaged"):
        made.load(path)
    path.write_bytes(changed[:end].replace(b"TREE", b"TREF"))
    with pytest.raises(ProgramError, match=r"run.h5' is no .*: it is damaged, says HDF5: "):
        made.load(path)
    path.write_bytes(changed[:end].replace(b"u\0", b"\xff\0"))
    with pytest.raises(ProgramError, match=r"run.h5.*: the state has no u and has"):
        made.load(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that share memory")
@pytest.mark.parametrize("name", FILES)
def test_what_a_killed_save_leaves_is_removed_by_the_next_one(name: str, tmp_path: Path) -> None:
    needs(name)
    path, made = tmp_path / name, program()
    made.save(path)
    made.run(1)
    state = made.state()
    for _ in range(2):
        child = os.fork()
        if not child:
            try:
                os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
                checkpoints.save(state, path, "")  # Taichi does not live on in a copy.
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(list(tmp_path.iterdir())) > 1
    made.load(path)
    assert made.steps == 0
    made.save(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_another_process_writes_stays(tmp_path: Path) -> None:
    path, made = tmp_path / "run.npz", program()
    for foreign in ("run.npz.tmp", ".run.npz.other.tmp", ".run.npz2.01234567.tmp"):
        (tmp_path / foreign).touch()
    count = len(list(tmp_path.iterdir()))
    with replacing.replaced(path) as file:
        made.save(path)
        assert len(list(tmp_path.iterdir())) == count + 2
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert len(list(tmp_path.iterdir())) == count + 1


@pytest.mark.parametrize("removes", [True, False])
def test_a_file_that_is_removed_before_it_is_locked_is_made_again(
    removes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calls, lock = tmp_path / "run.npz", [], replacing._lock

    def late(file: Any, wait: bool) -> bool:
        calls.append(wait)
        if not removes:
            return False  # A system without locks.
        if len(calls) == 1:
            Path(file.name).unlink()
        return lock(file, wait)

    monkeypatch.setattr(replacing, "_lock", late)
    program().save(path)
    assert calls == [True] * (1 + removes)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", [*FILES, "run.zarr"])
def test_a_link_stays_one_and_its_file_is_replaced(name: str, tmp_path: Path) -> None:
    needs(name)
    made, folder, link = program(), tmp_path / "scratch", tmp_path / name
    folder.mkdir()
    link.symlink_to(folder / f"other{link.suffix}")
    assert made.load(link, missing_ok=True) is False
    with pytest.raises(ProgramError, match="cannot be read: No such file"):
        made.load(link)
    for _ in range(2):
        made.run(1, checkpoint=link)
        made.save(link)
        assert link.is_symlink()
        assert [found.name for found in folder.iterdir()] == [f"other{link.suffix}"]
    assert sorted(tmp_path.iterdir()) == sorted([folder, link])
    again = program()
    assert again.load(link, missing_ok=True)
    assert again.steps == 2


@pytest.mark.parametrize("name", [*FILES, "run.zarr"])
def test_what_is_no_file_is_neither_replaced_nor_read(name: str, tmp_path: Path) -> None:
    needs(name)
    made, path = program(), tmp_path / name
    wrong = [
        lambda: path.symlink_to(path),  # To itself.
        lambda: os.mkfifo(path),  # Who opens it waits for a writer.
    ]
    for make in wrong:
        make()
        for act in (made.save, made.load, lambda path: made.load(path, missing_ok=True)):
            with pytest.raises(ProgramError, match=name):
                act(path)
        with pytest.raises(ProgramError, match=f"{name}' cannot be written"):
            made.run(1, checkpoint=path)
        assert list(tmp_path.iterdir()) == [path]
        assert not path.is_file()
        path.unlink()
