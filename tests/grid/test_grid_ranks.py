"""Grids on several processes compute the bits that one process computes with plain arrays."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

import ranks
from cases import CASES


def said(count: int, drawn: int, folder: Path, named: Mapping[str, int] | None = None) -> set[str]:
    """Return which cases gave equal bits on at most ``count`` processes; the others fail.

    Args:
        count: the most processes.
        drawn: how many cases are drawn.
        folder: an empty folder.
        named: cases, each with its number of processes; by default all on all their numbers.
    """
    seed = int.from_bytes(os.urandom(3), "little")
    cases = "all" if named is None else json.dumps(named)
    done = ranks.run(count, "every_case.py", str(folder), str(seed), str(drawn), cases)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = (folder / "said").read_text(encoding="utf-8").splitlines()
    found = [line.rpartition(": ") for line in lines]
    assert not [(name, what) for name, _, what in found if what != "equal"], f"seed {seed}, {cases}"
    names = {name for name, *_ in found}
    assert sum(name.startswith("drawn") for name in names) == drawn
    return names


def test_a_number_of_processes_computes_the_same_bits(tmp_path: Path) -> None:
    """Some cases run, each on the fewest of its numbers: one on two or three, one on any."""
    fewest = {name: min(case.ranks) for name, case in CASES.items()}
    few = random.choice(sorted(name for name, count in fewest.items() if 1 < count <= 3))
    any_number = random.choice(sorted(fewest.keys() - {few}))
    named = {name: fewest[name] for name in (few, any_number)}
    found = said(max(3, *named.values()), 1, tmp_path, named)
    assert {f"{name} on {count}" for name, count in named.items()} <= found


@pytest.mark.slow
def test_any_number_of_processes_computes_the_same_bits(tmp_path: Path) -> None:
    wanted = {f"{name} on {count}" for name, case in CASES.items() for count in case.ranks}
    assert wanted <= said(6, 4, tmp_path)


@pytest.mark.slow
def test_up_to_eight_processes_compute_the_same_bits(tmp_path: Path) -> None:
    assert said(8, 40, tmp_path)
