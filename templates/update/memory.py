"""Where the elements of arrays lie in memory, as generated code."""

import re
from collections.abc import Sequence
from typing import Any

from tikgen.expression.components import argument_of
from tikgen.template.vectors import element_code, held_arrays
from tikgen.template.views import Views, size_name, stride_name

from .reading import update_of


class Memory:
    """The code of extents, strides and elements of the arrays over a grid.

    Contiguous arrays are indexed by axis, or by one linear index behind zeros for the other axes.
    Views have one linear index only, and strides of their own. The kernel is given them; those of
    the last axis are numbers in the code.

    Args:
        p: the problem.
        views: the arrays that may be views; None where all are contiguous.
    """

    def __init__(self, p: Any, views: Views | None) -> None:
        self._p, self._views = p, views
        held = held_arrays(p, update_of(p).arrays)
        first = next(iter(held))
        axes = range(p.dim)
        if views is None:
            self.extents = [f"{first}.shape[{held[first].first_axis + axis}]" for axis in axes]
        else:
            self.extents = [size_name(f"n{axis}") for axis in axes]
        self.zeros = "" if views else "0, " * (p.dim - 1)

    @property
    def is_contiguous(self) -> bool:
        """Return whether strides follow from extents, the same ones for all arrays."""
        return self._views is None

    def group(self, name: str) -> int:
        """Return the number of the group of arrays whose strides are equal."""
        if self._views is None:
            return 0
        return self._views.group_of(argument_of(name, self._p.layout)[0])

    def suffix(self, name: str) -> str:
        """Return what ends the names of places in an array, which its group shares."""
        return f"_g{number}" if (number := self.group(name)) else ""

    def groups(self, names: Sequence[str]) -> list[str]:
        """Return the first array of each group among some arrays."""
        return list({self.group(name): name for name in reversed(names)}.values())[::-1]

    def steps(self, name: str) -> list[str]:
        """Return the distance of neighbours on each axis; nothing for the last one if that is 1."""
        if self._views is None:
            return ["plane", "row", ""][3 - self._p.dim :]
        first = int(self._is_vector(name))
        axes = range(first, first + self._p.dim - 1)
        last = self._views.last[self.group(name)]
        outer = (stride_name(self.group(name), axis) for axis in axes)
        return [*outer, "" if last == 1 else str(last)]

    def block(self, name: str) -> str:
        """Return the distance of the components of a vector."""
        return "block" if self._views is None else stride_name(self.group(name), 0)

    def element(self, name: str, places: str | Sequence[str], is_linear: bool = False) -> str:
        """Return the code of an element of an array or of a component.

        Args:
            name: the array or the component.
            places: a linear index behind :attr:`zeros`, or the index on each axis.
            is_linear: whether the linear index counts from the first component on.
        """
        if self._views is None:
            code = places if isinstance(places, str) else ", ".join(places)
            return element_code(self._p.layout, name, code, is_linear)
        if not isinstance(places, str):
            places = self.linear(name, places)
        argument, place = argument_of(name, self._p.layout)
        if place and not is_linear:
            times = f"{place} * " if place > 1 else ""
            places = f"{times}{self.block(name)} + {places}"
        zeros = "0, " * (self._p.dim - 1 + self._is_vector(name))
        return f"{argument}[{zeros}{places}]"

    def linear(self, name: str, places: Sequence[str]) -> str:
        """Return the linear index of a point in an array or a component."""
        each = zip(places, self.steps(name), strict=True)
        return " + ".join(times(place, step) for place, step in each)

    def _is_vector(self, name: str) -> bool:
        return argument_of(name, self._p.layout)[1] is not None


def times(code: str, step: str) -> str:
    """Return code for that many steps; they are 1 where nothing is said of them."""
    return f"{factor(code)} * {step}" if step else code


def factor(code: str) -> str:
    """Return code as a factor, in parentheses where it is a sum."""
    flat, within = code, ""
    while flat != within:
        flat, within = re.sub(r"\([^()]*\)|\[[^][]*\]", "", flat), flat
    return f"({code})" if " " in flat else code
