"""Stores of Zarr that any number of processes writes, and any number reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import ranks

# Numbers of processes, and of grids: with weights, and with idle processes.
FEW = [((1, 3), (1,)), ((1, 3), (3,))]
ALL = [(tuple(range(1, count + 1)), (0, 1, 2, 3)) for count in (3, 4)]


@pytest.mark.some
@pytest.mark.parametrize(
    ("counts", "grids"),
    [*FEW, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL)],
    ids=("weights", "idle", "three", "four"),
)
def test_stores_are_read_by_any_number_of_processes(
    counts: tuple[int, ...], grids: tuple[int, ...], tmp_path: Path
) -> None:
    count = counts[-1]
    words = (",".join(map(str, each)) for each in (counts, grids))
    done = ranks.run(count, "stored.py", str(tmp_path), "crosswise", *words)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("done") == count, done.stdout
    # Each grid is written by each number of processes; rank 0 is among all readers.
    assert f"{len(grids) * len(counts) ** 2} reads" in done.stdout
    stores = {f"run_{writers}_{n}.zarr" for writers in counts for n in grids}
    assert {path.name for path in tmp_path.iterdir()} == {"other.zarr", *stores}


def test_a_process_that_is_killed_while_it_writes_leaves_the_last_store(tmp_path: Path) -> None:
    done = ranks.run(2, "stored.py", str(tmp_path), "killed")
    assert done.returncode != 0
    assert "done" not in done.stdout
    left = {path.name for path in tmp_path.iterdir() if path.suffix != ".npz"}
    assert len(left) == 2
    done = ranks.run(2, "stored.py", str(tmp_path), "kept")
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("done") == 2
    left = {path.name for path in tmp_path.iterdir() if path.suffix != ".npz"}
    assert left == {"run.zarr"}
