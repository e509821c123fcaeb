"""Compiles LLVM text in a child process, beside the work of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tikgen.children import safe_path
from tikgen.engines import code_store, native


class Elsewhere:
    """LLVM text that a child process compiles, at a low priority.

    A child holds no lock of this process, may be forked from and does not delay its end.

    It puts the object file into the store, where it is found even if this process ends before.

    Args:
        text: LLVM text with opaque pointers.
        key: key of the object file in the store.
        name: what it is, for people.
    """

    def __init__(self, text: str, key: str, name: str) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process.
        with tempfile.TemporaryFile() as given:
            given.write(text.encode())
            given.seek(0)
            self._process = subprocess.Popen(
                safe_path.command(__name__, key, name),
                stdin=given,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                env=safe_path.environment(),
            )

    def result(self) -> bytes | None:
        """Return the object file, or None while it is being made.

        Raises:
            ValueError: if the process failed.
        """
        status = self._process.poll()
        if status is None:
            return None
        with self._output:
            self._output.seek(0)
            content = self._output.read()
        if status or not content:
            raise ValueError(f"the process that compiles it ended with exit status {status}")
        return content

    def wait(self, seconds: float) -> None:
        """Wait until the object file is made, but not longer than ``seconds``."""
        self._process.wait(seconds)


if __name__ == "__main__":
    os.nice(10)
    _, key, name = sys.argv
    made = native.object_code(sys.stdin.read())
    code_store.keep(key, name, code_store.Stored(made))
    sys.stdout.buffer.write(made)
