"""Arrays of an earlier ``ti.init`` that are deleted late."""

from __future__ import annotations

import subprocess
import sys

from conftest import ARCH

PROGRAM = """
import taichi as ti
import tikgen

kept = []
for _ in range(8):
    ti.init(arch=getattr(ti, {arch!r}), log_level=ti.ERROR)
    arrays = [ti.ndarray(ti.f32, 5) for _ in range(20)]
    kept.clear()  # Taichi would take some of the new arrays for those that lay in their places.
    for number, array in enumerate(arrays):
        array.fill(number)
    for number, array in enumerate(arrays):
        assert array.to_numpy().tolist() == [number] * 5
    kept = arrays
print("all are there")
"""


def test_arrays_that_are_deleted_late_take_no_others_with_them(ti_arch: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arch=ARCH)], capture_output=True, text=True
    )
    assert done.returncode == 0 and "all are there" in done.stdout, done.stderr[-800:]
