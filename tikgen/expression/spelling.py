"""Equations as a user writes them, and as Python's parser takes them: column by column alike.

A prime becomes a letter, ``f.3`` a name with a middle dot, and ``each q in 9:`` a ``with``
statement, so that places in the syntax tree are places in the user's own lines.
"""

from __future__ import annotations

import ast
import re

from tikgen.errors import ExpressionError
from tikgen.expression.reader import quoted

PRIME = "\u02b9"  # Stands for ' in names, since Python takes it for a letter.
DOT = "\u00b7"  # Stands for the dot between a vector and its component, for the same reason.

_NEXT = re.compile(r"(?<=[A-Za-z0-9_])'")
_NUMBERED = re.compile(rf"(?<!\w)([A-Za-z_]\w*{PRIME}?)\.(?=\d)")
_EACH = re.compile(r"^( *)each(?= +\w+ +in\b)", re.MULTILINE)
_WITH = re.compile(r"\bwith(?= +\w+ +in\b)|(?<=')with(?=' statement)")
_FOREIGN = re.compile(rf"[{PRIME}{DOT}]|^ *with\b", re.MULTILINE)


def parsed_form(text: str) -> str:
    """Return the text of a user as Python parses it; raise ExpressionError."""
    if foreign := _FOREIGN.search(text):
        raise ExpressionError(
            " ".join(text.split())[:80], f"has {foreign[0].strip()!r}, which is not allowed"
        )
    text = _NUMBERED.sub(rf"\1{DOT}", _NEXT.sub(PRIME, text))
    return _EACH.sub(r"\1with", "\n" * _is_block(text) + text)


def _is_block(text: str) -> bool:
    """Return whether the first line begins a block to which all other lines belong.

    To find the common indentation of a text, its first line does not count.
    """
    first, _, rest = text.partition("\n")
    indents = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    return bool(_EACH.match(first) and indents and indents[0] == min(indents) > 0)


def shown(text: str) -> str:
    """Return text as the user wrote it."""
    return _WITH.sub("each", text.replace(PRIME, "'").replace(DOT, "."))


def shown_name(name: str) -> str:
    """Return a name in a tree as a user writes it: ``f'.3`` for the next value of ``f.3``."""
    own, dot, component = name.removesuffix(PRIME).partition(DOT)
    return own + "'" * name.endswith(PRIME) + "." * bool(dot) + component


def stored_name(name: str) -> str:
    """Return the argument that holds a name's value: ``u_next`` for the next value of ``u``."""
    own, dot, component = name.removesuffix(PRIME).partition(DOT)
    return f"{own}_next{dot}{component}" if name.endswith(PRIME) else name


def refusal(text: str, tree: ast.AST, problem: str) -> ExpressionError:
    """Return the error that quotes the line of a tree in the text, with a caret."""
    number = getattr(tree, "lineno", 1)
    line = text.splitlines()[number - 1]
    column = len(line.encode()[: getattr(tree, "col_offset", 0)].decode())
    return ExpressionError(shown(line.strip()), shown(problem + quoted(text, number, column)))
