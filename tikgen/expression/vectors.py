"""Blocks, sums, whole vectors and regions in equations become statements about components."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from tikgen.errors import near
from tikgen.expression.chains import chain_of
from tikgen.expression.components import LETTERS, component_name, components
from tikgen.expression.lists import by_item, first_list
from tikgen.expression.literals import (
    copied,
    known_value,
    literal,
    nodes_in,
    simplified,
    whole_value,
)
from tikgen.expression.operators import AXES, KNOWN
from tikgen.expression.reader import TOO_DEEP
from tikgen.expression.reductions import TERMS
from tikgen.expression.regions import Regions, branches_of
from tikgen.expression.sizes import Sizes
from tikgen.expression.spelling import DOT, PRIME, refusal, shown_name

MOST_STATEMENTS = 2000


class Expansion(ast.NodeTransformer):
    """Replaces components, numbers of blocks, regions and conditions by names and literals.

    Args:
        text: what the statements were parsed from.
        statements: the user's statements.
        dim: number of axes.
        vectors: number of components of each vector.
        lists: constants that are lists of numbers.
        numbers: other names of numbers, which no block may take for its own.
        conditions: conditions by name.
        outputs: names that are outputs though something reads them.
    """

    def __init__(
        self,
        text: str,
        statements: Sequence[ast.stmt],
        dim: int,
        vectors: Mapping[str, int],
        lists: Mapping[str, tuple[float, ...]],
        numbers: Iterable[str] = (),
        conditions: Mapping[str, ast.expr] | None = None,
        outputs: Iterable[str] = (),
    ) -> None:
        self._text = text
        self._statements = statements
        self._dim = dim
        self._vectors = vectors
        self._lists = lists
        self._conditions = conditions or {}
        self._taken = (*numbers, *vectors, *lists, *self._conditions)
        self._sizes = Sizes(self._size, dim, self._refuse)
        self._regions = Regions(statements, outputs, self._refuse)
        self._numbers: dict[str, int] = {}  # Of the blocks and sums around.
        self._component: int | None = None  # Of the vector that is assigned as a whole.
        self._count = 0
        self._open: set[str] = set()  # The conditions that are being read.

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the name that each new variable stands for."""
        return self._regions.origins

    def expanded(self) -> list[ast.stmt]:
        """Return statements over components alone, whose places are those of the user's text.

        Raises:
            ExpressionError: with the line quoted.
        """
        try:
            return self._regions.finished(self.statements(self._statements))
        except RecursionError:
            raise refusal(self._text, self._statements[0], TOO_DEEP) from None

    def statements(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return what statements stand for."""
        return [one for statement in statements for one in self._expanded(statement)]

    def _expanded(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.With):
            item = statement.items[0]
            tree = item.context_expr
            is_plain = isinstance(tree, ast.Compare) and len(tree.ops) == len(statement.items) == 1
            if not is_plain or item.optional_vars:
                self._refuse(statement, "a block is written 'each q in 9:'")
            assert isinstance(tree, ast.Compare)
            each = self._each(tree.left, tree.comparators[0])
            return [one for _ in each for one in self.statements(statement.body)]
        if isinstance(statement, ast.For):
            self._refuse(statement, "a block is written 'each q in 9:'")
        if isinstance(statement, ast.If):
            return self._regions.merged(statement, self._branches(statement))
        if not isinstance(statement, ast.Assign):
            return [statement]
        whole = self._whole_vector(statement.targets[0])
        found = self._by_component(statement, whole) if whole else [self.visit(copied(statement))]
        for one in found:
            self._regions.note(one)
        return found

    def _branches(self, block: ast.If) -> list[tuple[ast.expr | None, list[ast.stmt]]]:
        """Return condition and statements of each branch of a block for regions."""
        found: list[tuple[ast.expr | None, list[ast.stmt]]] = []
        for test, statements in branches_of(block):
            condition = None if test is None else self._of(test)
            with self._regions.branch():
                found.append((condition, self.statements(statements)))
        return found

    # Blocks and sums.

    def _each(self, target: ast.expr, count: ast.expr) -> Iterator[None]:
        """Yield once for each number of a block, which its name stands for meanwhile."""
        if not isinstance(target, ast.Name):
            self._refuse(target, "a block has one name for its number, as in 'each q in 9:'")
        name = target.id
        if name in self._taken or name in self._numbers:
            self._refuse(target, f"{name!r} has a meaning already; choose another name")
        for number in range(self._length(count)):
            self._count += 1
            if self._count > MOST_STATEMENTS:
                self._refuse(target, f"stands for more than {MOST_STATEMENTS} statements or terms")
            self._numbers[name] = number
            yield
        del self._numbers[name]

    def _length(self, tree: ast.expr) -> int:
        """Return how many numbers a block has: a number, or that of a vector or a list."""
        if isinstance(tree, ast.Name) and tree.id in self._vectors:
            return self._vectors[tree.id]
        if isinstance(tree, ast.Name) and tree.id in self._lists:
            return len(self._lists[tree.id])
        value = getattr(tree, "value", None)
        if type(value) is not int or not 1 <= value <= 64:
            known = ", ".join((*self._vectors, *self._lists))
            or_name = f", or the name of a vector or a list: {known}" if known else ""
            self._refuse(tree, f"takes a whole number from 1 to 64{or_name}")
        return value

    def _folded(self, tree: ast.Call, generator: ast.GeneratorExp, name: str) -> ast.expr:
        """Return the sum, the least or the greatest of an expression for each number."""

        def parts(rest: Sequence[ast.comprehension]) -> list[ast.expr]:
            if not rest:
                return [self.visit(copied(generator.elt))]
            if rest[0].ifs:
                self._refuse(rest[0].ifs[0], "a sum takes no condition; use where()")
            each = self._each(rest[0].target, rest[0].iter)
            return [part for _ in each for part in parts(rest[1:])]

        def joined(left: ast.expr, right: ast.expr) -> ast.expr:
            if name == "sum":
                return simplified(ast.copy_location(ast.BinOp(left, ast.Add(), right), tree))
            function = ast.copy_location(ast.Name(name, ast.Load()), tree)
            return ast.copy_location(ast.Call(function, [left, right], []), tree)

        return functools.reduce(joined, parts(generator.generators))

    # Components.

    def visit_Name(self, tree: ast.Name) -> ast.expr:
        """Replace the number of a block, a numbered component, or a vector that is assigned."""
        if tree.id in self._numbers:
            return literal(tree, self._numbers[tree.id])
        if tree.id in self._conditions:
            return self._condition(tree)
        if DOT in tree.id:
            return self._part(tree)
        vector = tree.id.removesuffix(PRIME)
        count = self._size(tree)
        if not count:
            return tree
        if self._component is None:
            labels = [shown_name(name) for name in components(tree.id, count)]
            what = "vector" if vector in self._vectors else "list"
            listed = ", ".join(labels if count <= 3 else [*labels[:2], "...", labels[-1]])
            self._refuse(tree, f"{shown_name(tree.id)} is a {what} of {count}: {listed}")
        if vector in self._lists:
            return literal(tree, self._lists[vector][self._component])
        return _renamed(tree, self._named(tree.id, self._component))

    def _condition(self, tree: ast.Name) -> ast.expr:
        if not isinstance(tree.ctx, ast.Load):
            self._refuse(tree, f"{tree.id!r} is a condition, and cannot be assigned")
        if tree.id in self._open:
            self._refuse(tree, f"{tree.id!r} is a condition that reads itself")
        condition = copied(self._conditions[tree.id])
        for node in ast.walk(condition):
            ast.copy_location(node, tree)
        self._open.add(tree.id)
        found: ast.expr = self.visit(condition)
        self._open.remove(tree.id)
        return found

    def visit_Attribute(self, tree: ast.Attribute) -> ast.expr:
        """Replace a component, as in ``v.x`` and ``f.q``."""
        return self._part(tree)

    def _part(self, tree: ast.Name | ast.Attribute) -> ast.expr:
        path = _path(tree)
        if path is None:
            return tree  # What it is an attribute of is refused by the reader.
        name, *labels = path
        vector = name.removesuffix(PRIME)
        self._check_vector(tree, vector, labels)
        if vector in self._lists:
            return literal(tree, self._lists[vector][self._index(tree, vector, labels)])
        return _renamed(tree, self._named(name, self._index(tree, vector, labels)))

    def _named(self, name: str, number: int) -> str:
        vector = name.removesuffix(PRIME)
        own = component_name(vector, number, self._vectors[vector])
        return own + PRIME * name.endswith(PRIME)

    def _check_vector(self, tree: ast.expr, name: str, labels: Sequence[str]) -> None:
        if labels[-1].endswith(PRIME):
            *others, last = labels
            right = ".".join((name + "'", *others, last.removesuffix(PRIME)))
            self._refuse(tree, f"the next value of a component is written {right}")
        if name in self._vectors or name in self._lists:
            return
        hint = near(name, (*self._vectors, *self._lists))
        say = f"vectors={{'{name}': 2}} would give it two" if not hint else ""
        self._refuse(tree, f"{name!r} has no components.{hint or ' ' + say}")

    def _index(self, tree: ast.expr, name: str, labels: Sequence[str]) -> int:
        """Return the number of a component, which a list may give, as in ``f.opposite.q``."""
        count = self._vectors.get(name) or len(self._lists[name])
        label, *rest = labels
        if rest:
            if label not in self._lists:
                self._refuse(tree, f"{label!r} is no list of numbers.{near(label, self._lists)}")
            index = self._lists[label][self._index(tree, label, rest)]
            if index != int(index):
                self._refuse(tree, f"a component has a whole number, and this one is {index:g}")
            number = int(index)
        elif label.isdigit():
            number = int(label)
        elif label in self._numbers:
            number = self._numbers[label]
        elif label in LETTERS:
            number = LETTERS.index(label)
        else:
            known = (*self._numbers, *LETTERS[:count])
            self._refuse(
                tree,
                f"{label!r} is no component of {name}, and no block has this name."
                f"{near(label, known)}",
            )
        if not 0 <= number < count:
            given = f"; {label} is {number}" if label in self._numbers or rest else ""
            self._refuse(tree, f"{name} has {count} components, 0 to {count - 1}{given}")
        return number

    def visit_Subscript(self, tree: ast.Subscript) -> ast.expr:
        """Replace a component whose neighbour is read, and fold the offsets."""
        tree.value = self.visit(tree.value)
        items = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        found = [self._offset(item) for item in items]
        if isinstance(tree.slice, ast.Tuple):
            tree.slice.elts = found
        else:
            tree.slice = found[0]
        return tree

    def _offset(self, item: ast.expr) -> ast.expr:
        """Return an offset as a literal where it names lists or numbers of blocks."""
        if all(isinstance(n, ast.Constant | ast.UnaryOp) for n in nodes_in(item)):
            return item
        before, self._component = self._component, None
        value = whole_value(self.visit(item))
        self._component = before
        if value is None or value != int(value):
            given = "" if value is None else f"; this one is {value:g}"
            self._refuse(item, f"an offset is a whole number, as in u[1, 0]{given}")
        return ast.copy_location(ast.Constant(int(value)), item)

    # Arithmetic with the numbers of lists.

    def visit_Constant(self, tree: ast.Constant) -> ast.expr:
        """Leave a literal as it is."""
        return tree

    def visit_BinOp(self, tree: ast.BinOp) -> ast.expr:
        """Leave out terms that a 0 in a list removes, and factors of 1."""
        chain = chain_of(tree)
        found: ast.expr = self.visit(chain[-1].left)
        for part in reversed(chain):
            part.left, part.right = found, self.visit(part.right)
            found = simplified(part)
        return found

    def visit_UnaryOp(self, tree: ast.UnaryOp) -> ast.expr:
        """Fold the sign of a number of a list."""
        tree.operand = self.visit(tree.operand)
        value = known_value(tree.operand)
        if value is not None and isinstance(tree.op, ast.USub):
            return literal(tree, -value)
        return tree

    # Whole vectors.

    def _whole_vector(self, target: ast.expr) -> int:
        return self._size(target) if isinstance(target, ast.Name) else 0

    def _by_component(self, statement: ast.Assign, count: int) -> list[ast.stmt]:
        if listed := first_list(statement.value):
            written = by_item(statement, count, self._of_component)
            self._refuse(listed, f"a list is no value; write {written}")
        found = self._sizes.of(statement.value)
        if found != count:
            what = f"a vector of {found}" if found else "a number"
            self._refuse(
                statement.value,
                f"is {what}, and what it is assigned to has {count} components",
            )
        statements = [self._of_component(copied(statement), number) for number in range(count)]
        self._component = None
        return statements

    def _of_component(self, statement: ast.Assign, number: int) -> ast.stmt:
        self._component = number
        found: ast.stmt = self.visit(statement)
        return found

    def _size(self, tree: ast.Name) -> int:
        """Return how many components the value of a name has, 0 for a number."""
        name = tree.id.removesuffix(PRIME)
        return self._vectors.get(name, 0) or len(self._lists.get(tree.id, ()))

    def visit_Call(self, tree: ast.Call) -> ast.expr:
        """Write out sums over components, and operators on whole vectors."""
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if len(tree.args) == 1 and isinstance(generator := tree.args[0], ast.GeneratorExp):
            if name not in ("sum", "min", "max"):
                self._refuse(tree, "only sum, min and max go over components")
            return self._folded(tree, generator, name)
        if name == "grad" and self._component is not None and len(tree.args) == 1:
            return self._called(tree, f"d{AXES[self._component]}", [self._of(tree.args[0])])
        if name in ("div", "curl") and len(tree.args) == 1:
            size = self._sizes.of(tree.args[0])
            if size:
                return self._of_vector(tree, name, size)
        if name and name not in (*KNOWN, TERMS):
            return tree  # The reader refuses it, and names those that there are.
        if name in ("dot", "cross", "norm"):
            return self._of_vectors(tree, name)
        tree.args = [self.visit(arg) for arg in tree.args]
        for keyword in tree.keywords:
            keyword.value = self._of(keyword.value)
        return tree

    def _of(self, tree: ast.expr, component: int | None = None) -> ast.expr:
        """Return an expression, or a component of one."""
        before, self._component = self._component, component
        found: ast.expr = self.visit(copied(tree))
        self._component = before
        return found

    def _called(self, tree: ast.expr, name: str, args: list[ast.expr]) -> ast.Call:
        function = ast.copy_location(ast.Name(name, ast.Load()), tree)
        return ast.copy_location(ast.Call(function, args, []), tree)

    def _of_vector(self, tree: ast.Call, name: str, size: int) -> ast.expr:
        """Return the divergence or the curl of one vector."""
        (vector,) = tree.args
        if size != self._dim:
            self._refuse(tree, f"{name}() needs {self._dim} components, one an axis; got {size}")
        parts = [self._of(vector, number) for number in range(size)]
        if name == "div" or self._dim == 2:
            return self._called(tree, name, parts)
        if self._component is None:
            self._refuse(tree, "the curl is a vector here; assign it to one")
        one, other = (self._component + 1) % 3, (self._component + 2) % 3
        left = self._called(tree, f"d{AXES[one]}", [parts[other]])
        right = self._called(tree, f"d{AXES[other]}", [parts[one]])
        return ast.copy_location(ast.BinOp(left, ast.Sub(), right), tree)

    def _of_vectors(self, tree: ast.Call, name: str) -> ast.expr:
        """Return a scalar product, a length, or a component of a vector product."""
        count = 1 if name == "norm" else 2
        self._sizes.of(tree)
        size = self._sizes.same(tree, tree.args)
        if not size or len(tree.args) != count or tree.keywords:
            hint = "; abs(u) is the magnitude of a number" if name == "norm" else ""
            self._refuse(
                tree, f"{name}() takes {'one vector' if count == 1 else 'two vectors'}{hint}"
            )
        one, other = tree.args[0], tree.args[-1]

        def joined(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
            return simplified(ast.copy_location(ast.BinOp(left, op, right), tree))

        def product(first: int, second: int) -> ast.expr:
            return joined(self._of(one, first), ast.Mult(), self._of(other, second))

        if name != "cross":
            terms = [product(number, number) for number in range(size)]
            total = functools.reduce(lambda left, right: joined(left, ast.Add(), right), terms)
            return self._called(tree, "sqrt", [total]) if name == "norm" else total
        if size > 3:
            self._refuse(tree, f"cross() takes vectors of 2 or 3 components; got {size}")
        if size == 3 and self._component is None:
            self._refuse(tree, "cross() gives a vector here; assign it to one")
        first, second = (0, 1) if size == 2 else ((self._component or 0) + n for n in (1, 2))
        pair = first % size, second % size
        return joined(product(*pair), ast.Sub(), product(*pair[::-1]))

    def _refuse(self, tree: ast.AST, problem: str) -> NoReturn:
        raise refusal(self._text, tree, problem)


def _path(tree: ast.expr) -> list[str] | None:
    """Return the names between the dots of a component, or None where there are others."""
    if isinstance(tree, ast.Name):
        return tree.id.split(DOT)
    if isinstance(tree, ast.Attribute):
        before = _path(tree.value)
        return None if before is None else [*before, *tree.attr.split(DOT)]
    return None


def _renamed(tree: ast.Name | ast.Attribute, name: str) -> ast.Name:
    return ast.copy_location(ast.Name(name, tree.ctx), tree)
