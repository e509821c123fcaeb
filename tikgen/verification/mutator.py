"""Changes the text of a kernel in one place at a time, as a slip of its author would.

Segments of the text are replaced where ``ast`` says that they stand, so that all other lines, and
with them the line map back to the template, stay as they are.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tikgen.verification.part_counts import is_more_parts, is_part_count

KINDS = (
    "operator",
    "sign",
    "index",
    "bound",
    "comparison",
    "constant",
    "dropped statement",
    "swapped arguments",
    "dtype",
)

_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "|"),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
}
_TWINS = {"ti.min": "ti.max", "ti.max": "ti.min", "ti.atomic_add": "ti.atomic_sub"}
_TWINS |= {"ti.atomic_min": "ti.atomic_max", "ti.atomic_max": "ti.atomic_min"}
_NARROWER = {"f64": "f32", "f32": "f16", "i64": "i32", "u64": "u32"}
# Calls whose arguments may stand in any order, or say nothing about numbers.
_NO_ORDER = re.compile(
    r"ti\.(min|max|static|cast|bit_cast|Vector.*|Matrix.*|simt\..*|[iuf]\d+|u1)|range|ti\.ndrange"
)
# They only say how a loop runs, never what it computes.
_HINTS = ("ti.loop_config", "ti.block_local", "ti.assume_in_range", "ti.cache_read_only")
# An integer beyond every extent, which tells LLVM what cannot overflow.
_UNREACHABLE = 2**30
# Room for local arrays: more of it changes nothing.
_ROOM = re.compile(r"ti\.(Vector|Matrix)\.zero|ti\.simt\.block\.SharedArray")


@dataclass(frozen=True)
class Mutant:
    """A text that differs from another one in one place.

    Attributes:
        kind: what was changed, one of :data:`KINDS`.
        line: line of the text in which the change begins, counted from 1.
        text: the whole text, with as many lines as before.
    """

    kind: str
    line: int
    text: str

    def diff(self, original: str) -> str:
        """Return the lines that differ, those of ``original`` first, as a diff shows them."""
        pairs = zip(original.split("\n"), self.text.split("\n"), strict=True)
        changed = [(old, new) for old, new in pairs if old != new]
        gone = [f"- {old.strip()}" for old, _ in changed]
        return "\n".join(gone + [f"+ {new.strip()}" for _, new in changed if new.strip()])


def mutants_of(text: str) -> list[Mutant]:
    """Return every mutant of a module's functions; some of them may be the same code.

    What merely hints at how a loop should run is left as it is.
    """
    data = text.encode()
    found: dict[str, Mutant] = {}
    changes = _Changes(text)
    parts = changes.parts()
    for kind, start, stop, new in changes:
        if any(
            first <= start
            and stop <= last
            and is_more_parts(
                data[first:last].decode(),
                (data[first:start] + new.encode() + data[stop:last]).decode(),
            )
            for first, last in parts
        ):
            continue
        new += "\n" * (data.count(b"\n", start, stop) - new.count("\n"))
        changed = (data[:start] + new.encode() + data[stop:]).decode()
        if changed != text:
            found.setdefault(changed, Mutant(kind, data.count(b"\n", 0, start) + 1, changed))
    return list(found.values())


# A kind, the first byte, the byte behind the last one, and what takes their place.
_Change = tuple[str, int, int, str]


class _Changes:
    """Iterates over the changes to a text."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._starts = [0]
        for line in self._data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._tree = ast.parse(text)

    def __iter__(self) -> Iterator[_Change]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef):
                self._assigned = _assigned_names(node)
                yield from self._block(node.body)

    def parts(self) -> list[tuple[int, int]]:
        """Return the places of all counts of parts, such as ``(n - 1) // 64 + 1``."""
        return [self._span(node) for node in ast.walk(self._tree) if is_part_count(node)]

    # Statements.

    def _block(self, body: list[ast.stmt]) -> Iterator[_Change]:
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[_Change]:
        if isinstance(node, ast.FunctionDef):
            return  # Met by itself.
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call) and self._name(node.value) not in _HINTS:
                yield self._dropped(node)
                yield from self._expression(node.value)
            return
        if isinstance(node, ast.Assign | ast.AugAssign):
            yield from self._assignment(node)
        elif isinstance(node, ast.AnnAssign | ast.Return) and node.value is not None:
            yield from self._signed(node.value)
            yield from self._expression(node.value)
        elif isinstance(node, ast.If | ast.While):
            if isinstance(node, ast.If) and not node.orelse and not _assigned_names(node):
                yield self._dropped(node)
            yield from self._expression(node.test)
        elif isinstance(node, ast.For):
            # A loop of one turn with an unused index is a hint to Taichi.
            if self._text(node.target) != "_" or self._text(node.iter) != "range(1)":
                yield from self._expression(node.iter)
        elif isinstance(node, ast.Break | ast.Continue):
            yield self._dropped(node)
        yield from self._block(getattr(node, "body", []))
        yield from self._block(getattr(node, "orelse", []))

    def _assignment(self, node: ast.Assign | ast.AugAssign) -> Iterator[_Change]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AugAssign):
            old, new = _OPERATORS[type(node.op)]
            yield self._between("operator", node.target, node.value, f"{old}=", f"{new}=")
        # Without the first assignment its name would be unknown.
        names = [name for target in targets for name in _assigned_names(target)]
        if all(self._assigned.count(name) > 1 for name in names):
            yield self._dropped(node)
        for target in targets:
            yield from self._expression(target)
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) for t in targets):
            yield from self._accumulator(node.value)
        yield from self._signed(node.value)
        yield from self._expression(node.value)

    def _dropped(self, node: ast.stmt) -> _Change:
        return "dropped statement", *self._span(node), "pass"

    def _signed(self, node: ast.expr) -> Iterator[_Change]:
        if isinstance(node, ast.BinOp | ast.Subscript | ast.Name | ast.Call):
            if isinstance(node, ast.Call) and (
                _ROOM.match(self._name(node)) or (node.args and _number(node.args[0]) == 0)
            ):
                return
            yield "sign", *self._span(node), f"-({self._text(node)})"

    def _accumulator(self, node: ast.expr) -> Iterator[_Change]:
        """Narrow the dtype of what a name begins with, and thus that of the name."""
        if isinstance(node, ast.Call) and node.args:
            is_room = _ROOM.match(self._name(node))
            dtype = node.args[0] if is_room else node.func
            is_literal = _number(node.args[0]) is not None
            if (is_room or is_literal) and (narrower := self._narrower(dtype)):
                yield "dtype", *self._span(dtype), narrower

    # Expressions.

    def _expression(self, node: ast.expr) -> Iterator[_Change]:
        if isinstance(node, ast.BinOp):
            old, new = _OPERATORS.get(type(node.op), ("", ""))
            if old:
                yield self._between("operator", node.left, node.right, old, new)
        elif isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.USub | ast.Not):
                kind = "sign" if isinstance(node.op, ast.USub) else "comparison"
                yield kind, *self._span(node), f"({self._text(node.operand)})"
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in itertools.pairwise(node.values):
                yield self._between("comparison", left, right, old, new)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                old, others = _COMPARISONS.get(type(op), ("", ()))
                for other in others:
                    yield self._between("comparison", left, right, old, other)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
            return
        elif isinstance(node, ast.Call):
            yield from self._call(node)
            return
        elif isinstance(node, ast.Subscript):
            yield from self._subscript(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)

    def _constant(self, node: ast.Constant) -> Iterator[_Change]:
        value = node.value
        if isinstance(value, bool):
            others: list[object] = [not value]
        elif isinstance(value, int):
            others = [value + 1, value - 1] if value > 0 else [value + 1]
            others = [] if value >= _UNREACHABLE else others
        elif isinstance(value, float):
            others = [value + 1, value * 1.0625] if value else [1.0]
        else:
            return
        for other in others:
            yield "constant", *self._span(node), repr(other)

    def _call(self, node: ast.Call) -> Iterator[_Change]:
        name = self._name(node)
        if name in _HINTS:
            return
        if name in ("range", "ti.ndrange"):
            yield from self._bounds(node.args)
            return
        if _ROOM.match(name):
            return
        if twin := _TWINS.get(name):
            yield "operator", *self._span(node.func), twin
        if node.args and (narrower := self._narrower(node.func)):
            value = _number(node.args[0])
            if value is not None and not _fits(value, self._name(node), narrower):
                yield "dtype", *self._span(node.func), narrower
        if not _NO_ORDER.fullmatch(name):
            yield from self._swaps(node.args)
        # The length of parts beside their count, as in ti.max((n - 1) // 8 + 1, 1024).
        is_length = name == "ti.max" and any(map(is_part_count, node.args))
        for argument in node.args:
            if not (is_length and isinstance(argument, ast.Constant)):
                yield from self._expression(argument)

    def _bounds(self, bounds: list[ast.expr]) -> Iterator[_Change]:
        for bound in bounds:
            if isinstance(bound, ast.Tuple):
                yield from self._bounds(bound.elts)
            else:
                yield from self._shifted("bound", bound)
                yield from self._expression(bound)

    def _subscript(self, node: ast.Subscript) -> Iterator[_Change]:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            yield "bound", *self._span(node), f"({self._text(node)} - 1)"
            return
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        yield from self._swaps(indices)
        for index in indices:
            yield from self._shifted("index", index)
            yield from self._expression(index)

    def _shifted(self, kind: str, node: ast.expr) -> Iterator[_Change]:
        text = self._text(node)
        if isinstance(node, ast.Constant):
            yield from ((kind, *span[1:]) for span in self._constant(node))
            return
        whole = text if isinstance(node, ast.Name | ast.Subscript | ast.Call) else f"({text})"
        for sign in "+-":
            yield kind, *self._span(node), f"{whole} {sign} 1"

    def _swaps(self, nodes: list[ast.expr]) -> Iterator[_Change]:
        for one, two in itertools.pairwise(nodes):
            (start, stop), (next_start, next_stop) = self._span(one), self._span(two)
            between = self._data[stop:next_start].decode()
            swapped = f"{self._text(two)}{between}{self._text(one)}"
            yield "swapped arguments", start, next_stop, swapped

    # Places in the text.

    def _span(self, node: ast.AST) -> tuple[int, int]:
        lines = (node.lineno, node.end_lineno)  # type: ignore[attr-defined]
        columns = (node.col_offset, node.end_col_offset)  # type: ignore[attr-defined]
        start, stop = (self._starts[n - 1] + c for n, c in zip(lines, columns, strict=True))
        return start, stop

    def _text(self, node: ast.AST) -> str:
        start, stop = self._span(node)
        return self._data[start:stop].decode()

    def _between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> _Change:
        """Return the change of the operator that stands between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        between = self._data[start:stop].decode()
        bare = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), between)
        start += len(between[: bare.index(old)].encode())
        return kind, start, start + len(old), new

    def _name(self, node: ast.Call) -> str:
        return "".join(self._text(node.func).split())

    def _narrower(self, node: ast.expr) -> str | None:
        """Return the next narrower dtype of one that is spelled out, such as ``ti.f64``."""
        is_dtype = isinstance(node, ast.Attribute) and self._text(node.value) == "ti"
        found = _NARROWER.get(node.attr) if is_dtype and isinstance(node, ast.Attribute) else None
        return f"ti.{found}" if found else None


def _number(node: ast.expr) -> int | float | None:
    """Return the number that a literal is, with its sign, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return node.value if is_number else None  # type: ignore[attr-defined]


def _fits(value: float, dtype: str, narrower: str) -> bool:
    """Tell whether a narrower dtype, such as ``ti.f32``, holds the number that another one does.

    Up to the last digit of the other one: 0.04614257812500001 is a number of f32 that was computed.
    """
    name = narrower.removeprefix("ti.")
    if name[0] == "f":
        wide = np.dtype(f"float{dtype.removeprefix('ti.f')}").type
        with np.errstate(over="ignore", invalid="ignore"):
            held, exact = wide(np.dtype(f"float{name[1:]}").type(value)), wide(value)
        return bool(abs(held - exact) <= np.spacing(abs(exact)))
    limits = np.iinfo(f"{'u' * (name[0] == 'u')}int{name[1:]}")
    return bool(limits.min <= value <= limits.max)


def _assigned_names(node: ast.AST) -> list[str]:
    """Return the names that are assigned anywhere in ``node``, once for each time."""
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]
