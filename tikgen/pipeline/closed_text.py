"""Whether a kernel's text says all that its code depends on."""

from __future__ import annotations

import ast

_MODULES = frozenset({"taichi", "taichi.math", "math"})
# Of Python itself; none of them reads files, other modules or the environment.
_NAMES = frozenset(
    {
        *("abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list"),
        *("max", "min", "pow", "print", "range", "reversed", "round", "sorted", "sum", "tuple"),
        *("zip", "True", "False", "None"),
    }
)


def is_closed(text: str) -> bool:
    """Return whether the text of a kernel imports and names nothing whose value it does not say.

    Equal texts then make equal code, under equal options of ``ti.init``.
    """
    known, used = set(_NAMES), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""] if not node.level else [""]
            if not _MODULES.issuperset(modules):
                return False
            known.update((a.asname or a.name).partition(".")[0] for a in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif isinstance(node, ast.Name):
            used.add(node.id)
    return used <= known
