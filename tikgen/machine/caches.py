"""How much the last cache of the processor holds, as Linux tells it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu")
# Where the system does not tell.
_USUAL = 16 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def cache_bytes() -> int:
    """Return the bytes of the last caches that the processors of this process share."""
    found: dict[str, int] = {}
    try:
        for number in os.sched_getaffinity(0):
            caches = (_FOLDER / f"cpu{number}/cache").glob("index*")
            last = max(caches, key=lambda each: int(_text(each / "level")))
            size = _text(last / "size")
            found[_text(last / "shared_cpu_list")] = int(size[:-1]) * _UNITS[size[-1]]
    except (AttributeError, OSError, ValueError, LookupError):
        return _USUAL
    return sum(found.values())


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
