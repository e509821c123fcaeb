"""Checkpoints as stores of Zarr: what they hold, what is refused, what a killed save leaves."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import tikgen
from some_cases import examples
from tikgen.errors import ProgramError
from tikgen.program import about, zarr_arrays, zarr_checkpoints

pytestmark = pytest.mark.usefixtures("ti_arch")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zarr_arrays, "MOST", 64)


def program(**further: np.ndarray) -> tikgen.Program:
    """Return a program of an array in several chunks, and of a number."""
    u = np.arange(42, dtype=np.float64).reshape(6, 7)
    return tikgen.Program(["n = n + 1"], n=np.zeros(1, np.float32), u=u, **further)


def test_a_store_is_one_that_zarr_reads(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    made = program(
        half=np.arange(5, dtype=np.float16),
        small=np.arange(200, dtype=np.uint8).reshape(2, 10, 10),
        big=np.arange(9, dtype=np.int64).reshape(3, 1, 3) - 4,
    )
    made.run(3)
    made.save(tmp_path / "run.zarr")
    found = zarr.open_group(str(tmp_path / "run.zarr"), mode="r")
    assert found.attrs["steps"] == 3
    assert found.attrs["program"] == str(made)
    expected = made.state().arrays
    assert set(found.array_keys()) == set(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        assert found[name][...].tobytes() == values.tobytes()


def test_a_program_goes_on_from_a_store_bit_for_bit(tmp_path: Path) -> None:
    path, made = tmp_path / "run.zarr", program()
    assert not made.load(path, missing_ok=True)
    made["u"][2, 3] = np.nan
    for steps in (2, 3):  # The second one replaces the first.
        made.run(steps)
        made.save(path)
    again = program()
    assert again.load(path, missing_ok=True)
    assert again.steps == 5
    for name, values in made.state().arrays.items():
        assert again[name].tobytes() == values.tobytes()
    assert [found.name for found in tmp_path.iterdir()] == ["run.zarr"]


def test_no_chunk_has_more_elements_than_it_may(rng: np.random.Generator) -> None:
    for _ in range(200):
        dim = int(rng.integers(1, 5))
        shape = tuple(int(n) for n in rng.integers(1, 30, dim))
        parts = tuple(int(rng.integers(1, points + 1)) for points in shape)
        layout = zarr_arrays.layout_for(shape, np.dtype("f4"), parts)
        assert np.prod(layout.chunk) <= 16
        shares = layout.shares(parts)
        for points, count, share, size in zip(shape, parts, shares, layout.chunk, strict=True):
            assert share % size == 0
            assert share * count >= points


def changed(**values: object) -> Callable[[Path], None]:
    """Return what changes the description of an array."""

    def change(store: Path) -> None:
        file = store / "u" / ".zarray"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def edit(before: str, after: str) -> Callable[[Path], None]:
    """Return what changes the attributes."""

    def change(store: Path) -> None:
        text = (store / ".zattrs").read_text()
        assert before in text
        (store / ".zattrs").write_text(text.replace(before, after))

    return change


def cut(store: Path) -> None:
    file = store / "u" / "3.0"
    file.write_bytes(file.read_bytes()[:-1])


def flip(store: Path) -> None:
    file = store / "u" / "5.0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def link(store: Path) -> None:
    file = store / "u" / "1.0"
    shutil.copy(file, store.parent / "elsewhere")
    file.unlink()
    file.symlink_to(store.parent / "elsewhere")


def pipe(store: Path) -> None:
    file = store / "u" / "1.0"
    file.unlink()
    os.mkfifo(file)  # Who opens it waits for a writer.


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (cut, "is no checkpoint of a program: u/3.0 is damaged"),
        (flip, "is no checkpoint of a program: u/5.0 is damaged"),
        (lambda store: (store / "u" / "3.0").write_bytes(b""), "u/3.0 is damaged"),
        (lambda store: (store / "u" / "4.0").unlink(), "is no checkpoint .*: it has no u/4.0"),
        (link, "it has no u/1.0"),
        (pipe, "it has no u/1.0"),
        (lambda store: (store / ".zattrs").unlink(), "it has no run.zarr/.zattrs"),
        (
            lambda store: (store / ".zattrs").write_bytes(b"{"),
            "damaged: run.zarr/.zattrs holds no J",
        ),
        (edit('"steps": 0', '"steps": 5'), "damaged: run.zarr/.zattrs or the description of an ar"),
        (edit('"program"', '"Program"'), "is damaged: run.zarr/.zattrs or"),
        (lambda store: (store / ".zattrs").write_bytes(b"{}"), "it has another format"),
        (
            lambda store: (store / "u" / ".zarray").unlink(),
            "is no checkpoint .*: it has no u/.zarray",
        ),
        (lambda store: (store / "u" / ".zarray").write_bytes(b"{"), "damaged: u/.zarray holds no"),
        (lambda store: (store / "u" / ".zarray").write_bytes(b"[]"), "describes no array"),
        (changed(filters=[{"id": "pickle"}]), "u is encoded otherwise"),
        (changed(dtype="|O"), "u is encoded otherwise"),
        (changed(dtype="x"), "describes no array"),
        (changed(compressor=None), "u is encoded otherwise"),
        (changed(chunks=[1]), "u has other chunks"),
        (changed(chunks=[1 << 20, 1 << 20]), "u has other chunks"),
        (changed(chunks=[1, 0]), "describes no array"),
        (changed(chunks=[1, 6]), "is damaged"),
        (changed(shape=[7, 6]), r"'u' takes float64 of shape \(6, 7\); it is float64 of shape \(7"),
        (changed(dtype="<i8"), r"'u' takes float64 of shape \(6, 7\); it is int64"),
        (lambda store: (store / "u").rename(store / "v"), "has no u and has v, which the program"),
    ],
)
def test_a_damaged_or_foreign_store_is_refused_and_changes_nothing(
    damage: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    store, made = tmp_path / "run.zarr", program()
    made.save(store)
    made.run(2)
    made["u"][...] = -1
    damage(store)
    with pytest.raises(ProgramError, match=told):
        made.load(store)
    assert made.steps == 2
    assert (made["u"] == -1).all()
    assert made["n"] == 2


def test_attributes_may_have_further_ones_and_need_no_checksum(tmp_path: Path) -> None:
    store, made = tmp_path / "run.zarr", program()
    made.run(2)
    made.save(store)
    file = store / ".zattrs"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"note": 1}, indent=4))
    assert program().load(store)
    told = json.loads(file.read_text())
    del told["crc32"]  # Of an earlier version.
    file.write_text(json.dumps(told))
    again = program()
    again.load(store)
    assert again.steps == 2
    other = zarr_arrays.Layout((5, 5), np.dtype("f8"), (3, 4))
    text = about.text_about(2, "", {"u": (other.shape, other.dtype.str, other.chunk)}).encode()
    about.check(text, "it", {"u": [[5, 5], "<f8", [3, 4]]})
    with pytest.raises(ValueError, match="damaged"):  # As many chunks of as many elements.
        about.check(text, "it", {"u": [[5, 5], "<f8", [4, 3]]})


def test_a_store_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    made, file, folder = program(), tmp_path / "file.zarr", tmp_path / "data.zarr"
    file.touch()
    folder.mkdir()
    (folder / "mine").touch()
    with pytest.raises(ProgramError, match="cannot be read: No such file or directory"):
        made.load(tmp_path / "missing.zarr")
    for path in (file, folder):
        with pytest.raises(ProgramError, match="is no checkpoint of a program: it has no"):
            made.load(path)
    for path, told in {
        tmp_path / "missing" / "run.zarr": "cannot be written: No such file or directory",
        file: "cannot be written: Not a directory",
        folder: "cannot be written: there is a folder that is no checkpoint, and it is not",
    }.items():
        with pytest.raises(ProgramError, match=told):
            made.save(path)
        with pytest.raises(ProgramError, match=told):
            made.run(1, checkpoint=path)
    assert made.steps == 0
    assert sorted(tmp_path.iterdir()) == [folder, file]
    assert (folder / "mine").exists()


def test_a_link_to_a_store_stays_one(tmp_path: Path) -> None:
    made = program()
    (tmp_path / "scratch").mkdir()
    link = tmp_path / "run.zarr"
    link.symlink_to(tmp_path / "scratch" / "other.zarr")
    for _ in range(2):
        made.run(1)
        made.save(link)
    assert link.is_symlink()
    assert [found.name for found in (tmp_path / "scratch").iterdir()] == ["other.zarr"]
    assert program().load(link)


def test_an_array_that_is_only_read_keeps_its_values(tmp_path: Path) -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    made = program(fixed=fixed)
    made.save(tmp_path / "run.zarr")
    made.load(tmp_path / "run.zarr")
    other = np.zeros(3)
    other.flags.writeable = False
    with pytest.raises(ProgramError, match="array 'fixed' is read-only and differs"):
        program(fixed=other).load(tmp_path / "run.zarr")


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that share memory")
def test_a_save_killed_at_any_point_leaves_a_whole_store(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The system keeps what a killed process wrote: nothing has to wait for the disk.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    store, made = tmp_path / "run.zarr", program()
    made.save(store)
    found = set()
    for point in itertools.count():
        made.run(1)
        if not _is_killed(point, made, store):
            break
        found.add(_what_is_left(made, store))
        if rng.integers(examples(1, 3)):
            made.save(store)
            continue
        # The next one is killed as well, and meets what was left.
        made.run(1)
        _is_killed(int(rng.integers(30)), made, store)
        _what_is_left(made, store)
        made.save(store)
        _is_killed(point, made, store)
        made.save(store)  # With no load in between.
        assert _what_is_left(made, store) == 0
        assert list(tmp_path.iterdir()) == [store]
    assert point > 20
    assert found >= {0, 1}  # Steps behind: both the new store and the last one.


def _what_is_left(made: tikgen.Program, store: Path) -> int:
    """Return how many steps a store is behind the program, once it is seen to be whole."""
    aside = store.with_name(".run.zarr.old")
    if aside.exists():  # It would be taken for the store if somebody removed that.
        copied = shutil.copytree(aside, store.with_name("copied.zarr"))
        program().load(copied)
        shutil.rmtree(copied)
    again = program()
    assert again.load(store, missing_ok=True)
    assert again["n"] == again.steps
    assert (again["u"] == made["u"]).all()
    return made.steps - again.steps


def _is_killed(point: int, made: tikgen.Program, store: Path) -> bool:
    """Save in a process of its own, and return whether it was killed before it was done."""
    child = os.fork()
    if not child:
        _save_until(point, made, store)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    assert os.WTERMSIG(status) == signal.SIGKILL
    return True


def _save_until(point: int, made: tikgen.Program, store: Path) -> NoReturn:
    """Save, and be killed at a later call for a file."""
    left = [point]

    def dying(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return function(*args, **options)

        return call

    try:
        for name in ("fsync", "mkdir", "rename", "unlink", "rmdir"):
            setattr(os, name, dying(getattr(os, name)))
        # Below the program, which knows that Taichi does not live on in a copy of its process.
        zarr_checkpoints.save(made._walk, made._slots, None, store, str(made))
        os._exit(0)
    finally:
        os._exit(1)
