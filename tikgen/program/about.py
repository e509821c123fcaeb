"""What a checkpoint says of itself: the number of steps, and the program in words, as JSON."""

from __future__ import annotations

import json
import zlib
from typing import Any

from tikgen import untrusted
from tikgen.version import __version__

_FORMAT = 1
_OWN = ("format", "tikgen", "steps", "program")
_CHECKSUM = "crc32"


def text_about(steps: int, program: str, arrays: Any = None) -> str:
    """Return what a checkpoint says of itself.

    Args:
        steps: the number of steps.
        program: the program in words.
        arrays: how its arrays are described, for a checksum of that and of this text; None where
            the file has one of its own.
    """
    told = dict(zip(_OWN, (_FORMAT, __version__, steps, program), strict=True))
    if arrays is not None:
        told[_CHECKSUM] = _checksum(told, arrays)
    return json.dumps(told)


def steps_in(text: bytes, name: str) -> int:
    """Return the number of steps that a checkpoint names.

    Args:
        text: what it says of itself.
        name: what holds that.

    Raises:
        ValueError: if it is no checkpoint, or damaged.
    """
    steps = _told(text, name).get("steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 0:
        raise ValueError("it has no number of steps")
    return steps


def check(text: bytes, name: str, arrays: Any) -> None:
    """Raise ValueError if a text has a checksum, of which it or the descriptions are not.

    What other programs add to the text, and how they lay it out, does not count.
    """
    told = _told(text, name)
    if _CHECKSUM in told and told[_CHECKSUM] != _checksum(told, arrays):
        raise ValueError(f"it is damaged: {name} or the description of an array was changed")


def from_json(text: bytes, name: str) -> Any:
    """Return the value of a JSON text; raise ValueError, which names what holds it, if it is none.

    Args:
        text: the text.
        name: what holds it.
    """
    try:
        return untrusted.from_json(text)
    except untrusted.Unusable as error:
        raise ValueError(f"it is damaged: {name} holds no JSON") from error


def _told(text: bytes, name: str) -> dict[str, Any]:
    read = from_json(text, name)
    if not isinstance(read, dict) or read.get("format") != _FORMAT:
        raise ValueError("it has another format")
    return read


def _checksum(told: dict[str, Any], arrays: Any) -> str:
    covered = json.dumps([*map(told.get, _OWN), arrays], sort_keys=True)
    return f"{zlib.crc32(covered.encode()):08x}"
