"""Keeps NumPy from moving the memory of arrays whose addresses compiled code has."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np


def pinned(values: Iterable[Any]) -> list[weakref.ref[np.ndarray[Any, Any]]]:
    """Return references to the arrays among ``values``, and to those that own their memory.

    As long as they are kept, NumPy refuses to resize the arrays. With ``refcheck=False`` it does
    not count references, but still looks for weak ones.
    """
    found = []
    for value in values:
        while isinstance(value, np.ndarray):
            found.append(weakref.ref(value))
            value = value.base
    return found
