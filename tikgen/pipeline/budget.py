"""Estimates how much code Taichi would have to compile.

Compile time grows with the square of the number of operations after static loops are unrolled,
functions inlined and vectors expanded: 1,600 operations took 0.3 to 0.5 s, 6,400 3.7 s, 12,800
13 to 15 s and 22,400 28 to 30 s, on cpu and on Vulkan. That of long real functions on cpu, which
take fewer passes, grows with the number: 8,000 operations took 4 s and 18,300 18 s.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator

from tikgen.errors import CompileBudgetExceeded

MOST_OPERATIONS = 20_000
# From here on fewer passes over a real function save seconds.
LONG_FUNCTION = 2_000

# Each operation is written with one of these characters or words at least.
_NO_OPERATORS = bytes(range(128)).translate(None, b"-+*/%<>=~^|&@([,")
_WORDS = ("in", "is", "and", "or", "not")
# Each begins with letters that are found quickly.
_TRIPS = re.compile(r"for \w+ in ti\.static\((?:range\((\d+)\)|\(([\d, ]+)\))\):$", re.MULTILINE)
_VECTOR = re.compile(r" = ti\.Vector\.\w+\([\w.]+, (\d+)\)")  # Behind its name.
_FUNCTION = re.compile(r"\ndef (\w+)\(")
_LAST_WORD = re.compile(r"\w+$")

_COUNTED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Subscript, ast.Call, ast.Assign)


def check_budget(kernel: str, text: str) -> None:
    """Raise CompileBudgetExceeded if ``text`` would take more than half a minute to compile."""
    if most_operations(text) > MOST_OPERATIONS and (count := operations(text)) > MOST_OPERATIONS:
        raise CompileBudgetExceeded(kernel, count, MOST_OPERATIONS)


def has_long_function(text: str) -> bool:
    """Return whether ``text`` has real functions, and takes long to compile with all passes."""
    if "@ti.real_func" not in text or most_operations(text) <= LONG_FUNCTION:
        return False
    return operations(text) > LONG_FUNCTION


def most_operations(text: str) -> float:
    """Return quickly what ``operations(text)`` cannot exceed; infinite if that takes a tree."""
    known_static = len(_TRIPS.findall(text)) + text.count(" if ti.static(")
    if text.count("ti.static") > known_static or text.count("ti.Vector") > len(_vectors(text)):
        return math.inf
    text = "\n" + text
    starts = list(_FUNCTION.finditer(text))
    if not starts:
        return 0
    ends = [*(match.start() for match in starts[1:]), len(text)]
    bodies = {m[1]: text[m.end() : end] for m, end in zip(starts, ends, strict=True)}
    known: dict[str, float] = {}
    called: set[str] = set()

    def most_of(name: str) -> float:
        if name not in known:
            known[name] = math.inf  # Until it is known that it does not call itself.
            known[name] = sum(
                most_of_part(turns, part, length)
                for piece, length in _by_length(bodies[name])
                for turns, part in _by_turns(piece)
            )
        return known[name]

    def most_of_part(turns: int, part: str, length: int) -> float:
        symbols = part.encode("ascii", "ignore").translate(None, _NO_OPERATORS)
        own = (len(symbols) + sum(map(part.count, _WORDS))) * length
        own += sum(size for _, size in _vectors(part))
        counts = {other: part.count(f"{other}(") for other in bodies}
        called.update(other for other, count in counts.items() if count)
        inside = sum(count * most_of(other) for other, count in counts.items() if count)
        return turns * (own + length * inside)

    every = {name: most_of(name) for name in bodies}
    if math.inf in every.values():
        return math.inf
    # What others call is a part of theirs.
    return sum(most for name, most in every.items() if name not in called)


def _vectors(text: str) -> list[tuple[str, int]]:
    """Return name and length of each vector that ``text`` makes."""
    found = []
    for made in _VECTOR.finditer(text):
        line = text.rfind("\n", 0, made.start()) + 1
        if name := _LAST_WORD.search(text, line, made.start()):
            found.append((name[0], int(made[1])))
    return found


def _by_length(body: str) -> list[tuple[str, int]]:
    """Return pieces of a function, and the length of the longest vector that each uses whole."""
    first = _VECTOR.search(body)
    start = body.rfind("\n", 0, first.start()) if first else 0
    if "ti.static" in body[:start]:  # What a loop repeats stays together.
        start = 0
    rest = body[start:]
    vectors = _vectors(rest)
    # They take no more than scalars where only their elements are used.
    is_whole = _uses_whole(rest, [name for name, _ in vectors])
    return [(body[:start], 1), (rest, max(size for _, size in vectors) if is_whole else 1)]


def _by_turns(body: str, turns: int = 1) -> Iterator[tuple[int, str]]:
    """Yield pieces of a function, each with how often static loops repeat it."""
    start = 0
    while loop := _TRIPS.search(body, start):
        yield turns, body[start : loop.end()]
        start = _end_of_loop(body, loop)
        trips = int(loop[1] or loop[2].count(",") + 1)
        yield from _by_turns(body[loop.end() : start], turns * trips)
    yield turns, body[start:]


def _end_of_loop(body: str, loop: re.Match[str]) -> int:
    """Return where the lines of a loop end."""
    indent = loop.start() - body.rfind("\n", 0, loop.start()) - 1
    end, depth = loop.end(), 0
    for line in body[end:].splitlines(keepends=True):
        # Lines within brackets may stand anywhere.
        if depth <= 0 and line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        end += len(line)
    return end


def _uses_whole(text: str, made: list[str]) -> bool:
    """Return whether vectors are used beside their elements, after each was made."""
    names = set(made)
    if sum(text.count(name) - text.count(f"{name}[") for name in names) == len(made):
        return False
    uses = (
        found.start()
        for name in names
        for found in re.finditer(rf"{name}\b(?!\[)", text)
        if not _LAST_WORD.search(text, found.start() - 1, found.start())
    )
    return sum(1 for _ in uses) > len(made)


def operations(text: str) -> int:
    """Return an estimate of the number of operations in ``text`` after unrolling."""
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    counter = _Counter(functions)
    kernels = [f for f in functions.values() if _is_kernel(f)]
    return sum(counter.of_function(kernel) for kernel in kernels)


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(d) == "ti.kernel" for d in function.decorator_list)


class _Counter:
    """Counts the operations of functions, including the functions that they call."""

    def __init__(self, functions: dict[str, ast.FunctionDef]) -> None:
        self._functions = functions
        self._counts: dict[str, int] = {}

    def of_function(self, function: ast.FunctionDef) -> int:
        if function.name not in self._counts:
            self._counts[function.name] = 1  # Taichi has no recursion.
            vectors: dict[str, int] = {}
            self._counts[function.name] = sum(self._of(n, vectors) for n in function.body)
        return self._counts[function.name]

    def _of(self, node: ast.AST, vectors: dict[str, int]) -> int:
        if isinstance(node, ast.For):
            body = sum(self._of(n, vectors) for n in node.body)
            return 2 + self._of(node.iter, vectors) + body * _static_trips(node.iter)
        if isinstance(node, ast.Assign | ast.AugAssign):
            return self._of_assignment(node, vectors)
        count = sum(self._of(child, vectors) for child in _operands(node))
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            return count + (
                self.of_function(self._functions[name]) if name in self._functions else 1
            )
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            return count + len(node.slice.elts)  # Each index takes part in the place in memory.
        return count + isinstance(node, _COUNTED)

    def _of_assignment(self, node: ast.Assign | ast.AugAssign, vectors: dict[str, int]) -> int:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        length = max(_vector_length(node.value), _used_length(node.value, vectors))
        if isinstance(target, ast.Name) and length > 1:
            vectors[target.id] = length
        children = sum(self._of(child, vectors) for child in _operands(node))
        if _vector_length(node.value) > 1:
            return children + length
        return (children + 1) * max(1, length)


def _static_trips(loop: ast.AST) -> int:
    """Return the number of turns of ``ti.static(range(...))``, 1 for other loops."""
    if not (isinstance(loop, ast.Call) and ast.unparse(loop.func) == "ti.static" and loop.args):
        return 1
    inner = loop.args[0]
    if not isinstance(inner, ast.Call):
        return 1
    extents = [a.value for a in inner.args if isinstance(a, ast.Constant)]
    bounds = [extent for extent in extents if isinstance(extent, int)]
    if not bounds:
        return 1
    is_range = ast.unparse(inner.func) == "range"
    return max(1, len(range(*bounds)) if is_range else math.prod(bounds))


def _vector_length(value: ast.AST) -> int:
    """Return the length of the vector that ``value`` makes, else 1."""
    if not isinstance(value, ast.Call):
        return 1
    made = ast.unparse(value.func)
    if made == "ti.Vector" and value.args and isinstance(value.args[0], ast.List):
        return len(value.args[0].elts)
    if made.startswith("ti.Vector.") and value.args and isinstance(value.args[-1], ast.Constant):
        length = value.args[-1].value
        return length if isinstance(length, int) else 1
    return 1


def _used_length(value: ast.AST, vectors: dict[str, int]) -> int:
    """Return the length of the longest vector that ``value`` uses as a whole, else 1."""
    longest, ahead = 1, [value] if vectors else []
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Name):
            longest = max(longest, vectors.get(node.id, 1))
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            ahead.append(node.slice)
        else:
            ahead.extend(_operands(node))
    return longest


def _operands(node: ast.AST) -> Iterable[ast.AST]:
    """Return the nodes right below one that may hold operations."""
    match node:
        case ast.Name() | ast.Constant():
            return ()
        case ast.BinOp():
            return node.left, node.right
        case ast.Subscript():
            return node.value, node.slice
        case ast.Call():
            return node.func, *node.args, *node.keywords
        case ast.Attribute():
            return (node.value,)
    return ast.iter_child_nodes(node)
