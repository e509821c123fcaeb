"""Equations over fields on a grid: a text, and what it becomes on a grid."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from tikgen.dtypes import DType
from tikgen.errors import ExpressionError
from tikgen.expression.assignments import Assignments, Expression
from tikgen.expression.components import by_component
from tikgen.expression.equation_reader import EquationReader
from tikgen.expression.grid import Grid
from tikgen.expression.hints import rate_hint
from tikgen.expression.literals import copied
from tikgen.expression.next_values import check_next_values
from tikgen.expression.operators import AXES, INDICES, KNOWN
from tikgen.expression.own_functions import inlined
from tikgen.expression.reader import TOO_DEEP, clipped, statements_of
from tikgen.expression.reductions import TERMS, reduction_of
from tikgen.expression.regions import conditions
from tikgen.expression.replaced import PROBLEM, replaced
from tikgen.expression.sharing import shared
from tikgen.expression.spelling import (
    DOT,
    PRIME,
    parsed_form,
    refusal,
    shown,
    shown_name,
    stored_name,
    unparsed,
)
from tikgen.expression.staggering import CENTRE, place_on
from tikgen.expression.stretching import Memory, Profile
from tikgen.expression.text import Text
from tikgen.expression.tree import Node
from tikgen.expression.vectors import Expansion
from tikgen.expression.walls import held, index_on

if TYPE_CHECKING:
    from tikgen.expression.sympy_text import SympyText

MOST_CHARACTERS = 20_000
# A block as in Python.
_FOR = re.compile(r"^\s*for \w+ in .*:", re.MULTILINE)
# A block behind a semicolon.
_BEHIND = re.compile(r";[ \t]*(each|where|elsewhere)\b[^;\n(]*:")


def sympy_text(value: object) -> SympyText | None:
    """Return equations of SymPy as text, or None for a text; raise ExpressionError."""
    if isinstance(value, str | Equations) or "sympy" not in sys.modules:
        return None
    from tikgen.expression import sympy_text as sympy_reader

    return sympy_reader.read(value)


@dataclass(frozen=True, eq=False)
class Update:
    """What equations become on a grid.

    Attributes:
        assignments: the statements in order; a neighbour is a name of its own.
        accesses: array and offset of each value that is read, by its name in the assignments.
        arrays: role of each array by name: those that are read, in order of first use, and then
            those that are only written.
        scalars: scalars that are read.
        inputs: arrays and scalars that are read, in order of first use.
        indices: axis of each index that is read, by its name in the assignments.
        fields: the field of each array that is its next value, or which is updated in place.
        reductions: operation of each reduction, ``"sum"``, ``"max"`` or ``"min"``, by the name of
            its result, to which the assignments assign the value at a point.
        memories: what points of matched layers keep, by its name in the assignments.
        profiles: numbers of matched layers that are read, by their names in the assignments.
        within: the axis of each assignment that belongs to matched layers alone, by its place.
    """

    assignments: Assignments
    accesses: Mapping[str, tuple[str, tuple[int, ...]]]
    arrays: Mapping[str, str]
    scalars: tuple[str, ...]
    inputs: tuple[str, ...]
    indices: Mapping[str, int]
    fields: Mapping[str, str]
    reductions: Mapping[str, str]
    memories: Mapping[str, Memory] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    within: Mapping[int, int] = field(default_factory=dict)

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        """Return the arrays that are written, in order of their first assignment."""
        return tuple(name for name in self.assignments.outputs if name in self.arrays)

    @functools.cached_property
    def temporaries(self) -> tuple[str, ...]:
        """Return the names that are assigned and no array of the grid."""
        known = (*self.arrays, *self.memories)
        return tuple(name for name in self.assignments.outputs if name not in known)

    def offsets(self, array: str) -> tuple[tuple[int, ...], ...]:
        """Return the offsets at which an array is read, sorted."""
        return self._offsets.get(array, ())

    @functools.cached_property
    def _offsets(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        found: dict[str, list[tuple[int, ...]]] = {}
        for array, offset in self.accesses.values():
            found.setdefault(array, []).append(offset)
        return {array: tuple(sorted(offsets)) for array, offsets in found.items()}

    def held_on(self, walls: Mapping[str, Mapping[int, float | str]]) -> Update:
        """Return equations in which fields have given values at the first points of axes.

        Args:
            walls: the value, or the name of one, for each axis, by the field.
        """
        assigned, indices = [], dict(self.indices)
        for name, expression in self.assignments.assignments:
            if own := walls.get(self.fields.get(name, "")):
                expression = Expression(held(expression.node, own))
                indices |= {index_on(axis): axis for axis in own}
            assigned.append((name, expression))
        return replace(self, assignments=Assignments(tuple(assigned)), indices=indices)

    def kept_where(self, mask: str, dim: int) -> Update:
        """Return equations that compute nothing new where the array ``mask`` is not 0.

        There the next value of a field is its value, and any other output keeps what it is.
        """
        centre = (0,) * dim
        is_set = Node("!=", (Node("name", value=mask), Node("number", value=0)))
        accesses = {**self.accesses, mask: (mask, centre)}
        inputs, roles = dict.fromkeys(self.inputs), dict(self.arrays)
        assigned = []
        for name, expression in self.assignments.assignments:
            if name in roles:
                kept = self.fields.get(name, name)
                accesses[kept] = kept, centre
                if kept == name:
                    roles[name] = "inout"
                else:
                    inputs[kept] = None
                tree = Node("where", (is_set, Node("name", value=kept), expression.node))
                expression = Expression(tree)
            assigned.append((name, expression))
        inputs[mask] = None
        read = {name: "in" for name in inputs if name not in self.scalars}
        return replace(
            self,
            assignments=Assignments(tuple(assigned)),
            accesses=accesses,
            arrays=read | roles,
            inputs=tuple(inputs),
        )


class Equations(Text):
    """Equations such as ``u' = u + dt*lap(u)``, one a line or separated by semicolons.

    ``u'`` is the next value of the field ``u``. A name that is assigned and read further down is a
    temporary, and one that is assigned and never read is an output. A name that its own right-hand
    side reads, as in ``u = u + dt*v``, is updated in place. Equations may contain what an
    :class:`Expression` may, and neighbours such as ``u[1, 0]``; the derivatives ``dx dy dz dxx dyy
    dzz dxy dxz dyz lap``, upwind ones such as ``dx(u, along=c)``, ``div`` of a field for each axis
    and ``curl`` of two; the averages ``avgx avgy avgz`` on staggered grids; the indices ``i j k``
    and the coordinates ``x y z``. Vectors have components such as ``v.x`` and ``f.3``, blocks such
    as ``each q in 9:`` and sums such as ``sum(f.q for q in 9)``; ``grad``, ``dot``,
    ``cross`` and ``norm`` take whole ones. Blocks such as ``where x < 1:``,
    ``elsewhere x < 2:`` and ``elsewhere:`` hold the equations of regions. A derivative of a
    temporary or of an expression is that of what it stands for. ``f(a, b) = a*b`` defines a
    function, which is written out where it is called. ``err = sum(e)``, ``max(e)`` and ``min(e)``
    are reductions over all points that are computed. Equations that differ in white space and
    comments only are equal.
    """

    __slots__ = ("_lines", "_statements")

    _lines: str
    _statements: list[ast.stmt]

    def __init__(self, source: str) -> None:
        if not isinstance(source, str):
            takes = "takes a text, or equations of SymPy: an Eq, or a list or a dict of them"
            raise ExpressionError(clipped(str(source)), f"{takes}; got {type(source).__name__}")
        known = parsed_form(source)
        try:
            lines, statements = statements_of(known, MOST_CHARACTERS, also="#" + PRIME + DOT)
        except ExpressionError as error:
            problem, line, quoted = shown(error.problem).partition("\n")
            is_block = "each " in (quoted or shown(str(known))) or _FOR.search(str(source))
            is_told = not is_block or "a block begins" in problem
            hint = "" if is_told else "; a block is written 'each q in 9:'"
            if _BEHIND.search(str(source)):
                hint = "; a block such as 'each q in 9:' or 'where x < 1:' begins a line of its own"
            if "''" in source:
                hint = "; a next value has one prime, as in u'"
            if "assign to expression" in problem:
                hint = rate_hint(source) or hint
            raise ExpressionError(clipped(str(source)), problem + hint + line + quoted) from None
        try:
            text = _text_of(statements)
        except RecursionError:
            raise ExpressionError(clipped(str(source)), TOO_DEEP) from None
        super().__init__(_lines=lines, _statements=statements, text=text)

    @classmethod
    def parse(cls, value: Any) -> Equations:
        """Return ``value``, a text or equations of SymPy, as equations.

        Raises:
            ExpressionError: if it is neither, or contains something that is not allowed.
        """
        if isinstance(value, Equations):
            return value
        read = sympy_text(value)
        if read is None:
            return cls(value)
        for name in read.unlike_texts:
            problem = "means something else in a text; rename it, or take tikgen.update(...)"
            raise ExpressionError(name, problem)
        return cls(read.text)

    def on(
        self,
        dim: int,
        order: int = 2,
        spacing: tuple[float, ...] | None = None,
        scalars: tuple[str, ...] = (),
        constants: Mapping[str, float | tuple[float, ...]] | None = None,
        at: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] | None = None,
        mask: str | None = None,
        vectors: Mapping[str, int] | None = None,
        where: Mapping[str, str] | None = None,
        layers: Mapping[str, frozenset[int]] | None = None,
        arrays: tuple[str, ...] = (),
        walls: Mapping[str, Mapping[int, float | str]] | None = None,
        dtype: DType | None = None,
    ) -> Update:
        """Return what the equations become on a grid.

        Args:
            dim: number of axes.
            order: order of accuracy of derivatives, even.
            spacing: distance between points on each axis; 1 by default.
            scalars: names that are numbers of a call.
            constants: numbers, and lists of numbers, by name.
            at: where fields lie on a staggered grid, such as ``"face x"``, or ``"faces"`` for the
                components of a vector.
            outputs: names without a prime that are written; without it those that nothing reads.
            mask: name of an array that says which points keep their values.
            vectors: number of components of each vector.
            where: conditions by name.
            layers: axes with matched layers for each field; those of all fields for "".
            arrays: names of arrays, which may be those of indices and coordinates.
            walls: the value of each field at the first point of axes, or the name of one.
            dtype: where it is given, what cannot be computed in it is refused.

        Raises:
            ExpressionError: if they do not fit it; the message quotes the line.
        """
        located = by_component(at, vectors or {})
        places = {name: place_on(place, dim) for name, place in located.items()}
        known = tuple(map(float, spacing or (1.0,) * dim))
        numbers = {n: v for n, v in (constants or {}).items() if not isinstance(v, tuple)}
        lists = {n: v for n, v in (constants or {}).items() if isinstance(v, tuple)}
        grid = Grid(
            *(dim, order, known, scalars, numbers, places, outputs, mask),
            *(vectors or {}, lists, where or {}, layers or {}, arrays, dtype),
        )
        update, terms = self._read(replace(grid, mask=None) if grid.mask else grid)
        update = update.held_on(walls) if walls else update
        update = update if grid.mask is None else update.kept_where(grid.mask, grid.dim)
        if not terms:
            return update
        return replace(update, arrays={**update.arrays, **dict.fromkeys(terms, "out")})

    @functools.lru_cache(maxsize=64)  # noqa: B019 -- few are kept
    def _read(self, grid: Grid) -> tuple[Update, tuple[str, ...]]:
        """Return what the equations become without a mask, and what stores terms of sums."""
        numbers = (*grid.numbers, *INDICES[: grid.dim], *AXES[: grid.dim])
        taken = (*grid.numbers, *grid.arrays, *grid.at, *grid.vectors, *grid.lists, *grid.where)
        own, named = self._inlined(taken, conditions(grid.where))
        expansion = Expansion(
            *(self._lines, own, grid.dim, grid.vectors, grid.lists, numbers),
            *(named, grid.outputs or ()),
        )
        check_next_values(self._lines, own)
        statements = expansion.expanded()
        check_next_values(self._lines, statements)  # Conditions may read such a name.
        try:
            reader = EquationReader(self._lines, statements, _located(grid, expansion.origins))
        except RecursionError:
            raise ExpressionError(clipped(self.source), TOO_DEEP) from None
        for target in replaced(statements):
            raise refusal(self._lines, target, f"{shown_name(target.id)!r} {PROBLEM}")
        known = {*reader.used, *grid.scalars, *map(stored_name, reader.kinds)}
        found = shared(reader.assigned, known, grid.scalars)
        assigned = tuple((name, Expression(node)) for name, node in found)
        kept = ("next", "inplace", "output")
        written = {stored_name(n): kind for n, kind in reader.kinds.items() if kind in kept}
        scalars = tuple(name for name in reader.used if name in grid.scalars)
        arrays = {name: "in" for name in reader.used if name not in scalars}
        arrays |= {n: "inout" if kind == "inplace" else "out" for n, kind in written.items()}
        fields = {
            stored_name(name): name.removesuffix(PRIME)
            for name, kind in reader.kinds.items()
            if kind in ("next", "inplace")
        }
        update = Update(
            assignments=Assignments(assigned),
            accesses=reader.accesses,
            arrays=arrays,
            scalars=scalars,
            inputs=tuple(reader.used),
            indices=reader.indices,
            fields=fields,
            reductions={n: op for n, op in reader.reductions.items() if op != TERMS},
            memories=reader.stretching.memories,
            profiles=reader.stretching.profiles,
            within=reader.stretching.axes_within(name for name, _ in found),
        )
        terms = (name for name, operation in reader.reductions.items() if operation == TERMS)
        return update, tuple(terms)

    def _inlined(
        self, taken: Iterable[str] = (), named: Mapping[str, ast.expr] | None = None
    ) -> tuple[list[ast.stmt], dict[str, ast.expr]]:
        """Return statements, and conditions by name, in which functions are written out."""

        def refuse(tree: ast.AST, problem: str) -> NoReturn:
            raise refusal(self._lines, tree, problem)

        return inlined(self._statements, KNOWN, refuse, taken, named)

    def with_terms(self) -> Equations:
        """Return equations that store the terms of each sum over points, and add nothing up."""
        statements = [copied(statement) for statement in self._inlined()[0]]
        for statement in statements:
            if isinstance(statement, ast.Assign) and reduction_of(statement.value) == "sum":
                assert isinstance(statement.value, ast.Call)
                statement.value.func = ast.Name(TERMS, ast.Load())
        return Equations(_text_of(statements))

    @property
    def source(self) -> str:
        """Return the lines as a user wrote them."""
        return shown(self._lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source,)


def _located(grid: Grid, origins: Mapping[str, str]) -> Grid:
    """Return a grid on which new variables lie where the fields lie that they stand for."""
    if not grid.at:
        return grid
    places = {
        new: grid.at.get(own.removesuffix(PRIME), CENTRE)
        for new, own in origins.items()
        if own.endswith(PRIME) or own in grid.at
    }
    return replace(grid, at={**grid.at, **places})


def _text_of(statements: list[ast.stmt]) -> str:
    """Return statements as text: semicolons between them, and blocks on lines of their own."""
    parts = []
    for is_block, group in itertools.groupby(
        statements, lambda s: isinstance(s, ast.With | ast.If)
    ):
        texts = [unparsed(statement) for statement in group]
        parts.append(("\n" if is_block else "; ").join(texts))
    return "\n".join(parts)
