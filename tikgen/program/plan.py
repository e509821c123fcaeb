"""What a program does in a step, with the arrays for which each kernel is launched then.

Swaps leave no trace but this: after them kernels are launched for other arrays. An arrangement says
which array stands for which; where it repeats, so do the launches, which are made once for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tikgen.dtypes import DType
from tikgen.errors import ProgramError, TikgenError
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.program import parts, scalars
from tikgen.program.slots import Slots, dtype_of, is_array

# For each array the number of the one that stands for it.
Arrangement = tuple[int, ...]
# Launches of all phases of a program, and phases.
_MOST_CALLS = 10_000


@dataclass(frozen=True, eq=False)
class Call:
    """A launch of a kernel for the arrays of one arrangement."""

    bound: BoundKernel
    varying: Mapping[str, parts.Changing]
    # Position in the signature and number of the array, as the program names it.
    slots: tuple[tuple[int, int], ...]

    @property
    def kernel(self) -> Kernel:
        """Return the kernel."""
        return cast("Kernel", self.bound.kernel)


@dataclass(frozen=True, eq=False)
class Test:
    """A call that computes a condition, and the array to which it writes the value."""

    text: str
    call: Call
    flag: scalars.Flag


@dataclass(frozen=True, eq=False)
class Repeat:
    """Items that run several times, or until a condition holds."""

    times: int
    items: tuple[Item, ...]
    until: Test | None


@dataclass(frozen=True, eq=False)
class Choice:
    """Items of which a condition chooses."""

    test: Test
    items: tuple[Item, ...]
    otherwise: tuple[Item, ...]


Item = Call | Repeat | Choice


@dataclass(frozen=True, eq=False)
class _Launch:
    """A bound kernel whose arrays have numbers."""

    bound: BoundKernel
    slots: tuple[tuple[int, int], ...]
    varying: Mapping[str, parts.Changing] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Exchange:
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class _Condition:
    text: str
    launch: _Launch
    flag: scalars.Flag


class Plan:
    """The phases of a program: the launches of its steps until its arrays stand as at first.

    Args:
        listed: the parts of a program.
        slots: its arrays; those that its kernels take are added.

    Raises:
        ProgramError: if a part cannot run as it is written.
    """

    def __init__(self, listed: tuple[parts.Part, ...], slots: Slots) -> None:
        self.slots = slots
        self._add_arrays(listed)
        slots.give_names()
        self._resolved: dict[int, Any] = {}
        self._conditions: dict[str, _Condition] = {}
        self._calls: dict[tuple[int, tuple[int, ...]], Call] = {}
        self._emitted = 0
        for part in _walk(listed):
            self._resolved[id(part)] = self._resolve(part)
        # Once all arrays are known, those of conditions included.
        for exchange in self._resolved.values():
            for pair in exchange.pairs if isinstance(exchange, _Exchange) else ():
                for number in pair:
                    slots.check_apart(number)
        self.phases: list[tuple[Item, ...]] = []
        self.arrangements: list[Arrangement] = []
        at = self.first = tuple(range(len(slots.arrays)))
        while not self.phases or at != self.first:
            self.arrangements.append(at)
            items, at = self._emit(listed, at)
            self.phases.append(items)

    def tests_of(self, text: str) -> Sequence[Test]:
        """Return a condition for each phase, to be computed after a step that led to it."""
        condition = self._condition(text)
        return [self._test(condition, self._extended(at)) for at in self.arrangements]

    def calls(self) -> list[Call]:
        """Return every call, each once."""
        return list(self._calls.values())

    def _extended(self, at: Arrangement) -> Arrangement:
        """Return an arrangement with the arrays that were added since."""
        return (*at, *range(len(at), len(self.slots.arrays)))

    def _add_arrays(self, listed: tuple[parts.Part, ...]) -> None:
        for part in _walk(listed):
            bound = part.bound if isinstance(part, parts.Varying) else part
            if isinstance(bound, BoundKernel):
                try:
                    arguments = bound.arguments
                except TikgenError as error:
                    raise ProgramError(str(error)) from None
                for name, value in arguments.items():
                    if is_array(value):
                        self.slots.add(value, name)
            elif isinstance(part, parts.Copy):
                for array, name in ((part.source, "source"), (part.target, "target")):
                    if not is_array(array):
                        raise ProgramError(f"copy takes arrays; got {type(array).__name__}")
                    self.slots.add(array, name)

    def _resolve(self, part: parts.Part) -> Any:
        """Return a part with numbers for arrays."""
        slots = self.slots
        match part:
            case str():
                return self._launch(scalars.assigned(part, slots))
            case BoundKernel():
                return self._launch(part)
            case parts.Varying():
                return self._launch(part.bound, part.scalars)
            case parts.Copy():
                one, other = slots.add(part.source, ""), slots.add(part.target, "")
                slots.check_equal(one, other, "copy")
                return self._launch(_copying(part))
            case parts.Swap():
                pairs = tuple(
                    (slots.number_of(one, "swap"), slots.number_of(other, "swap"))
                    for one, other in part.pairs
                )
                for one, other in pairs:
                    slots.check_equal(one, other, "swap")
                further = [pair for one, other in pairs for pair in slots.partners(one, other)]
                return _Exchange((*pairs, *further))
            case parts.Loop():
                return self._condition(part.until) if part.until is not None else None
            case parts.When():
                return self._condition(part.condition)

    def _launch(
        self, bound: BoundKernel, varying: Mapping[str, parts.Changing] | None = None
    ) -> _Launch:
        numbers = tuple(
            (place, self.slots.add(value, ""))
            for place, value in enumerate(bound.arguments.values())
            if is_array(value)
        )
        return _Launch(bound, numbers, varying or {})

    def _condition(self, text: str) -> _Condition:
        if text not in self._conditions:
            bound, flag = scalars.condition(text, self.slots)
            self._conditions[text] = _Condition(text, self._launch(bound), flag)
        return self._conditions[text]

    def _test(self, condition: _Condition, at: Arrangement) -> Test:
        return Test(condition.text, self._call(condition.launch, at), condition.flag)

    def _call(self, launch: _Launch, at: Arrangement) -> Call:
        """Return the launch for an arrangement; it is made once for those arrays."""
        self._emitted += 1
        if self._emitted > _MOST_CALLS:
            raise ProgramError(
                f"its swaps lead to more than {_MOST_CALLS} launches before arrays stand as at "
                "first; swap fewer arrays in loops of their own"
            )
        standing = tuple(at[number] for _, number in launch.slots)
        key = id(launch), standing
        if key not in self._calls:
            self._calls[key] = Call(self._bound_for(launch, standing), launch.varying, launch.slots)
        return self._calls[key]

    def _bound_for(self, launch: _Launch, standing: tuple[int, ...]) -> BoundKernel:
        values = list(launch.bound.arguments.values())
        for (place, _), number in zip(launch.slots, standing, strict=True):
            values[place] = self.slots.arrays[number]
        try:
            return cast("Kernel", launch.bound.kernel).bind(*values)
        except TikgenError as error:
            raise ProgramError(f"after a swap {error}") from None

    def _emit(
        self, listed: tuple[parts.Part, ...], at: Arrangement
    ) -> tuple[tuple[Item, ...], Arrangement]:
        """Return the items of some parts, and the arrangement after them."""
        items: list[Item] = []
        for part in listed:
            resolved = self._resolved[id(part)]
            if isinstance(resolved, _Launch):
                items.append(self._call(resolved, at))
            elif isinstance(resolved, _Exchange):
                at = _exchanged(at, resolved.pairs)
            elif isinstance(part, parts.Loop):
                more, at = self._emit_loop(part, resolved, at)
                items += more
            elif isinstance(part, parts.When):
                chosen, after = self._emit(part.parts, at)
                others, after_others = self._emit(part.otherwise, at)
                if after != after_others:
                    raise ProgramError(
                        f"when({part.condition!r}, ...) swaps arrays on one branch only; swap the "
                        "same arrays in otherwise=, or copy"
                    )
                items.append(Choice(self._test(resolved, at), chosen, others))
                at = after
        return tuple(items), at

    def _emit_loop(
        self, part: parts.Loop, until: _Condition | None, at: Arrangement
    ) -> tuple[list[Item], Arrangement]:
        """Return the items of a loop: of whole rounds, and of what is left of a round."""
        start = at
        rounds: list[tuple[Item, ...]] = []
        starts: list[Arrangement] = []
        while len(rounds) < part.times and (not rounds or at != start):
            starts.append(at)
            items, at = self._emit(part.parts, at)
            rounds.append(items)
        if until is not None:
            if at != start or len(rounds) > 1:
                raise ProgramError(
                    f"a loop until {until.text!r} must leave its arrays where they were, since it "
                    "may end after any time; swap an even number of times, or copy"
                )
            return [Repeat(part.times, rounds[0], self._test(until, at))], at
        whole, rest = divmod(part.times, len(rounds))
        body = tuple(item for items in rounds for item in items)
        found: list[Item] = [Repeat(whole, body, None)] if whole > 1 else list(body)
        for items in rounds[:rest]:
            found += items
        return found, starts[rest] if rest else at


def _walk(listed: tuple[parts.Part, ...]) -> list[parts.Part]:
    """Return all parts, those within loops and conditions included, in order."""
    found: list[parts.Part] = []
    for part in listed:
        found.append(part)
        if isinstance(part, parts.Loop):
            found += _walk(part.parts)
        elif isinstance(part, parts.When):
            found += [*_walk(part.parts), *_walk(part.otherwise)]
    return found


def _exchanged(at: Arrangement, pairs: tuple[tuple[int, int], ...]) -> Arrangement:
    changed = list(at)
    for one, other in pairs:
        changed[one], changed[other] = changed[other], changed[one]
    return tuple(changed)


def _copying(part: parts.Copy) -> BoundKernel:
    dtype: DType = dtype_of(part.source)
    dim = len(part.source.shape)
    try:
        kernel = build("map", expr="target = source", dtype=dtype, dim=dim, scalars=())
        return kernel.bind(source=part.source, target=part.target)
    except TikgenError as error:
        raise ProgramError(f"copy: {error}") from None
