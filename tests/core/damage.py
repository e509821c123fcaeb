"""Damages documents in ways that follow their structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

LONG = "9" * 5_000
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"

_NUMBERS = [True, -1, 0, 1 << 63, -(1 << 63), 1e308, float("nan"), float("inf")]
_TEXTS = ["", "x" * 300, ESCAPES, "../..", "(" * 300, LONG]
_WRONG = st.sampled_from([*_NUMBERS, *_TEXTS, None, [], {}, [[[[]]]], {"": None}, ["\0"]])


def damaged(value: Any, draw: Callable[[Any], Any]) -> Any:
    """Return a document with one part of it replaced, dropped, or put under another name."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(value)))
        kind = draw(st.integers(0, 5))
        rest = {n: v for n, v in value.items() if n != name}
        if kind == 0:
            return rest
        if kind == 1:
            return rest | {draw(st.sampled_from(["", "x", ESCAPES, "a" * 200])): value[name]}
        return value | {name: damaged(value[name], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], damaged(value[place], draw), *value[place + 1 :]]
    return draw(_WRONG)
