"""Regions in equations: blocks such as ``where x < 1:`` become choices between values.

The values of all branches are computed at every point, and ``where`` selects one of them. What a
branch reads again is a variable of its own there.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from tikgen.errors import ExpressionError
from tikgen.expression.literals import copied
from tikgen.expression.reader import statements_of
from tikgen.expression.reductions import reduction_of
from tikgen.expression.spelling import DOT, PRIME, parsed_form, shown, shown_name, stored_name

Refuse = Callable[[ast.AST, str], NoReturn]
T = TypeVar("T", bound=ast.AST)


@dataclass
class _Branch:
    """What a branch assigns.

    Attributes:
        test: where it applies; None for everywhere else.
        values: the last value of each name that it assigns.
        steps: assignments to variables of its own, which come first.
        local: names whose value it reads again.
        inplace: names whose value before the block it reads, and which it assigns.
    """

    test: ast.expr | None
    values: dict[str, ast.expr] = field(default_factory=dict)
    steps: list[ast.stmt] = field(default_factory=list)
    local: set[str] = field(default_factory=set)
    inplace: set[str] = field(default_factory=set)


class Regions:
    """Turns blocks for regions into assignments.

    Args:
        statements: all statements of the text.
        outputs: names that are outputs though something reads them.
        refuse: raises an error that quotes the place of a tree.

    Attributes:
        origins: the name that each new variable stands for.
    """

    def __init__(
        self, statements: Sequence[ast.stmt], outputs: Iterable[str], refuse: Refuse
    ) -> None:
        self._refuse = refuse
        self._outputs = set(outputs)
        self._statements = statements
        self._assigned: set[str] = set()
        self.origins: dict[str, str] = {}

    @functools.cached_property
    def _loads(self) -> list[tuple[tuple[int, int], str]]:
        return list(_loads(self._statements))

    @functools.cached_property
    def _taken(self) -> set[str]:
        every = (node for statement in self._statements for node in ast.walk(statement))
        return {stored_name(node.id) for node in every if isinstance(node, ast.Name)}

    def note(self, statement: ast.stmt) -> None:
        """Take note of what is assigned before the next block."""
        if (name := _target(statement)) is not None:
            self._assigned.add(name)

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """Forget afterwards what is assigned meanwhile."""
        before = self._assigned
        self._assigned = set(before)
        yield
        self._assigned = before

    def merged(
        self, block: ast.If, branches: Sequence[tuple[ast.expr | None, Sequence[ast.stmt]]]
    ) -> list[ast.stmt]:
        """Return the assignments that a block stands for.

        Args:
            block: the block as it was read.
            branches: condition and assignments of each branch, in order; the condition of what
                applies everywhere else is None.
        """
        found = [self._read(test, statements) for test, statements in branches]
        names = dict.fromkeys(name for branch in found for name in branch.values)
        kept = [name for name in names if not self._is_local(block, name, found)]
        for name in kept:
            self._check_known(block, name, found)
        statements = [step for branch in found for step in branch.steps]
        if self._is_order_relevant(found, kept):
            statements += self._computed_first(found, kept)
        for name in kept:
            statement = self._choice(name, found)
            self.note(statement)
            statements.append(statement)
        return statements

    def finished(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements in which no name is assigned again by a block, or is new and unread."""
        statements = self._with_versions(statements)
        if not self.origins:
            return statements
        kept: list[ast.stmt] = []
        read: set[str] = set()
        for statement in reversed(statements):
            if (name := _target(statement)) not in self.origins or name in read:
                kept.append(statement)
                read |= _names(statement)
        return kept[::-1]

    # Branches.

    def _read(self, test: ast.expr | None, statements: Sequence[ast.stmt]) -> _Branch:
        branch = _Branch(test)
        current: dict[str, str] = {}
        for number, statement in enumerate(statements):
            name = _target(statement)
            if name is None or not isinstance(statement, ast.Assign):
                self._refuse(statement, "a region contains assignments to plain names only")
            if reduction_of(statement.value):
                self._refuse(
                    statement,
                    "a reduction is over all points; write it below the block, where "
                    "sum(where(c, e, 0)) is the sum over a region",
                )
            is_first = name not in current and name not in self._assigned
            if is_first and name in _names(statement.value):
                branch.inplace.add(name)
            value = _renamed(statement.value, current)
            if name in self.origins:  # Of a block inside of this one.
                branch.steps.append(_assignment(name, value, statement))
                continue
            if any(name in _names(later) for later in statements[number + 1 :]):
                current[name] = self._new(name)
                branch.steps.append(_assignment(current[name], value, statement))
                branch.local.add(name)
                value = _name(current[name], statement)
            branch.values[name] = value
        return branch

    def _is_local(self, block: ast.If, name: str, branches: Sequence[_Branch]) -> bool:
        """Return whether only the branches that assign a name read it."""
        is_new = not name.endswith(PRIME) and name not in self._assigned
        if not is_new or any(name in b.inplace for b in branches) or _own(name) in self._outputs:
            return False
        if not all(name in branch.local for branch in branches if name in branch.values):
            return False
        start, end = _span(block)
        return all(start <= place < end for place, own in self._loads if own == _own(name))

    def _check_known(self, block: ast.If, name: str, branches: Sequence[_Branch]) -> None:
        """Refuse what has a value in some regions only, and is read further down."""
        is_everywhere = branches[-1].test is None and all(name in b.values for b in branches)
        is_known = name.endswith(PRIME) or name in self._assigned
        if is_everywhere or is_known or any(name in branch.inplace for branch in branches):
            return
        _, end = _span(block)
        if any(place >= end for place, own in self._loads if own == _own(name)):
            value = next(branch.values[name] for branch in branches if name in branch.values)
            self._refuse(
                value,
                f"{shown_name(name)!r} has a value in some regions only, and is read further "
                "down; assign it above the block, or in all branches and 'elsewhere:'",
            )

    # Choices.

    def _is_order_relevant(self, branches: Sequence[_Branch], names: Sequence[str]) -> bool:
        """Return whether a choice would read what another one has assigned before it."""
        done: set[str] = set()
        for name in names:
            for branch in branches:
                read = _names(branch.values[name]) if name in branch.values else set()
                read |= _names(branch.test) if branch.test is not None else set()
                if read & done:
                    return True
            done.add(name)
        return False

    def _computed_first(self, branches: Sequence[_Branch], names: Sequence[str]) -> list[ast.stmt]:
        """Put conditions and values into variables, and return the assignments to them."""
        found: list[ast.stmt] = []
        for branch in branches:
            if branch.test is not None:
                number = _call("where", branch.test, *map(_number, (1, 0)))
                inside = self._new("inside")
                found.append(_assignment(inside, number, branch.test))
                test = ast.Compare(_name(inside, branch.test), [ast.NotEq()], [_number(0)])
                branch.test = _at(test, branch.test)
            for name in names:
                value = branch.values.get(name)
                if value is not None and not (
                    isinstance(value, ast.Name) and value.id in self.origins
                ):
                    new = self._new(name)
                    found.append(_assignment(new, value, value))
                    branch.values[name] = _name(new, value)
        return found

    def _choice(self, name: str, branches: Sequence[_Branch]) -> ast.Assign:
        """Return the assignment of a name's value in all regions."""
        place = next(branch.values[name] for branch in branches if name in branch.values)
        is_next = name.endswith(PRIME) and name not in self._assigned
        before = name.replace(PRIME, "") if is_next else name
        value: ast.expr = _name(before, place)
        is_inplace = any(name in branch.inplace for branch in branches)
        for branch in reversed(branches):
            if branch.test is None:
                value = branch.values.get(name, value)
            elif name in branch.values or branch is not branches[-1]:
                own = branch.values.get(name, _name(before, place))
                value = _at(_call("where", copied(branch.test), own, value), place)
        statement = _assignment(name, value, place)
        statement.is_choice = True  # type: ignore[attr-defined]
        if is_inplace:
            statement.targets[0].is_inplace = True  # type: ignore[attr-defined]
        return statement

    # Names.

    def _new(self, name: str) -> str:
        """Return a name that nothing has, for a variable that stands for another one."""
        own = stored_name(name).replace(DOT, "_")
        new = next(n for c in itertools.count(1) if (n := f"{own}_{c}") not in self._taken)
        self._taken.add(new)
        self.origins[new] = name
        return new

    def _with_versions(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements in which each field in place, and what blocks change, is assigned once.

        What is stored, and damped in absorbing layers, is the last of its values.
        """
        places: dict[str, list[int]] = {}
        for number, statement in enumerate(statements):
            if (target := _target(statement)) is not None:
                places.setdefault(target, []).append(number)
        places = {name: own for name, own in places.items() if len(own) > 1}
        inplace = {name for name, own in places.items() if _is_inplace(statements[own[0]], name)}
        changing = {
            name: own[-1]
            for name, own in places.items()
            if name in inplace or all(hasattr(statements[n], "is_choice") for n in own[1:])
        }
        current: dict[str, str] = {}
        found: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            name = _target(statement)
            if name is None or not isinstance(statement, ast.Assign):
                found.append(statement)
                continue
            if current:
                statement.value = _renamed(statement.value, current)
            if name in changing:
                current.pop(name, None)
                if number < changing[name]:
                    current[name] = self._new(name)
                    statement = _assignment(current[name], statement.value, statement)
                elif name in inplace:
                    statement.targets[0].is_inplace = True  # type: ignore[attr-defined]
            found.append(statement)
        return found


def branches_of(block: ast.If) -> list[tuple[ast.expr | None, list[ast.stmt]]]:
    """Return condition and statements of each branch of a block; the last condition may be None."""
    found: list[tuple[ast.expr | None, list[ast.stmt]]] = [(block.test, block.body)]
    rest = block.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        found.append((rest[0].test, rest[0].body))
        rest = rest[0].orelse
    return [*found, (None, rest)] if rest else found


def conditions(given: Mapping[str, str]) -> dict[str, ast.expr]:
    """Return conditions by name as trees.

    Raises:
        ExpressionError: if one of them is not an expression.
    """
    found = {}
    for name, text in given.items():
        _, statements = statements_of(parsed_form(text), also=PRIME + DOT)
        if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
            raise ExpressionError(shown(text), f"is no condition, as {name!r} needs one")
        found[name] = statements[0].value
    return found


def _loads(statements: Sequence[ast.stmt]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield place and name of all that is read; of a component the name of its vector."""
    for statement in statements:
        targets = {
            id(node)
            for assignment in ast.walk(statement)
            if isinstance(assignment, ast.Assign)
            for target in assignment.targets
            for node in ast.walk(target)
        }
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and id(node) not in targets:
                yield (node.lineno, node.col_offset), _own(node.id)


def _own(name: str) -> str:
    """Return a name without its component and prime."""
    return name.partition(DOT)[0].removesuffix(PRIME)


def _span(tree: ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    end = (tree.end_lineno or tree.lineno, tree.end_col_offset or 0)
    return (tree.lineno, tree.col_offset), end


def _target(statement: ast.stmt) -> str | None:
    """Return the plain name that a statement assigns, if it does."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def _is_inplace(statement: ast.stmt, name: str) -> bool:
    """Return whether the assignment of a name updates it in place."""
    assert isinstance(statement, ast.Assign)
    return hasattr(statement.targets[0], "is_inplace") or name in _names(statement.value)


def _names(tree: ast.AST) -> set[str]:
    """Return the names that are read."""
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _renamed(tree: ast.expr, names: Mapping[str, str]) -> ast.expr:
    found = copied(tree)
    for node in ast.walk(found):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return found


def _at(tree: T, place: ast.AST) -> T:
    return ast.copy_location(tree, place)


def _assignment(name: str, value: ast.expr, place: ast.AST) -> ast.Assign:
    target = _at(ast.Name(name, ast.Store()), place)
    return _at(ast.Assign([target], value), place)


def _name(name: str, place: ast.AST) -> ast.Name:
    return _at(ast.Name(name, ast.Load()), place)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return _at(ast.Call(_name(name, args[0]), list(args), []), args[0])


def _number(value: int) -> ast.Constant:
    return ast.Constant(value, lineno=1, col_offset=0)
