"""Compiles LLVM text, in a child process if a process ended while it compiled that text before.

A failed assertion in LLVM ends the process. The store says which text is being compiled, and by
whom: a text ended the process if this runs no more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from tikgen.children import safe_path
from tikgen.engines import code_store, native
from tikgen.store import Document, default_store

KIND = "compiling"


def object_code(text: str) -> bytes:
    """Return the object file of LLVM text with opaque pointers, for the processor at hand.

    Raises:
        RuntimeError: if this LLVM makes no valid code of it.
    """
    store = default_store()
    key = code_store.key_of({"text": text, "machine": native.identity()})
    found = store.read(KIND, key)
    if found is not None and not _is_running(found):
        # The entry stays: another process may not find the code, and would end.
        for passes in ("all", "few"):
            if made := _in_child(text, passes):
                return made
        raise RuntimeError("it ended each process that compiled this kernel")
    store.write(KIND, key, {"host": socket.gethostname(), "process": os.getpid()})
    try:
        return native.object_code(text)
    finally:
        store.remove(KIND, key)


def _is_running(found: Document) -> bool:
    """Return whether the process that compiles a text runs on this machine."""
    process = found.get("process")
    if found.get("host") != socket.gethostname() or not isinstance(process, int):
        return False
    if process == os.getpid():  # Of which an earlier one had the number.
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # It belongs to someone else.
        pass
    return True


def _in_child(text: str, passes: str) -> bytes:
    """Return the object file that a child process makes, empty if the process fails.

    Args:
        text: LLVM text with opaque pointers.
        passes: ``"all"``, or ``"few"`` for all but those that vectorise.
    """
    done = subprocess.run(
        safe_path.command(__name__, passes),
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=safe_path.environment(),
        check=False,
    )
    return b"" if done.returncode else done.stdout


if __name__ == "__main__":
    made = native.object_code(sys.stdin.read(), vectorises=sys.argv[1] == "all")
    sys.stdout.buffer.write(made)
