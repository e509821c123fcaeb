"""A grid of points that processes share: its fields, and the kernels that compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tikgen.callables import function_name, takes_arguments
from tikgen.dtypes import DType
from tikgen.errors import GridError
from tikgen.grid.arguments import (
    check_choices,
    counts_of,
    differing,
    speeds_of,
    truths,
    whole_number,
    whole_numbers,
)
from tikgen.grid.binding import GridStep, bound_on
from tikgen.grid.decomposition import Decomposition, balanced, by
from tikgen.grid.domain import Domain
from tikgen.grid.field import Field
from tikgen.grid.layers import Layers
from tikgen.grid.of_all import of_all
from tikgen.grid.processes import processes_of
from tikgen.grid.proportions import sizes_of
from tikgen.grid.redistribution import redistributed
from tikgen.grid.values import array_of, hint_of_components, numbers_of, spread
from tikgen.machine.caches import cache_bytes
from tikgen.pipeline.kernel import Kernel
from tikgen.program import parts
from tikgen.template.grid_use import LayersUse
from tikgen.template.matched import matched_layers
from tikgen.units import counted

NDArray = npt.NDArray[Any]
_T = TypeVar("_T", int, bool)


class Grid:
    """A regular grid of one to three axes, divided among the processes of MPI.

    Each process owns a box of points, and holds ghost layers where it has neighbours. What is
    written for a grid runs on any number of processes, one included, which needs no MPI.

    All processes make the same grids and fields, bind the same kernels and run the same programs,
    in the same order. Where one of several processes has an error that nobody catches, all of them
    end, with exit status 1.

    Args:
        shape: number of points along each axis of the whole grid.
        periodic: whether the two ends of an axis are neighbours, for all axes or for each. It has
            to agree with the boundaries of kernels.
        comm: a communicator of mpi4py, by default ``MPI.COMM_WORLD``; or the module
            ``torch.distributed``, or a process group of it with the backend nccl or gloo.
        halo: width of ghost layers, for all axes or for each; by default as far as kernels reach
            that were bound before a field or a program is used, times ``exchange_every``.
        ranks: number of processes along each axis; by default those with which all are done first.
            Where there are too few points for all processes, the last ones are idle.
        device: whether fields lie on the device, in tensors of torch where it is there, else in
            arrays of Taichi; by default where Taichi runs on cuda.
        overlap: whether messages travel while points are computed that need none; by default where
            a process has 16 million points or more on the device.
        sums: how kernels add floats up: ``"fast"``, where the last digits depend on the number of
            processes; or ``"exact"``, where a sum is that of its terms, rounded once, with the same
            bits on any processes, at the cost of an array of terms and of Python in each step.
        weights: how fast each process is, in any unit, on all processes alike; parts are then in
            proportion. By default processes are equally fast.
        exchange_every: from one exchange of ghost layers to the next, programs do at most so many
            steps, as many as these layers are wide enough for: neighbours then compute the points
            between their parts both. By default 4 where fields lie on the device, 8 where they are
            larger than the cache of the host and a slab of them can stay there, else 1.

    Raises:
        GridError: if the arguments do not fit, differ between processes, or MPI cannot be used.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        periodic: bool | Sequence[bool] = False,
        comm: Any = None,
        halo: int | Sequence[int] | None = None,
        ranks: int | Sequence[int] | None = None,
        device: bool | None = None,
        overlap: bool | None = None,
        sums: Literal["fast", "exact"] = "fast",
        weights: Sequence[float] | None = None,
        exchange_every: int | None = None,
    ) -> None:
        processes = processes_of(comm)
        with processes.refusing():
            extents = whole_numbers("shape", shape, None, least=1)
            if not 1 <= len(extents) <= 3:
                raise GridError(f"a grid has 1, 2 or 3 axes; got the shape {tuple(extents)}")
            dim = len(extents)
            widths = None if halo is None else whole_numbers("halo", halo, dim, least=0)
            least = tuple(max(1, width) for width in widths or (1,) * dim)
            speeds = None if weights is None else speeds_of(weights, processes.size)
            if ranks is None:
                counts = balanced(extents, processes.size, least, speeds)
            else:
                counts = counts_of(ranks, extents, processes.size, least)
            sizes = () if speeds is None else sizes_of(extents, counts, speeds, least)
            decomposition = Decomposition(extents, counts, truths(periodic, dim), sizes)
            if processes.transport.needs_own_gpu and decomposition.count < processes.size:
                # It connects those that take part in its first messages, and waits for all others.
                raise GridError(
                    f"{processes.transport.name} carries no messages beside idle processes, and of "
                    f"{processes.size} processes {decomposition.count} own points; take more "
                    "points, fewer processes, or a process group with the backend gloo"
                )
            check_choices(sums, device=device, overlap=overlap)
            if exchange_every is not None:
                exchange_every = whole_number("exchange_every", exchange_every, least=1)
        given: dict[str, Any] = {"shape": extents, "periodic": decomposition.periodic}
        given |= {"halo": widths, "ranks": None if ranks is None else counts, "device": device}
        given |= {"overlap": overlap, "sums": sums, "exchange_every": exchange_every}
        # Numbers of processes that the grid chooses may be those that another process is given.
        if processes.difference((decomposition, speeds, given | {"ranks": counts})):
            given["weights"] = None if weights is None else tuple(np.asarray(weights).tolist())
            found = differing(processes.all(given))
            raise GridError(f"the processes make different grids: {found}")
        self._domain = Domain(
            *(decomposition, processes, widths, device, overlap, sums, exchange_every),
            cache=processes.shared(cache_bytes()[-1]) if processes.size > 1 else 0,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of points along each axis of the whole grid."""
        return self._domain.shape

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Return for each axis whether its two ends are neighbours."""
        return self._domain.decomposition.periodic

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the number of processes along each axis."""
        return self._domain.decomposition.ranks

    @property
    def rank(self) -> int:
        """Return the number of this process, from 0."""
        return self._domain.processes.rank

    @property
    def size(self) -> int:
        """Return the number of processes."""
        return self._domain.processes.size

    @property
    def halo(self) -> tuple[int, ...]:
        """Return the width of the ghost layers of each axis, which is settled from then on."""
        return self._domain.halo

    @property
    def owned(self) -> tuple[slice, ...]:
        """Return the points of the whole grid that this process owns, a slice for each axis."""
        return tuple(slice(*own) for own in self._domain.owned)

    def zeros(
        self,
        dtype: str | DType = "f32",
        *,
        components: int = 0,
        layout: Literal["first", "last"] = "first",
    ) -> Field:
        """Return a field of zeros.

        Args:
            dtype: type of its elements.
            components: number of components of a vector; 0 for a field of numbers.
            layout: whether the components of a vector come before the axes of the grid or behind.

        Raises:
            GridError: if an argument does not fit.
        """
        return self.full(0, dtype, components=components, layout=layout)

    @of_all
    def full(
        self,
        value: float,
        dtype: str | DType = "f32",
        *,
        components: int = 0,
        layout: Literal["first", "last"] = "first",
    ) -> Field:
        """Return a field that holds one value everywhere; it takes what :meth:`zeros` does."""
        what = f"full of {dtype}"

        def fill(owned: NDArray) -> None:
            owned[...] = spread(value, made.dtype, owned.shape, what)

        made = self._made(dtype, components, layout, fill)
        numbers_of(value, made.dtype, what)
        return made

    @of_all
    def field(
        self,
        values: NDArray | Callable[..., Any],
        dtype: str | DType | None = None,
        *,
        components: int = 0,
        layout: Literal["first", "last"] = "first",
    ) -> Field:
        """Return a field with given values.

        Args:
            values: an array over the whole grid, components included, on every process, of which
                each takes its own part. Or a function of the indices ``i``, ``j`` and ``k`` on the
                whole grid, arrays that broadcast against each other; for vectors it returns a tuple
                with an array or a number for each component.
            dtype: type of its elements, by default that of the array, and ``f32`` of a function.
            components: number of components of a vector; 0 for a field of numbers.
            layout: whether the components of a vector come before the axes of the grid or behind.

        Raises:
            GridError: if the shape or another argument does not fit. Functions are called when an
                array of a field is used first; what they return shows then.
        """
        if callable(values):
            function = values
            name = f"{function_name(function)}()"
            if not takes_arguments(function, len(self.shape)):
                indices = ", ".join("ijk"[: len(self.shape)])
                raise GridError(
                    f"field takes a function of {indices}; {name} does not take "
                    f"{counted(len(self.shape), 'argument')}"
                )

            def compute(owned: NDArray) -> None:
                found = function(*np.ogrid[self.owned])
                if found is None:
                    raise GridError(f"{name} returned None; a field takes numbers from it")
                computed.put(owned, found, f"a field of {computed.dtype} from {name}")

            computed = self._made(dtype or "f32", components, layout, compute)
            return computed
        array = array_of(values, "field")
        if array.dtype.kind not in "biuf":
            raise GridError(
                f"field takes an array of numbers or a function of indices; got {values!r:.60}"
            )
        made = self._made(
            dtype or str(array.dtype), components, layout, lambda owned: _put(owned, array, made)
        )
        if array.shape != made.whole_shape:
            raise GridError(
                f"a field of shape {made.whole_shape} takes no array of {array.shape}"
                f"{hint_of_components(array.shape, self.shape)}"
            )
        numbers_of(array, made.dtype, f"a field of {made.dtype}")
        return made

    def _made(
        self,
        dtype: str | DType,
        components: int,
        layout: Literal["first", "last"],
        fill: Callable[[NDArray], None],
    ) -> Field:
        try:
            kind = DType.parse(dtype)
        except (TypeError, ValueError) as error:
            raise GridError(str(error)) from None
        components = whole_number("components", components, least=0)
        if not isinstance(layout, str) or layout not in ("first", "last"):
            raise GridError(f"layout takes 'first' or 'last'; got {layout!r}")
        return Field(self._domain, kind, components, layout, fill)

    @of_all
    def matched_layers(self, kernel: Kernel, courant: float, **numbers: float) -> dict[str, Any]:
        """Return the arrays that a kernel takes for its layers of kind "cpml".

        What layers keep of derivatives is divided among processes as fields are, and stored with
        them.

        Args:
            kernel: a kernel of :func:`tikgen.update`.
            courant: how many points the fastest wave runs in an update.
            numbers: further ones that :func:`tikgen.matched_layers` takes.

        Returns:
            The numbers of the layers along each axis, and for each derivative what layers keep of
            it, by argument.

        Raises:
            ValueError: if the kernel has no such layers, or a number is out of range.
        """
        found: dict[str, Any] = dict(matched_layers(kernel, self.shape, courant, **numbers))
        grid_use = kernel.template.grid_use(kernel.problem)
        for name, values in found.items():
            if grid_use is not None and (use := grid_use.layers.get(name)):
                found[name] = self.layers(DType.parse(str(values.dtype)), values.shape[0], use)
            else:
                found[name] = self._domain.memory.holding(values)
        return found

    def layers(self, dtype: DType, components: int, use: LayersUse) -> Layers:
        """Return zeros for what matched layers of an axis keep of derivatives."""
        return Layers(self._domain, dtype, components, use)

    def bind(self, kernel: Kernel, /, *args: Any, **kwargs: Any) -> GridStep:
        """Return a kernel with fields as arguments, a part of a :class:`tikgen.Program`.

        A launch computes the points that each process owns. Before it, processes exchange the ghost
        layers that the kernel reads; after it, they join the results of its reductions. Indices,
        coordinates and absorbing layers are those of the whole grid, and boundaries hold at the
        sides of the whole grid.

        Args:
            kernel: a kernel of :func:`tikgen.update`.
            args: fields, one-element arrays and numbers in order. Values over faces are contiguous
                NumPy arrays over the whole face, on every process; later values count as well, in
                each step, or where fields lie on a device, before each run and after its calls.
            kwargs: the same by name.

        Raises:
            GridError: if an argument does not fit, the kernel reads further than ghost layers are
                wide, or processes bind different things; on all processes.
        """
        return bound_on(self._domain, self.periodic, kernel, args, kwargs)

    @of_all
    def swap(self, *pairs: tuple[Field, Field]) -> parts.Swap:
        """Return the part of a program that lets fields change places, as :func:`tikgen.swap`.

        Raises:
            GridError: if something is no field of this grid.
            ProgramError: if something is no pair of two fields.
        """
        made = parts.swap(*pairs)
        for pair in made.pairs:
            for field in pair:
                self._check(field, "swap")
        return made

    def gather(self, field: Field) -> NDArray | None:
        """Return the whole array of a field on rank 0, None on others; all processes must call it.

        Raises:
            GridError: if it is no field of this grid, or processes gather different ones.
        """
        with self._domain.processes.refusing("grid.gather(field)"):
            self._check(field, "gather")
        numbers = self._domain.processes.all(field.number)
        if len(set(numbers)) > 1:
            told = ", ".join(map(str, numbers))
            raise GridError(f"the processes gather different fields, by rank: {told}")
        return field.gathered()

    def scatter(self, field: Field, values: Any = None) -> None:
        """Write a whole array that rank 0 has into a field; all processes must call it.

        Args:
            field: the field.
            values: the array on rank 0; others pass none, and theirs is ignored.

        Raises:
            GridError: if it is no field of this grid, or the array does not fit, on all processes.
        """
        with self._domain.processes.refusing("grid.scatter(field)"):
            array = array_of(values if self.rank == 0 else 0, "scatter")
            self._check(field, "scatter")
            takes = "scatter takes an array of"
            if self.rank == 0 and array.shape != field.whole_shape:
                raise GridError(f"{takes} shape {field.whole_shape}; got shape {array.shape}")
            if self.rank == 0 and not np.can_cast(array.dtype, field.dtype.numpy, "same_kind"):
                raise GridError(f"{takes} dtype {field.dtype}; got {array.dtype}")
        field.scatter(array if self.rank == 0 else None)

    def redistribute(self, field: Field, other: Grid) -> Field:
        """Return a field of another grid that holds the values of a field of this one.

        Processes send each other what changes hands; none gathers the whole. All processes must
        call it.

        Args:
            field: a field of this grid.
            other: a grid of the same shape and processes, divided in another way.

        Raises:
            GridError: if it is no field of this grid, the other grid has another shape or other
                processes, or processes ask for different things; on all processes.
        """
        processes = self._domain.processes
        with processes.refusing():
            self._check(field, "redistribute")
            if not isinstance(other, Grid):
                raise GridError(f"redistribute takes a grid; got {type(other).__name__}")
            if other.shape != self.shape:
                raise GridError(
                    f"redistribute takes a grid of {by(self.shape)} points; got one of "
                    f"{by(other.shape)}"
                )
            if (other.size, other.rank) != (self.size, self.rank):
                raise GridError(
                    f"redistribute takes a grid of the same {self.size} processes in the same "
                    f"order; got one in which rank {self.rank} of them is rank {other.rank} of "
                    f"{other.size}"
                )
            what = f"field {field.number} to {other.ranks} processes"
        if found := processes.difference(what):
            rank, first, told = found
            raise GridError(
                f"the processes redistribute different things: rank 0 {first}, rank {rank} {told}"
            )
        return redistributed(field, other._domain)

    def print(self, *values: Any) -> None:
        """Print values as the function of that name does, in the process of rank 0 alone."""
        if self.rank == 0:
            print(*values, flush=True)

    def _check(self, field: Any, what: str) -> None:
        if not isinstance(field, Field):
            raise GridError(f"{what} takes fields of the grid; got {type(field).__name__}")
        if field.domain is not self._domain:
            raise GridError(f"{what} takes fields of this grid; got one of {field.domain}")

    def __repr__(self) -> str:
        domain = self._domain
        by_nccl = domain.carrier is not domain.processes.transport
        return f"<Grid of {domain}" + (f", messages by {domain.carrier.name}" * by_nccl) + ">"


def _put(owned: NDArray, whole: NDArray, field: Field) -> None:
    owned[...] = whole[field.indices]
