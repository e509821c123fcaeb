"""Components of vectors: their names, where they are stored, and settings for each of them.

A component is named by its vector and a letter or a number, with a middle dot between them. A
component of a next value is ``f_next·3``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tikgen.expression.spelling import DOT, PRIME, shown_name

LETTERS = "xyz"
# Places of all components of a vector on a staggered grid, and that of one on its axis.
TOGETHER = {"faces": "face", "edges": "edge"}


def vector_of(name: str) -> str:
    """Return the vector of a component's name, and any other name as it is."""
    return name.partition(DOT)[0]


def component_name(vector: str, number: int, count: int) -> str:
    """Return the name of a component: a letter after a dot where a vector has three at most."""
    return f"{vector}{DOT}{LETTERS[number] if count <= len(LETTERS) else number}"


def components(vector: str, count: int) -> list[str]:
    """Return the names of all components of a vector."""
    return [component_name(vector, number, count) for number in range(count)]


def argument_of(name: str, layout: str) -> tuple[str, int | None]:
    """Return the argument that holds an array or a component, and its place there, if any."""
    vector, dot, label = name.partition(DOT)
    if not dot:
        return name, None
    if layout == "separate":
        return f"{vector}_{label}", None
    return vector, LETTERS.index(label) if label in LETTERS else int(label)


def part_of(given: Mapping[str, Any], name: str, layout: str) -> npt.NDArray[Any]:
    """Return the elements of an array or of a component among the arguments of a call."""
    argument, place = argument_of(name, layout)
    whole = np.asarray(given[argument])
    if place is None:
        return whole
    found: npt.NDArray[Any] = whole[place] if layout == "first" else whole[..., place]
    return found


def by_component(given: Mapping[str, Any] | None, vectors: Mapping[str, int]) -> dict[str, Any]:
    """Return settings by field with those of a vector said for each of its components.

    Args:
        given: settings by the name of a field, a vector, or a component as in ``"v.x"``.
        vectors: number of components of each vector.
    """
    found: dict[str, Any] = {}
    for name, value in (given or {}).items():
        own = components(name, vectors.get(name, 0))
        found = {each: on_axis(value, axis) for axis, each in enumerate(own)} | found
        if not own:
            found[component_of(name, vectors)] = value
    return found


def on_axis(value: Any, axis: int) -> Any:
    """Return the place of one component where ``"faces"`` or ``"edges"`` was said of all."""
    is_place = isinstance(value, str) and value in TOGETHER and axis < len(LETTERS)
    return f"{TOGETHER[value]} {LETTERS[axis]}" if is_place else value


def component_of(name: str, vectors: Mapping[str, int]) -> str:
    """Return the name of a component that a user wrote as in ``"v.0"``, and others as they are."""
    vector, dot, label = name.partition(".")
    count = vectors.get(vector, 0)
    number = LETTERS.find(label) if label in LETTERS else int(label) if label.isdigit() else -1
    return components(vector, count)[number] if dot and 0 <= number < count else name


def kinds_of_vectors(
    kinds: Mapping[str, str],
    read: Container[str],
    vectors: Mapping[str, int],
    is_free: bool,
    refuse: Callable[[str, str], NoReturn],
) -> dict[str, str]:
    """Return what each target is where the components of a vector are temporaries or none is.

    Args:
        kinds: what each target is by itself.
        read: all names that are read.
        vectors: number of components of each vector.
        is_free: whether no outputs were named.
        refuse: raises the error for a target and a problem.
    """
    found = dict(kinds)
    for vector, count in vectors.items():
        names = components(vector, count)
        own = {name: kinds[name] for name in names if name in kinds}
        missing = [name + PRIME for name in names if name + PRIME not in kinds]
        if len(missing) < count:
            if own:
                problem = f"{vector!r} is assigned as well as {vector}'; only one of both can be"
                refuse(next(iter(own)), problem)
            if missing:
                known = next(name for name in names if name + PRIME in kinds)
                never = f"{shown_name(missing[0])} is never assigned"
                refuse(known + PRIME, f"{vector}' has {count} components, and {never}")
        is_array = "inplace" in own.values() or any(n in read for n in names if n not in own)
        if is_free and "temporary" in own.values():
            kind = "output" if is_array else "temporary"
            found |= {name: kind for name in own if own[name] != "inplace"}
    return found
