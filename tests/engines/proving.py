"""Launches until the option "auto" has decided about a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tikgen.pipeline import automatic

# The first PTX of a process takes some seconds.
_SECONDS = 180


def want_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have machine code made after three launches, and asked for at each of the next ones."""
    monkeypatch.setattr(automatic, "LAUNCHES", 3)
    monkeypatch.setattr(automatic, "_BETWEEN", 1)


def until_decided(kernel: Any, launch: Callable[[], object]) -> None:
    """Launch until the kernel's machine code is proven or given up, and once more."""
    for _ in range(20):
        launch()
        choice = automatic.choice_of(kernel.loaded)
        if choice._making is not None:
            choice._making.wait(_SECONDS)
        if choice.direct is not None or choice.why:
            launch()
            return
    raise AssertionError(kernel.why)
