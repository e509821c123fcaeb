"""Draws equations: programs over fields, as trees that become text on a given grid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FIELDS = ("u", "v", "w")
SCALARS = ("a", "b")
FURTHEST = 4
# Programs on staggered grids, and where their fields lie.
STAGGERED = {"p": "centre", "ux": "face x"}
STAGGERED_TEXTS = (
    "ux' = ux - a*dx(p); p' = p - a*dx(ux)*avgx(ux)",
    "r = avgx(p); ux' = ux - a*r*dx(p) + dxx(ux); p' = p + b*(avgx(ux)**2)",
    "p = p - a*dx(avgx(avgx(ux)))",
)

REDUCTIONS = ("sum", "max", "min")

# A tree is a name, a number, or (operation, operands ...).
Tree = Any


def programs(is_staggered: bool = True) -> SearchStrategy[Tree]:
    """Return a strategy for programs; :func:`text_of` makes them text.

    Args:
        is_staggered: whether some are texts for staggered grids.
    """
    from hypothesis import strategies as st

    field = st.sampled_from(FIELDS)
    step = st.integers(-FURTHEST, FURTHEST)
    leaves = st.one_of(
        field,
        st.sampled_from((*SCALARS, "index", "temporary", 2, 0.3)),
        st.tuples(st.just("at"), field, st.tuples(step, step, step)),
        st.tuples(st.just("derivative"), st.integers(0, 20), field),
        st.tuples(st.just("upwind"), st.integers(0, 2), field, field),
    )

    def grown(inner: SearchStrategy[Tree]) -> SearchStrategy[Tree]:
        two = st.sampled_from(("+", "-", "*", "min", "max"))
        return st.one_of(
            st.tuples(two, inner, inner),
            st.tuples(st.just("where"), inner, inner, inner),
            st.tuples(st.sampled_from(("sqrt", "square")), inner),
            st.tuples(st.just("lap"), field, field),
        )

    value = st.recursive(leaves, grown, max_leaves=5)
    statement = st.tuples(st.sampled_from(("u'", "v'", "q", "v")), value)
    statements = st.lists(
        statement, min_size=1, max_size=3, unique_by=lambda line: line[0].strip("'")
    )
    reduction = st.tuples(st.sampled_from(REDUCTIONS), value, st.booleans())
    reductions = st.just(()) | st.lists(reduction, max_size=2).map(tuple)
    found = st.tuples(value, statements.map(tuple), reductions)
    return found | st.sampled_from(STAGGERED_TEXTS) if is_staggered else found


def text_of(program: Tree, dim: int, is_float: bool) -> str:
    """Return the text of a drawn program, with the axes and operations that a grid has."""
    if isinstance(program, str):
        return program
    temporary, statements, *reductions = program
    in_place = {target for target, _ in statements if not target.endswith("'")} & set(FIELDS)
    writer = _Writer(dim, is_float, in_place)
    lines = [f"r = {writer.text(temporary, temporary='u')}"]
    for target, value in statements:
        own = f"{target} + " if target in in_place else ""
        lines.append(f"{target} = {own}{writer.text(value, temporary='r')}")
    computed = [target for target, _ in statements if target.endswith("'")]
    for number, (operation, value, from_computed) in enumerate(reductions[0] if reductions else ()):
        term = writer.text(value, temporary="r")
        term += f" - {computed[-1]}" if from_computed and computed else ""
        lines.append(f"t{number} = {operation}({term})")
    return "; ".join(lines)


class _Writer:
    """Writes trees as text; neighbours of fields that are updated in place are those of u."""

    def __init__(self, dim: int, is_float: bool, in_place: set[str]) -> None:
        self._dim = dim
        self._is_float = is_float
        self._in_place = in_place

    def text(self, tree: Tree, temporary: str) -> str:
        match tree:
            case "index":
                return "x" if self._is_float else "i"
            case "temporary":
                return temporary
            case float():
                return str(tree if self._is_float else int(10 * tree))
            case str() | int():
                return str(tree)
            case ("at", field, offset):
                return f"{self._apart(field)}{list(offset[: self._dim])}"
            case ("derivative", number, field):
                return f"{self._operator(number)}({self._apart(field)})"
            case ("upwind", axis, field, along) if self._is_float:
                letter = "xyz"[axis % self._dim]
                return f"d{letter}({self._apart(field)}, along={along})"
            case ("upwind", _, field, _):
                return f"lap({self._apart(field)})"
            case ("lap", one, other):
                return f"lap({self._apart(one)} * {self._apart(other)})"
        operation, *operands = tree
        first, *rest = (self.text(operand, temporary) for operand in operands)
        match operation:
            case "where":
                return f"where({first} > {rest[0]}, {rest[0]}, {rest[1]})"
            case "sqrt":
                return f"sqrt(abs({first}))" if self._is_float else f"abs({first})"
            case "square":
                return f"({first})**2"
            case "min" | "max":
                return f"{operation}({first}, {rest[0]})"
        return f"({first} {operation} {rest[0]})"

    def _apart(self, field: str) -> str:
        return "u" if field in self._in_place else field

    def _operator(self, number: int) -> str:
        if not self._is_float:
            return "lap"
        letters = "xyz"[: self._dim]
        mixed = [a + b for a in letters for b in letters if a <= b]
        choices = ("lap", *(f"d{axes}" for axes in (*letters, *mixed)))
        return choices[number % len(choices)]


def boundaries() -> SearchStrategy[Any]:
    """Return a strategy for boundaries in three dimensions; :func:`fitted_boundary` cuts them."""
    from hypothesis import strategies as st

    rule = st.one_of(
        st.sampled_from(("interior", "clamp", "zero", "reflect", "antireflect")),
        st.sampled_from(("symmetric", "antisymmetric", "wall", "free_surface")),
        st.tuples(
            st.sampled_from(("value", "flux", "wall_value", "wall_flux")),
            st.sampled_from((0.5, -2.0, "a", "over")),
        ),
    )
    widths, strengths = st.sampled_from((1, 3, 20)), st.sampled_from((0.1, 1.0))
    layer = st.tuples(st.just("absorbing"), widths, strengths, st.just(1), rule)
    either = st.one_of(rule, rule, layer)
    axis = st.just(("periodic", "periodic")) | st.tuples(either, either)
    sides = st.tuples(axis, axis, axis).map(
        lambda axes: {
            letter + sign: rule
            for letter, pair in zip("xyz", axes, strict=True)
            for sign, rule in zip("-+", pair, strict=True)
        }
    )
    whole = st.sampled_from(("periodic", "zero")) | either
    return whole | st.fixed_dictionaries(dict.fromkeys(FIELDS, whole | sides))


def orders_of(text: str) -> dict[str, int]:
    """Return the fields that a program writes, with the order in time that their layers may have.

    That of the next values of fields is 1, and that of fields in place may be 2.
    """
    targets = [line.partition(" = ") for line in text.split("; ")]
    return {
        name.removesuffix("'"): 1 if name.endswith("'") else 2
        for name, _, value in targets
        if name.endswith("'") or re.search(rf"\b{name}\b", value)
    }


def fitted_boundary(
    boundary: Any,
    fields: set[str],
    dim: int,
    is_float: bool,
    orders: Mapping[str, int],
    letter: str = "",
) -> Any:
    """Return a drawn boundary with the fields and axes of a problem.

    Args:
        boundary: what was drawn.
        fields: the names that the equations use.
        dim: number of axes.
        is_float: whether the dtype is one of floats.
        orders: the fields that may have absorbing layers, with their order in time.
        letter: the axis over whose faces the number "over" becomes an array.
    """
    if isinstance(boundary, Mapping):
        by_field = fields & set(FIELDS)
        if not by_field:
            return "wall" if "wall" in boundary.values() else "periodic"
        found = {}
        for name, rule in boundary.items():
            if name not in by_field:
                continue
            own = {name: orders[name]} if name in orders else {}
            if not isinstance(rule, Mapping):
                found[name] = fitted_boundary(rule, fields, dim, is_float, own)
                continue
            found[name] = {
                side: fitted_boundary(one, fields, dim, is_float, own, side[0])
                for side, one in rule.items()
                if "xyz".index(side[0]) < dim
            }
        return found
    if isinstance(boundary, tuple) and boundary[0] == "absorbing":
        *layer, _, beyond = boundary
        beyond = fitted_boundary(beyond, fields, dim, is_float, orders, letter)
        order = min(orders.values(), default=0)
        return (*layer, order, beyond) if is_float and order else beyond
    kind, number = boundary if isinstance(boundary, tuple) else (boundary, 0)
    if fields & set(STAGGERED) and kind in ("symmetric", "wall_flux", "free_surface"):
        return "wall"  # Its upper side would need what no array holds.
    if not is_float and ("flux" in kind or number == 0.5):
        return "clamp"
    if number == "over":
        return kind, f"over_{letter}" if letter else -2.0
    return boundary
