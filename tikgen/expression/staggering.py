"""Where the values of an equation lie on a staggered grid."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NoReturn

from tikgen.expression.chains import chain_of
from tikgen.expression.operators import AVERAGES, AXES, DERIVATIVES, axes_of

# The axes on which a value lies half a cell before the centre of its cell; None for a number, which
# fits everywhere.
Place = frozenset[int] | None
CENTRE: frozenset[int] = frozenset()

PLACES = {
    "centre": CENTRE,
    **{f"face {letter}": frozenset((axis,)) for axis, letter in enumerate(AXES)},
    # An edge lies along one axis, half a cell away on the two others.
    **{f"edge {letter}": frozenset({0, 1, 2} - {axis}) for axis, letter in enumerate(AXES)},
    "corner": frozenset((0, 1, 2)),
}


def place_on(name: str, dim: int) -> frozenset[int]:
    """Return the place with a name, on a grid of ``dim`` axes."""
    return frozenset(axis for axis in PLACES[name] if axis < dim)


def in_words(place: frozenset[int], dim: int) -> str:
    """Return a place as a user names it."""
    names = (name for name in PLACES if place_on(name, dim) == place)
    name = "corner" if len(place) == dim > 1 else next(names, "places between cells")
    return f"the {name}" if name in ("centre", "corner") else name


def place_of(
    tree: ast.AST,
    of_name: Callable[[str], Place],
    differ: Callable[[ast.AST, frozenset[int], frozenset[int]], NoReturn],
) -> Place:
    """Return where the value of an expression lies.

    Args:
        tree: the expression.
        of_name: returns where a name lies.
        differ: raises an error for two operands that lie at different places.
    """

    def of(part: ast.AST) -> Place:
        match part:
            case ast.Name():
                return of_name(part.id)
            case ast.Subscript():
                return of(part.value)
            case ast.BinOp():
                chain = chain_of(part)
                found = of(chain[-1].left)
                for each in reversed(chain):
                    found = _common(each, [found, of(each.right)])
                return found
            case ast.Call(func=ast.Name(id=name)) if name in (*DERIVATIVES, *AVERAGES):
                return _moved(name, of(part.args[0])) if part.args else None
            case ast.Call(func=ast.Name(id="div")):
                moved = [_moved(f"d{AXES[a]}", of(arg)) for a, arg in enumerate(part.args[:3])]
                return _common(part, moved)
            case ast.Call(func=ast.Name(id="curl")) if len(part.args) == 2:
                u, v = map(of, part.args)
                return _common(part, [_moved("dx", v), _moved("dy", u)])
            case ast.Call():
                return _common(part, [of(arg) for arg in part.args])
        children = [c for c in ast.iter_child_nodes(part) if isinstance(c, ast.expr)]
        return _common(part, [of(child) for child in children])

    def _common(part: ast.AST, places: list[Place]) -> Place:
        known = [place for place in places if place is not None]
        for place in known[1:]:
            if place != known[0]:
                differ(part, known[0], place)
        return known[0] if known else None

    return of(tree)


def _moved(operator: str, place: Place) -> Place:
    """Return where a derivative or an average of a value lies."""
    if place is None:
        return None
    axes = axes_of(operator)
    # A second derivative along an axis lies where its operand does.
    return place if len(axes) == 2 and axes[0] == axes[1] else place ^ frozenset(axes)
