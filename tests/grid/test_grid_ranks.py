"""Grids on several processes compute the bits that one process computes with plain arrays."""

from __future__ import annotations

import os
from pathlib import Path

import ranks
from cases import CASES, DRAWN


def test_any_number_of_processes_computes_the_same_bits(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(3), "little")
    done = ranks.run(6, "every_case.py", str(tmp_path), str(seed))
    assert done.returncode == 0, done.stderr[-4000:]
    lines = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    said = [line.rpartition(": ") for line in lines]
    assert not [(name, what) for name, _, what in said if what != "equal"], f"seed {seed}"
    wanted = {f"{name} on {count}" for name, case in CASES.items() for count in case.ranks}
    assert wanted <= {name for name, *_ in said}
    assert sum(name.startswith("drawn") for name, *_ in said) == DRAWN
