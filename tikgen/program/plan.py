"""What a program does in a step, with the arrays for which each kernel is launched then.

Swaps leave no trace but this: after them kernels are launched for other arrays. An arrangement says
which array stands for which. All arrangements that a step can lead to are found when the program is
made, and with them every launch, which is made once for its arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tikgen.dtypes import DType
from tikgen.errors import ProgramError, TikgenError
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import Loaded
from tikgen.program import agreement, parts, scalars
from tikgen.program.slots import Slots, dtype_of, is_array
from tikgen.program.team import Job, Team, Work, array_in
from tikgen.template.views import is_contiguous

# For each array the number of the one that stands for it.
Arrangement = tuple[int, ...]
_MOST_CALLS = 10_000


@dataclass(frozen=True, eq=False)
class Call:
    """A launch of a kernel for certain arrays."""

    bound: BoundKernel
    varying: Mapping[str, parts.Changing]

    @property
    def kernel(self) -> Kernel:
        """Return the kernel."""
        return cast("Kernel", self.bound.kernel)

    @property
    def loaded(self) -> Loaded:
        """Return the code that is launched, which may be older than that of the kernel."""
        return self.bound.loaded


@dataclass(frozen=True, eq=False)
class Launch:
    """A bound kernel, with position in the signature and number of each array."""

    bound: BoundKernel
    slots: tuple[tuple[int, int], ...]
    varying: Mapping[str, parts.Changing] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Exchange:
    """Pairs of numbers of arrays that change places."""

    pairs: tuple[tuple[int, int], ...]

    def of(self, at: Arrangement) -> Arrangement:
        """Return the arrangement after it."""
        changed = list(at)
        for one, other in self.pairs:
            changed[one], changed[other] = changed[other], changed[one]
        return tuple(changed)


@dataclass(frozen=True, eq=False)
class Task:
    """What is done between launches, with the number of each array."""

    work: Work
    slots: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Condition:
    """The launch that computes a condition, and the array to which it writes the value."""

    text: str
    launch: Launch
    flag: scalars.Flag


@dataclass(frozen=True, eq=False)
class Repeat:
    """Nodes that run several times, or until a condition holds."""

    times: int
    nodes: tuple[Node, ...]
    until: Condition | None


@dataclass(frozen=True, eq=False)
class Choice:
    """Nodes of which a condition chooses."""

    condition: Condition
    nodes: tuple[Node, ...]
    otherwise: tuple[Node, ...]


Node = Launch | Exchange | Task | Repeat | Choice


class Plan:
    """The nodes of a step, and their launches for every arrangement that steps can lead to.

    Args:
        listed: the parts of a program.
        slots: its arrays; those that its kernels take are added.
        within: the plan of a program, of which these parts do several steps: they begin where any
            of its steps can, and the same processes do them.

    Attributes:
        nodes: what a step does.
        first: the arrangement in which each array stands for itself.
        starts: the arrangements with which a step can begin.
        team: the processes that do the steps together; None for this one alone.
        within: the plan of a program of which it does several steps; None if it is that.
        composites: the parts that stand for others.

    Raises:
        ProgramError: if a part cannot run as it is written.
    """

    def __init__(
        self, listed: tuple[parts.Part, ...], slots: Slots, within: Plan | None = None
    ) -> None:
        self.slots, self.within = slots, within
        self._conditions: dict[str, Condition] = {}
        self._calls: dict[tuple[Launch, Arrangement], Call] = {}
        # By the arrays that are passed, which are the same in many arrangements.
        self._made: dict[tuple[Launch, Arrangement], Call] = {}
        self._tasks: dict[tuple[Task, Arrangement], Job] = {}
        self._ends: dict[tuple[Node, Arrangement], frozenset[Arrangement]] = {}
        self.team: Team | None = None if within is None else within.team
        self.composites: list[parts.Composite] = []
        self._swaps: list[parts.Swap] = []
        with agreement.refusing(() if within else (listed, *slots.held.values())):
            self._add_arrays(listed)
            slots.give_names()
            for held in slots.held.values():
                self._share(held.team)
        if self.team is not None and within is None:
            agreement.check_program(self.team, listed, slots)
        self._add_reshaped()
        self.nodes = self._resolved(listed)
        slots.check_taken()
        self._check_swapped(self.nodes)
        self.first: Arrangement = tuple(range(len(slots.arrays)))
        self.starts: dict[Arrangement, None] = {}
        found = [*(within.starts if within else ()), self.first]
        while found:
            at = found.pop()
            if at not in self.starts:
                self.starts[at] = None
                found += sorted(self._after(self.nodes, [at]))

    def calls(self) -> list[Call]:
        """Return every call, each once."""
        return list(self._made.values())

    def call(self, launch: Launch, at: Arrangement) -> Call:
        """Return the call of a launch in an arrangement; it is made once for those arrays."""
        found = self._calls.get((launch, at))
        if found is None:
            standing = tuple(at[n] if n < len(at) else n for _, n in launch.slots)
            found = self._made.get((launch, standing))
            if found is None:
                found = Call(self._bound_for(launch, standing), launch.varying)
                self._made[launch, standing] = found
            if len(self._calls) == _MOST_CALLS:
                raise ProgramError(
                    f"its swaps lead to more than {_MOST_CALLS} launches for different arrays; "
                    "swap fewer arrays"
                )
            self._calls[launch, at] = found
        return found

    def task(self, task: Task, at: Arrangement) -> Job:
        """Return the job of a task in an arrangement; it is made once for the arrays there."""
        standing = tuple(at[n] if n < len(at) else n for n in task.slots)
        found = self._tasks.get((task, standing))
        if found is None:
            found = task.work.made_for([self.slots.arrays[number] for number in standing])
            self._tasks[task, standing] = found
        return found

    def jobs(self, task: Task) -> list[Job]:
        """Return the jobs of a task for all arrangements."""
        return [job for (found, _), job in self._tasks.items() if found is task]

    def every_node(self) -> Iterator[Node]:
        """Yield each node, those within others included."""
        waiting = list(self.nodes)
        while waiting:
            node = waiting.pop()
            yield node
            if isinstance(node, Repeat):
                waiting += node.nodes
            elif isinstance(node, Choice):
                waiting += (*node.nodes, *node.otherwise)

    def taken(self, launch: Launch) -> list[Any]:
        """Return all arrays for which a launch is made, in any arrangement."""
        numbers = {n for found, standing in self._made if found is launch for n in standing}
        return [self.slots.arrays[number] for number in sorted(numbers)]

    def condition(self, text: str) -> Condition:
        """Return a condition, made if missing."""
        if not isinstance(text, str) or text not in self._conditions:
            bound, flag = scalars.condition(text, self.slots)
            self._conditions[text] = Condition(text, self._launch(bound), flag)
        return self._conditions[text]

    def prepared(self, text: str) -> Condition:
        """Return a condition, with a call for every start of a step."""
        condition = self.condition(text)
        for at in self.starts:
            self.call(condition.launch, at)
        return condition

    def _add_arrays(self, listed: Iterable[parts.Part]) -> None:
        for part in listed:
            bound = part.bound if isinstance(part, parts.Varying) else part
            if isinstance(bound, BoundKernel):
                try:
                    arguments = bound.arguments
                except TikgenError as error:
                    raise ProgramError(str(error)) from None
                for name, value in arguments.items():
                    if is_array(value):
                        self.slots.add(value, name)
            elif isinstance(part, parts.Composite):
                self.composites.append(part)
                self._share(part.team)
                for name, value in part.arguments.items():
                    if is_array(array_in(value)):
                        self.slots.add(value, name)
                for array in part.scratch:
                    self.slots.add(array, "")
                self._add_arrays(part.parts)
            elif isinstance(part, parts.Copy):
                self.slots.add(part.source, "source")
                self.slots.add(part.target, "target")
            elif isinstance(part, parts.Swap):
                self._swaps.append(part)
            elif isinstance(part, parts.Loop):
                self._add_arrays(part.parts)
            elif isinstance(part, parts.When):
                self._add_arrays((*part.parts, *part.otherwise))

    def _add_reshaped(self) -> None:
        """Add the reshaped arrays that change places in any swap; one swap may need another's."""
        known = -1
        while known != len(self.slots.arrays):
            known = len(self.slots.arrays)
            for swap in self._swaps:
                self._exchange(swap)

    def _resolved(self, listed: Iterable[parts.Part]) -> tuple[Node, ...]:
        found: list[Node] = []
        for part in listed:
            if isinstance(part, parts.Composite):
                found += self._resolved(part.parts)
            else:
                found.append(self._node(part))
        return tuple(found)

    def _node(self, part: parts.Part) -> Node:
        """Return a part with numbers for arrays."""
        slots = self.slots
        match part:
            case str():
                return self._launch(scalars.assigned(part, slots))
            case parts.Varying():
                return self._launch(part.bound, part.scalars)
            case parts.Copy():
                one, other = slots.add(part.source, ""), slots.add(part.target, "")
                slots.check_equal(one, other, "copy")
                return self._launch(_copying(part))
            case parts.Swap():
                return self._exchange(part)
            case Work():
                return self._task(part)
            case parts.Loop():
                until = self.condition(part.until) if part.until is not None else None
                return Repeat(part.times, self._resolved(part.parts), until)
            case parts.When():
                condition = self.condition(part.condition)
                chosen = self._resolved(part.parts), self._resolved(part.otherwise)
                return Choice(condition, *chosen)
        assert isinstance(part, BoundKernel)
        return self._launch(part)

    def renew(self) -> None:
        """Have parts take the values of arrays that they copied."""
        for part in self.composites:
            part.renew()

    def _share(self, team: Team | None) -> None:
        """Have the steps done by a team, or raise ProgramError if another one does them."""
        if team is not None and self.team not in (None, team):
            raise ProgramError(
                "its grids are shared by different processes; give them one communicator"
            )
        self.team = team or self.team

    def _task(self, work: Work) -> Task:
        return Task(work, tuple(self.slots.add(array, "") for array in work.arrays))

    def _exchange(self, part: parts.Swap) -> Exchange:
        pairs: list[tuple[int, int]] = []
        for one, other in part.pairs:
            pair = self.slots.pair_of(one, other, "swap")
            pairs += [pair, *self.slots.partners(*pair)]
        return Exchange(tuple(pairs))

    def _check_swapped(self, nodes: Iterable[Node]) -> None:
        """Raise ProgramError if an array that is swapped shares memory with another one."""
        for node in nodes:
            if isinstance(node, Exchange):
                for number in {number for pair in node.pairs for number in pair}:
                    self.slots.check_apart(number)
            elif isinstance(node, Repeat):
                self._check_swapped(node.nodes)
            elif isinstance(node, Choice):
                self._check_swapped((*node.nodes, *node.otherwise))

    def _launch(
        self, bound: BoundKernel, varying: Mapping[str, parts.Changing] | None = None
    ) -> Launch:
        numbers = tuple(
            (place, self.slots.add(value, ""))
            for place, value in enumerate(bound.arguments.values())
            if is_array(value)
        )
        return Launch(bound, numbers, varying or {})

    def _bound_for(self, launch: Launch, standing: tuple[int, ...]) -> BoundKernel:
        values = list(launch.bound.arguments.values())
        for (place, _), number in zip(launch.slots, standing, strict=True):
            values[place] = self.slots.arrays[number]
        try:
            return cast("Kernel", launch.bound.kernel).bind(*values)
        except TikgenError as error:
            raise ProgramError(f"after a swap {error}") from None

    def _after(
        self, nodes: Sequence[Node], starts: Iterable[Arrangement]
    ) -> frozenset[Arrangement]:
        """Return all arrangements after some nodes, whose calls are made."""
        found = frozenset(starts)
        for node in nodes:
            found = frozenset().union(*(self._ends_of(node, at) for at in sorted(found)))
        return found

    def _ends_of(self, node: Node, at: Arrangement) -> frozenset[Arrangement]:
        if (node, at) not in self._ends:
            self._ends[node, at] = self._found_ends(node, at)
        return self._ends[node, at]

    def _found_ends(self, node: Node, at: Arrangement) -> frozenset[Arrangement]:
        if isinstance(node, Launch):
            self.call(node, at)
            return frozenset([at])
        if isinstance(node, Exchange):
            return frozenset([node.of(at)])
        if isinstance(node, Task):
            self.task(node, at)
            return frozenset([at])
        if isinstance(node, Choice):
            self.call(node.condition.launch, at)
            return self._after(node.nodes, [at]) | self._after(node.otherwise, [at])
        ends = _iterated(lambda found: self._after(node.nodes, found), at, node.times)
        if node.until is None:
            return ends[_last(ends, node.times)]
        every = frozenset().union(*ends[1:])
        for end in sorted(every):
            self.call(node.until.launch, end)
        return every


