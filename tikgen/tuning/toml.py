"""Writes the TOML of tuning records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def table_lines(table: Mapping[str, Any]) -> list[str]:
    """Return one line ``key = value`` for each entry."""
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items()]


def can_hold(value: Any) -> bool:
    """Return whether TOML can hold a value; it cannot hold None."""
    if isinstance(value, list | tuple):
        return all(map(can_hold, value))
    return isinstance(value, bool | int | float | str)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # The escapes of JSON are escapes of TOML; DEL alone must be escaped there and not here.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = ", ".join(table_lines(value))
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML cannot hold {value!r}")
