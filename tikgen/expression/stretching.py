"""Derivatives in matched layers: what stands for them, and what has to be remembered of them.

In a layer, coordinates are stretched by complex numbers that depend on the frequency. In time, a
derivative becomes itself over a number, plus a convolution of its past, which a recursion gives
from one number that is kept for each point (Roden and Gedney, Microw. Opt. Technol. Lett. 27, 2000;
Komatitsch and Martin, Geophysics 72, 2007). A second derivative gains the difference of what first
ones gain in the middle between points, and is stretched again (Pasalic and McGarry, SEG Technical
Program, 2010). Each point keeps the numbers of both middles itself, so that nothing that neighbours
keep is read, and fields may be updated in the same pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tikgen.expression.operators import AXES
from tikgen.expression.spelling import DOT
from tikgen.expression.tree import Node

# Where a layer knows its numbers, for each index: at the centre of the cell before, on the face
# before the centre, at the centre, and on the next face.
PLACES = 4
# What it knows there: how a memory decays, what it gains, and how much a derivative changes.
DECAY, GAIN, CHANGE = ROWS = (0, 1, 2)


@dataclass(frozen=True)
class Memory:
    """A number that each point of the layers along an axis keeps.

    Attributes:
        argument: the array that holds it.
        number: its place on the first axis of that.
        axis: the axis of the layers.
    """

    argument: str
    number: int
    axis: int


@dataclass(frozen=True)
class Profile:
    """A number of the layers along an axis.

    Attributes:
        axis: the axis.
        place: where it holds.
        row: what it says.
    """

    axis: int
    place: int
    row: int

    @property
    def argument(self) -> str:
        """Return the array that holds it."""
        return profile_of(self.axis)


@dataclass(frozen=True)
class Second:
    """A second derivative along an axis.

    Attributes:
        derivative: the derivative without layers.
        sides: the first derivatives in the middle between the point and those below and above.
        step: distance between points.
        place: where it lies, among the places where layers know their numbers.
    """

    derivative: Node
    sides: tuple[Node, Node]
    step: float
    place: int


def profile_of(axis: int) -> str:
    """Return the argument with the numbers of the layers along an axis."""
    return f"cpml_{AXES[axis]}"


class Stretching:
    """The derivatives of equations that matched layers stretch.

    Args:
        layers: the axes with layers, for each field; all fields have those of the name "".

    Attributes:
        memories: what is kept, by its name in the assignments.
        profiles: numbers of the layers, by their names in the assignments.
        derivatives: assignments of derivatives as they are without layers.
        within: assignments that belong to layers alone, with their axis.
        results: how a user writes the derivative that each name stands for.
    """

    def __init__(self, layers: Mapping[str, frozenset[int]]) -> None:
        self._layers = layers
        self._known: dict[tuple[Node, tuple[int, ...]], Node] = {}
        self._taken: set[str] = set()
        self._numbered = 0
        self.memories: dict[str, Memory] = {}
        self.profiles: dict[str, Profile] = {}
        self.derivatives: list[tuple[str, Node]] = []
        self.within: list[tuple[int, str, Node]] = []
        self.results: dict[str, str] = {}

    def axes(self, arrays: Iterable[str], among: Iterable[int]) -> tuple[int, ...]:
        """Return the axes, among some, along which derivatives of ``arrays`` are stretched."""
        every = self._layers.get("", frozenset())
        found = every.union(*(self._layers.get(name, ()) for name in arrays))
        return tuple(sorted(found & {*among}))

    @property
    def assignments(self) -> list[tuple[str, Node]]:
        """Return all assignments that come before those of the user."""
        return [*self.derivatives, *((name, node) for _, name, node in self._sorted())]

    def axes_within(self, names: Iterable[str]) -> dict[int, int]:
        """Return the axis of each assignment that belongs to layers, by its place.

        Args:
            names: what all assignments assign, in order, temporaries among them.
        """
        before = [name for name, _ in self.derivatives]
        ahead = [(axis, name) for axis, name, _ in self._sorted()]
        found = {}
        for place, name in enumerate(names):
            if before:
                if name == before[0]:
                    del before[0]
            elif ahead and name == ahead[0][1]:
                found[place] = ahead.pop(0)[0]
        return found

    def first(
        self,
        derivative: Node,
        operator: str,
        operand: Node,
        axes: tuple[int, ...],
        walls: Iterable[int],
    ) -> Node:
        """Return the name of a derivative that is stretched once along each of some axes.

        Args:
            derivative: the derivative without layers.
            operator: the operator, such as ``"dx"``.
            operand: what is differentiated.
            axes: the axes.
            walls: the axes on whose walls the derivative lies.
        """
        if (derivative, axes) in self._known:
            return self._known[derivative, axes]
        label = self._label(operator, operand)
        result = self._result(label, derivative, axes, operator, operand)
        for axis in axes:
            own = label if len(axes) == 1 else f"{label}_{AXES[axis]}"
            change = self._change(result, own, 0, axis, 2 - (axis in walls))
            self._within(axis, result, Node("+", (result, change)))
        return result

    def second(
        self,
        derivative: Node,
        operator: str,
        operand: Node,
        parts: Mapping[int, Second],
    ) -> Node:
        """Return the name of a sum of second derivatives that are stretched along their axes.

        Args:
            derivative: the sum without layers.
            operator: the operator, such as ``"lap"``.
            operand: what is differentiated.
            parts: the derivative along each axis with layers.
        """
        axes = tuple(parts)
        if (derivative, axes) in self._known:
            return self._known[derivative, axes]
        label = self._label(operator, operand)
        result = self._result(label, derivative, axes, operator, operand)
        for axis, part in parts.items():
            own = self._label(f"d{2 * AXES[axis]}", operand) if operator == "lap" else label
            self._stretch_second(result, own, axis, part)
        return result

    def _stretch_second(self, result: Node, label: str, axis: int, part: Second) -> None:
        changes = []
        for number, (word, side) in enumerate(zip(("below", "above"), part.sides, strict=True)):
            slope = self._derivative(word, label, side)
            place = part.place - 1 + 2 * number
            changes.append(self._change(slope, label, number, axis, place))
        # What the slopes in the middle between points gain, the derivative gains by differences.
        low, high = changes
        difference: Node = Node("-", (high, low))
        if part.step != 1:
            difference = Node("/", (difference, Node("number", value=part.step)))
        gained, own = Node("name", value=f"gained{DOT}{label}"), part.derivative
        own = self._derivative("second", label, own)
        self._within(axis, gained, difference)
        self._within(axis, own, Node("+", (own, gained)))
        change = self._change(own, label, 2, axis, part.place)
        self._within(axis, result, Node("+", (result, Node("+", (gained, change)))))

    def _derivative(self, word: str, label: str, value: Node) -> Node:
        """Return a name for a derivative, which is assigned as it is without layers."""
        self.derivatives.append((f"{word}{DOT}{label}", value))
        return Node("name", value=f"{word}{DOT}{label}")

    def _label(self, operator: str, operand: Node) -> str:
        """Return a name for a derivative, which no other one has."""
        name = str(operand.value) if operand.op == "name" else ""
        if not name.replace(DOT, "").isidentifier():
            self._numbered += 1
            name = str(self._numbered)
        label = f"{operator}_{name.replace(DOT, '_')}"
        while label in self._taken:
            label += "_"
        self._taken.add(label)
        return label

    def _result(
        self, label: str, derivative: Node, axes: tuple[int, ...], operator: str, operand: Node
    ) -> Node:
        """Return the name of a stretched derivative, which begins as it is without layers."""
        result = self._derivative("stretched", label, derivative)
        self._known[derivative, axes] = result
        shown = str(operand.value) if operand.op == "name" else "..."
        self.results[str(result.value)] = f"{operator}({shown})"
        return result

    def _change(self, slope: Node, label: str, number: int, axis: int, place: int) -> Node:
        """Return what stretching adds to a derivative, after its memory is brought up to date."""
        decay, gain, change = (self._profile(axis, place, row) for row in ROWS)
        memory = Node("name", value=f"cpml_{label}{DOT}{number}")
        self.memories[str(memory.value)] = Memory(f"cpml_{label}", number, axis)
        kept = Node("+", (Node("*", (decay, memory)), Node("*", (gain, slope))))
        self._within(axis, memory, kept)
        return Node("+", (Node("*", (change, slope)), memory))

    def _profile(self, axis: int, place: int, row: int) -> Node:
        name = f"{profile_of(axis)}{DOT}{place}{DOT}{row}"
        self.profiles[name] = Profile(axis, place, row)
        return Node("name", value=name)

    def _within(self, axis: int, target: Node, value: Node) -> None:
        self.within.append((axis, str(target.value), value))

    def _sorted(self) -> list[tuple[int, str, Node]]:
        """Return the assignments of layers, those of an axis together."""
        return sorted(self.within, key=lambda assignment: assignment[0])
