"""What a step of a program does on a grid: launches, and the ghost layers exchanged before them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tikgen.errors import GridError
from tikgen.grid.binding import GridStep
from tikgen.grid.decomposition import Decomposition
from tikgen.grid.domain import Domain
from tikgen.grid.exact_sums import NUMBER_BYTES
from tikgen.grid.field import Field
from tikgen.pipeline.kernel import Kernel
from tikgen.program.parts import Loop, Part, Swap, When
from tikgen.program.program import Program
from tikgen.scaling.network import Messages
from tikgen.template.arguments import Array
from tikgen.template.grid_use import ArrayUse, GridUse

Extents = tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """A kernel that every step launches.

    Attributes:
        kernel: the kernel.
        use: what it does with the points of a grid.
        read: bytes of a point and use of each field, for what is exchanged.
        times: how often a step does it.
        joins: bytes of results that each rank tells all others, for each join of reductions.
    """

    kernel: Kernel
    use: GridUse
    read: tuple[tuple[int, ArrayUse], ...]
    times: int
    joins: tuple[int, ...] = ()

    def moved(self, extents: Extents) -> int:
        """Return the bytes that a launch over some points moves, by its cost model."""
        return int(self.kernel.template.cost(self.kernel.problem, self.sizes(extents)).bytes)

    def sizes(self, extents: Extents) -> dict[str, int]:
        """Return the size symbols of the kernel for arrays over some points."""
        found: dict[str, int] = {}
        for argument in self.kernel.signature.arguments:
            use = self.use.arrays.get(argument.name)
            if use is not None:
                assert isinstance(argument, Array)
                named = argument.shape[use.first_axis : use.first_axis + self.use.dim]
                found |= {str(name): n for name, n in zip(named, extents, strict=True)}
        return found

    def messages(self, decomposition: Decomposition, owned: Extents) -> Iterator[Messages]:
        """Yield what a rank in the middle sends before a launch, one after the other."""
        return messages_of(self.read, decomposition, owned)


def messages_of(
    read: Sequence[tuple[int, ArrayUse]], decomposition: Decomposition, owned: Extents
) -> Iterator[Messages]:
    """Yield what a rank in the middle sends, one after the other.

    Args:
        read: bytes of a point and use of each field.
        decomposition: how the ranks divide the grid.
        owned: points that a rank owns along each axis.
    """
    ranks, periodic = decomposition.ranks, decomposition.periodic
    divided = [axis for axis, count in enumerate(ranks) if count > 1]
    is_diagonal = any(use.is_diagonal for _, use in read)
    for axes in [[axis] for axis in divided] if is_diagonal else [divided]:
        count = size = runs = 0
        for axis in axes:
            # Of two ranks along an axis that is not periodic, each has one neighbour.
            sides = 1 if ranks[axis] == 2 and not periodic[axis] else 2
            layers = [layer_of(each, use, owned, axis, ranks) for each, use in read]
            count += sides if any(size for size, _ in layers) else 0
            size += sides * sum(size for size, _ in layers)
            runs += sides * sum(run for _, run in layers)
        yield Messages(count, size, runs)


def layer_of(
    each: int, use: ArrayUse, owned: Extents, axis: int, ranks: Sequence[int]
) -> tuple[int, int]:
    """Return bytes and pieces of memory of a layer at a side of an axis.

    Args:
        each: bytes of a point.
        use: what is read of the array.
        owned: points that a rank owns along each axis.
        axis: the axis.
        ranks: number of ranks along each axis.
    """
    counts, partial = list(owned), {axis}
    counts[axis] = max(use.reach[axis])
    for other, count in enumerate(ranks):
        if count > 1 and other != axis and any(use.reach[other]):
            partial.add(other)  # Beside its ghost points.
    points = math.prod(counts)
    return each * points, math.prod(counts[: max(partial)]) if points else 0


def launches_of(program: Program) -> list[Launch]:
    """Return the launches of a step.

    Raises:
        GridError: if parts are not on a grid, or a condition decides how often they run.
    """
    if not isinstance(program, Program):
        raise GridError(f"scaling takes a tikgen.Program; got {program!r:.60}")
    found = list(_launches(program.parts, 1))
    if not found:
        raise GridError("scaling takes a program of kernels that grid.bind bound")
    return found


def _launches(parts: Iterable[Part], times: int) -> Iterator[Launch]:
    for part in parts:
        if isinstance(part, Loop) and part.until is None:
            yield from _launches(part.parts, times * part.times)
        elif isinstance(part, GridStep):
            yield launch_of(part, times)
        elif not isinstance(part, Swap | str):
            what = "a condition" if isinstance(part, Loop | When) else type(part).__name__
            raise GridError(
                "scaling takes kernels that grid.bind bound, swaps, assignments, and loops without "
                f"a condition; got {what}"
            )


def launch_of(step: GridStep, times: int = 1) -> Launch:
    """Return the launch of a kernel on a grid, which a step does some times."""
    use = step.kernel.template.grid_use(step.kernel.problem)
    assert use is not None
    read: dict[Field, tuple[int, ArrayUse]] = {}
    for name, each in use.arrays.items():
        field = step.arguments[name]
        if any(map(any, each.reach)):
            joined = read[field][1].joined(each) if field in read else each
            read[field] = field.bytes_a_point, joined
    return Launch(step.kernel, use, tuple(read.values()), times, _joins(step, use))


def _joins(step: GridStep, use: GridUse) -> tuple[int, ...]:
    """Return the bytes of each join: one is of exact sums, which are wide, one of all others."""
    kinds = {a.name: a.dtype.numpy for a in step.signature.arguments if isinstance(a, Array)}
    plain = sum(kinds[name].itemsize for name in use.totals if name not in step.exact)
    return tuple(size for size in (plain, NUMBER_BYTES * len(step.exact)) if size)


def grid_of(program: Program) -> tuple[Extents, tuple[bool, ...], Extents]:
    """Return the extents of a program's grid, which axes are periodic, and the points of a rank."""
    whole = domain_of(program).decomposition
    return whole.shape, whole.periodic, tuple(map(whole.most, range(len(whole.shape))))


def domain_of(program: Program) -> Domain:
    """Return the grid of a program, as a process has it."""
    for part in steps_of(program.parts):
        for field in part.arguments.values():
            if isinstance(field, Field):
                return field.domain
    raise GridError("scaling takes a program of kernels that grid.bind bound")


def steps_of(parts: Iterable[Part]) -> Iterator[GridStep]:
    """Yield the kernels on a grid among parts."""
    for part in parts:
        if isinstance(part, Loop):
            yield from steps_of(part.parts)
        elif isinstance(part, GridStep):
            yield part


def by_name(launches: Iterable[Launch]) -> Mapping[str, Launch]:
    """Return one launch of each kernel."""
    return {launch.kernel.name: launch for launch in launches}
