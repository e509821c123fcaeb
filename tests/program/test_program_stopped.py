"""SIGTERM in a run of one process: a checkpoint, an exit status, and what goes on from there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from steppers import stepped
from tikgen.errors import ProgramError, Terminated

pytestmark = pytest.mark.usefixtures("ti_arch")


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def counting(native: bool | None = None) -> tikgen.Program:
    n = np.zeros(1, np.float32)
    return tikgen.Program(["n = n + 1"], native=native, n=n, enough=60.5)


def terminate(program: tikgen.Program) -> None:
    signal.raise_signal(signal.SIGTERM)


@stepped
def test_sigterm_ends_a_run_between_steps(native: bool, tmp_path: Path) -> None:
    path, made = tmp_path / "run.npz", counting(native)
    with pytest.raises(Terminated) as raised:
        made.run(100, every=40, call=terminate, checkpoint=path)
    assert (raised.value.code, raised.value.steps, raised.value.path) == (75, 40, str(path))
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN  # It may come twice.
    again = counting(native)
    assert again.load(path, missing_ok=True)
    again.run(100 - again.steps)
    assert (again.steps, again["n"][0]) == (100, 100)


@stepped
def test_sigterm_of_another_process_ends_a_long_run(native: bool, tmp_path: Path) -> None:
    path, made = tmp_path / "run.npz", counting(native)
    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGTERM))
    timer.start()
    with pytest.raises(Terminated):
        made.run(10**12, checkpoint=path)
    timer.join()
    again = counting(native)
    again.load(path)
    assert again.steps == made.steps
    assert again["n"][0] == min(again.steps, 2**24)  # Where f32 no longer counts.


def test_sigterm_is_heard_after_the_last_step_and_where_a_condition_holds(tmp_path: Path) -> None:
    for last in ({"steps": 40}, {"until": "n > enough", "check_every": 40, "most": 80}):
        made = counting()
        with pytest.raises(Terminated):
            made.run(every=40, call=terminate, checkpoint=tmp_path / "run.npz", **last)  # type: ignore[arg-type]
        assert made.steps == 40


def test_without_sigterm_a_run_leaves_no_file_and_the_handler(tmp_path: Path) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    made = counting()
    assert made.run(10, checkpoint=tmp_path / "run.npz").steps == 10
    assert not list(tmp_path.iterdir())
    terminate(made)
    assert heard == [signal.SIGTERM]
    assert not made.load(tmp_path / "run.npz", missing_ok=True)
    assert made.steps == 10


def test_a_checkpoint_is_written_every_so_many_minutes(tmp_path: Path) -> None:
    path, made, found = tmp_path / "run.npz", counting(), []

    def look(program: tikgen.Program) -> None:
        if path.exists():
            again = counting()
            again.load(path)
            found.append(again.steps)

    made.run(50, every=10, call=look, checkpoint=path, minutes=1e-9)
    made.run(50, every=10, call=look, checkpoint=tmp_path / "never.npz", minutes=60)
    assert found[:4] == sorted(found[:4])
    assert set(found[:4]) <= set(range(1, 50))
    assert not (tmp_path / "never.npz").exists()


def test_what_is_cut_off_replaces_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = tmp_path / "run.npz", counting()
    made.run(7)
    made.save(path)
    good = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(ProgramError, match="cannot be written: the disk is full"):
        made.run(9, every=3, call=terminate, checkpoint=path)
    assert made.steps == 9
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_IGN
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("told", "given"),
    [
        ("checkpoint takes the path of a file; got 3", {"checkpoint": 3}),
        ("minutes belongs to checkpoint", {"minutes": 3}),
        ("minutes takes a number greater than 0; got 0", {"checkpoint": "a.npz", "minutes": 0}),
        ("minutes takes .*; got True", {"checkpoint": "a.npz", "minutes": True}),
        ("minutes takes .*; got nan", {"checkpoint": "a.npz", "minutes": float("nan")}),
        ("needs the name of a file; got '.'", {"checkpoint": ""}),
        ("'no/such.npz' cannot be written: ", {"checkpoint": "no/such.npz"}),
        ("'folder' cannot be written: ", {"checkpoint": "folder"}),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_step(
    told: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    made = counting()
    with pytest.raises(ProgramError, match=told):
        made.run(10, **given)
    assert made.steps == 0
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_only_the_main_thread_hears_sigterm(tmp_path: Path) -> None:
    made, told = counting(), []

    def run() -> None:
        try:
            made.run(10, checkpoint=tmp_path / "run.npz")
        except ProgramError as error:
            told.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert told and "needs the main thread" in told[0]


def test_a_checkpoint_of_another_program_is_no_missing_one(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    m = np.zeros(1, np.float32)
    tikgen.Program(["m = m + 1"], m=m).save(path)
    with pytest.raises(ProgramError, match="has m, which"):
        counting().load(path, missing_ok=True)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ProgramError, match="is no checkpoint"):
        counting().load(path, missing_ok=True)
