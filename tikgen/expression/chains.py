"""Long sums and products: they group to the left, and are walked without recursion."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

CHAINED = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_SUMS = (ast.Add, ast.Sub)
_LONGEST = 40  # Python's own printer needs several levels of its stack for each operator.
_CUT = re.compile("\x02(\\d+)\x02")


def chain_of(tree: ast.BinOp) -> list[ast.BinOp]:
    """Return an operation and those that its first operand consists of, the outermost first.

    Args:
        tree: the operation, such as ``a + b - c``, of which ``a + b`` is the first operand.
    """
    found = [tree]
    while type(tree.op) in CHAINED and isinstance(tree.left, ast.BinOp):
        tree = tree.left
        if type(tree.op) not in CHAINED:
            break
        found.append(tree)
    return found


def replaced(tree: ast.BinOp, visit: Callable[[ast.expr], ast.expr]) -> ast.BinOp:
    """Replace the operands of a sum or product, which may be of any length; return it."""
    chain = chain_of(tree)
    chain[-1].left = visit(chain[-1].left)
    for part in chain:
        part.right = visit(part.right)
    return tree


def text_of(tree: ast.AST) -> str:
    """Return the text of a tree as Python prints it, in which sums may be of any length."""
    cut: list[tuple[ast.BinOp, ast.expr]] = []
    levels: dict[ast.AST, int] = {}
    try:
        for node in ast.walk(tree):
            if not isinstance(node, ast.BinOp) or not isinstance(left := node.left, ast.BinOp):
                continue
            levels[left] = levels.get(node, 0) + 1
            if levels[left] % _LONGEST == 0 and {type(node.op), type(left.op)} <= {*CHAINED}:
                node.left = ast.Name(f"\x02{len(cut)}\x02")
                cut.append((node, left))
        texts = [""] * len(cut)

        def whole(text: str) -> str:
            return _CUT.sub(lambda found: texts[int(found[1])], text)

        for number, (node, left) in reversed([*enumerate(cut)]):
            text = whole(ast.unparse(left))
            is_sum = isinstance(left.op, _SUMS) if isinstance(left, ast.BinOp) else False
            texts[number] = f"({text})" if is_sum and not isinstance(node.op, _SUMS) else text
        return whole(ast.unparse(tree))
    finally:
        for node, left in cut:
            node.left = left
