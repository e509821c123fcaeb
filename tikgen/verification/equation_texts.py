"""Draws equations: programs over fields, as trees that become text on a given grid."""

from __future__ import annotations

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


def programs() -> SearchStrategy[Tree]:
    """Return a strategy for programs; :func:`text_of` makes them text."""
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
    programs = st.tuples(value, statements.map(tuple), reductions)
    return programs | st.sampled_from(STAGGERED_TEXTS)


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
        st.tuples(st.sampled_from(("value", "flux")), st.sampled_from((0.5, -2.0, "a"))),
    )
    axis = st.just(("periodic", "periodic")) | st.tuples(rule, rule)
    sides = st.tuples(axis, axis, axis).map(
        lambda axes: {
            letter + sign: rule
            for letter, pair in zip("xyz", axes, strict=True)
            for sign, rule in zip("-+", pair, strict=True)
        }
    )
    whole = st.sampled_from(("periodic", "zero")) | rule
    return whole | st.fixed_dictionaries(dict.fromkeys(FIELDS, whole | sides))


def fitted_boundary(boundary: Any, fields: set[str], dim: int, is_float: bool) -> Any:
    """Return a drawn boundary with the fields and axes of a problem."""
    if isinstance(boundary, Mapping):
        by_field = fields & set(FIELDS)
        if not by_field:
            return "periodic"
        return {
            name: fitted_boundary(rule, fields, dim, is_float)
            if not isinstance(rule, Mapping)
            else {
                side: fitted_boundary(one, fields, dim, is_float)
                for side, one in rule.items()
                if "xyz".index(side[0]) < dim
            }
            for name, rule in boundary.items()
            if name in by_field
        }
    if isinstance(boundary, tuple) and not is_float:
        kind, number = boundary
        return "clamp" if kind == "flux" or number == 0.5 else boundary
    return boundary
