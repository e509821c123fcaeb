"""The elements of arrays as generated code, in each of the loops of a kernel.

What begins with ``by`` reads an array at an offset from the point, as a number of the dtype in
which is computed. What begins with ``at`` is where the value of an array at the point is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikgen import DType
from tikgen.template.outside import Read, in_place_of, moved, on_long_axis, stand_in, value

from .lanes import Places
from .memory import Memory, times
from .rows import Patch

Offset = tuple[int, ...]
# What reads points that have their neighbours inside: along all axes, or along the last one.
INSIDE = ("by_linear", "by_lane")
INSIDE_ROW = ("by_row", "by_run", "by_face_run", "by_face_patch")


class Elements:
    """Returns the code of elements.

    Args:
        work: the dtype in which is computed.
        memory: where elements lie.
        index: code for the index of the point on each axis.
        rules: the rules of each array.
        casts: a pattern for the code of an element of each array.
        identifiers: what the code calls each array.
        runs: the run of elements for each array and offset of its row.
        places: the places along the first axis that the points of a thread read, for each array.
        patches: the copies that points at the ends of rows read, for each array and offset of its
            row.
        lanes: code for the first indices of a point of a thread that computes several.
    """

    def __init__(
        self,
        work: DType,
        memory: Memory,
        index: Sequence[str],
        rules: Mapping[str, Any],
        casts: Mapping[str, str],
        identifiers: Mapping[str, str],
        runs: Mapping[Any, Any],
        places: Mapping[str, Places],
        patches: Mapping[tuple[str, Offset], Patch],
        lanes: Sequence[str],
    ) -> None:
        self._work, self._memory, self._index = work, memory, tuple(index)
        self._extents = tuple(memory.extents)
        self._rules, self._casts = rules, casts
        self._long_rules = {
            name: [tuple(map(on_long_axis, pair)) for pair in own] for name, own in rules.items()
        }
        self._identifiers, self._runs = identifiers, runs
        self._places, self._patches, self._lanes = places, patches, tuple(lanes)
        self._lane = "lane, lane_row" if len(lanes) > 1 else "lane"
        self._centre = (0,) * (len(index) - 1)
        self._length = "row" if self._centre else self._extents[-1]

    def _element(self, array: str, places: str | Sequence[str]) -> str:
        return self._casts[array] % self._memory.element(array, places)

    def _linear(self, array: str, name: str, offset: Sequence[int] = ()) -> str:
        """Return the linear index at an offset from another one."""
        memory = self._memory
        parts = [memory.zeros, name, memory.suffix(array)]
        for step, size in zip(offset, memory.steps(array), strict=False):
            if step:
                count = abs(step)
                apart = f"{count} * {size}" if count > 1 and size else size or str(count)
                parts.append(f" {'+' if step > 0 else '-'} {apart}")
        return "".join(parts)

    # One point, by its index: its neighbours may lie outside.

    def by_index(self, array: str, offset: Offset) -> str:
        return self._by_index(array, offset, self._rules)

    # The same on axes that have more points than any offset has steps.

    def by_known_index(self, array: str, offset: Offset) -> str:
        return self._by_index(array, offset, self._long_rules)

    def _by_index(self, array: str, offset: Offset, rules: Mapping[str, Any]) -> str:
        at = self._index, self._extents, offset, rules[array]
        return value(self._element, array, self._work, *at)

    def at_index(self, array: str) -> str:
        return self._memory.element(array, self._index)

    # One point far from the edges, by its linear index.

    def by_linear(self, array: str, offset: Offset) -> str:
        return self._element(array, self._linear(array, "here", offset))

    def at_linear(self, array: str) -> str:
        return self._memory.element(array, self._linear(array, "here"))

    # One point of a row, whose rows of neighbours begin at known places.

    def by_row(self, array: str, offset: Offset) -> str:
        place = moved(self._index[-1], offset[-1])
        return self._element(array, self._in_row(self._runs[array, offset[:-1]], place))

    def at_row(self, array: str) -> str:
        run = self._runs[array, self._centre]
        return self._memory.element(array, self._in_row(run, self._index[-1]))

    def _in_row(self, run: Any, place: str) -> str:
        start = f"{run.start} + " if self._centre else ""
        return self._memory.zeros + start + times(place, run.steps[-1])

    # The same near an end of the row.

    def by_end(self, array: str, offset: Offset) -> str:
        return self._by_end(array, offset, self._rules[array][-1:])

    # The same in a row that has more points than any offset has steps.

    def by_known_end(self, array: str, offset: Offset) -> str:
        return self._by_end(array, offset, self._long_rules[array][-1:])

    def _by_end(self, array: str, offset: Offset, rules: Sequence[Any]) -> str:
        run = self._runs[array, offset[:-1]]
        each = zip(self._index, run.leading, self._extents, run.kinds, strict=False)
        return value(
            lambda array, places: self._element(array, self._in_row(run, places[0])),
            *(array, self._work, self._index[-1:], (self._length,), offset[-1:], rules),
            leading=[stand_in(*at) for at in each],
        )

    # Point `lane` of a step at an end of a row, of which all was copied that may lie outside.

    def by_patch(self, array: str, offset: Offset) -> str:
        patch = self._patches.get((array, offset[:-1]))
        if patch and (patch.low or patch.high):
            return patch.at(offset[-1])
        return self.by_face_run(array, offset)

    # The same elsewhere in a row at a face, where only rows that may be numbers were copied.

    def by_face_patch(self, array: str, offset: Offset) -> str:
        patch = self._patches.get((array, offset[:-1]))
        if patch and patch.is_face:
            return patch.at(offset[-1])
        return self.by_face_run(array, offset)

    def into_patch(self, at: tuple[str, Offset], size: int, is_upper: bool) -> str:
        (array, leading), patch = at, self._patches[at]
        step, last = -patch.low, "lane"
        if is_upper:
            length = patch.low + size + patch.high
            step, last = patch.high, f"{self._length} - {length} + lane"
        run = self._runs[array, leading]
        read = self._read_at_face(run, lambda place: self._element(array, self._in_row(run, place)))
        index, extents = (*self._index[:-1], last), (*self._extents[:-1], self._length)
        rules = [*self._rules[array][:-1], *self._long_rules[array][-1:]]
        return value(read, array, self._work, index, extents, (*leading, step), rules)

    def into_face_patch(self, at: tuple[str, Offset]) -> str:
        array, leading = at
        return self.by_face_run(array, (*leading, -self._patches[at].low))

    # A point of a thread that computes several.

    def by_lane(self, array: str, offset: Offset) -> str:
        places = [moved(*at) for at in zip(self._index, offset, strict=True)]
        return self._in_plane(array, places)

    def at_lane(self, array: str) -> str:
        linear = self._memory.linear(array, (*self._lanes, *self._index[len(self._lanes) :]))
        return self._memory.element(array, self._memory.zeros + linear)

    # The same where neighbours may lie outside, on axes that have more points than any offset has
    # steps.

    def by_any_lane(self, array: str, offset: Offset) -> str:
        def find(name: str, step: int, extent: str, rule: Any) -> str:
            if name != self._index[0] or not step or rule.kind == "interior":
                return in_place_of(name, step, extent, rule)
            return self._places[array].at(step)

        at = self._index, self._extents, offset, self._long_rules[array]
        return value(self._in_plane, array, self._work, *at, find=find)

    def _in_plane(self, array: str, places: Sequence[str]) -> str:
        return self._element(array, self._memory.zeros + self._memory.linear(array, places))

    # Element `lane` of runs, which count from the first component of a vector on.

    def by_run(self, array: str, offset: Offset) -> str:
        return self._casts[array] % self._in_run(array, self._runs[array, offset[:-1]], offset[-1])

    # The same in a row whose neighbours on other axes may be numbers.

    def by_face_run(self, array: str, offset: Offset) -> str:
        run, rules = self._runs[array, offset[:-1]], self._rules[array][:-1]
        read = self._read_at_face(run, lambda _: self.by_run(array, offset))
        at = self._index[:-1], self._extents[:-1], offset[:-1], rules
        last = moved(f"{self._index[-1]} + lane", offset[-1])
        return value(read, array, self._work, *at, places=(last,))

    def _read_at_face(self, run: Any, in_row: Callable[[str], str]) -> Read:
        """Return what reads an element, by ``in_row`` of its place where it lies in a row."""
        each = zip(self._index, run.leading, self._extents, run.kinds_at_face, strict=False)
        row = tuple(stand_in(*at) for at in each)

        def read(array: str, places: Sequence[str]) -> str:
            if tuple(places[:-1]) != row:  # Another element of the face.
                return self._element(array, places)
            return in_row(places[-1])

        return read

    def at_stored(self, array: str) -> str:
        return self._in_run(array, self._runs[array, self._centre], 0)

    def _in_run(self, array: str, run: Any, step: int) -> str:
        lane = times(moved("lane", step - run.first), run.steps[-1])
        place = f"{self._memory.zeros}{run.name} + {lane}"
        return self._memory.element(array, place, is_linear=True)

    def at_buffer(self, array: str) -> str:
        return f"buffer_{self._identifiers[array]}[{self._lane}]"


def axes_off(read: Read, margins: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the axes on which a point is not the first one.

    Args:
        read: what reads its neighbours.
        margins: how many points at both ends of each axis have neighbours outside.
    """
    axes = range(len(margins))
    known = axes if read.__name__ in INSIDE else axes[-1:] if read.__name__ in INSIDE_ROW else ()
    return tuple(axis for axis in known if margins[axis][0])
