"""Steps as CUDA graphs: the device gets many launches with one call of the driver."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tikgen import engines
from tikgen.pipeline import events
from tikgen.program.launchers import ByLaunchers, Launchers
from tikgen.program.plan import Arrangement, Call, Exchange, Launch, Node, Plan, Repeat, Task
from tikgen.program.scalars import Flag
from tikgen.program.stepping import PythonStepper
from tikgen.program.team import CONDITION, Job, Team
from tikgen.taichi import arrays

# Launches that a graph has where steps are short, and at most.
_LAUNCHES, _MOST_LAUNCHES = 256, 4096
_MOST_GRAPHS = 500

Action = Callable[[], object]


@dataclass
class _Recorded:
    """Launches that are repeated together.

    Attributes:
        run: does all of them.
        calls: how often each call is launched.
        end: the arrangement after them.
        times: how often they were done since the last count.
    """

    run: Action
    calls: Counter[Call]
    end: Arrangement
    times: int = 0


class GraphStepper(ByLaunchers, PythonStepper):
    """Does steps as graphs; in between is what no graph holds, as conditions are.

    Args:
        plan: what a step does.
        launchers: launch its calls; those of the engine direct-cuda without it.
        record: makes a function that does all of some launches, a CUDA graph without it.
        wait: waits until the device has finished.
        team: the processes that do the steps together; None for this one alone.

    Raises:
        EngineUnavailable: if a kernel cannot run without Taichi.
    """

    how = "CUDA graphs"
    why_not_blocked = "CUDA graphs launch its kernels"

    def __init__(
        self,
        plan: Plan,
        launchers: Launchers | None = None,
        record: Callable[[Sequence[Action]], Action] | None = None,
        wait: Action | None = None,
        team: Team | None = None,
    ) -> None:
        super().__init__(plan)
        self._team = team
        self._launchers = launchers or Launchers(engines.DIRECT_CUDA)
        self._launchers.prepare(plan.calls())
        if record is None or wait is None:
            from tikgen.engines.cuda_streams import Graph, wait_for_current

            record, wait = record or Graph, wait or wait_for_current
        self._record, self._wait = record, wait
        self._recorded: dict[tuple[tuple[Node, ...], int, Arrangement], _Recorded] = {}
        self._at_once = self._steps_at_once()

    def value_of(self, flag: Flag) -> bool:
        """Return whether a condition held when it was last computed, on all processes alike."""
        self._wait()
        found = super().value_of(flag)
        return found if self._team is None else self._team.agreed(CONDITION, found)

    def run(self, at: Arrangement, step: int, count: int) -> None:
        """Do some steps, fewer if it is told to stop; wait until the device has finished.

        An error ends all processes of a team.
        """
        with contextlib.nullcontext() if self._team is None else self._team.ending_together():
            self._run_steps(at, step, count)

    def _run_steps(self, at: Arrangement, step: int, count: int) -> None:
        self.done, self.at = 0, at
        try:
            while self.done < count and not self.stopped:
                left = count - self.done
                if steps := next((each for each in self._at_once if each <= left), 0):
                    self.at = self._repeat(self._plan.nodes, steps, self.at)
                    self.done += steps
                else:
                    self.at = self._do(self._plan.nodes, self.at, step + self.done)
                    self.done += 1
        finally:
            self._wait()

    def finish(self) -> None:
        """Add the launches since the last time to those of the kernels."""
        for recorded in self._recorded.values():
            times, recorded.times = recorded.times, 0
            for call, count in recorded.calls.items() if times else ():
                events.record_bound_launches(self._launchers.code_of(call), times * count)

    def _is_fixed(self, node: Node) -> bool:
        """Return whether a graph can hold a node, which then does the same at every step."""
        if isinstance(node, Launch):
            return not node.varying and not any(map(arrays.is_copied, self._plan.taken(node)))
        if isinstance(node, Repeat):
            is_fixed = node.until is None and all(map(self._is_fixed, node.nodes))
            return is_fixed and max(node.times, _launches([node])) <= _MOST_LAUNCHES
        if isinstance(node, Task):
            return all(job.is_recordable for job in self._plan.jobs(node))
        return isinstance(node, Exchange)

    def _do(self, nodes: Sequence[Node], at: Arrangement, step: int) -> Arrangement:
        for is_fixed, found in itertools.groupby(nodes, self._is_fixed):
            part = tuple(found)
            if is_fixed and len(self._recorded) < _MOST_GRAPHS:
                at = self._repeat(part, 1, at)
            else:
                at = super()._do(part, at, step)
        return at

    def _repeat(self, nodes: tuple[Node, ...], times: int, at: Arrangement) -> Arrangement:
        """Do fixed nodes some times; return the arrangement after them."""
        recorded = self._recorded.get((nodes, times, at))
        if recorded is None:
            made, end = [], at
            for _ in range(times):
                made += list(self._made(nodes, end))
                end = _after(nodes, end)
            calls = [each for each in made if isinstance(each, Call)]
            launches = [
                self._launchers.of(each).launch if isinstance(each, Call) else each.run
                for each in made
            ]
            run = self._record(launches) if len(launches) > 1 else _one(launches)
            recorded = _Recorded(run, Counter(calls), end)
            self._recorded[nodes, times, at] = recorded
        recorded.run()
        recorded.times += 1
        return recorded.end

    def _made(self, nodes: Sequence[Node], at: Arrangement) -> Iterator[Call | Job]:
        """Yield the calls and jobs of fixed nodes."""
        for node in nodes:
            if isinstance(node, Launch):
                yield self._plan.call(node, at)
            elif isinstance(node, Task):
                yield self._plan.task(node, at)
            elif isinstance(node, Repeat):
                inner = at
                for _ in range(node.times):
                    yield from self._made(node.nodes, inner)
                    inner = _after(node.nodes, inner)
            at = _after([node], at)

    def _steps_at_once(self) -> list[int]:
        """Return how many steps graphs do, most first; all arrays stand as before after each."""
        nodes = self._plan.nodes
        launches = _launches(nodes)
        if not all(map(self._is_fixed, nodes)) or not launches:
            return []
        period, at = 1, _after(nodes, self._plan.first)
        while at != self._plan.first:
            period, at = period + 1, _after(nodes, at)
        if period * launches > _MOST_LAUNCHES:
            return []
        # Halves of the most, so that what remains of a run takes few graphs too.
        most = max(1, _LAUNCHES // (launches * period)).bit_length() - 1
        return [period << power for power in range(most, -1, -1)]


def _one(launches: Sequence[Action]) -> Action:
    """Return the only launch, or nothing to do."""
    return launches[0] if launches else lambda: None


def _launches(nodes: Sequence[Node]) -> int:
    """Return how many launches nodes do, conditions aside."""
    return sum(
        node.times * _launches(node.nodes)
        if isinstance(node, Repeat)
        else isinstance(node, Launch | Task)
        for node in nodes
    )


def _after(nodes: Sequence[Node], at: Arrangement) -> Arrangement:
    """Return the arrangement after fixed nodes."""
    for node in nodes:
        if isinstance(node, Exchange):
            at = node.of(at)
        elif isinstance(node, Repeat):
            for _ in range(node.times):
                at = _after(node.nodes, at)
    return at
