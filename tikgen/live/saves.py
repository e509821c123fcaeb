"""Tells when files may have changed: by the system's events, and by looking every second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tikgen.errors import TikgenError
from tikgen.template.base import files_of

# An event is passed on once nothing else came for one step, or after the debounce time.
_STEP_MS, _DEBOUNCE_MS = 20, 100
# Events get lost, on network disks for one.
_LOOK_MS = 1000
_POLL_SECONDS = 0.2


def need_watchfiles() -> Any:
    """Return the class of watchfiles that watches folders.

    Raises:
        TikgenError: if watchfiles is not installed.
    """
    try:
        # Not its function watch(), which does not tell from when on it watches.
        from watchfiles._rust_notify import RustNotify
    except ImportError:
        raise TikgenError("Watching needs watchfiles: pip install 'tikgen[live]'.") from None
    return RustNotify


def wakes(folders: Callable[[], frozenset[Path]], stop: threading.Event) -> Iterator[None]:
    """Yield once it watches, and whenever files in ``folders()`` may have changed since.

    Where the system cannot watch, it yields every 0.2 s.

    Args:
        folders: returns what is to be watched, which may change; all of it exists.
        stop: ends the iteration.
    """
    notifier = need_watchfiles()
    while not stop.is_set():
        watched = folders()
        # A folder may be gone by now, and the system may have no watch left to give.
        with (
            contextlib.suppress(OSError, RuntimeError),
            notifier([str(f) for f in watched], False, False, 0, False, True) as notify,
        ):
            changes: Any = ()
            while not stop.is_set() and not any(Path(path) in watched for _, path in changes):
                yield
                if folders() != watched:
                    break
                changes = notify.watch(_DEBOUNCE_MS, _STEP_MS, _LOOK_MS, stop)
                if changes == "signal":
                    raise KeyboardInterrupt
                if isinstance(changes, str):  # Nothing happened, or the end.
                    changes = ()
            continue
        yield
        stop.wait(_POLL_SECONDS)


def folders_behind(templates: Iterable[Path]) -> frozenset[Path]:
    """Return the folders that hold the files of ``templates``, or that will hold their folders."""
    found = set()
    for template in templates:
        for path in files_of(template).contents:
            folder = path.parent
            while not folder.is_dir():
                folder = folder.parent
            found.add(folder)
    return frozenset(found)
