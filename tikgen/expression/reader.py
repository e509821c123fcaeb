"""Parses an expression or a program in a user's text."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import ExpressionError, near
from tikgen.expression.chains import chain_of
from tikgen.expression.helpers import HELPERS
from tikgen.expression.hints import MEANS, hint_for, instead_of, mean_hint
from tikgen.expression.own_functions import inlined, parsed_definitions
from tikgen.expression.replaced import PROBLEM, replaced
from tikgen.expression.tree import (
    BEYOND_INTEGERS,
    CONSTANTS,
    FUNCTIONS,
    LITERALS,
    Node,
    literal_value,
)
from tikgen.expression.unsuited import at_operator, innermost, problem_of
from tikgen.expression.vector_math import NAMES
from tikgen.units import counted

MOST_CHARACTERS = 2000
DEEPEST = 100
TOO_DEEP = "cannot be read: it is nested too deeply; give parts of it names of their own"
LONGEST_LINE = 120  # Of a line that is quoted.
LONGEST_CHAIN = 200  # Operations of a sum or product in one line of code; Taichi takes 300.
MOST_NODES = 1000  # A chained comparison repeats its operands, so length alone is no limit.

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
# Names that generated code uses.
_RESERVED = HELPERS | NAMES | {"ti", "np", "dtype", "range"}
_LINES = "; a line break ends a statement unless an operator or a parenthesis is open"
# An operator that ends a line, and all up to the next line that is neither empty nor a comment.
_UNFINISHED = re.compile(
    r"([-+*/%<>=&|^]|\b(?:and|or|not)\b)((?:[ \t]*(?:#[^\n]*)?\n)+)(?=[^\n]*\S)"
)


def parse_expression(text: object) -> Node:
    """Return the tree of one expression, a number; raise ExpressionError."""
    text, statements = statements_of(text)
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        hint = _LINES if "\n" in text else ""
        raise ExpressionError(clipped(text), f"takes one expression, and no statement{hint}")
    return Reader(text).number(statements[0].value)


def parse_assignments(text: object, dtype: DType | None = None) -> list[tuple[str, Node]]:
    """Return (name, tree) for each assignment in a text; raise ExpressionError.

    Args:
        text: what a user wrote.
        dtype: where it is given, what cannot be computed in it is refused.
    """
    text, statements = statements_of(text)
    statements = written_out(text, statements)
    reader = Reader(text, statements, dtype)
    if len(statements) == 1 and isinstance(statements[0], ast.Expr):
        node = reader.suited("", statements[0].value)
        return [(free_output(node), node)]
    for target in replaced(statements):
        raise ExpressionError(clipped(text), f"{target.id!r} {PROBLEM}")
    return [reader.assignment(statement) for statement in statements]


def written_out(text: str, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements in which functions of the text are written out."""

    def refuse(tree: ast.AST, problem: str) -> NoReturn:
        place = quoted(text, getattr(tree, "lineno", 1), getattr(tree, "col_offset", 0))
        raise ExpressionError(clipped(text), problem + place)

    return inlined(statements, Reader.functions, refuse)[0]


def free_output(node: Node) -> str:
    """Return the name to which a bare expression is assigned: one that it does not read."""
    names = node.names
    choices = ("out", *(f"out{n}" for n in range(1, len(names) + 1)))
    return next(choice for choice in choices if choice not in names)


