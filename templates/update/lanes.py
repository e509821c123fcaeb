"""The points of a thread that computes several, and the places that they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tikgen.expression import Update
from tikgen.template.boundaries import MIRRORS
from tikgen.template.outside import moved, stand_in

from .boundaries import furthest


def lanes_of(p: Any, s: Any) -> list[str]:
    """Return code for the first indices of a point of a thread.

    Along one axis the points of a thread are a block apart, so that threads beside each other read
    elements beside each other.
    """
    if p.dim == 1:
        return [f"first + lane * {s.block_dim}"]
    return ["first + lane", "first_row + lane_row"][: 1 + (s.item_rows > 1)]


def reaches_of_lanes(p: Any, s: Any) -> list[int]:
    """Return how many points there are from the first to the last one of a thread on each axis."""
    if p.dim == 1:
        return [(s.items - 1) * s.block_dim + 1]
    return [s.items, s.item_rows][: 1 + (s.item_rows > 1)]


@dataclass
class Places:
    """Where neighbours of all points of a thread lie on the first axis, for arrays of equal rules.

    Args:
        name: what the code calls them.
        kinds: the kinds of the rules of both sides.
        low: how far arrays are read before the first point.
        high: how far behind the last one.
    """

    name: str
    kinds: tuple[str, str]
    low: int = 0
    high: int = 0

    def at(self, step: int) -> str:
        """Return code for the place some steps from point `lane`."""
        return f"{self.name}[{moved('lane', self.low + step)}]"

    def codes(self, extent: str, items: int) -> list[str]:
        """Return code for each place, of an axis with more points than any step is long."""
        steps, (low, high) = range(-self.low, items + self.high), self.kinds
        kinds = (low if step < 0 else high if step >= items else "interior" for step in steps)
        return [
            stand_in("first", step, extent, kind, is_long=True)
            for step, kind in zip(steps, kinds, strict=True)
        ]


def places_of(update: Update, rules: Mapping[str, Any]) -> dict[str, Places]:
    """Return the places along the first axis of each array that may be read outside."""
    known: dict[tuple[str, str], Places] = {}
    found = {}
    for name, pairs in rules.items():
        low, high = furthest(update, name, 0)
        kinds = tuple(kind for kind, _ in pairs[0])
        if not (low or high) or kinds == ("interior", "interior"):
            continue
        key = kinds[0], kinds[1]
        places = known.setdefault(key, Places(f"places_{len(known)}" if known else "places", key))
        places.low, places.high = max(places.low, low), max(places.high, high)
        found[name] = places
    return found


def are_long(update: Update, rules: Mapping[str, Any], extents: list[str]) -> str:
    """Return code that says whether every axis has more points than the equations reach outside.

    It is empty where that needs no saying: a step of one leads around any axis once.
    """
    parts = []
    for axis, extent in enumerate(extents):
        most = 0
        for name, pairs in rules.items():
            for (kind, _), steps in zip(pairs[axis], furthest(update, name, axis), strict=True):
                if kind in ("periodic", *MIRRORS):
                    most = max(most, steps - (kind == "periodic"))
        if most > 0:
            parts.append(f"{extent} > {most}")
    return " and ".join(parts)
