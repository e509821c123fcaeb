"""What to write instead of what Python's parser refuses in a text."""

from __future__ import annotations

import keyword
import re
import unicodedata

# Keywords of Python that stand where a name may: some begin what no text has, and others do not
# stand before an operator, or behind one.
_USABLE = frozenset({"and", "or", "not", "if", "else", "elif", "True", "False", "None"})
_BETWEEN = ("in", "is", "for", "with", "while")
_KEYWORD = re.compile(
    rf"\b(?:({'|'.join(sorted({*keyword.kwlist} - {*_BETWEEN} - _USABLE))})\b"
    rf"|({'|'.join(_BETWEEN)})\b *(?=[-+*/%=)<>]|$))",
    re.MULTILINE,
)
_AS_NAME = re.compile(r"(?:[-+*/%=<>(,]|^) *\b(and|or|if|else|elif)\b(?! *:)", re.MULTILINE)
_SYMBOLS = {"&&": "'and'", "||": "'or'", "!": "'not'", "?": "'a if c else b'"}
_HEADER = re.compile(r"^( *)(where|if  |elsewhere|each|with)\b(?! *=)[^:\n]*\n(?=\1 +\S)", re.M)
_BARE = re.compile(r"^ *(where|elsewhere)\b(?! *[(=])[^:]*$")
_MAGNITUDE = re.compile(r"\|([^|\n]+)\|")
# Two names without an operator between them, or a number and a name.
_NAME = r"(?!(?:and|or|not|if|else|in|is|for|each|where|elsewhere|with)\b)[^\W\d]\w*"
_BESIDE = re.compile(rf"(?<![\w.])({_NAME}) +({_NAME})")
_MULTIPLE = re.compile(rf"(?<![\w.])(\d+\.?\d*) *(?![eEjJ][-+\d]|[eEjJ]\b)({_NAME})")
# A rate such as du/dt, and one that may be multiplied as it is.
_RATE = re.compile(r"(?:^|;) *d(\w+) */ *dt *= *([^;#\n]+)", re.MULTILINE)
_FACTOR = re.compile(r"[\w.]+(?:\([^()]*\))?(?: *\* *[\w.]+(?:\([^()]*\))?)*")
_EQUALITY = re.compile(r"[\w\])] *=(?!=)")
# Means over all points, in other tools.
MEANS = frozenset({"mean", "average", "avg", "nanmean"})

_CHARACTERS = {
    **dict.fromkeys("\u2212\u2013\u2014\u2010", "-"),
    **dict.fromkeys("\u2019\u2018\u2032\u00b4\u02b9", "'"),
    **dict.fromkeys("\u00d7\u22c5\u00b7\u2217", "*"),
    "\u00f7": "/",
    "\u2215": "/",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u00b2": "**2",
    "\u00b3": "**3",
    "\u221a": "sqrt(...)",
    "\u2202": "dx(...)",
    "\u2207": "grad(...)",
    "\u2206": "lap(...)",
    "\u221e": "a large number",
    "\u00a0": "a space",
    "\uff1d": "=",
    "\uff0c": ",",
    "\uff08": "(",
    "\uff09": ")",
    "\u00b5": "mu",
}


def instead_of(character: str) -> str:
    """Return what to write for a character that texts do not have, or nothing."""
    written = _CHARACTERS.get(character, "")
    kind, _, letter = unicodedata.name(character, "").partition(" LETTER ")
    if not written and kind.startswith("GREEK") and letter.isalpha():
        written = letter.capitalize() if "CAPITAL" in kind else letter.lower()
    return f"; write {written!r}" if written else ""


def hint_for(text: str, problem: str, number: int | None) -> str:
    """Return what to write instead, for an error of Python's parser.

    Args:
        text: what Python could not read.
        problem: Python's words.
        number: the line that Python names, counted from 1.
    """
    plain = text.replace("!=", "")
    found = [f"write {word} for {symbol!r}" for symbol, word in _SYMBOLS.items() if symbol in plain]
    if not found and (used := _KEYWORD.search(text)):
        found.append(f"{(used[1] or used[2])!r} is a keyword of Python; choose another name")
    return f"; {', '.join(found)}" if found else _of_line(text, problem, number)


def _of_line(text: str, problem: str, number: int | None) -> str:
    lines = text.splitlines()
    line = lines[number - 1] if number and number <= len(lines) else text
    line = line.partition("#")[0]
    if ":=" in line:
        return "; write '=' for ':='"
    if "'each' statement" not in problem and (header := _HEADER.search(text)):
        word = header[0].split()[0]
        example = "each q in 9:" if word in ("each", "with") else "where x < 1:"
        return f"; a block begins with a line that ends with a colon, as in '{example}'"
    if _BARE.match(line):
        return "; a block begins with a line that ends with a colon, as in 'where x < 1:'"
    if "assign to function call" in problem:
        return "; a function has a line of its own outside of blocks, as in 'f(u) = u**2'"
    if "keyword argument" in problem or "cannot contain assignment" in problem:
        is_known = _EQUALITY.search(line) and "along" not in line
        return "; a comparison is written '=='" if is_known else ""
    if used := _AS_NAME.search(line):
        return f"; {used[1]!r} is a keyword of Python; choose another name"
    if sides := _MAGNITUDE.search(line):
        return f"; write abs({sides[1].strip()}) for {sides[0]}, and norm(v) for that of a vector"
    if pair := _BESIDE.search(line):
        one, other = pair.groups()
        return f"; an operator is missing: write {one}({other}), or {one}*{other}"
    if pair := _MULTIPLE.search(line):
        return f"; an operator is missing: write {pair[1]}*{pair[2]}"
    return ""


def mean_hint(operand: str) -> str:
    """Return what to write for the mean of an operand over all points."""
    return (
        f'"total = sum({operand})" is a reduction; the caller divides it by the number of points, '
        'or a program does, as in "m = total / 4096"'
    )


def rate_hint(text: str) -> str:
    """Return the step of time for an equation such as ``du/dt = lap(u)``, or nothing."""
    found = _RATE.search(text)
    if found is None:
        return ""
    field, rate = found[1], found[2].strip()
    rate = rate if _FACTOR.fullmatch(rate) else f"({rate})"
    return f'; write "{field}\' = {field} + dt*{rate}"'