def statements_of(
    text: object, most: int = MOST_CHARACTERS, also: str = ""
) -> tuple[str, list[ast.stmt]]:
    """Return the text without its common indentation, and its statements.

    Args:
        text: what a user wrote.
        most: how many characters it may have.
        also: characters that it may contain besides those of arithmetic, such as ``#``.
    """
    if not isinstance(text, str):
        raise ExpressionError(str(text)[:60], f"takes a text; got {type(text).__name__}")
    shown = clipped(text)
    if len(text) > most:
        raise ExpressionError(shown, f"has {len(text)} characters; at most {most} are allowed")
    text = text.replace("\r\n", "\n")
    if odd := re.search(rf"[^\n -~{also}]", text):
        hint = instead_of(odd[0])
        raise ExpressionError(shown, f"has the character {odd[0]!r}, which is not allowed{hint}")
    text = inspect.cleandoc(text).strip()
    if "#" in text and "#" not in also:
        raise ExpressionError(shown, "has a comment, which is not allowed")
    try:
        statements = ast.parse(_joined(text)).body
    except SyntaxError as error:
        hint = hint_for(text, error.msg, error.lineno)
        problem = error.msg.partition(". Maybe you meant")[0]  # Python's hint is for programs.
        if error.lineno and "\n" in text:
            hint += quoted(text, error.lineno, (error.offset or 1) - 1)
        raise ExpressionError(shown, f"is not arithmetic: {problem}{hint}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError(shown, TOO_DEEP) from None
    if not statements:
        raise ExpressionError(shown, "is empty")
    return text, statements


def _joined(text: str) -> str:
    """Return the text for Python, where a line that ends with an operator goes on in the next."""
    text = _UNFINISHED.sub(lambda found: found[1] + "\\\n" * found[2].count("\n"), text)
    return parsed_definitions(text)


def quoted(text: str, number: int, column: int) -> str:
    """Return a line of the text, counted from 1, with a caret under a column, counted from 0.

    Of a long line it is the part around the column.
    """
    line = text.splitlines()[number - 1]
    start = max(0, min(column - LONGEST_LINE // 2, len(line) - LONGEST_LINE))
    end = start + LONGEST_LINE
    before, after = "..." * (start > 0), "..." * (end < len(line))
    column += len(before) - start
    return f"\n    {before}{line[start:end]}{after}\n    {' ' * column}^"


def clipped(text: str) -> str:
    """Return a text as one line, of a long one its beginning."""
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."


class Reader:
    """Converts Python's syntax tree to :class:`Node`, and refuses what is not allowed."""

    most_nodes = MOST_NODES
    longest_chain = LONGEST_CHAIN
    functions = tuple(FUNCTIONS)

    def __init__(
        self, text: str, statements: Iterable[ast.stmt] = (), dtype: DType | None = None
    ) -> None:
        self._text = text
        self._count = 0
        # Where a dtype is given, what cannot be computed in it is refused.
        self._dtype = dtype
        self._literals: dict[str, Node] = {}  # By the names to which they are assigned.
        # Names that the text assigns.
        self.targets = frozenset(
            target.id
            for statement in statements
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        )

    def assignment(self, statement: ast.stmt) -> tuple[str, Node]:
        """Return the name and the tree of one assignment."""
        if isinstance(statement, ast.AugAssign):
            self._refuse(f"{self._piece(statement)!r}: write it out, as in 'y = y + x'")
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._refuse("has an import, which is not allowed")
        if not isinstance(statement, ast.Assign):
            hint = _LINES if "\n" in self._text else ""
            what = _article(statement)
            self._refuse(f"has {what}; only assignments 'name = value' are allowed{hint}")
        if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
            self._refuse(f"{self._piece(statement.targets[0])!r}: assign to one plain name")
        name = self._name(statement.targets[0].id)
        return name, self.suited(name, statement.value)

    def is_constant(self, name: str) -> bool:
        """Return whether a name is pi or e, and nothing in the text that the text assigns."""
        return name in CONSTANTS and name not in self.targets

    def suited(self, name: str, tree: ast.expr) -> Node:
        """Return the tree of a number that is assigned to a name."""
        node = self.number(tree)
        if self._dtype is not None:
            problem, folded = problem_of(node, self._dtype, self._literals)
            if problem:
                self._refuse_unsuited(tree, problem)
            self._literals.pop(name, None)
            if folded.op in LITERALS:
                self._literals[name] = folded
        return node

    def _refuse_unsuited(self, tree: ast.expr, problem: str) -> NoReturn:
        """Refuse the part of a right-hand side that the dtype cannot have."""

        def problem_in(part: ast.expr) -> str:
            self._count = 0
            try:
                node = self.number(part)
            except ExpressionError:  # It is no value, such as the name of a function.
                return ""
            assert self._dtype is not None
            return problem_of(node, self._dtype, self._literals)[0]

        part, problem = innermost(tree, problem, problem_in)
        if "does not fit" in problem and not isinstance(part, ast.Constant):
            problem = f"{self._piece(part)!r} stands for terms with other numbers: {problem}"
        raise self.error_at(at_operator(self._text, part), problem)

    def number(self, tree: ast.expr, depth: int = 0) -> Node:
        """Return the tree of a number; truth values are cast."""
        node = self._read(tree, depth)
        return Node("cast", (node,)) if node.is_bool else node

    def truth(self, tree: ast.expr, depth: int) -> Node:
        """Return the tree of a truth value; a number is true where it is not 0."""
        node = self._read(tree, depth)
        return node if node.is_bool else Node("!=", (node, Node("number")))

    def _read(self, tree: ast.expr, depth: int) -> Node:
        depth += 1
        self._count += 1
        if depth > DEEPEST:
            self._refuse(f"is nested more than {DEEPEST} levels deep")
        if self._count > self.most_nodes:
            self._refuse(f"has more than {self.most_nodes} operations")
        match tree:
            case ast.Constant():
                return self._constant(tree.value)
            case ast.Name():
                if self.is_constant(tree.id):
                    return Node("constant", value=tree.id)
                return Node("name", value=self._name(tree.id))
            case ast.UnaryOp(op=ast.Not()):
                return Node("not", (self.truth(tree.operand, depth),))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.number(tree.operand, depth)
            case ast.UnaryOp(op=ast.USub()):
                operand = self.number(tree.operand, depth)
                if isinstance(tree.operand, ast.Constant):
                    return Node("number", value=-literal_value(operand))
                return Node("neg", (operand,))
            case ast.UnaryOp(op=ast.Invert()):
                node = self._read(tree.operand, depth)
                if node.is_bool:
                    self._refuse(f"{self._piece(tree)!r} is of a condition: write 'not'")
                return Node("~", (node,))
            case ast.BinOp() if type(tree.op) in _BINARY:
                return self._operation(tree, depth)
            case ast.BoolOp():
                op = "and" if isinstance(tree.op, ast.And) else "or"
                levels = _levels(len(tree.values), depth)
                return _fold(op, map(self.truth, tree.values, levels))
            case ast.Compare():
                return self._comparison(tree, depth)
            case ast.IfExp():
                condition = self.truth(tree.test, depth)
                branches = self.number(tree.body, depth), self.number(tree.orelse, depth)
                return Node("where", (condition, *branches))
            case ast.Call():
                return self._call(tree, depth)
        raise self._error(f"{self._piece(tree)!r} is {_article(tree)}, which is not allowed")

    def _operation(self, tree: ast.BinOp, depth: int) -> Node:
        """Return an operation; a long sum or product from the left to the right."""
        chain = chain_of(tree)
        if len(chain) > self.longest_chain:
            self._refuse(f"has a sum or product of more than {self.longest_chain} operations")
        self._count += len(chain) - 1
        found = self.number(chain[-1].left, depth)
        for part in reversed(chain):
            found = Node(_BINARY[type(part.op)], (found, self.number(part.right, depth)))
        return found

    def _constant(self, value: object) -> Node:
        if isinstance(value, bool) or not isinstance(value, int | float):
            kind = {bool: "a truth value", str: "a string", complex: "a complex number"}
            what = kind.get(type(value), f"a {type(value).__name__}")
            self._refuse(f"{_clip(repr(value))} is {what}, which is not allowed")
        most = BEYOND_INTEGERS if isinstance(value, int) else np.inf
        if abs(value) >= most:
            self._refuse(f"a number is too large: {_clip(repr(value))}")
        return Node("number", value=value)

    def _comparison(self, tree: ast.Compare, depth: int) -> Node:
        parts = []
        terms = [tree.left, *tree.comparators]
        # The comparisons of a chain are one level below the "and" that joins them.
        levels = _levels(len(tree.ops), depth + (len(tree.ops) > 1))
        for left, op, right, level in zip(terms, tree.ops, terms[1:], levels, strict=False):
            if len(tree.ops) > 1 and isinstance(getattr(right, "op", None), _BITWISE):
                self._refuse(
                    f"{self._piece(right)!r} comes before the comparisons beside it: "
                    "write 'and' or 'or' between conditions, and compare bits one by one"
                )
            if type(op) not in _COMPARE:
                self._refuse(f"{self._piece(tree)!r}: 'is' and 'in' are not allowed")
            sides = self.number(left, level), self.number(right, level)
            parts.append(Node(_COMPARE[type(op)], sides))
        return _fold("and", parts)

    def _call(self, tree: ast.Call, depth: int) -> Node:
        if not isinstance(tree.func, ast.Name):
            what = self._piece(tree.func)
            hint = ""
            if isinstance(tree.func, ast.Attribute) and tree.func.attr in self.functions:
                operands = ", ".join(map(self._piece, tree.args or [tree.func.value]))
                hint = f"; write {_clip(f'{tree.func.attr}({operands})')!r}"
            self._refuse(
                f"{what!r} is {_article(tree.func)}, and only functions can be called{hint}"
            )
        name = tree.func.id
        if name not in FUNCTIONS:
            known = ", ".join(self.functions)
            if name in MEANS:
                operand = ", ".join(map(self._piece, tree.args))
                self._refuse(f"calls {name!r}, which is not a function; {mean_hint(operand)}")
            hint = near(name, self.functions)
            self._refuse(f"calls {name!r}, which is not a function.{hint} Known: {known}")
        if tree.keywords:
            hint = "; a comparison is written '=='" if tree.keywords[0].arg else ""
            self._refuse(f"{name}() takes no keyword arguments{hint}")
        fewest, most, _ = FUNCTIONS[name]
        if not fewest <= len(tree.args) <= most:
            least = "" if fewest == most else f"{fewest} to "
            self._refuse(f"{name}() takes {least}{counted(most, 'argument')}; got {len(tree.args)}")
        if name == "where":
            condition = self.truth(tree.args[0], depth)
            return Node(name, (condition, *(self.number(a, depth) for a in tree.args[1:])))
        if name in ("min", "max"):
            return _fold(name, map(self.number, tree.args, _levels(len(tree.args), depth)))
        args = tuple(self.number(arg, depth) for arg in tree.args)
        if name == "clip":
            return Node("min", (Node("max", args[:2]), args[2]))
        return Node("**" if name == "pow" else name, args)

    def _name(self, name: str) -> str:
        if name.startswith("_"):
            self._refuse(f"the name {_clip(name)!r} begins with an underscore")
        if name in FUNCTIONS:
            self._refuse(f"{name!r} is a function and cannot name a value")
        if name in _RESERVED:
            self._refuse(f"the name {name!r} is used by generated code; choose another")
        return name

    def _piece(self, tree: ast.AST) -> str:
        return _clip(ast.get_source_segment(self._text, tree) or self._text)

    def _refuse(self, problem: str) -> NoReturn:
        raise self._error(problem)

    def _error(self, problem: str) -> ExpressionError:
        return ExpressionError(clipped(self._text), problem)

    def error_at(self, tree: ast.AST, problem: str) -> ExpressionError:
        """Return an error that quotes the line of a tree."""
        place = quoted(self._text, getattr(tree, "lineno", 1), getattr(tree, "col_offset", 0))
        return ExpressionError(clipped(self._text), problem + place)


def _fold(op: str, nodes: Iterable[Node]) -> Node:
    """Return the nodes joined by ``op``, from left to right."""
    return functools.reduce(lambda left, right: Node(op, (left, right)), nodes)


def _levels(count: int, depth: int) -> list[int]:
    """Return the depth of each of ``count`` operands of ``_fold``: the first two are deepest."""
    return [depth + count - 1 - max(place, min(count - 1, 1)) for place in range(count)]


def _article(tree: ast.AST) -> str:
    """Return a piece of Python in words."""
    words = {
        ast.Attribute: "an attribute",
        ast.Subscript: "a subscript",
        ast.Lambda: "a lambda",
        ast.List: "a list",
        ast.Tuple: "a tuple",
        ast.NamedExpr: "a walrus assignment",
        ast.JoinedStr: "an f-string",
        ast.Starred: "a starred value",
        ast.Call: "a call",
        ast.Expr: "a bare expression",
    }
    if isinstance(tree, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return "a comprehension"
    return words.get(type(tree), f"Python's {type(tree).__name__}")


def _clip(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
