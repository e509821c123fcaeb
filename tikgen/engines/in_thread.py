"""Makes machine code in a thread that waits for another process."""

from __future__ import annotations

import threading
from collections.abc import Callable


class InThread:
    """Machine code that a thread makes.

    Python work of some milliseconds, so that this process is hardly slower meanwhile. It does not
    delay the end of the process.

    Args:
        make: returns the machine code.
    """

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._content = b""
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._content = self._make()
        except Exception as error:  # :meth:`result` raises it.
            self._error = error

    def result(self) -> bytes | None:
        """Return the machine code, or None while it is being made; raise what went wrong."""
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        return self._content

    def wait(self, seconds: float) -> None:
        """Wait until the machine code is made, but not longer than ``seconds``."""
        self._thread.join(seconds)
