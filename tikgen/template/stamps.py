"""Tells whether files may have changed since they were read, without reading them again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# A file that was saved again so soon may have the same time and the same size. Some file systems
# keep whole seconds.
_SETTLED_NS = 2_000_000_000

_State = tuple[int, int, int] | None


@dataclass(frozen=True)
class Stamp:
    """The times, sizes and inodes of files at one moment.

    Attributes:
        paths: the files, and folders whose entries matter.
        states: what the system says of each, None where there is no such file.
        is_settled: whether none had been saved shortly before.
    """

    paths: tuple[Path, ...]
    states: tuple[_State, ...]
    is_settled: bool

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Stamp:
        """Return the stamp of files now; take it before they are read."""
        now = time.time_ns()
        given = tuple(paths)
        states = tuple(map(_state, given))
        newest = max((state[0] for state in states if state is not None), default=0)
        return cls(given, states, newest < now - _SETTLED_NS)

    def holds(self) -> bool:
        """Return whether the files certainly hold what they held then."""
        return self.is_settled and self.states == tuple(map(_state, self.paths))


def _state(path: Path) -> _State:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
