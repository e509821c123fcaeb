"""Rows of a part of a grid: where those begin that lie between ghost points."""

from types import SimpleNamespace
from typing import Any

from tikgen.template.grid_use import ghosts_of

from .statements import index_names


def rows_of(p: Any, extents: list[str]) -> SimpleNamespace:
    """Return code for the rows of a part, which are those of the last axis.

    Args:
        p: the problem, with a part.
        extents: code for the extent of each axis.

    Returns:
        ``first``: the first index of a row; ``count``: how many elements it has; ``all``: how many
        rows there are; ``name``: a name for the number of a row; ``begin``: the linear index at
        which it begins; ``names``: names of the extents of all axes but the first, with which
        ``begin`` and ``width``, the length of a row, are written.
    """
    ghosts, index = ghosts_of(p.part, p.dim), index_names(p)
    names = [f"{name}_extent" for name in index[1:]]
    # Where there is a row, there are points along all axes but the last.
    counts = [
        f"({name} - {sum(pair)})" if any(pair) else name
        for name, pair in zip(names, ghosts[1:-1], strict=False)
    ]
    row, (low, _) = f"{index[0]}_row", ghosts[-1]
    begin = ""
    for axis in range(p.dim - 1):
        # The number of the row counts along all axes but the last.
        further = " * ".join(counts[axis:])
        place = f"{row} // ({further})" if " * " in further else f"{row} // {further}"
        place = place if further else row
        place = f"{place} % {counts[axis - 1]}" if axis else place
        place = _moved(place, ghosts[axis][0])
        begin = f"({begin}) * {names[axis - 1]} + {place}" if axis else place
    return SimpleNamespace(
        first=low,
        count=_less(extents[-1], ghosts[-1]),
        all=" * ".join(map(_less, extents[:-1], ghosts[:-1])),
        name=row,
        begin=_moved(f"({begin}) * {names[-1]}", low) if names else "",
        names=list(zip(names, extents[1:], strict=True)),
        width=_less(names[-1], ghosts[-1]) if names else "",
    )


def _less(extent: str, ghosts: tuple[int, int]) -> str:
    """Return code for how many points of an axis are no ghost points."""
    return f"ti.max({extent} - {sum(ghosts)}, 0)" if any(ghosts) else extent


def _moved(place: str, by: int) -> str:
    return f"{place} + {by}" if by else place
