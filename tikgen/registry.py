"""Calls from lower rooms to functions of higher ones, by name.

A lower room must not import a higher one. ``tikgen/__init__.py``, above all rooms, registers the
functions that methods of a kernel call, such as ``kernel.ir`` and ``kernel.tune``.
"""

from __future__ import annotations

import importlib
from typing import Any

_places: dict[str, str] = {}


def register(**places: str) -> None:
    """Register functions by name, each as ``module:function``; a call imports the module."""
    _places.update(places)


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Return the result of the function that is registered under ``name``."""
    module, _, function = _places[name].partition(":")
    return getattr(importlib.import_module(module), function)(*args, **kwargs)
