"""How much the caches of the processor hold, as Linux tells it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu")
# Where the system does not tell.
_USUAL = (1 << 20, 16 << 20)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def cache_bytes() -> tuple[int, ...]:
    """Return the bytes of all caches of each level from the second on, the last level at the end.

    Only those count that the processors of this process use.
    """
    found: dict[int, dict[str, int]] = {}
    try:
        for number in os.sched_getaffinity(0):
            for cache in (_FOLDER / f"cpu{number}/cache").glob("index*"):
                level, size = int(_text(cache / "level")), _text(cache / "size")
                if level > 1:
                    held = int(size[:-1]) * _UNITS[size[-1]]
                    found.setdefault(level, {})[_text(cache / "shared_cpu_list")] = held
    except (AttributeError, OSError, ValueError, LookupError):
        return _USUAL
    return tuple(sum(found[level].values()) for level in sorted(found)) or _USUAL


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
