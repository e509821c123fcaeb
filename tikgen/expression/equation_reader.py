"""Reads equations over fields on a grid, and replaces derivatives by finite differences."""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn

from tikgen.errors import ExpressionError, near
from tikgen.expression import operators
from tikgen.expression.components import kinds_of_vectors, vector_of
from tikgen.expression.grid import Grid
from tikgen.expression.literals import is_whole, nodes_in
from tikgen.expression.operators import AVERAGES, AXES, FIRST, INDICES, KNOWN, OPERATORS, axes_of
from tikgen.expression.reader import Reader
from tikgen.expression.reductions import misused, reduction_of, unusable
from tikgen.expression.spelling import PRIME, refusal, shown_name, stored_name
from tikgen.expression.staggering import CENTRE, Place, in_words, place_of
from tikgen.expression.stretching import Second, Stretching
from tikgen.expression.tree import CONSTANTS, Node, number_node

FURTHEST = 64

Offset = tuple[int, ...]


class EquationReader(Reader):
    """Reads statements in order, and remembers what they read and assign.

    Attributes:
        accesses: array and offset of each value that is read, by the name of the value.
        indices: axis of each index that is read.
        used: arrays and scalars that are read, in order.
        assigned: what is assigned, in order: name and tree.
        kinds: whether each target is the next value of a field, updated in place, a temporary, an
            output or a reduction.
        reductions: the operation of each reduction, by the name of its result.
        stretching: derivatives that matched layers stretch.
    """

    most_nodes = longest_chain = 20_000
    functions = KNOWN

    def __init__(self, text: str, statements: list[ast.stmt], grid: Grid) -> None:
        super().__init__(text, dtype=grid.dtype)
        self._grid = grid
        self.accesses: dict[str, tuple[str, Offset]] = {}
        self.indices: dict[str, int] = {}
        self.used: dict[str, None] = {}
        self.assigned: list[tuple[str, Node]] = []
        self.stretching = Stretching(grid.layers)
        self._values: dict[tuple[str, Offset], Node] = {}
        # Trees of temporaries over what is read, and where what was assigned lies.
        self._definitions: dict[str, Node] = {}
        self._places: dict[str, Place] = {}
        self._result: Place = None
        self._at: ast.AST = statements[0]
        targets = [self._target(statement) for statement in statements]
        values = [s.value for s in statements if isinstance(s, ast.Assign)]
        if found := unusable(targets, values):
            self._at, problem = found
            self._refuse(problem)
        pairs = zip(targets, values, strict=True)
        self.reductions = {t.id: op for t, value in pairs if (op := reduction_of(value))}
        self.kinds = self._kinds(targets, values)
        for target, value in zip(targets, values, strict=True):
            self._assign(target.id, value)
        self.assigned[:0] = self.stretching.assignments

    # What is assigned.

    def _target(self, statement: ast.stmt) -> ast.Name:
        self._at = statement
        if isinstance(statement, ast.Expr):
            self._refuse("assigns nothing; write \"u' = ...\" or 'name = ...'")
        if not isinstance(statement, ast.Assign):
            self.assignment(statement)
        assert isinstance(statement, ast.Assign)
        target = self._at = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            self._refuse('assign to one plain name, or to its next value, as in "u\' = ..."')
        own = self._name(target.id.removesuffix(PRIME))
        if own in self._grid.scalars or own in self._grid.constants:
            self._refuse(f"{own!r} is a scalar or a constant, and cannot be assigned")
        return target

    def _kinds(self, targets: list[ast.Name], values: list[ast.expr]) -> dict[str, str]:
        reads = [[n for n in nodes_in(v) if isinstance(n, ast.Name)] for v in values]
        last_read = {vector_of(n.id): place for place, names in enumerate(reads) for n in names}
        kinds: dict[str, str] = {}
        for number, target in enumerate(targets):
            name, self._at = target.id, target
            if name.endswith(PRIME):
                self._check_next(name, kinds, {other.id for other in targets})
                kinds[name] = "next"
            elif name in self.reductions:
                kinds[name] = "reduction"
            elif name not in kinds:
                known, later = reads[: number + 1], last_read.get(vector_of(name), number) > number
                is_inplace = hasattr(target, "is_inplace")
                kinds[name] = "inplace" if is_inplace else self._kind(name, known, later)
        if self._grid.vectors:
            read = {node.id for node in itertools.chain(*reads)}
            is_free = self._grid.outputs is None

            def refuse(name: str, problem: str) -> NoReturn:
                self._at = next(target for target in targets if target.id == name)
                self._refuse(problem)

            kinds = kinds_of_vectors(kinds, read, self._grid.vectors, is_free, refuse)
        whole = {vector_of(name): kind for name, kind in kinds.items()}
        for name in self._grid.outputs or ():
            if whole.get(name) not in ("output", "inplace", "reduction"):
                self._refuse(f"the output {name!r} is not assigned.{near(name, kinds)}")
        return kinds

    def _check_next(self, name: str, known: Mapping[str, str], targets: set[str]) -> None:
        if name in known:
            self._refuse(
                f"{shown_name(name)} is assigned twice; take a temporary for the first value"
            )
        if name[:-1] in targets:
            self._refuse(f"{name[:-1]!r} is assigned as well; only one of both can be")

    def _kind(self, name: str, reads: list[list[ast.Name]], later: bool) -> str:
        if any(node.id == name for node in reads[-1]):
            return "inplace"
        for node in itertools.chain(*reads[:-1]):
            if node.id == name:
                self._at = node
                self._refuse(
                    f"{name!r} is read before it is assigned; assign it further up, or write "
                    f'"{name}\' = ..." for its next value'
                )
        outputs = self._grid.outputs
        if outputs is None:
            return "temporary" if later else "output"
        is_output = vector_of(name) in outputs
        if not is_output and not later:
            self._refuse(f"{name!r} is neither read nor one of the outputs")
        return "output" if is_output else "temporary"

    def _assign(self, name: str, value: ast.expr) -> None:
        kind, own = self.kinds[name], name.removesuffix(PRIME)
        if kind == "reduction" and isinstance(value, ast.Call):
            value = value.args[0]
        self._at = value
        if self._grid.at:
            found = place_of(value, self._home, self._differ)
            fixed = kind in ("next", "inplace") or own in self._grid.at
            self._result = self._grid.at.get(own, CENTRE) if fixed else found
            if fixed and found is not None and found != self._result:
                self._differ(value, self._result or CENTRE, found)
        node = self.suited(stored_name(name), value)
        self.assigned.append((stored_name(name), node))
        self._definitions[name] = self._inlined(node)
        self._places[name] = self._result

    def _home(self, name: str) -> Place:
        """Return where a name lies."""
        if name in self._places:
            return self._places[name]
        is_number = name in self._grid.numbers or self.is_constant(name) or self._is_index(name)
        return None if is_number else self._grid.at.get(name, CENTRE)

    def _differ(self, tree: ast.AST, one: frozenset[int], other: frozenset[int]) -> NoReturn:
        self._at = tree
        first, second = (in_words(place, self._grid.dim) for place in (one, other))
        average = "u"
        for axis in sorted(one ^ other, reverse=True):
            average = f"avg{AXES[axis]}({average})"
        self._refuse(
            f"mixes values at {first} with values at {second}; take the average of one of them, "
            f"as in {average}"
        )

    # What is read.

    def _read(self, tree: ast.expr, depth: int) -> Node:
        before, self._at = self._at, tree
        if isinstance(tree, ast.Name):
            node = self._value(tree.id)
        elif isinstance(tree, ast.Subscript):
            node = self._neighbour(tree)
        else:
            node = super()._read(tree, depth)
        self._at = before
        return node

    def _value(self, name: str) -> Node:
        """Return what a name stands for at the point."""
        if name in self._grid.constants:
            return number_node(self._grid.constants[name])
        if self.is_constant(name):
            return Node("constant", value=name)
        if name in self._places:  # It was assigned.
            return Node("name", value=stored_name(name))
        if name.endswith(PRIME):
            self._refuse(f"{shown_name(name)} is read before it is assigned")
        if self._is_index(name):
            return self._index(name)
        self.used[self._name(name)] = None
        if name in self._grid.scalars:
            return Node("name", value=name)
        return self._access(name, (0,) * self._grid.dim)

    def is_constant(self, name: str) -> bool:
        """Return whether a name is pi or e, and nothing else has it."""
        return name in CONSTANTS and not self._is_named(name)

    def _is_index(self, name: str) -> bool:
        dim = self._grid.dim
        return name in (*INDICES[:dim], *AXES[:dim]) and not self._is_named(name)

    def _is_named(self, name: str) -> bool:
        """Return whether a text assigns a name or its next value, or parameters say what it is."""
        grid = self._grid
        known = (*grid.numbers, *grid.at, *grid.arrays)
        return bool({name, name + PRIME} & {*known, *getattr(self, "kinds", ())})

    def _index(self, name: str) -> Node:
        """Return the tree of an index, or of a coordinate where the result lies."""
        axis = (INDICES if name in INDICES else AXES).index(name)
        index = Node("name", value=INDICES[axis])
        self.indices[INDICES[axis]] = axis
        if name in INDICES:
            return index
        if axis in (self._result or ()):
            index = Node("-", (index, number_node(0.5)))
        spacing = self._grid.spacing[axis]
        return index if spacing == 1 else Node("*", (index, number_node(spacing)))

    def _access(self, array: str, offset: Offset) -> Node:
        """Return the name of an array's value at an offset."""
        if known := self._values.get((array, offset)):
            return known
        if any(abs(step) > FURTHEST for step in offset):
            self._refuse(f"reaches further than {FURTHEST} points")
        if any(offset) and self.kinds.get(array) == "inplace":
            self._refuse(
                f"{array!r} is updated in place, so that its neighbours may be old or new; "
                f'write "{array}\' = ..."'
            )
        steps = (f"{'n' if step < 0 else ''}{abs(step)}" for step in offset)
        name = "\u00b7".join((array, *steps)) if any(offset) else array
        self.accesses[name] = (array, offset)
        node = self._values[array, offset] = Node("name", value=name)
        return node

    def _neighbour(self, tree: ast.Subscript) -> Node:
        if not isinstance(tree.value, ast.Name):
            self._refuse("only a name has neighbours")
        name = tree.value.id
        items = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        offset = tuple(self._step(item) for item in items)
        self._at = tree
        if len(offset) != self._grid.dim:
            self._refuse(f"takes {self._grid.dim} offsets, one an axis; got {len(offset)}")
        is_given = name in self._grid.numbers
        if is_given or self.is_constant(name) or self._is_index(name):
            self._refuse(operators.without_neighbours(name, is_given))
        if self.kinds.get(name) == "inplace":
            self._access(name, offset)
        return self._shifted(self._value(name), offset)

    def _step(self, tree: ast.expr) -> int:
        self._at = tree
        sign = 1
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
            sign = -1 if isinstance(tree.op, ast.USub) else 1
            tree = tree.operand
        if not isinstance(tree, ast.Constant) or type(tree.value) is not int:
            self._refuse("an offset is a whole number, as in u[1, 0]")
        return sign * int(tree.value)

    def _inlined(self, node: Node) -> Node:
        """Return the tree with temporaries replaced by what they stand for."""
        return node.with_names(self._definitions)

    def _shifted(self, node: Node, offset: Offset) -> Node:
        """Return the tree at the point that lies at an offset."""
        return self._elsewhere(node, offset) if any(offset) else node

    def _elsewhere(self, node: Node, offset: Offset) -> Node:
        """Return the tree at another point, which lies at an offset."""
        if node.op != "name":
            return node.changed(lambda arg: self._elsewhere(arg, offset))
        name = str(node.value)
        if name in self.accesses and name not in self._places:
            array, own = self.accesses[name]
            return self._access(array, tuple(map(operator.add, own, offset)))
        if name in self.stretching.results:
            self._refuse(
                f"takes neighbours of {self.stretching.results[name]}, which is known at the point "
                "alone where a layer of kind 'cpml' changes it; write a second derivative as in "
                "dxx(u), or let the first one be a field of its own"
            )
        if self.kinds.get(name) == "temporary" or self.kinds.get(name) == "output":
            return self._elsewhere(self._definitions[name], offset)
        if name in self.indices:
            step = offset[self.indices[name]]
            return Node("+", (node, number_node(step))) if step else node
        if name in self._grid.scalars:
            return node
        if self.kinds.get(name) == "inplace":
            self._access(name, offset)
        next_value = re.sub(r"_next(?=$|\u00b7)", "'", name)
        raise self._error(
            f"the neighbours of {next_value} are not known yet; assign its value to a temporary "
            "first, and take the neighbours of that"
        )

    # Derivatives.

    def _call(self, tree: ast.Call, depth: int) -> Node:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name == "grad":
            self._refuse(
                "a gradient has several components; assign it to a vector, or write dx(u), "
                "dy(u), dz(u)"
            )
        if problem := misused(tree):
            self._refuse(problem)
        if name not in OPERATORS:
            if len(tree.args) == 1 and (
                written := operators.nested(name, ast.unparse(tree.args[0]))
            ):
                self._refuse(f"{name}() is a derivative of a derivative: write {written}")
            offsets = ", ".join(map(ast.unparse, tree.args))
            if name not in KNOWN and tree.args and all(map(is_whole, tree.args)):
                self._refuse(f"a neighbour is written with brackets, {name}[{offsets}]")
            return super()._call(tree, depth)
        along = self._along(name, tree, depth)
        if problem := operators.operands_problem(name, len(tree.args), self._grid):
            self._refuse(problem)
        fields = [self.number(arg, depth) for arg in tree.args]
        places = [self._place(arg) for arg in tree.args]
        if name == "lap":
            return self._second(fields[0], range(self._grid.dim), places[0] or CENTRE)
        if name == "div":
            parts = [
                self._first(fields[axis], (axis,), places[axis]) for axis in range(len(fields))
            ]
            return functools.reduce(lambda one, other: Node("+", (one, other)), parts)
        if name == "curl":
            right, left = (self._first(fields[n], (1 - n,), places[n]) for n in (0, 1))
            return Node("-", (left, right))
        axes = axes_of(name)
        node, place = fields[0], places[0] or CENTRE
        if name in AVERAGES:
            return operators.average(node, axes[0], self._move, axes[0] in place)
        if along is not None:
            spacing = self._grid.spacing[axes[0]]
            if self._stretched_axes(node, axes):
                self._refuse(
                    f"takes {name}(..., along=...) across a layer of kind 'cpml', which changes "
                    "central derivatives; for what a flow carries take a layer of kind 'sponge'"
                )
            return operators.upwind(node, axes[0], spacing, self._move, along)
        if len(axes) == 2 and axes[0] == axes[1]:
            return self._second(node, axes[:1], place)
        return self._first(node, axes, place)

    def _move(self, node: Node, axis: int, step: int) -> Node:
        return self._shifted(node, tuple(step * (a == axis) for a in range(self._grid.dim)))

    def _place(self, tree: ast.expr) -> Place:
        return place_of(tree, self._home, self._differ) if self._grid.at else None

    def _first(self, node: Node, axes: tuple[int, ...], place: Place) -> Node:
        """Return the first derivative along an axis, or along one after the other."""
        grid, found, at = self._grid, node, place or CENTRE
        for axis in axes:
            from_faces = axis in at if grid.at else None
            rest = grid.order, grid.spacing[axis], self._move, from_faces
            found, at = operators.first(found, axis, *rest), at ^ {axis}
        if not (stretched := self._stretched_axes(node, axes)):
            return found
        operator = "d" + "".join(AXES[axis] for axis in axes)
        walls = at if grid.at else CENTRE
        return self.stretching.first(self._inlined(found), operator, node, stretched, walls)

    def _second(self, node: Node, axes: range | tuple[int, ...], place: frozenset[int]) -> Node:
        """Return the sum of second derivatives along some axes."""
        grid = self._grid
        rest = grid.order, grid.spacing, self._move
        found = operators.second(node, axes, *rest)
        if not (stretched := self._stretched_axes(node, axes)):
            return found
        parts = {}
        for axis in stretched:
            step = grid.spacing[axis]
            below, above = (
                self._inlined(operators.one_sided(node, axis, step, self._move, is_above))
                for is_above in (False, True)
            )
            own = self._inlined(operators.second(node, (axis,), *rest))
            parts[axis] = Second(own, (below, above), step, 2 - (axis in place))
        operator = f"d{2 * AXES[axes[0]]}" if isinstance(axes, tuple) else "lap"
        return self.stretching.second(self._inlined(found), operator, node, parts)

    def _stretched_axes(self, node: Node, axes: Iterable[int]) -> tuple[int, ...]:
        """Return the axes along which layers stretch the derivative of a tree."""
        if not self._grid.layers:
            return ()
        read = (self.accesses.get(name) for name in self._inlined(node).names)
        arrays = {access[0] for access in read if access}
        return self.stretching.axes(arrays, axes) if arrays else ()

    def _along(self, name: str, tree: ast.Call, depth: int) -> Node | None:
        """Return the speed of an upwind derivative, or None."""
        if not tree.keywords:
            return None
        keyword = tree.keywords[0]
        if len(tree.keywords) != 1 or keyword.arg != "along" or name not in FIRST:
            self._refuse("takes fields; only dx, dy and dz take along=, the speed of the flow")
        if self._grid.at:
            self._refuse("upwind derivatives need all values at one place, without at=")
        return self.number(keyword.value, depth)

    def _error(self, problem: str) -> ExpressionError:
        return self.error_at(self._at, problem)

    def error_at(self, tree: ast.AST, problem: str) -> ExpressionError:
        """Return an error that quotes the line of a tree."""
        return refusal(self._text, tree, problem)
