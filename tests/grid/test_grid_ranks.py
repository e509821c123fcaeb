"""Grids on several processes compute the bits that one process computes with plain arrays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ranks
from cases import CASES


def said(count: int, drawn: int, folder: Path, how: str = "all") -> set[str]:
    """Return which cases gave equal bits on at most ``count`` processes; the others fail.

    Args:
        count: the most processes.
        drawn: how many cases are drawn.
        folder: an empty folder.
        how: ``all`` for every case on all its numbers of processes, ``some`` for a few on one.
    """
    seed = int.from_bytes(os.urandom(3), "little")
    done = ranks.run(count, "every_case.py", str(folder), str(seed), str(drawn), how)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = (folder / "said").read_text(encoding="utf-8").splitlines()
    found = [line.rpartition(": ") for line in lines]
    assert not [(name, what) for name, _, what in found if what != "equal"], f"seed {seed}"
    names = {name for name, *_ in found}
    assert sum(name.startswith("drawn") for name in names) == drawn
    return names


def test_a_number_of_processes_computes_the_same_bits(tmp_path: Path) -> None:
    found = {name.rpartition(" on ")[0] for name in said(6, 2, tmp_path, "some")}
    assert found & set(CASES)


@pytest.mark.slow
def test_any_number_of_processes_computes_the_same_bits(tmp_path: Path) -> None:
    wanted = {f"{name} on {count}" for name, case in CASES.items() for count in case.ranks}
    assert wanted <= said(6, 4, tmp_path)


@pytest.mark.slow
def test_up_to_eight_processes_compute_the_same_bits(tmp_path: Path) -> None:
    assert said(8, 40, tmp_path)
