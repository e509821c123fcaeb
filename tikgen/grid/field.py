"""Fields: arrays over a grid, of which each process holds a part with ghost layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tikgen.dtypes import DType
from tikgen.errors import GridError
from tikgen.grid.decomposition import Range
from tikgen.grid.domain import Domain
from tikgen.grid.moves import moved
from tikgen.grid.points import Points, tell
from tikgen.grid.values import spread
from tikgen.program.team import Held, Team
from tikgen.units import counted

NDArray = npt.NDArray[Any]


class Field(Held):
    """Numbers at the points of a grid; made by :meth:`Grid.zeros` and its like.

    This process holds the points that it owns, and the ghost layers where it has neighbours.
    """

    def __init__(
        self,
        domain: Domain,
        dtype: DType,
        components: int,
        layout: Literal["first", "last"],
        fill: Callable[[NDArray], None],
    ) -> None:
        self.domain, self.dtype = domain, dtype
        self.components = components
        self.first_axis = int(components > 0 and layout == "first")
        self.number = domain.fields
        domain.fields += 1
        # What fills the array, which is made when ghost layers are as wide as they have to be.
        self._fills = [fill]
        self._array: Any = None
        # The points that this process owns, where they are read or written before that.
        self._early: NDArray | None = None

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Return the shape over the whole grid, components included."""
        return self.with_components(self.points)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape over the whole grid, components included, as NumPy calls it."""
        return self.whole_shape

    def __len__(self) -> int:
        """Return the extent of the first axis of the whole array."""
        return self.whole_shape[0]

    @property
    def team(self) -> Team | None:
        """Return the processes, if there are several."""
        processes = self.domain.processes
        return processes if processes.size > 1 else None

    @property
    def points(self) -> tuple[int, ...]:
        """Return the number of points along each axis of the grid."""
        return self.domain.shape

    @property
    def bytes_a_point(self) -> int:
        """Return the bytes of all components at a point."""
        return self.dtype.numpy.itemsize * max(1, self.components)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the extents of the array of this process along the axes of the grid."""
        return self.domain.extents

    @property
    def inner(self) -> tuple[slice, ...]:
        """Return where in the array the owned points lie along the axes of the grid."""
        return self.domain.inner

    def owned_by(self, rank: int) -> tuple[Range, ...]:
        """Return the points that a process owns along the axes of the grid."""
        return self.domain.decomposition.owned(rank)

    def on(self, domain: Domain, fill: Callable[[NDArray], None]) -> Field:
        """Return a field like this one of another grid."""
        layout: Literal["first", "last"] = "first" if self.first_axis else "last"
        return Field(domain, self.dtype, self.components, layout, fill)

    @property
    def array(self) -> Any:
        """Return the array of this process, ghost points included; it is the same each time.

        It is an array of NumPy, or on the device a tensor of torch, or a ``ti.ndarray``.
        """
        if self._array is None:
            values: NDArray = np.zeros(self.with_components(self.extents), self.dtype.numpy)
            if self._early is not None:
                values[self._inner] = self._early
            self._fill(values[self._inner])
            self._array, self._early = self.domain.memory.holding(values), None
        return self._array

    def _fill(self, owned: NDArray) -> None:
        """Write what was given for the points that this process owns."""
        for fill in () if self.domain.is_idle else self._fills:
            fill(owned)
        self._fills.clear()

    def _before(self) -> NDArray:
        """Return the points that this process owns, while ghost layers may still grow."""
        if self._early is None:
            self._early = np.zeros(self._extents_owned, self.dtype.numpy)
        self._fill(self._early)
        return self._early

    @property
    def _extents_owned(self) -> tuple[int, ...]:
        """Return the shape of the points that this process owns, components included."""
        return tuple(stop - start for start, stop in self.box)

    @property
    def owned(self) -> Any:
        """Return the points that this process owns, a view of the array.

        Ghost layers are settled from then on; :meth:`to_numpy` and an index leave them open.

        Raises:
            GridError: if the array is one of Taichi, which has no views.
        """
        return self.domain.memory.view(self.array, self._inner)

    def to_numpy(self) -> NDArray:
        """Return a copy of the points that this process owns, on the host."""
        if self._array is None:
            return np.array(self._before())
        return self.domain.memory.read(self._array, self._inner)

    def from_numpy(self, values: Any) -> None:
        """Write the points that this process owns.

        Args:
            values: what NumPy takes for an array of the shape of :meth:`to_numpy`.

        Raises:
            GridError: if the values do not fit.
        """
        own = spread(values, self.dtype, self._extents_owned, "from_numpy")
        if self._array is None:
            self._before()[...] = own
        else:
            own = own.astype(self.dtype.numpy, copy=False)
            self.domain.memory.write(self._array, self._inner, own)

    def put(self, owned: NDArray, values: Any, what: str) -> None:
        """Write values at points that this process owns.

        Args:
            owned: the points.
            values: an array that broadcasts, or for vectors a tuple or a list with an array or a
                number for each component.
            what: what takes them, in words.

        Raises:
            GridError: if they do not fit.
        """
        count = len(values) if isinstance(values, tuple | list) else 0
        if not self.components and isinstance(values, tuple):
            raise GridError(
                f"{what} takes an array or a number; got {counted(count, 'value')}, as of a "
                f"vector, which takes components={count}"
            )
        if not self.components or not count:
            owned[...] = spread(values, self.dtype, owned.shape, what)
            return
        if count != self.components:
            takes = counted(self.components, "component")
            raise GridError(f"{what} takes {takes}; got {counted(count, 'value')}")
        each = owned if self.first_axis else np.moveaxis(owned, -1, 0)
        for part, value in zip(each, values, strict=True):
            part[...] = spread(value, self.dtype, part.shape, f"a component of {what}")

    @property
    def _inner(self) -> tuple[slice, ...]:
        """Return where in the array the owned points lie."""
        return (slice(None),) * self.first_axis + self.inner

    @property
    def indices(self) -> tuple[slice, ...]:
        """Return where in the whole array the owned points lie."""
        return self._places(self.domain.processes.rank)

    def with_components(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an array over some points."""
        if not self.components:
            return extents
        return (self.components, *extents) if self.first_axis else (*extents, self.components)

    def _places(self, rank: int) -> tuple[slice, ...]:
        return tuple(slice(*own) for own in self.part(rank))

    def __getitem__(self, key: Any) -> NDArray:
        """Return elements of the whole array, on all processes, which have to ask together.

        Args:
            key: an index of NumPy, such as ``field[50]`` and ``field[rows, columns]``.

        Returns:
            A new array.

        Raises:
            IndexError: if the index does not fit.
        """
        return self._read(self._on_host(), key)

    def __setitem__(self, key: Any, values: Any) -> None:
        """Write elements of the whole array; each process takes those of points that it owns.

        Args:
            key: an index of NumPy.
            values: a number, or an array for all elements, the same on all processes.

        Raises:
            IndexError: if the index does not fit.
            GridError: if the values do not.
        """
        points = Points(self.whole_shape, key)
        count = f"elements of shape {points.shape}" if points.shape else "an element"
        what = f"{count} of a field of {self.dtype}"
        wanted = spread(values, self.dtype, points.shape, what).astype(self.dtype.numpy)
        part = self.box
        self._fills.append(lambda owned: points.write(owned, part, wanted))
        if self._array is not None:
            owned = self._on_host()
            self._fills.pop()(owned)
            if not self.domain.memory.is_host:
                self.from_numpy(owned)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        """Refuse: a process has a part of the array.

        Raises:
            GridError: always.
        """
        raise GridError(
            "a field is no array of NumPy, since each process has a part; take field[...] for the "
            "whole array on all processes, grid.gather(field) for that on rank 0, or field.owned "
            "for the points of this process"
        )

    def _refused(self, *operands: Any) -> Any:
        """Refuse arithmetic: a program computes it.

        Raises:
            GridError: always.
        """
        raise GridError(
            "a field takes no arithmetic; write equations for tikgen.update and bind them with "
            "grid.bind, or take field.owned, the array of the points of this process"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refused
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refused
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __neg__ = __abs__ = _refused
    __lt__ = __le__ = __gt__ = __ge__ = _refused

    def _on_host(self) -> NDArray:
        """Return the points that this process owns: a view on the host, a copy on a device."""
        if self._array is None:
            return self._before()
        found: NDArray = self.owned if self.domain.memory.is_host else self.to_numpy()
        return found

    def whole(self, array: NDArray) -> NDArray:
        """Return the whole array, on all processes, of one that has the shape of theirs."""
        return self._read(array[self._inner], ...)

    def _read(self, owned: NDArray, key: Any) -> NDArray:
        processes = self.domain.processes
        if processes.size == 1:
            return np.array(owned[key])
        parts = [self.part(rank) for rank in range(processes.size)]
        try:
            points = Points(self.whole_shape, key)
        except Exception as error:
            tell(str(error), processes)
            raise
        return points.read(owned, parts, processes)

    @property
    def box(self) -> list[Range]:
        """Return where in the whole array the owned points lie."""
        return self.part(self.domain.processes.rank)

    def part(self, rank: int) -> list[Range]:
        """Return what a process owns of each axis of the whole array, components included."""
        part = [(0, extent) for extent in self.whole_shape]
        owned = self.owned_by(rank)
        part[self.first_axis : self.first_axis + len(owned)] = owned
        return part

    def gathered(self) -> NDArray | None:
        """Return the whole array in the process of rank 0, None in others."""
        processes, decomposition = self.domain.processes, self.domain.decomposition
        if processes.size == 1:
            return self.to_numpy()
        transport = processes.transport
        if processes.rank:
            if not self.domain.is_idle:
                transport.send(self.to_numpy(), 0)
            return None
        whole: NDArray = np.empty(self.whole_shape, self.dtype.numpy)
        whole[self.indices] = self.to_numpy()
        for rank in range(1, decomposition.count):
            part = whole[self._places(rank)]
            received = np.empty(part.shape, part.dtype)
            transport.receive(received, rank)
            part[...] = received
        return whole

    @property
    def divided(self) -> tuple[int, ...]:
        """Return among how many processes each axis of the whole array is divided."""
        counts = [1] * len(self.whole_shape)
        ranks = self.domain.decomposition.ranks
        counts[self.first_axis : self.first_axis + len(ranks)] = ranks
        return tuple(counts)

    def shared_out(self, extents: Sequence[int]) -> tuple[list[Range], NDArray]:
        """Return a part of the whole array: where it lies, and its elements."""
        processes = self.domain.processes
        before = [self.part(rank) for rank in range(processes.size)]
        after = [self._share(rank, extents) for rank in range(processes.size)]
        return after[processes.rank], moved(self.to_numpy(), before, after, processes)

    def _share(self, rank: int, extents: Sequence[int]) -> list[Range]:
        """Return the part of a process if parts have certain extents: nothing if it is idle."""
        if rank >= self.domain.decomposition.count:
            return [(0, 0)] * len(self.whole_shape)
        places = [0] * len(self.whole_shape)
        own = self.domain.decomposition.place(rank)
        places[self.first_axis : self.first_axis + len(own)] = own
        axes = zip(places, extents, self.whole_shape, strict=True)
        return [
            (min(place * extent, points), min((place + 1) * extent, points))
            for place, extent, points in axes
        ]

    def scatter(self, whole: NDArray | None) -> None:
        """Take this process's part of a whole array, which the process of rank 0 gives."""
        processes, decomposition = self.domain.processes, self.domain.decomposition
        if processes.rank == 0:
            assert whole is not None
            for rank in range(1, decomposition.count):
                part = whole[self._places(rank)]
                processes.transport.send(np.ascontiguousarray(part, self.dtype.numpy), rank)
            values = whole[self.indices]
        elif self.domain.is_idle:
            return
        else:
            values = np.empty([stop - start for start, stop in self.box], self.dtype.numpy)
            processes.transport.receive(values, 0)
        self.from_numpy(values)

    def __repr__(self) -> str:
        return f"<Field {self.number} of {self.dtype} over {self.domain}>"
