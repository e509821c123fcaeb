"""Writes pictures of tuning and sweeps, which matplotlib draws."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tikgen.disk import path_of, whole, why
from tikgen.errors import ParameterError, TikgenError

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
        target = path_of(path, lambda problem: ParameterError("plot", {"path": problem}))
        try:
            # matplotlib adds the suffix that is missing.
            with whole(target if target.suffix else f"{target}.png") as new:
                figure.savefig(new)
        except (OSError, ValueError) as error:
            raise TikgenError(f"Cannot write the picture {target}: {why(error)}.") from None
    return figure
