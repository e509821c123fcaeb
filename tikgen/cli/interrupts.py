"""What Ctrl-C does to a command: outside of its work the process ends at once, silently."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from tikgen.ending import end


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or end the process during an import, which may swallow it."""
    within = frame
    while within is not None:
        if within.f_code.co_filename.startswith("<frozen importlib"):
            end()
        within = within.f_back
    signal.default_int_handler(number, frame)


def hushed() -> AbstractContextManager[None]:
    """Do as :func:`tikgen.ending.hush` does within a block."""
    return _replaced(signal.default_int_handler, end)


def heard() -> AbstractContextManager[None]:
    """Have Ctrl-C raise KeyboardInterrupt while a command works."""
    return _replaced(end, _interrupt)


def pythons_own() -> AbstractContextManager[None]:
    """Have Ctrl-C do what it does in Python while a script of the user runs."""
    return _replaced(_interrupt, signal.default_int_handler)


@contextlib.contextmanager
def _replaced(old: Any, new: Any) -> Iterator[None]:
    was_replaced = _replace(old, new)
    try:
        yield
    finally:
        if was_replaced:
            _replace(new, old)


def _replace(old: Any, new: Any) -> bool:
    """Replace a handler; return whether it was in place."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not old:
        return False
    signal.signal(signal.SIGINT, new)
    return True
