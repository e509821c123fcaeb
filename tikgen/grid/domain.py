"""The part of a grid that this process owns, with the ghost layers around it.

An idle process, which owns no points, is as one within the grid that has nothing between its ghost
points: its arrays hold these alone, and its kernels, which it launches as the others do, find
nothing to compute.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tikgen.errors import GridError
from tikgen.grid.decomposition import Decomposition, by
from tikgen.grid.memory import Memory, memory_for
from tikgen.grid.processes import Processes
from tikgen.grid.transports import Carrier

# Points of a part on a device from which on the further launches of an overlap pay: where messages
# are part of streams, and where they go through the host.
_MANY_IN_STREAMS, _MANY = 1 << 20, 1 << 24
# Steps from one exchange to the next on a device. Kernels that reach further need layers so wide
# that the time of an exchange is that of its bytes, unless they have few points.
_STEPS, _FEW_LAYERS, _FEW_POINTS = 4, 2, 1 << 18
# Steps that a slab is in the cache of the host, and the bytes that two fields of f32 have a point.
_STEPS_IN_CACHE, _BYTES_A_POINT = 8, 8


class Domain:
    """A grid, the processes that share it, and how wide ghost layers are.

    Args:
        decomposition: which process owns which points.
        processes: the processes.
        halo: the width of ghost layers for each axis; None for as wide as kernels reach.
        on_device: whether fields lie on the device; None for where Taichi runs on cuda.
        overlaps: whether messages travel while points are computed that need none; None for where
            many points lie on the device.
        sums: ``"exact"`` for sums of floats with the same bits on any processes, or ``"fast"``.
        exchange_every: how many steps there are at most from one exchange to the next; None for
            several where fields lie on the device, or are larger than the cache.
        cache: the bytes of the last cache of a processor; 0 for one that holds all.

    Attributes:
        owned: the points that this process owns along each axis.
        carrier: what carries messages of fields, chosen when the first kernel is bound.
        fields: how many fields were made.
        bound: how many kernels were bound.
    """

    def __init__(
        self,
        decomposition: Decomposition,
        processes: Processes,
        halo: tuple[int, ...] | None,
        on_device: bool | None = None,
        overlaps: bool | None = None,
        sums: str = "fast",
        exchange_every: int | None = None,
        cache: int = 0,
    ) -> None:
        self.sums, self._exchange_every, self._cache = sums, exchange_every, cache
        self._on_device, self._overlaps = on_device, overlaps
        self.decomposition, self.processes = decomposition, processes
        self.carrier: Carrier = processes.transport
        self.owned = decomposition.owned(processes.rank)
        self.fields, self.bound = 0, 0
        self._given, self._is_fixed = halo is not None, False
        self._halo = halo or (0,) * len(decomposition.shape)
        self._reach = self._halo

    @property
    def is_idle(self) -> bool:
        """Return whether this process owns no points."""
        return self.processes.rank >= self.decomposition.count

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the whole grid."""
        return self.decomposition.shape

    @functools.cached_property
    def memory(self) -> Memory:
        """Return where fields lie, which is settled from then on.

        Raises:
            GridError: if there is no device, or the transport cannot use it.
        """
        found = memory_for(self._on_device)
        transport = self.processes.transport
        if transport.needs_own_gpu and found.is_host:
            raise GridError(
                f"{transport.name} carries messages between GPUs, and fields lie on the host; call "
                "ti.init(arch=ti.cuda), or take a process group with the backend gloo"
            )
        return found

    @property
    def overlaps(self) -> bool:
        """Return whether messages travel while points are computed that need none."""
        if self._overlaps is not None:
            return self._overlaps
        many = _MANY_IN_STREAMS if self.carrier.follows_streams else _MANY
        return not self.memory.is_host and math.prod(b - a for a, b in self.owned) >= many

    @property
    def exchange_every(self) -> int:
        """Return how many steps there are at most from one exchange to the next."""
        if self._exchange_every is not None:
            return self._exchange_every
        if not self.memory.is_host:
            return _STEPS
        return _STEPS_IN_CACHE if self.are_for_cache else 1

    @property
    def chooses_steps(self) -> bool:
        """Return whether there are fewer steps where exchanges then take less time."""
        return self._exchange_every is None and not self.memory.is_host

    @property
    def are_for_cache(self) -> bool:
        """Return whether several steps are of use only if a slab of the grid stays in the cache."""
        if self._exchange_every is not None or not self.memory.is_host or not self._cache:
            return False
        points = math.prod(map(self.decomposition.most, range(len(self.shape))))
        return points * _BYTES_A_POINT >= self._cache

    @property
    def divided(self) -> tuple[bool, ...]:
        """Return for each axis whether processes divide it."""
        return tuple(count > 1 for count in self.decomposition.ranks)

    @property
    def halo(self) -> tuple[int, ...]:
        """Return how wide ghost layers are on each axis, which is settled from then on."""
        self._is_fixed = True
        return self._halo

    @property
    def ghosts(self) -> tuple[tuple[int, int], ...]:
        """Return how many ghost points there are below and above each axis."""
        if self.is_idle:  # Arrays are not empty, which no kernel takes.
            return tuple((max(1, width),) * 2 for width in self.halo)
        return tuple(
            (self._beyond(axis, False) * width, self._beyond(axis, True) * width)
            for axis, width in enumerate(self.halo)
        )

    @property
    def part(self) -> tuple[tuple[int, int, int, int], ...]:
        """Return the part of the grid that arrays hold, as kernels take it."""
        parts = zip(self.ghosts, self.owned, self.shape, strict=True)
        return tuple((low, high, own[0] - low, points) for (low, high), own, points in parts)

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the extents of arrays, ghost points included."""
        parts = zip(self.ghosts, self.owned, strict=True)
        return tuple(low + stop - start + high for (low, high), (start, stop) in parts)

    @property
    def inner(self) -> tuple[slice, ...]:
        """Return where in arrays the points lie that this process owns."""
        parts = zip(self.ghosts, self.owned, strict=True)
        return tuple(slice(low, low + stop - start) for (low, _), (start, stop) in parts)

    def _beyond(self, axis: int, is_upper: bool) -> bool:
        return self.neighbour(axis, is_upper) is not None

    def neighbour(self, axis: int, is_upper: bool) -> int | None:
        """Return the process beyond a side of this one, None outside."""
        return self.decomposition.neighbour(self.processes.rank, axis, is_upper)

    def take(self, reach: Sequence[int], kernel: str) -> None:
        """Have ghost layers as wide as a kernel reaches, in the steps from one exchange on.

        Args:
            reach: how far it reads at most along each axis.
            kernel: its name.

        Raises:
            GridError: if they are settled and narrower, or parts are narrower than that.
        """
        divided = [axis for axis, is_divided in enumerate(self.divided) if is_divided]
        for axis in divided:
            if (fewest := self.decomposition.fewest(axis)) < reach[axis]:
                fit = max(1, self.shape[axis] // reach[axis])
                raise GridError(
                    f"{kernel} reads {reach[axis]} points away along axis {axis}, where a process "
                    f"owns {fewest} of {self.shape[axis]} points; take fewer processes along it, "
                    f"of which {fit} fit, more points, or Grid(..., halo={reach[axis]}), which "
                    "divides other axes, or leaves processes idle"
                )
        wanted = tuple(max(pair) for pair in zip(self._reach, reach, strict=True))
        if not self._given and not self._is_fixed:
            self._reach = wanted
            self._halo = tuple(self._for_several(axis, most) for axis, most in enumerate(wanted))
        for axis in divided:
            if self._halo[axis] < reach[axis]:
                why = (
                    "as the grid was told; make it"
                    if self._given
                    else "since a program was made before, or field.owned, field.array or "
                    "grid.halo used; bind the kernel before that, or make it"
                )
                raise GridError(
                    f"{kernel} reads {reach[axis]} points away along axis {axis}, and ghost layers "
                    f"are {self._halo[axis]} wide, {why} Grid(..., halo={max(wanted)})"
                )

    def face(self, axis: int) -> int:
        """Return how many points across an axis a process owns at most, the same for all."""
        most = map(self.decomposition.most, range(len(self.shape)))
        return math.prod(n for other, n in enumerate(most) if other != axis)

    def _for_several(self, axis: int, reach: int) -> int:
        """Return the width of layers for several steps, where parts are wide enough."""
        if not self.divided[axis] or not reach:
            return reach
        fit = self.decomposition.fewest(axis) // reach
        if self.are_for_cache and reach > _FEW_LAYERS:
            fit = 1
        elif self.chooses_steps and reach > _FEW_LAYERS:
            fit = min(fit, 2 if 2 * reach * self.face(axis) <= _FEW_POINTS else 1)
        return reach * min(self.exchange_every, fit)

    def __str__(self) -> str:
        ranks, count = self.decomposition.ranks, self.processes.size
        among = f"{by(ranks)} processes" if count > 1 else "one process"
        idle = count - self.decomposition.count
        return f"{by(self.shape)} points on {among}" + (f", beside {idle} idle" if idle else "")
