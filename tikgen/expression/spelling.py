"""Equations as a user writes them, and as Python's parser takes them: column by column alike.

A prime becomes a letter, ``f.3`` a name with a middle dot, ``each q in 9:`` a ``with`` statement,
and ``where x < 1:`` an ``if`` statement, so that places in the syntax tree are places in the user's
own lines.
"""

from __future__ import annotations

import ast
import re

from tikgen.errors import ExpressionError
from tikgen.expression.chains import text_of
from tikgen.expression.hints import instead_of
from tikgen.expression.own_functions import shown_definitions
from tikgen.expression.reader import clipped, quoted

PRIME = "\u02b9"  # Stands for ' in names, since Python takes it for a letter.
DOT = "\u00b7"  # Stands for the dot between a vector and its component, for the same reason.

_NEXT = re.compile(r"(?<=[A-Za-z0-9_])'")
_NUMBERED = re.compile(rf"(?<!\w)([A-Za-z_]\w*{PRIME}?)\.(?=\d)")
_EACH = re.compile(r"^( *)each(?= +\w+ +in\b)", re.MULTILINE)
_REGION = re.compile(r"^( *)(where|elsewhere|if|elif|else|while)\b *(:?)", re.MULTILINE)
_INSTEAD = {
    "else": ", for which 'elsewhere:' stands",
    "elif": ", for which 'elsewhere x < 2:' stands",
    "if": ", for which 'where x < 1:' stands",
}
_PADDED = re.compile(r"^( *)(?:(if   )|elif     |else     )", re.MULTILINE)
_UNPARSED = re.compile(r"^( *)(?:(if)|elif|else)(?=[ :])", re.MULTILINE)
_IN_WORDS = re.compile(r"(?<=')(?:(if)|elif|else)(?=' statement)")
_WITH = re.compile(r"\bwith(?= +\w+ +in\b)|(?<=')with(?=' statement)")
_FOREIGN = re.compile(rf"[{PRIME}{DOT}]|^ *with\b", re.MULTILINE)


def parsed_form(text: str) -> str:
    """Return the text of a user as Python parses it; raise ExpressionError."""
    if foreign := _FOREIGN.search(text):
        word = foreign[0].strip()
        hint = instead_of(word) if len(word) == 1 else ""
        raise ExpressionError(
            " ".join(text.split())[:80], f"has {word!r}, which is not allowed{hint}"
        )
    text = _NUMBERED.sub(rf"\1{DOT}", _NEXT.sub(PRIME, text))
    text = _EACH.sub(r"\1with", "\n" * _is_block(text) + text)
    if not _REGION.search(text):
        return text
    return "\n".join(map(_region_parsed, text.split("\n")))


def _region_parsed(line: str) -> str:
    """Return a line that begins a block for a region as Python parses it."""
    found = _REGION.match(line)
    if found is None or not _is_header(line):
        return line
    if found[2] not in ("where", "elsewhere"):
        raise ExpressionError(
            shown(line.strip()),
            f"begins with {found[2]!r}{_INSTEAD.get(found[2], '')}; blocks for regions are written "
            "'where x < 1:', 'elsewhere x < 2:' and 'elsewhere:'",
        )
    word = "if" if found[2] == "where" else "else" if found[3] else "elif"
    return found[1] + word.ljust(len(found[2])) + line[found.end(2) :]


def _is_header(line: str) -> bool:
    """Return whether a line has a colon outside of all parentheses."""
    depth = 0
    for character in line.partition("#")[0]:
        depth += (character in "([") - (character in ")]")
        if character == ":" and depth == 0:
            return True
    return False


def _is_block(text: str) -> bool:
    """Return whether the first line begins a block to which all other lines belong.

    To find the common indentation of a text, its first line does not count.
    """
    first, _, rest = text.partition("\n")
    indents = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    is_begun = _EACH.match(first) or (_REGION.match(first) and _is_header(first))
    return bool(is_begun and indents and indents[0] == min(indents) > 0)


def shown(text: str) -> str:
    """Return text as the user wrote it."""
    text = _WITH.sub("each", text.replace(PRIME, "'").replace(DOT, "."))
    text = _PADDED.sub(lambda found: found[1] + _word(found[2]), text)
    return _IN_WORDS.sub(lambda found: _word(found[1]), text)


def unparsed(statement: ast.stmt) -> str:
    """Return the text of a statement as a user may write it."""
    text = shown_definitions(text_of(statement))
    if isinstance(statement, ast.If | ast.With):
        text = _UNPARSED.sub(lambda found: found[1] + _word(found[2]), text)
    return shown(text)


def _word(is_first: str | None) -> str:
    return "where" if is_first else "elsewhere"


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
    quote = quoted(text, number, column)
    return ExpressionError(clipped(shown(line)), shown(problem + quote))
