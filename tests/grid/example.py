"""Runs an example on these processes, and keeps the numbers that it ends with.

``python example.py SCRIPT FILE``; the process of rank 0 writes the file, of NumPy's format npz.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tikgen.grid.field import Field


def numbers_in(value: Any) -> Iterator[Any]:
    """Yield the numbers that a value holds, as flat arrays; all processes have to ask together."""
    if isinstance(value, Field):
        yield value[:].ravel()
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)
    elif isinstance(value, np.ndarray | np.number | float):
        yield np.ravel(value)


left = runpy.run_path(sys.argv[1], run_name="__main__")
found = {name: list(numbers_in(left[name])) for name in sorted(left) if not name.startswith("_")}
if left["grid"].rank == 0:
    np.savez(sys.argv[2], **{name: np.concatenate(each) for name, each in found.items() if each})
