"""Stores of Zarr that any number of processes writes, and any number reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import ranks


@pytest.mark.parametrize("count", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_stores_are_read_by_any_number_of_processes(count: int, tmp_path: Path) -> None:
    done = ranks.run(count, "stored.py", str(tmp_path), "crosswise")
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("done") == count, done.stdout
    # Four grids, written by each number of processes; the process of rank 0 is among all readers.
    assert f"{4 * count * count} reads" in done.stdout
    stores = {f"run_{writers}_{n}.zarr" for writers in range(1, count + 1) for n in range(4)}
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