Ends = list[frozenset[Arrangement]]


def _iterated(
    after: Callable[[frozenset[Arrangement]], frozenset[Arrangement]], at: Arrangement, times: int
) -> Ends:
    """Return the arrangements after each time of a loop, up to the first that come again."""
    ends: Ends = [frozenset([at])]
    while len(ends) <= times:
        found = after(ends[-1])
        ends.append(found)
        if found in ends[:-1]:
            break
    return ends


def _last(ends: Ends, times: int) -> int:
    """Return the place in ``ends`` of the arrangements after a number of times."""
    if times < len(ends):
        return times
    begin = ends.index(ends[-1])
    return begin + (times - begin) % (len(ends) - 1 - begin)


def _copying(part: parts.Copy) -> BoundKernel:
    source, target = array_in(part.source), array_in(part.target)
    dtype: DType = dtype_of(source)
    dim = len(source.shape)
    try:
        if is_contiguous(source):  # And so is the target: their layout is the same.
            kernel = build("map", expr="target = source", dtype=dtype, dim=dim, scalars=())
        else:
            types = dict.fromkeys(("source", "target"), dtype)
            wide = dtype if dtype.bits >= 32 else DType.f32 if dtype.is_float else DType.i32
            kernel = build("update", equations="target = source", dtype=wide, types=types, dim=dim)
        return kernel.bind(source=source, target=target)
    except TikgenError as error:
        raise ProgramError(f"copy: {error}") from None
