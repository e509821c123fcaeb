"""SIGTERM writes a checkpoint on any number of processes, and any other number goes on from it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import ranks

LAST, STATUS = 90, 75
# The shell becomes mpiexec, whose number processes then know.
STARTED = 'STARTER=$$ exec "$@"'


def run(
    count: int,
    folder: Path,
    how: str = "none",
    at: int = 0,
    last: int = LAST,
    halo: int = 1,
    name: str = "run.npz",
) -> subprocess.CompletedProcess[str]:
    """Run the program on some processes; a single one is started without mpiexec."""
    arguments = [str(folder), str(last), how, str(at), str(halo), name]
    words = ranks.command(count, "stopped.py", *arguments)
    words = words[3:] if count == 1 else words
    assert words[0 if count == 1 else 3] == sys.executable
    return subprocess.run(
        ["sh", "-c", STARTED, "sh", *words], capture_output=True, text=True, timeout=300
    )


def steps_in(path: Path) -> int:
    """Return the number of steps that a checkpoint names."""
    if path.is_dir():
        return int(json.loads((path / ".zattrs").read_text())["steps"])
    with zipfile.ZipFile(path) as archive:
        return int(json.loads(archive.read("tikgen.json"))["steps"])


def expected() -> npt.NDArray[np.float64]:
    """Return what NumPy computes in double precision."""
    u = np.random.default_rng(LAST).random((23, 7)).astype(np.float32).astype(float)
    for step in range(LAST):
        around = sum(np.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1))
        u = u + (0.1 + 0.001 * (step % 7)) * (around - 4 * u)
    return u


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> npt.NDArray[np.float32]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = run(1, folder)
    assert done.returncode == 0, done.stderr[-4000:]
    found: npt.NDArray[np.float32] = np.load(folder / "whole.npy")
    assert np.abs(found - expected()).max() < 1e-5
    return found


# Each way and each kind of file; the others run in `make verify`.
QUICK = {("one", 3, "run.npz"), ("mpiexec", 2, "run.zarr")}
STOPS = [
    ("one", 3, 1, 11),  # The last of three processes is idle, and is told to stop.
    ("mpiexec", 2, 0, 1),
    ("one", 1, 3, 11),
    ("one", 2, 1, 1),
    ("all", 4, 2, 1),
    ("all", 8, 6, 1),
]


@pytest.mark.some
@pytest.mark.parametrize(
    ("how", "first", "second", "halo", "name"),
    [
        pytest.param(*stop, name, marks=[] if (*stop[:2], name) in QUICK else pytest.mark.slow)
        for stop in STOPS
        for name in ("run.npz", "run.zarr")
    ],
)
def test_what_is_stopped_goes_on_bit_for_bit(
    how: str,
    first: int,
    second: int,
    halo: int,
    name: str,
    tmp_path: Path,
    uninterrupted: npt.NDArray[np.float32],
) -> None:
    at = int(np.random.default_rng().integers(5, 30))
    last = 100_000 if how == "mpiexec" else LAST  # It ends when the signal has arrived.
    done = run(first, tmp_path, how, at, last, halo, name)
    assert done.returncode == STATUS, (done.returncode, done.stderr[-4000:])
    steps = steps_in(tmp_path / name)
    assert done.stderr.count(f"holds step {steps}; exit status 75") == 1
    # One process computes the scalars of several steps ahead, and hears it then.
    assert (at if first > 1 else -1) < steps < last
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if not second:
        return
    again = run(second, tmp_path, halo=halo, name=name)
    assert again.returncode == 0, again.stderr[-4000:]
    assert again.stdout.count("went on: True") == 1
    assert np.load(tmp_path / "whole.npy").tobytes() == uninterrupted.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.npz", "run.zarr"])
def test_a_checkpoint_that_cannot_be_written_is_an_error_on_all_processes(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = run(3, folder, "no folder", 30, name=name)
    assert done.returncode not in (0, STATUS)
    for rank in range(3):
        assert f"rank {rank} is told: " in done.stdout
    assert done.stdout.count("cannot be written") == 3
