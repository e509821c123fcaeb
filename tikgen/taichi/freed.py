"""Fields that ``ti.init`` freed: a kernel that reads one of them would read freed memory.

Taichi compiles every kernel anew after ``ti.init``, and puts in the addresses of the fields that
its text names. What those names stand for is looked at then.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from taichi.lang import impl
from taichi.lang._ndarray import Ndarray
from taichi.lang.field import Field

from tikgen.errors import ArgumentError

_MOST_MEMBERS = 1000
_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


def freed_in(
    namespace: Mapping[str, Any],
    names: Iterable[str] | None = None,
    attributes: Container[str] | None = None,
) -> str:
    """Return a name that stands for, or holds, a field of an earlier ``ti.init``, or nothing.

    Args:
        namespace: the values of names.
        names: the names that count, by default all.
        attributes: the attributes of objects that count, by default all.
    """
    for name in list(namespace) if names is None else names:
        value = namespace.get(name)
        if any(_is_freed(each) for each in (value, *_members(value, attributes))):
            return name
    return ""


def refuse_freed(function: Any, namespace: Mapping[str, Any]) -> None:
    """Raise ArgumentError if a Python function names a field of an earlier ``ti.init``."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    read = {i.argval for i in dis.get_instructions(code) if i.opname in _READS}
    if name := freed_in(namespace, sorted(read & namespace.keys()), code.co_names):
        raise ArgumentError(
            function.__name__,
            f"its field {name!r} was made before the last ti.init and is gone; "
            "execute its text again",
        )


def _is_freed(value: object) -> bool:
    made = getattr(value, "_tikgen_epoch", None) if isinstance(value, Field | Ndarray) else None
    return made is not None and (made is not impl.pytaichi or made.prog is None)


def _members(value: object, attributes: Container[str] | None) -> Iterator[object]:
    """Yield what a list, a dict or an object holds, such as a data-oriented one."""
    if isinstance(value, list | tuple):
        yield from value[:_MOST_MEMBERS]
    elif isinstance(value, dict):
        yield from list(value.values())[:_MOST_MEMBERS]
    elif not isinstance(value, type | types.ModuleType | types.FunctionType | Field):
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            for name, each in list(own.items())[:_MOST_MEMBERS]:
                if attributes is None or name in attributes:
                    yield each
