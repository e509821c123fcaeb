"""Arrays that hold vectors: the arguments of a kernel, and the code of an element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tikgen.errors import ExpressionError, near
from tikgen.expression import Update
from tikgen.expression.components import argument_of, vector_of
from tikgen.expression.operators import OPERATORS
from tikgen.expression.reader import parse_expression
from tikgen.expression.spelling import DOT, shown
from tikgen.template.arguments import Role
from tikgen.template.parameters import Invalid

Layout = Literal["first", "last", "separate"]
FEWEST, MOST = 2, 32


def check_vectors(p: Any) -> None:
    """Raise :class:`Invalid` where vectors have a wrong size or a name that is taken."""
    if not p.vectors and p.layout != "first":
        raise Invalid("layout", "says where vectors have their components, and there are none")
    known = (*p.scalars, *(p.constants or {}))
    for name, count in (p.vectors or {}).items():
        if not FEWEST <= count <= MOST:
            raise Invalid("vectors", f"takes {FEWEST} to {MOST} components; {name} has {count}")
        if name in known:
            raise Invalid("vectors", f"names {name}, which is a scalar or a constant")
        if f"{name}_next" in p.vectors:
            raise Invalid("vectors", f"names {name}_next, which is the next value of {name}")
        try:
            parse_expression(name)
        except ExpressionError as error:
            raise Invalid("vectors", f"cannot be used: {error.problem}") from None
        if name in OPERATORS:
            raise Invalid("vectors", f"names {name}, which is an operator")
    for name, value in (p.constants or {}).items():
        if isinstance(value, tuple) and not value:
            raise Invalid("constants", f"has the empty list {name}")


def check_arguments(p: Any, update: Update) -> None:
    """Raise :class:`Invalid` where a vector is not used, or an argument has another one's name."""
    names = (*update.inputs, *update.outputs, *update.temporaries)
    used = [vector_of(name) for name in names if DOT in name]
    for name in p.vectors or ():
        if not {name, f"{name}_next"} & {*used}:
            hint = near(name, map(shown, names))
            raise Invalid("vectors", f"names {name}, which nothing uses.{hint}")
    for name in update.arrays:
        argument, _ = argument_of(name, p.layout)
        if DOT in name and argument in names:
            raise Invalid(
                "equations", f"use the name {argument}, which is the argument of {shown(name)}"
            )


@dataclass(frozen=True)
class Held:
    """An argument, and the array or the components that it holds.

    Attributes:
        names: the array or the components, as equations name them.
        role: what is done with them together.
        count: number of components that the argument has room for; 0 for an array.
        layout: where components are stored.
    """

    names: tuple[str, ...]
    role: Role
    count: int
    layout: Layout

    @property
    def is_whole(self) -> bool:
        """Return whether equations name every component."""
        return len(self.names) >= self.count

    @property
    def first_axis(self) -> int:
        """Return the place of the first axis of the grid."""
        return int(self.count > 0 and self.layout == "first")

    def shape(self, extents: tuple[str, ...]) -> tuple[int | str, ...]:
        """Return the shape of the argument on a grid."""
        if not self.count:
            return extents
        return (self.count, *extents) if self.layout == "first" else (*extents, self.count)


def held_arrays(p: Any, roles: Mapping[str, str]) -> dict[str, Held]:
    """Return what each argument holds, by its name.

    Args:
        p: the problem.
        roles: role of each array and each component.
    """
    together: dict[str, list[str]] = {}
    for name in roles:
        together.setdefault(argument_of(name, p.layout)[0], []).append(name)
    found = {}
    for argument, names in together.items():
        kinds = {roles[name] for name in names}
        role = cast("Role", kinds.pop() if len(kinds) == 1 else "inout")
        is_vector = argument_of(names[0], p.layout)[1] is not None
        count = _count(p, argument) if is_vector else 0
        found[argument] = Held(tuple(names), role, count, p.layout)
    return found


def _count(p: Any, vector: str) -> int:
    """Return how many components a vector has, or the next value of one."""
    return int(p.vectors.get(vector) or p.vectors[vector.removesuffix("_next")])


def element_code(layout: Layout, name: str, places: str, is_linear: bool = False) -> str:
    """Return generated code for an element of an array or of a component.

    Args:
        layout: where components are stored.
        name: the array or the component.
        places: code for the indices of the point.
        is_linear: whether the last index counts from the first component on.
    """
    argument, place = argument_of(name, layout)
    if place is None:
        return f"{argument}[{places}]"
    if layout == "first":
        return f"{argument}[{0 if is_linear else place}, {places}]"
    return f"{argument}[{places}, {place}]"


def blocks_before(name: str, layout: Layout) -> int:
    """Return how many components lie before one in its array, where each is contiguous."""
    place = argument_of(name, layout)[1]
    return place if place and layout == "first" else 0


def names_in_code(names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each array, component or temporary, unlike any in ``taken``."""
    used = {name for name in (*names, *taken) if DOT not in name}
    found = {}
    for name in names:
        code = name.replace(DOT, "_")
        while DOT in name and code in used:
            code += "_"
        used.add(code)
        found[name] = code
    return found
