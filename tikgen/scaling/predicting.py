"""Predicts the time of a step on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tikgen.errors import GridError
from tikgen.grid.arguments import whole_number
from tikgen.grid.decomposition import Decomposition, balanced, divisions
from tikgen.program.program import Program
from tikgen.scaling.given import shown, whole
from tikgen.scaling.machine import Machine
from tikgen.scaling.measuring import measure
from tikgen.scaling.network import Network
from tikgen.scaling.prediction import Point, Prediction
from tikgen.scaling.rounds import Round, alike, most_steps, round_of
from tikgen.scaling.steps import Extents, Launch, domain_of, grid_of, launches_of, messages_of

_MOST_RANKS = 10_000_000


def predict(
    program: Program,
    ranks: Iterable[int],
    network: Network | None = None,
    machine: Machine | Sequence[Machine] = (),
    *,
    exchange_every: int | None = None,
) -> Prediction:
    """Predict how long a step takes on some numbers of ranks.

    Strong scaling divides the grid of the program, among numbers of ranks for which it has enough
    points. Weak scaling gives each rank as many points as
    the largest part has now. A step is the launches of the rank that has the most points and
    neighbours on all sides, the exchanges before them and the joins of reductions after them, one
    after the other. Assignments, swaps and conditions take no time in the model. With
    ``exchange_every``, ranks compute ghost points themselves from one exchange to the next.

    Args:
        program: a program over a grid.
        ranks: the numbers of ranks.
        network: messages between nodes, for more ranks than a machine was measured with; by default
            those within the machine.
        machine: what :func:`measure` found, for one number of ranks or several; by default this
            process is measured alone.
        exchange_every: as of a :class:`tikgen.Grid`; by default that of the program's grid, and
            where that chooses, what takes the least time.

    Raises:
        GridError: if an argument does not fit, a part of the program is no launch on a grid, or
            several ranks have no network.
    """
    launches = launches_of(program)
    shape, periodic, own = grid_of(program)
    machines = list(machine) if isinstance(machine, Iterable) else [machine]
    for given, kind in ((machines, Machine), ([network] if network is not None else [], Network)):
        for each in given:
            if not isinstance(each, kind):
                name = kind.__name__
                raise GridError(f"{name.lower()} takes a tikgen.scaling.{name}; got {each!r:.60}")
    counts = _counts(ranks)
    parts, domain = alike(program), domain_of(program)
    most = most_steps(domain)
    if exchange_every is not None:
        most = whole_number("exchange_every", exchange_every, least=1)
    is_chosen = exchange_every is None and domain.chooses_steps
    if not machines:
        machines = [measure(program)]
    machines.sort(key=lambda each: each.ranks)
    uses = [use for launch in launches for _, use in launch.read]
    halo = tuple(
        max((1, *(width for use in uses for width in use.reach[axis])))
        for axis in range(len(shape))
    )

    def point(decomposition: Decomposition) -> Point:
        count = decomposition.count
        here = max((m for m in machines if m.ranks <= count), key=lambda m: m.ranks, default=None)
        here = here or machines[0]
        last = machines[-1]
        between = network if network and count > last.ranks else here.network or last.network
        between = between or network
        if count > 1 and between is None:
            raise GridError(
                "several ranks need a network: tikgen.scaling.measure in two processes of mpiexec, "
                "or tikgen.scaling.Network(latency=..., bandwidth=...)"
            )
        found = _point(launches, decomposition, here, between)
        if count == 1 or between is None:
            return found
        for steps in range(most, 1, -1):
            if several := round_of(parts, steps, decomposition):
                each = _several(several, decomposition, here, between)
                if not is_chosen:
                    return each
                found = min(found, each, key=lambda point: point.seconds)
        return found

    divided = [Decomposition(shape, balanced(shape, count, halo), periodic) for count in counts]
    # With more ranks, some would own nothing.
    strong = [each for each, count in zip(divided, counts, strict=True) if each.count == count]
    weak = [_grown(own, count, periodic) for count in counts]
    return Prediction(tuple(map(point, strong)), tuple(map(point, weak)))


def _counts(ranks: Iterable[int]) -> list[int]:
    found = {1}
    for count in ranks if isinstance(ranks, Iterable) else [ranks]:
        if not 1 <= whole(count) <= _MOST_RANKS:
            told = f"ranks takes whole numbers from 1 to {_MOST_RANKS}; got {shown(count)}"
            raise GridError(told)
        found.add(whole(count))
    return sorted(found)


def _grown(own: Extents, count: int, periodic: tuple[bool, ...]) -> Decomposition:
    """Return the grid in which so many ranks own as many points each, evenly along all axes."""
    ranks = min(divisions(count, len(own)), key=lambda ranks: (sum(ranks), ranks[::-1]))
    shape = tuple(n * c for n, c in zip(own, ranks, strict=True))
    return Decomposition(shape, ranks, periodic)


def _point(
    launches: Sequence[Launch],
    decomposition: Decomposition,
    machine: Machine,
    network: Network | None,
) -> Point:
    count = decomposition.count
    owned = tuple(map(decomposition.most, range(len(decomposition.shape))))
    computing = exchanging = joining = 0.0
    for launch in launches:
        moved = launch.moved(owned)
        computing += launch.times * machine.seconds(launch.kernel.name, moved)
        if count == 1 or network is None:
            continue
        for messages in launch.messages(decomposition, owned):
            exchanging += launch.times * network.seconds(messages)
        for size in launch.joins:
            joining += launch.times * network.joined(count, size)
    return Point(count, decomposition.shape, decomposition.ranks, computing, exchanging, joining)


def _several(
    several: Round, decomposition: Decomposition, machine: Machine, network: Network
) -> Point:
    """Return a step of a round, which takes an equal share of it."""
    owned = tuple(map(decomposition.most, range(len(decomposition.shape))))
    computing = sum(machine.seconds(name, moved) for name, moved in several.moved(owned))
    exchanging = sum(map(network.seconds, messages_of(several.read, decomposition, owned)))
    steps = several.steps
    times = computing / steps, exchanging / steps, 0.0
    return Point(decomposition.count, decomposition.shape, decomposition.ranks, *times, steps)
