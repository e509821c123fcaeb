"""Points of a whole grid, chosen as NumPy chooses elements: who owns them, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tikgen.grid.decomposition import Range
from tikgen.grid.processes import Processes

NDArray = npt.NDArray[Any]
Places = tuple[Any, ...]
# A call that all processes make.
_READ = "field[...]"


class Points:
    """Some elements of a whole array, as an index of NumPy chooses them.

    Args:
        shape: shape of the whole array.
        key: the index: numbers, slices, arrays, an ellipsis.

    Attributes:
        shape: shape of what is chosen.

    Raises:
        IndexError: if the index does not fit the shape.
    """

    def __init__(self, shape: tuple[int, ...], key: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        axes = [np.arange(extent) for extent in shape]
        whole = [np.broadcast_to(axis, shape) for axis in np.ix_(*axes)]
        # Views, as long as numbers and slices choose.
        self._indices = [indices[key] for indices in whole]
        self.shape = self._indices[0].shape
        self._along: list[NDArray] | None = None
        plain = (k is ... or isinstance(k, slice | int | np.integer) for k in keys)
        if all(plain) and not any(isinstance(k, bool) for k in keys):
            self._along = _on_each_axis(axes, keys)

    def owned(self, owned: Sequence[Range]) -> tuple[Places, Places]:
        """Return where those that a process owns stand among the chosen ones, and in its array.

        Args:
            owned: for each axis the first index that it owns, and the one behind the last.
        """
        if self._along is not None:
            among, own = [], []
            for chosen, (start, stop) in zip(self._along, owned, strict=True):
                (inside,) = np.nonzero((start <= chosen) & (chosen < stop))
                among.append(slice(inside[0], inside[-1] + 1) if len(inside) else slice(0))
                own.append(chosen[inside] - start)
            return tuple(among), np.ix_(*own)
        mask = np.ones(self.shape, bool)
        for indices, (start, stop) in zip(self._indices, owned, strict=True):
            mask &= (start <= indices) & (indices < stop)
        pairs = zip(self._indices, owned, strict=True)
        return (mask,), tuple(indices[mask] - start for indices, (start, _) in pairs)

    def fitted(self, values: NDArray) -> NDArray:
        """Return values of the shape of what is chosen, as :meth:`owned` numbers them; a view."""
        if self._along is None:
            return values
        return values.reshape([len(chosen) for chosen in self._along])

    def read(self, own: NDArray, parts: Sequence[Sequence[Range]], processes: Processes) -> NDArray:
        """Return what they hold, on all processes, which have to call it together.

        Args:
            own: the elements that this process owns.
            parts: what each process owns along each axis.
            processes: the processes.
        """
        found: NDArray = np.empty(self.shape, own.dtype)
        target = self.fitted(found)
        places = [self.owned(part) for part in parts]
        every = processes.all(own[places[processes.rank][1]], _READ)
        for rank, held in enumerate(every):
            if isinstance(held, str):
                raise IndexError(f"rank {rank}: {held}")
        for (among, _), held in zip(places, every, strict=True):
            target[among] = held
        return found

    def write(self, own: NDArray, part: Sequence[Range], values: NDArray) -> None:
        """Write values for all of them, of which a process takes those of points that it owns.

        Args:
            own: the elements that this process owns.
            part: what it owns along each axis.
            values: an array of the shape of what is chosen.
        """
        among, places = self.owned(part)
        own[places] = self.fitted(values)[among]


def tell(problem: str, processes: Processes) -> None:
    """Tell the processes that read elements that this one cannot."""
    processes.all(problem, _READ)


def _on_each_axis(axes: Sequence[NDArray], keys: Sequence[Any]) -> list[NDArray]:
    """Return the indices that numbers and slices choose along each axis."""
    place = next((n for n, key in enumerate(keys) if key is ...), len(keys))
    rest = (slice(None),) * (len(axes) - len(keys) + (place < len(keys)))
    full = (*keys[:place], *rest, *keys[place + 1 :])
    return [np.atleast_1d(axis[key]) for axis, key in zip(axes, full, strict=True)]
