"""Writes pictures of tuning and sweeps, which matplotlib draws."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikgen.disk import whole, why
from tikgen.errors import TikgenError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drawing() -> Any:
    """Return the module that draws, or raise :class:`TikgenError` without matplotlib."""
    try:
        from tikgen.tuning import plots
    except ImportError:
        raise TikgenError("Pictures need matplotlib: pip install 'tikgen[plot]'.") from None
    return plots


def saved(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Write a figure to ``path`` unless that is None; return it."""
    if path is not None:
        try:
            # matplotlib adds the suffix that is missing.
            with whole(path if Path(path).suffix else f"{os.fspath(path)}.png") as new:
                figure.savefig(new)
        except (OSError, ValueError) as error:
            raise TikgenError(
                f"Cannot write the picture {os.fspath(path)}: {why(error)}."
            ) from None
    return figure
