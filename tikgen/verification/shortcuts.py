"""Conditions and limits that choose between two ways of computing the same, one a shortcut.

Where they send more to the way that is right for everything, nothing is wrong.
"""

from __future__ import annotations

import ast
import itertools
import random
import re

from tikgen.verification.part_counts import value_of

_TRIALS = 2_000
# Indices and extents of this size meet the literals of a stencil's reach.
_LEAST, _MOST = -4, 40


def other_ways(text: str, mutant: str) -> tuple[str, str] | None:
    """Return two texts that tell whether a changed condition, or limit, is no fault, or None.

    The mutant changes one condition, which then holds more often, or less often, but not both. The
    first text always goes the way that the mutant goes more often, the second one leaves out what
    is done on the other way. If the first passes and the second fails, the other way is a shortcut.

    Where one turn in eight does the work of all, as ``if turn % 8 == 0`` says, others may do it as
    well, once or often. The first text then lets all of them do it.

    A limit is a name that is assigned ``ti.max(n - 2, left)`` or ``ti.min(2, right)``. The mutant
    brings it nearer to the last argument. The first text takes it there, the second one has it one
    further away than the kernel.

    Args:
        text: the kernel.
        mutant: the kernel with one change.

    Raises:
        SyntaxError: if one of them is not Python.
    """
    tree, other = ast.parse(text), ast.parse(mutant)
    pairs = zip(_conditions(tree), _conditions(other), strict=False)
    changed = [(a, b) for a, b in pairs if ast.dump(a.test) != ast.dump(b.test)]
    if not changed:
        return _other_limits(tree, other)
    if len(changed) != 1:
        return None
    old, new = changed[0]
    test, new.test = new.test, old.test
    if ast.dump(tree) != ast.dump(other):
        return None
    direction = _direction(old.test, test)
    if direction is None and not _is_other_turns(old, test):
        return None
    direction = direction is not False
    new.test = ast.parse("0 == 0" if direction else "0 == 1", mode="eval").body
    always = ast.unparse(other)
    new.test = old.test
    if direction and new.orelse:
        new.orelse = [ast.Pass()]
    else:
        new.body = [ast.Pass()]
    return always, ast.unparse(other)


def _other_limits(tree: ast.Module, other: ast.Module) -> tuple[str, str] | None:
    """Do what :func:`other_ways` does for a limit."""
    pairs = zip(_assignments(tree), _assignments(other), strict=False)
    changed = [(a, b) for a, b in pairs if ast.dump(a.value) != ast.dump(b.value)]
    if len(changed) != 1:
        return None
    old, new = changed[0]
    match old.value, new.value:
        case (
            ast.Call(ast.Attribute(attr=("min" | "max") as extreme), [limit, bound]),
            ast.Call(ast.Attribute(attr=as_before), [moved, same]),
        ) if extreme == as_before and ast.dump(bound) == ast.dump(same):
            rises = ast.Compare(moved, [ast.GtE()], [limit])
            falls = ast.Compare(moved, [ast.LtE()], [limit])
        case _:
            return None
    new.value = old.value
    if ast.dump(tree) != ast.dump(other) or not _holds(rises if extreme == "min" else falls):
        return None
    new.value = bound
    always = ast.unparse(other)
    further = ast.BinOp(limit, ast.Sub() if extreme == "min" else ast.Add(), ast.Constant(1))
    new.value = ast.Call(old.value.func, [further, bound], [])
    return always, ast.unparse(other)


def _is_other_turns(old: ast.If, new: ast.expr) -> bool:
    """Tell whether a rest chooses among turns that all do the same, and still chooses some."""
    if old.orelse or not isinstance(old.test, ast.Compare):
        return False
    rest = old.test.left
    match rest:
        case ast.BinOp(ast.Name(turn), ast.Mod(), ast.Constant(count)) if type(count) is int:
            body = "\n".join(map(ast.unparse, old.body)).replace(f"{turn} // {count}", "")
            test = ast.unparse(new).replace(ast.unparse(rest), "rest")
        case _:
            return False
    if re.search(rf"\b{turn}\b", f"{body}\n{test}"):
        return False
    chosen = ast.parse(test, mode="eval").body
    key = ast.dump(ast.Name("rest", ast.Load()))
    return any(value_of(chosen, {key: n}, lambda: 0) for n in range(count))


def _conditions(tree: ast.AST) -> list[ast.If]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.If)]


def _assignments(tree: ast.AST) -> list[ast.Assign]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]


def _holds(condition: ast.expr) -> bool:
    """Return whether a condition holds for many values of its names."""
    numbers = random.Random(ast.dump(condition))
    try:
        return all(
            value_of(condition, {}, lambda: numbers.randint(_LEAST, _MOST)) for _ in range(_TRIALS)
        )
    except (ArithmeticError, ValueError):
        return False


def _direction(old: ast.expr, new: ast.expr) -> bool | None:
    """Return whether ``new`` holds more often than ``old``; None if it is neither more nor less."""
    numbers = random.Random(ast.dump(old))
    found = {True, False}
    for trial in range(_TRIALS):
        names: dict[str, int] = {}
        try:
            if trial % 2:
                _move_to_edge(old, names, numbers)
            before, after = (bool(_drawn_value(test, names, numbers)) for test in (old, new))
        except (ArithmeticError, ValueError):
            return None
        if before != after:
            found.discard(before)
    return found.pop() if len(found) == 1 else None


def _drawn_value(node: ast.expr, names: dict[str, int], numbers: random.Random) -> int:
    return value_of(node, names, lambda: numbers.randint(_LEAST, _MOST))


def _move_to_edge(test: ast.expr, names: dict[str, int], numbers: random.Random) -> None:
    """Draw numbers for which the sides of comparisons differ by little, however large they are.

    Of one comparison in half of the cases, else of several: all parts of a condition hold then.
    """
    tests = [node for node in ast.walk(test) if isinstance(node, ast.Compare)]
    pairs = [pair for each in tests for pair in itertools.pairwise([each.left, *each.comparators])]
    if not pairs:
        return
    count = 1 if numbers.random() < 0.5 else numbers.randint(1, len(pairs))
    for left, right in numbers.sample(pairs, count):
        _move_together(left, right, names, numbers)


def _move_together(
    left: ast.expr, right: ast.expr, names: dict[str, int], numbers: random.Random
) -> None:
    """Move a name that one side reads, so that the sides differ by 2 at most, or are equal."""
    distance = _drawn_value(right, names, numbers) - _drawn_value(left, names, numbers)
    distance += numbers.choice((0, numbers.randint(-2, 2)))
    for side, step in ((left, distance), (right, -distance)):
        for name in map(ast.dump, ast.walk(side)):
            if name in names:
                names[name] += step
                return
