"""Says whether a kernel does more than the bytes of its arrays show.

One thread runs loops over small arrays, as waking another one takes longer. That holds where each
element is visited some times. Forces between all pairs of 1,000 particles take a million turns over
12 kB, and an iteration at each element as many as it likes.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from taichi.types.ndarray_type import NdarrayType

from tikgen.taichi import scopes, trees

# Turns of loops over constant ranges within each other that are many.
MANY = 64


def exceeds_elements(kernel: Any) -> bool:
    """Return whether loops of a ``ti.kernel`` within each other have more turns than elements."""
    primal = kernel._primal
    axes = {
        argument.name: argument.annotation.ndim or 0
        for argument in primal.arguments
        if isinstance(argument.annotation, NdarrayType)
    }
    tree = trees.tree_of(primal.func)
    scopes.distinguish(tree, trees.names_of(primal.func))
    function = trees.function_of(tree)
    if not axes or function is None:
        return False
    extents: dict[str, frozenset[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, found = node.targets[0], _extents_in(node.value, extents)
            if isinstance(target, ast.Name) and found:
                extents[target.id] = found
    return any(_Nest(axes, dict(extents)).is_heavy(each) for each in function.body)


def _extents_in(code: ast.AST, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Return the extents of arrays on which code depends, less what it reads from arrays."""
    if isinstance(code, ast.Name):
        return known.get(code.id, frozenset())
    if isinstance(code, ast.Subscript) and isinstance(code.value, ast.Attribute):
        return frozenset((ast.unparse(code),)) if code.value.attr == "shape" else frozenset()
    if isinstance(code, ast.Subscript):
        return frozenset()
    parts = (_extents_in(child, known) for child in ast.iter_child_nodes(code))
    return frozenset().union(*parts)


@dataclass
class _Nest:
    """Loops within each other.

    Args:
        axes: the number of axes of each array.
        known: the extents on which names depend.
        passed: how often the loops pass over each extent.
        depth: how many of them have a number of turns that is not constant.
        constant: the product of the other numbers of turns.
    """

    axes: dict[str, int]
    known: dict[str, frozenset[str]]
    passed: Counter[str] = field(default_factory=Counter)
    depth: int = 0
    constant: int = 1

    def is_heavy(self, statement: ast.stmt) -> bool:
        """Return whether loops in a statement have more turns than an array has elements."""
        inner = self._inside(statement)
        return (
            inner.constant >= MANY
            or inner.depth > max(self.axes.values())
            or any(times > 1 for times in inner.passed.values())
            or any(
                inner.is_heavy(child)
                for child in ast.iter_child_nodes(statement)
                if isinstance(child, ast.stmt)
            )
        )

    def _inside(self, statement: ast.stmt) -> _Nest:
        """Return the nest in the body of a statement."""
        made = _Nest(self.axes, dict(self.known), Counter(self.passed), self.depth, self.constant)
        if isinstance(statement, ast.While):
            made.depth += 1
        if not isinstance(statement, ast.For):
            return made
        over = statement.iter
        names = [node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)]
        if isinstance(over, ast.Name) and over.id in self.axes:
            extents = [f"{over.id}.shape[{axis}]" for axis in range(self.axes[over.id])]
            made.passed.update(extents)
            made.depth += len(extents)
            made.known |= {name: frozenset((e,)) for name, e in zip(names, extents, strict=False)}
        elif isinstance(over, ast.Call) and not trees.is_static(over):
            # A range, or several of an ndrange, which may be pairs.
            is_range = ast.unparse(over.func) == "range"
            ranges = [over.args] if is_range else [[a] for a in over.args]
            for number, bounds in enumerate(ranges):
                own = names if is_range else names[number : number + 1]
                made._pass(bounds, own)
        return made

    def _pass(self, bounds: list[ast.expr], names: list[str]) -> None:
        """Take one more loop, over a range."""
        flat = [each for b in bounds for each in (b.elts if isinstance(b, ast.Tuple) else [b])]
        numbers = [n.value for n in flat if isinstance(n, ast.Constant) and type(n.value) is int]
        if flat and len(numbers) == len(flat):
            self.constant *= max(1, numbers[-1] - (numbers[0] if len(flat) > 1 else 0))
            return
        found = [_extents_in(each, self.known) for each in flat]
        if len(flat) > 1 and found[0]:
            return  # From somewhere to somewhere near, or between two numbers that are read.
        extents = frozenset().union(*found)
        if not extents and any(isinstance(n, ast.Subscript) for e in flat for n in ast.walk(e)):
            return  # A number that is read.
        self.depth += 1
        self.passed.update(extents)
        self.known |= dict.fromkeys(names, extents)
