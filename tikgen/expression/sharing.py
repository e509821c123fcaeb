"""Shares what equations compute several times.

LLVM finds equal terms by itself, but Taichi compiles each of them, which can double the time of the
first launch. No compiler replaces quotients by one reciprocal, which takes a third off the time of
equations that divide by one number several times.

Taichi's compiler is recursive. A sum or product that is too long for it is continued in
temporaries, from the left to the right as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tikgen.expression.tree import CHAINED, Node

LEAST_OPERATIONS = 4  # A smaller term costs less than a name for it.
# Longer sums and products have temporaries after so many operations. An f16, which a temporary
# rounds, has never had more than 48 of them in one term.
LONGEST, PART = 48, 32

Assigned = Sequence[tuple[str, Node]]
_Key = tuple[str, object, tuple[int, ...]]


def shared(assigned: Assigned, taken: Iterable[str], numbers: Iterable[str]) -> Assigned:
    """Return assignments in which terms that occur several times are temporaries.

    Args:
        assigned: names and trees in order.
        taken: names that no temporary may have, besides those of the trees.
        numbers: names that are equal at all points; to divide by them once is enough.
    """
    return _Sharing(assigned, {*taken}, frozenset(numbers)).statements


class _Sharing:
    """Numbers equal trees equally, counts how often each is needed, and builds them anew."""

    def __init__(self, assigned: Assigned, taken: set[str], numbers: frozenset[str]) -> None:
        self._numbers = numbers
        self._keys: dict[_Key, int] = {}
        self._nodes: list[Node] = []
        self._args: list[tuple[int, ...]] = []
        self._operations: list[int] = []
        self._needed: list[int] = []
        self._divided: dict[int, int] = {}
        roots = [self._numbered(node) for _, node in assigned]
        self._changing = self._names_that_change([name for name, _ in assigned], roots)
        self._taken = taken.union((name for name, _ in assigned), *map(self._names, roots))
        self._known: dict[int, Node] = {}
        self._reciprocals: dict[int, Node] = {}
        # What was known before a statement, if more holds within the statement alone.
        self._before: dict[int, Node] | None = None
        self.statements: list[tuple[str, Node]] = []
        for (name, _), root in zip(assigned, roots, strict=True):
            self._before = None
            self.statements.append((name, self._rebuilt(root)))
            self._known = self._known if self._before is None else self._before

    def _numbered(self, node: Node) -> int:
        *outer, inner = node.chain
        number = self._number(inner, tuple(map(self._numbered, inner.args)))
        for each in reversed(outer):
            number = self._number(each, (number, self._numbered(each.args[1])))
        return number

    def _number(self, node: Node, args: tuple[int, ...]) -> int:
        number = self._keys.setdefault((node.op, node.value, args), len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
            self._args.append(args)
            self._needed.append(0)
            self._operations.append(bool(args) + sum(self._operations[arg] for arg in args))
            for arg in args:  # Once for each different term.
                self._needed[arg] += 1
            if node.op == "/":
                self._divided[args[1]] = self._divided.get(args[1], 0) + 1
        return number

    def _names(self, number: int) -> frozenset[str]:
        return frozenset(self._nodes[number].names)

    def _names_that_change(self, targets: list[str], roots: list[int]) -> frozenset[str]:
        """Return the names that stand for several values, which no temporary may read."""
        first_read: dict[str, int] = {}
        for place, root in enumerate(roots):
            self._needed[root] += 1
            for name in self._names(root):
                first_read.setdefault(name, place)
        return frozenset(
            name
            for place, name in enumerate(targets)
            if targets.count(name) > 1 or first_read.get(name, place + 1) <= place
        )

    def _rebuilt(self, number: int) -> Node:
        """Return the tree over temporaries, after the statements that assign those."""
        chain = [number]
        while self._nodes[number].op in CHAINED and number not in self._known:
            number = self._args[number][0]
            chain.append(number)
        if len(chain) > LONGEST:
            if self._before is None and self._names(chain[0]) & self._changing:
                self._before = dict(self._known)
            for place, each in enumerate(reversed(chain[1:])):
                found = self._built(each)
                if place % PART == 0 and found.args:
                    self._known[each] = self._temporary("part", found)
        return self._built(chain[0])

    def _built(self, number: int) -> Node:
        if number in self._known:
            return self._known[number]
        node, args = self._nodes[number], self._args[number]
        if not args:
            return node
        if node.op == "/" and self._is_reciprocal_cheaper(args[1]):
            reciprocal = self._reciprocal(args[1])
            is_one = self._nodes[args[0]] == Node("number", value=1)
            found = reciprocal if is_one else Node("*", (self._rebuilt(args[0]), reciprocal))
        else:
            found = node.over(tuple(map(self._rebuilt, args)))
        is_large = self._operations[number] >= LEAST_OPERATIONS and found.op != "name"
        is_shared = self._needed[number] > 1 and is_large and not node.is_bool
        if is_shared and not self._names(number) & self._changing:
            found = self._temporary("common", found)
        self._known[number] = found
        return found

    def _is_reciprocal_cheaper(self, divisor: int) -> bool:
        names = self._names(divisor)
        if not names or names & self._changing:
            return False
        return self._divided[divisor] > 1 or names <= self._numbers

    def _reciprocal(self, divisor: int) -> Node:
        if divisor not in self._reciprocals:
            node = self._rebuilt(divisor)
            name = str(node.value) if node.op == "name" else ""
            quotient = Node("/", (Node("number", value=1), node))
            named = f"per_{name}" if name.isidentifier() and name.isascii() else "reciprocal"
            self._reciprocals[divisor] = self._temporary(named, quotient)
        return self._reciprocals[divisor]

    def _temporary(self, name: str, value: Node) -> Node:
        """Return the name of a new temporary."""
        free, count = name, 1
        while free in self._taken:
            count += 1
            free = f"{name}_{count}"
        self._taken.add(free)
        self.statements.append((free, value))
        return Node("name", value=free)
