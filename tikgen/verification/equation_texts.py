"""Draws equations: programs over fields, as trees that become text on a given grid."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tikgen.dtypes import DType
from tikgen.template.boundaries import LAYERS, is_by_field, side_rules

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

FIELDS = ("u", "v", "w")
SCALARS = ("a", "b")
FURTHEST = 4
# Programs on staggered grids, and where their fields lie. The first one suits every problem.
STAGGERED = {"p": "centre", "ux": "face x", "uy": "face y", "wz": "edge z"}
STAGGERED_TEXTS = (
    "ux' = ux - a*dx(p); p' = p - b*dx(ux)",
    "ux' = ux - a*dx(p); p' = p - a*dx(ux)*avgx(ux)",
    "r = avgx(p); ux' = ux - a*r*dx(p) + dxx(ux); p' = p + b*(avgx(ux)**2)",
    "p = p - a*dx(avgx(avgx(ux)))",
    "ux' = ux - a*dx(p); uy' = uy - b*dy(p); p' = p - a*(dx(ux) + dy(uy))",
    "wz' = wz - a*(dx(uy) - dy(ux)); r = avgx(avgy(wz)); q = r**2 + p*x",
    "ux = ux + b*dy(wz); uy' = uy - b*dx(wz) + y",
)

REDUCTIONS = ("sum", "max", "min")

# Blocks for regions, and the condition that some of them name.
BLOCKS = ("over", "between", "alone", "own")
CONDITIONS = ("u > w", "i < 3", "not (w < u) or a > i")

# Operators on bits, and what stands for them where floats are computed.
BITS = {"&": "-", "^": "+", ">>": "*"}

# A tree is a name, a number, or (operation, operands ...).
Tree = Any


def in_proportion(*choices: tuple[int, SearchStrategy[Any]]) -> SearchStrategy[Any]:
    """Return a strategy that takes each of some others as often as its number says.

    ``st.one_of`` would count the parts of those that are unions themselves.
    """
    from hypothesis import strategies as st

    each = [strategy for count, strategy in choices for _ in range(count)]
    return st.integers(0, len(each) - 1).flatmap(each.__getitem__)


def programs() -> SearchStrategy[Tree]:
    """Return a strategy for programs on grids without staggering; see :func:`text_of`."""
    from hypothesis import strategies as st

    field = st.sampled_from(FIELDS)
    step = st.integers(-FURTHEST, FURTHEST)
    leaves = st.one_of(
        field,
        st.sampled_from((*SCALARS, "temporary", 2, 0.3)),
        st.tuples(st.just("index"), st.integers(0, 5)),
        st.tuples(st.just("at"), field, st.tuples(step, step, step)),
        st.tuples(st.just("derivative"), st.integers(0, 20), field),
        st.tuples(st.just("upwind"), st.integers(0, 2), field, field),
    )

    def grown(inner: SearchStrategy[Tree]) -> SearchStrategy[Tree]:
        two = st.sampled_from(("+", "-", "*", "min", "max", "hypot", *BITS))
        return st.one_of(
            st.tuples(two, inner, inner),
            st.tuples(st.just("where"), inner, inner, inner),
            st.tuples(st.sampled_from(("sqrt", "square", "asinh", "clip")), inner),
            st.tuples(st.just("lap"), field, field),
        )

    value = st.recursive(leaves, grown, max_leaves=5)
    statement = st.tuples(st.sampled_from(("u'", "v'", "q", "v")), value)
    statements = st.lists(
        statement, min_size=1, max_size=3, unique_by=lambda line: line[0].strip("'")
    )
    condition = st.just("inside") | st.tuples(value, value)
    block = st.tuples(st.sampled_from(BLOCKS), condition, value)
    region = in_proportion((2, st.none()), (1, block))
    return st.tuples(value, statements.map(tuple), _reductions(value), region)


def staggered_programs() -> SearchStrategy[Tree]:
    """Return a strategy for programs on staggered grids; see :func:`text_of`."""
    from hypothesis import strategies as st

    text, field = st.sampled_from(STAGGERED_TEXTS), st.just("p")
    return st.tuples(st.just("staggered"), text, _reductions(field))


def _reductions(value: SearchStrategy[Tree]) -> SearchStrategy[Any]:
    """Return a strategy for some reductions: operation, value, what is added to it or "plain".

    An extreme hides what is lost of all other numbers, so that a sum is beside most of them; and
    those of numbers of both signs have always the same sign, so that something is added to all.
    """
    from hypothesis import strategies as st

    operations = st.sampled_from(
        (("sum",), ("max", "sum"), ("sum", "min"), ("max",), ("min", "sum"), ("sum", "max", "min"))
    )
    each = st.tuples(value, st.sampled_from(("shift", "computed", "", "shift")))
    some = st.tuples(operations, st.tuples(each, each, each)).map(
        lambda drawn: tuple(
            (name, of, added or "shift" * (name != "sum"))
            for name, (of, added) in zip(*drawn, strict=False)
        )
    )
    plain = st.tuples(
        st.sampled_from(("max", "min")), st.sampled_from(("u", "abs(u)", "-u")), st.just("plain")
    ).map(lambda drawn: (drawn,))
    return in_proportion((6, st.just(())), (3, some), (1, plain))


def text_of(program: Tree, dim: int, is_float: bool) -> str:
    """Return the text of a drawn program, with the axes and operations that a grid has."""
    if isinstance(program, str):
        return program
    if program[0] == "staggered":
        return "; ".join([_staggered_text(program[1], dim, is_float), *_totals(program[2])])
    temporary, statements, reductions, region = program
    in_place = {target for target, _ in statements if not target.endswith("'")} & set(FIELDS)
    writer = _Writer(dim, is_float, in_place)
    lines = [f"r = {writer.text(temporary, temporary='u')}"]
    for target, value in statements:
        own = f"{target} + " if target in in_place else ""
        lines.append(f"{target} = {own}{writer.text(value, temporary='r')}")
    if region is not None:
        lines[-1] = _with_block(target, lines[-1], own, region, writer)
    computed = [target for target, _ in statements if target.endswith("'")]
    for number, (operation, value, added) in enumerate(reductions):
        if added == "plain":
            lines.append(f"t{number} = {operation}({value})")
            continue
        # The extreme of a coordinate would lie at the same point in every launch.
        varied = "" if operation == "sum" else " + 9*u"
        term = writer.text(value, temporary="r") + varied + _added(added, computed)
        lines.append(f"t{number} = {operation}({term})")
    return "\n".join(lines) if region is not None else "; ".join(lines)


def _with_block(target: str, line: str, own: str, region: Tree, writer: _Writer) -> str:
    """Return the last statement with a block for a region: over it, or around it."""
    kind, condition, value = region
    other = f"{target} = {own}{writer.text(value, temporary='r')}"
    if not isinstance(condition, str):
        condition = " > ".join(writer.text(side, temporary="r") for side in condition)
    match kind:
        case "over":
            return f"{line}\nwhere {condition}:\n    {other}"
        case "between":
            return f"where {condition}:\n    {line}\nelsewhere r > 2:\n    {other}"
        case "alone":
            return f"where {condition}:\n    {line}\nelsewhere:\n    {other}"
    # A variable of the branch's own.
    line = line.replace(" = ", " = s + ", 1)
    return f"where {condition}:\n    s = 2*r\n    {line}\nelsewhere:\n    {other}"


def _staggered_text(text: str, dim: int, is_float: bool) -> str:
    """Return a text for staggered grids, or another one where the grid lacks what it needs."""
    fits = is_float or not re.search("avg|[+*] ?[xy]", text)
    return text if fits and (dim > 1 or "y" not in text) else STAGGERED_TEXTS[is_float]


def _totals(reductions: Any) -> list[str]:
    return [
        f"t{number} = {operation}({'p' if added == 'plain' else of + _added(added)})"
        for number, (operation, of, added) in enumerate(reductions)
    ]


def _added(kind: str, computed: Sequence[str] = ()) -> str:
    """Return what is added to the term of a reduction."""
    if kind == "computed" and computed:
        return f" - {computed[-1]}"
    return " + 9*a" if kind else ""


class _Writer:
    """Writes trees as text; neighbours of fields that are updated in place are those of u."""

    def __init__(self, dim: int, is_float: bool, in_place: set[str]) -> None:
        self._dim = dim
        self._is_float = is_float
        self._in_place = in_place

    def text(self, tree: Tree, temporary: str) -> str:
        match tree:
            case ("index", number):
                letters = "xyz"[: self._dim] if self._is_float else "ijk"[: self._dim]
                return letters[number % self._dim]
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
                # At a tie both would be the same where the last one is the first one as well.
                chosen = rest[0] if self._is_float else f"{rest[0]} + 1"
                return f"where({first} > {rest[0]}, {chosen}, {rest[1]})"
            case "sqrt":
                return f"sqrt(abs({first}))" if self._is_float else f"abs({first} - 3)"
            case "square":
                return f"({first})**2"
            case "asinh":
                return f"asinh({first})" if self._is_float else f"({first} + 1)"
            case "clip":
                return f"clip({first}, -1, 2)"
            case "hypot":
                return f"{'hypot' if self._is_float else 'max'}({first}, {rest[0]})"
            case "min" | "max":
                return f"{operation}({first}, {rest[0]})"
        operation = BITS.get(operation, operation) if self._is_float else operation
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

    plain = st.sampled_from(
        [
            *("interior", "clamp", "zero", "reflect", "antireflect"),
            *("symmetric", "antisymmetric", "wall", "free_surface"),
        ]
    )
    kinds = st.sampled_from(("value", "flux", "wall_value", "wall_flux"))
    numbers = st.sampled_from((0.5, -2.0, "a", "b", "over", "over"))
    rule = in_proportion((1, plain), (1, st.tuples(kinds, numbers)))
    # The narrow ones lie within the reach of some stencils.
    widths, strengths = st.sampled_from((8, 2, 20)), st.sampled_from((0.1, 1.0))
    layer = st.tuples(st.just("absorbing"), widths, strengths, st.just(1), rule)
    matched = st.tuples(st.just("cpml"), st.sampled_from((3, 2, 9)), rule)
    either = in_proportion((6, rule), (2, layer), (3, matched))
    axis = in_proportion((1, st.just(("periodic", "periodic"))), (4, st.tuples(either, either)))
    sides = st.tuples(axis, axis, axis).map(
        lambda axes: {
            letter + sign: rule
            for letter, pair in zip("xyz", axes, strict=True)
            for sign, rule in zip("-+", pair, strict=True)
        }
    )
    simple = st.sampled_from(("periodic", "zero", "interior"))
    whole = in_proportion((1, simple), (1, either))
    by_field = st.fixed_dictionaries(dict.fromkeys(FIELDS, in_proportion((1, whole), (2, sides))))
    return in_proportion((3, whole), (1, sides), (3, by_field))


def orders_of(text: str) -> dict[str, int]:
    """Return the fields that a program writes, with the order in time that their layers may have.

    That of the next values of fields is 1, and that of fields in place may be 2.
    """
    lines = [line.partition(" = ") for line in re.split(r"; |\n *", text)]
    targets = [line for line in lines if line[1]]
    return {
        name.removesuffix("'"): 1 if name.endswith("'") else 2
        for name, _, value in targets
        if name.endswith("'") or re.search(rf"\b{name}\b", value)
    }


def fitted_boundary(
    boundary: Any,
    fields: Mapping[str, str],
    dim: int,
    is_float: bool,
    orders: Mapping[str, int],
    side: str = "",
) -> Any:
    """Return a drawn boundary with the fields and axes of a problem.

    Args:
        boundary: what was drawn.
        fields: the field for which a rule was drawn, for each field of the problem.
        dim: number of axes.
        is_float: whether the dtype is one of floats.
        orders: the fields that may have absorbing layers, with their order in time.
        side: the side that has the rule, over whose face the number "over" becomes an array.
    """
    rest = dim, is_float
    if is_by_field(boundary):
        return {
            name: fitted_boundary(
                boundary[drawn], {name: drawn}, *rest, {k: orders[k] for k in {name} & {*orders}}
            )
            for name, drawn in fields.items()
        }
    if isinstance(boundary, Mapping):
        return {
            side: fitted_boundary(rule, fields, *rest, orders, side)
            for side, rule in boundary.items()
            if "xyz".index(side[0]) < dim
        }
    if isinstance(boundary, tuple) and boundary[0] == "absorbing":
        *layer, _, beyond = boundary
        beyond = fitted_boundary(beyond, fields, *rest, orders, side)
        order = min(orders.values(), default=0)
        return (*layer, order, beyond) if is_float and order else beyond
    if isinstance(boundary, tuple) and boundary[0] == "cpml":
        *layer, beyond = boundary
        beyond = fitted_boundary(beyond, fields, *rest, orders, side)
        return (*layer, beyond) if is_float else beyond
    kind, number = boundary if isinstance(boundary, tuple) else (boundary, 0)
    is_about_wall = kind in ("symmetric", "wall_flux", "free_surface")
    if {*fields} & {*STAGGERED} and is_about_wall and not side.endswith("-"):
        return "wall"  # At an upper side it would need what no array holds.
    if not is_float and ("flux" in kind or number == 0.5):
        return "clamp"
    if number == "over":
        letter = side[:1] or "x" * (dim == 1)
        return kind, f"over_{letter}" if letter else -2.0
    return boundary


def fitted_layers(boundary: Any, dim: int, axes: Collection[int]) -> Any:
    """Return a boundary with matched layers along some axes alone, the same ones for all fields.

    Args:
        boundary: a boundary with the fields and axes of a problem.
        dim: number of axes.
        axes: the axes along which equations take derivatives that layers can change.
    """
    if boundary == {}:  # The rules of each field, of a text that reads none.
        return boundary
    given = boundary if is_by_field(boundary) else {"": boundary}
    widths: dict[int, tuple[int, ...]] = {}
    found = {}
    for name, rules in given.items():
        sides = {}
        for axis, letter in enumerate("xyz"[:dim]):
            pair = side_rules(rules, axis)
            own = tuple(rule[1] if rule[:1] == ("cpml",) else 0 for rule in pair)
            own = widths.setdefault(axis, own) if any(own) and axis in axes else (0, 0)
            for sign, rule, width in zip("-+", pair, own, strict=True):
                beyond = rule[-1] if rule[0] in LAYERS else rule
                plain = beyond if rule[0] == "cpml" else rule
                sides[letter + sign] = ("cpml", width, beyond) if width else plain
        is_layered = any(
            rule[0] == "cpml" for axis in range(dim) for rule in side_rules(rules, axis)
        )
        found[name] = sides if is_layered else rules
    return found if is_by_field(boundary) else found[""]


def fields_in(text: str) -> dict[str, str]:
    """Return the fields that a program reads, with that for which a boundary was drawn."""
    names = _read(text)
    staggered = zip(STAGGERED, (*FIELDS, FIELDS[0]), strict=True)
    both = (*zip(FIELDS, FIELDS, strict=True), *staggered)
    return {own: drawn for own, drawn in both if own in names}


def fitted_types(
    types: Mapping[str, str] | None, text: str, faces: set[str], mask: str | None, dtype: DType
) -> dict[str, DType]:
    """Return those of drawn types that arrays of a problem may have.

    Args:
        types: what was drawn, for an array that is "read", one that is "written", and by name.
        text: the equations.
        faces: names of arrays over faces.
        mask: name of the mask, or None.
        dtype: the dtype in which is computed.
    """
    targets = re.findall(r"(?m)(?:^|;) *(\w+'?)(?:\.\w+)? = ", text)
    written = {target.replace("'", "_next") for target in targets}
    arrays = {
        "written": sorted(name for name in written if not re.fullmatch(r"[rs]|t\d|flag", name)),
        "read": [name for name in ("w", "f", "g", "p", "u") if name in _read(text) - written],
    }
    found = {}
    for drawn, given in (types or {}).items():
        stored = DType(given)
        is_kept = stored.is_float == dtype.is_float and not (mask and stored.bits > dtype.bits)
        for name in arrays.get(drawn, [drawn])[:1]:
            fits = is_kept if name in written else dtype.is_float or not stored.is_float
            is_there = drawn in arrays or name in {*faces, mask}
            if (fits and is_there) or (name == "flag" and name in written):
                found[name] = stored
    return found


def _read(text: str) -> set[str]:
    """Return the names of a text other than next values."""
    return set(re.findall(r"\b[A-Za-z_]\w*\b(?!')", text))
