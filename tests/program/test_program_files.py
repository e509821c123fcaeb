"""Files of checkpoints: full disks, damage, what a killed save leaves, links."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import ProgramError
from tikgen.program import checkpoints, saving, zarr_arrays
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
    path.write_bytes(content[: content.rindex(b"\ntikgen crc32 ")])
    made.load(path)
    assert (made["u"] == program()["u"]).all()
    changed = bytearray(content)
    changed[content.index(made["u"].tobytes()[-64:])] ^= 1  # One bit of an element.
    path.write_bytes(changed)
    with pytest.raises(ProgramError, match=r"run.h5' is no checkpoint of a program: it is damaged"):
        made.load(path)
    path.write_bytes(changed[: changed.rindex(b"\ntikgen crc32 ")].replace(b"u\0", b"\xff\0"))
    with pytest.raises(ProgramError, match=r"run.h5.*: the state has no u and has"):
        made.load(path)
