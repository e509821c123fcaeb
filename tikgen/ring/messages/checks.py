"""Checks the fields of messages, by a function that is generated for each type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from tikgen.ring.errors import MessageTypeError
from tikgen.ring.messages.rules import Rule, rule

Check = Callable[[object], "str | None"]


def checker(message_type: type[Any]) -> Check:
    """Return a function that returns the problem of a message of a type, or None.

    A field takes numbers of NumPy that fit without loss; a float takes an integer, an integer no
    bool. All items of containers are checked.
    """
    found = message_type.__dict__.get("_ring_checker")
    if found is None:
        found = _made(message_type)
        type.__setattr__(message_type, "_ring_checker", found)
    return cast(Check, found)


def rules_of(message_type: type[Any]) -> dict[str, Rule]:
    """Return the rule of each field of a message type; raises as :func:`checker`."""
    annotations = resolved_annotations(message_type)
    return {name: rule(annotations[name]) for name in message_type.__struct_fields__}


def resolved_annotations(message_type: type[Any]) -> dict[str, Any]:
    """Return the resolved annotations of a message type; raises as :func:`checker`."""
    try:
        fields = msgspec.structs.fields(message_type)
    except NameError as error:
        raise MessageTypeError(
            f"{message_type.__qualname__}: {error}, in an annotation; define the name before the "
            "message, or at the top level of the module"
        ) from error
    return {field.name: field.type for field in fields}


def _made(message_type: type[Any]) -> Check:
    rules = rules_of(message_type)
    names: dict[str, Any] = {"cls": message_type, "of_another": _of_another, "wrong": _wrong}
    lines = [
        "def check(message):",
        "    if message.__class__ is not cls:",
        "        return of_another(cls, message)",
    ]
    for number, (field, its_rule) in enumerate(rules.items()):
        if its_rule.test is None:
            continue
        names |= {f"rule_{number}": its_rule, f"test_{number}": its_rule.test}
        names |= {f"exact_{number}_{k}": kind for k, kind in enumerate(its_rule.exact)}
        names |= {f"dtype_{number}": its_rule.dtype}
        lines += [
            f"    value = message.{field}",
            f"    if {_suspicion(number, its_rule)}not test_{number}(value):",
            f"        return wrong({field!r}, rule_{number}, value)",
        ]
    exec("\n".join(lines), names)
    return cast(Check, names["check"])


def _suspicion(number: int, its_rule: Rule) -> str:
    """Return code for a cheap test that is False for nearly every valid message."""
    kinds = [f"value.__class__ is not exact_{number}_{k}" for k in range(len(its_rule.exact))]
    if not kinds:
        return ""
    cheap = " and ".join(kinds)
    if its_rule.bounds is not None:
        lowest, highest = its_rule.bounds
        cheap = f"{cheap} or not {lowest} <= value <= {highest}"
    if its_rule.dtype is not None:
        cheap = f"{cheap} or value.dtype is not dtype_{number}"
    return f"({cheap}) and "


def _of_another(message_type: type[Any], value: object) -> str | None:
    if isinstance(value, message_type):
        return checker(type(value))(value)
    return f"{message_type.__qualname__} was expected; got {value!r:.60}"


def _wrong(field: str, its_rule: Rule, value: object) -> str:
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    dtype = getattr(value, "dtype", None)
    of_dtype = f" of {dtype}" if its_rule.dtype is not None and dtype is not None else ""
    return f"field {field!r} takes {its_rule.text}; got {name}{of_dtype} {value!r:.60}"
