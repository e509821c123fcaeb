"""The consoles that print on a terminal, a pipe or in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def make_console(*, stderr: bool = False, **options: Any) -> Console:
    """Return a console of rich on the standard output, or on the error stream.

    It prints ``:x:`` as it is, which may be a part of a path. ``options`` are further ones of rich.
    """
    from rich.console import Console

    return Console(stderr=stderr, emoji=False, **options)
