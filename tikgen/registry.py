"""What lower rooms call in higher ones, by name: so that imports point one way.

``tikgen/__init__.py``, which stands above all rooms, fills this registry.
"""

from __future__ import annotations

import importlib
from typing import Any

_places: dict[str, str] = {}


def register(**places: str) -> None:
    """Name the functions that lower rooms call, each as ``module:function``.

    Their modules are imported at the first call.
    """
    _places.update(places)


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call the function that is registered under ``name``, and return what it returns."""
    module, _, function = _places[name].partition(":")
    return getattr(importlib.import_module(module), function)(*args, **kwargs)
