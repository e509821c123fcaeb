"""What differs between two keys, field by field, and how that is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_ABSENT = "unset"


class Difference(NamedTuple):
    """A field of a key that differs: its name, what it is now, and what it was before."""

    field: str
    now: str
    before: str

    def __str__(self) -> str:
        return f"{self.field} is {self.now}, not {self.before}"


def differences(now: Mapping[str, str], before: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the fields that differ, in the order of ``now``."""
    return tuple(
        Difference(name, now.get(name, _ABSENT), before.get(name, _ABSENT))
        for name in dict.fromkeys([*now, *before])
        if now.get(name) != before.get(name)
    )


def nearest(now: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> tuple[Difference, ...]:
    """Return what differs from the key that differs least, the latest among equals."""
    return min((differences(now, before) for before in reversed(known)), key=len)


def listed(found: Sequence[object]) -> str:
    """Return a readable list, such as ``a, b and c``."""
    texts = [str(each) for each in found]
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""
