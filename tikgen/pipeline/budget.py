"""Estimates how much code Taichi would have to compile.

Compile time grows with the square of the number of operations after static loops are unrolled,
functions inlined and vectors expanded: 1,600 operations took 0.3 to 0.5 s, 6,400 3.7 s, 12,800
13 to 15 s and 22,400 28 to 30 s, on cpu and on Vulkan.
"""

from __future__ import annotations

import ast
import math
import re

from tikgen.errors import CompileBudgetExceeded

MOST_OPERATIONS = 20_000

# Each operation is written with one of these at least.
_OPERATOR = re.compile(r"[-+*/%<>=~^|&@(\[]|\b(?:for|in|is|and|or|not)\b")
_TRIPS = re.compile(r"ti\.static\(range\((\d+)\)\)")
_LENGTH = re.compile(r"ti\.Vector\.\w+\([\w.]+, (\d+)\)")
_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)

_COUNTED = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Subscript, ast.Call, ast.Assign)


def check_budget(kernel: str, text: str) -> None:
    """Raise CompileBudgetExceeded if ``text`` would take more than half a minute to compile."""
    if most_operations(text) > MOST_OPERATIONS and (count := operations(text)) > MOST_OPERATIONS:
        raise CompileBudgetExceeded(kernel, count, MOST_OPERATIONS)


def most_operations(text: str) -> float:
    """Return quickly what ``operations(text)`` cannot exceed; infinite if that takes a tree."""
    trips, lengths = _TRIPS.findall(text), _LENGTH.findall(text)
    if text.count("ti.static") > len(trips) or text.count("ti.Vector") > len(lengths):
        return math.inf
    most = math.prod(map(int, trips)) * max(map(int, lengths), default=1)
    for function in _FUNCTION.findall(text):
        most *= max(1, text.count(f"{function}(") - 1)
    return len(_OPERATOR.findall(text)) * most


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
        count = sum(self._of(child, vectors) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            return count + (
                self.of_function(self._functions[name]) if name in self._functions else 1
            )
        return count + isinstance(node, _COUNTED)

    def _of_assignment(self, node: ast.Assign | ast.AugAssign, vectors: dict[str, int]) -> int:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        length = max(_vector_length(node.value), _used_length(node.value, vectors))
        if isinstance(target, ast.Name) and length > 1:
            vectors[target.id] = length
        children = sum(self._of(child, vectors) for child in ast.iter_child_nodes(node))
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
    subscripted = {id(n.value) for n in ast.walk(value) if isinstance(n, ast.Subscript)}
    names = (n for n in ast.walk(value) if isinstance(n, ast.Name) and id(n) not in subscripted)
    return max((vectors.get(n.id, 1) for n in names), default=1)
