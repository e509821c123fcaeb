"""Names that both a user's text and generated code have.

Code is generated from a text in which these names are spelled in a way that no code has. Then what
the code calls its own gets other names, and the user's names become what they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tikgen.dtypes import DType
from tikgen.expression.assignments import Assignments, Expression
from tikgen.expression.equations import Equations
from tikgen.expression.reducing import Reducing
from tikgen.expression.tree import Node

_WORD = re.compile(r"[A-Za-z_]\w*")
# Comments, docstrings, and names in code that are no attributes.
_IN_CODE = re.compile(r'"""[^"]*"""|#[^\n]*|(?<![\w.])[A-Za-z_]\w*')


def set_apart(
    p: Any, parameters: Iterable[str], own: Iterable[re.Pattern[str]]
) -> tuple[Any, tuple[str, ...]]:
    """Return a problem without the names that generated code has, and these names.

    Args:
        p: the problem.
        parameters: those that hold names of a user.
        own: match the names that generated code has.
    """
    patterns = tuple(own)
    values = {name: value for name in parameters if (value := getattr(p, name))}
    words = words_of(tuple(values.values()))
    names = tuple(sorted(w for w in words if any(each.fullmatch(w) for each in patterns)))
    return (type(p)(**{**dict(p), **respelled(values, names)}), names) if names else (p, ())


def words_of(value: Any) -> set[str]:
    """Return the words of texts and names, within mappings and tuples too."""
    if isinstance(value, Mapping):
        return words_of((*value.keys(), *value.values()))
    if isinstance(value, tuple):
        return set().union(*map(words_of, value))
    if isinstance(value, Assignments | Expression):
        return {*value.names}
    return {*_WORD.findall(value.source if isinstance(value, Equations) else str(value))}


def respelled(value: Any, names: Iterable[str]) -> Any:
    """Return texts and names with some names spelled in a way that no code has."""
    spelled = {name: f"apart_{name}_" for name in names}
    return _respelled(value, spelled)


def _respelled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {_respelled(key, names): _respelled(one, names) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_respelled(one, names) for one in value)
    if isinstance(value, Expression):
        nodes = {name: Node("name", value=new) for name, new in names.items()}
        return Expression(value.node.with_names(nodes))
    if isinstance(value, Reducing):
        operations = {names.get(name, name): op for name, op in value.kinds.items()}
        return Reducing(
            tuple((names.get(n, n), _respelled(e, names)) for n, e in value.assignments), operations
        )
    if isinstance(value, Equations):
        return Equations(_in_text(value.source, names))
    is_text = isinstance(value, str) and not isinstance(value, DType)
    return _in_text(value, names) if is_text else value


def _in_text(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def restored(code: str, names: Iterable[str]) -> str:
    """Return code with the names of users as they are, for which those of the code make room."""
    either = "|".join(sorted(names, key=len, reverse=True))
    mark = re.compile(rf"apart_({either})_")
    words = {word for word in _IN_CODE.findall(code) if word[0] not in '"#'}
    users = {mark.sub(r"\1", word) for word in words if mark.search(word)}
    own = {word for word in words if not mark.search(word)}
    taken, new = users | own, {}
    for word in sorted(users & own):
        free = word
        while free in taken:
            free += "_"
        taken.add(free)
        new[word] = free
    return _IN_CODE.sub(lambda word: mark.sub(r"\1", new.get(word[0], word[0])), code)
