"""A program as instructions for native code, which native.ll explains."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence

from tikgen.program.plan import (
    Arrangement,
    Call,
    Choice,
    Condition,
    Exchange,
    Launch,
    Node,
    Plan,
    Repeat,
    Task,
)

LAUNCH, REPEAT, AGAIN, STEP, PUT, UNLESS, JUMP = range(7)

# Where a node stands: for each list from the outermost, which of the lists of the node above it is,
# and the place in it.
_Path = tuple[tuple[int, int], ...]
_Label = tuple[_Path, Arrangement]
_START: _Path = ((0, 0),)


class Instructions:
    """The instructions of a plan: those of each node once for each arrangement that leads to it.

    Args:
        plan: what a step does.
        instructions_of: returns those of a call.

    Attributes:
        code: four numbers for each instruction.
        starts: the place at which a step begins, by arrangement.
        launches: the place of each launch, with its call.
    """

    def __init__(self, plan: Plan, instructions_of: Callable[[Call], Sequence[list[int]]]) -> None:
        self._plan = plan
        self._instructions_of = instructions_of
        self.launches: list[tuple[int, Call]] = []
        self.code: list[list[int]] = []
        self._places: dict[_Label, int] = {}
        # Instruction, word, and the label whose place belongs there.
        self._open: list[tuple[int, int, _Label]] = []
        self._counters: dict[Node, ctypes.c_int64] = {}
        waiting: list[_Label] = [(_START, at) for at in reversed(plan.starts)]
        while waiting:
            label = waiting.pop()
            if label not in self._places:
                known = len(self._open)
                self._write_from(*label)
                waiting += [label for _, _, label in self._open[known:]]
        for number, word, label in self._open:
            self.code[number][word] = self._places[label]
        self.starts = {at: place for (path, at), place in self._places.items() if path == _START}

    def _add(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.code.append([op, a, b, c])
        return len(self.code) - 1

    def _go(self, op: int, word: int, label: _Label, a: int = 0) -> None:
        """Add an instruction that may go on at a label."""
        self._open.append((self._add(op, a), word, label))

    def _write_from(self, path: _Path, at: Arrangement) -> None:
        """Write what follows a label, up to an instruction that goes on elsewhere."""
        while True:
            is_join = path[-1][1] == 0 or self._is_behind_list(path)
            if is_join:
                if (path, at) in self._places:
                    self._go(JUMP, 1, (path, at))
                    return
                self._places[path, at] = len(self.code)
            nodes = self._nodes_of(path)
            place = path[-1][1]
            if place < len(nodes):
                path, at = self._write_node(nodes[place], path, at)
            elif len(path) == 1:
                self._go(STEP, 1, (_START, at))
                return
            else:
                path = self._write_end(path, at)

    def _write_node(self, node: Node, path: _Path, at: Arrangement) -> tuple[_Path, Arrangement]:
        """Write a node, or the beginning of one that has others; return where to go on."""
        if isinstance(node, Launch):
            self._write_call(self._plan.call(node, at))
        elif isinstance(node, Exchange):
            at = node.of(at)
        elif isinstance(node, Task):
            for function, context in self._plan.task(node, at).native or ():
                self._add(LAUNCH, function, context)
        elif isinstance(node, Choice):
            self._open.append((self._write_test(node.condition, at), 2, ((*path, (1, 0)), at)))
            return (*path, (0, 0)), at
        else:
            self._add(REPEAT, self._counter(node), node.times)
            return (*path, (0, 0)), at
        return _next(path), at

    def _write_end(self, path: _Path, at: Arrangement) -> _Path:
        """Write the end of a list within a node; return where to go on."""
        above = path[:-1]
        node = self._nodes_of(above)[above[-1][1]]
        following = _next(above)
        if isinstance(node, Choice):
            return following
        assert isinstance(node, Repeat)
        if node.until is not None:
            unless = self._write_test(node.until, at)
            self._go(JUMP, 1, (following, at))
            self.code[unless][2] = len(self.code)
        self._go(AGAIN, 2, ((*above, (0, 0)), at), self._counter(node))
        return following

    def _write_test(self, condition: Condition, at: Arrangement) -> int:
        """Write a test; return its place, which lacks where to go on if it does not hold."""
        self._write_call(self._plan.call(condition.launch, at))
        return self._add(UNLESS, condition.flag.memory.ctypes.data)

    def _write_call(self, call: Call) -> None:
        self.code += self._instructions_of(call)
        self.launches.append((len(self.code) - 1, call))

    def _counter(self, node: Node) -> int:
        """Return the address of the counter of a loop."""
        return ctypes.addressof(self._counters.setdefault(node, ctypes.c_int64(0)))

    def _nodes_of(self, path: _Path) -> Sequence[Node]:
        """Return the list in which a path ends."""
        nodes: Sequence[Node] = self._plan.nodes
        for (_, place), (which, _) in itertools.pairwise(path):
            node = nodes[place]
            assert isinstance(node, Repeat | Choice)
            nodes = node.otherwise if which and isinstance(node, Choice) else node.nodes
        return nodes

    def _is_behind_list(self, path: _Path) -> bool:
        """Return whether a path stands right behind a node that has others."""
        place = path[-1][1]
        return place > 0 and not isinstance(
            self._nodes_of(path)[place - 1], Launch | Exchange | Task
        )


def _next(path: _Path) -> _Path:
    which, place = path[-1]
    return (*path[:-1], (which, place + 1))
