"""Links the shared library of a native bundle with the C compiler of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tikgen.errors import ExportError

_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
_MOST_SECONDS = 300


def compiler() -> list[str]:
    """Return the command of the C compiler: that of the variable CC, else cc, gcc or clang.

    Raises:
        ExportError: if there is none.
    """
    said = os.environ.get("CC", "")
    try:
        named = shlex.split(said)
    except ValueError as error:
        problem = f"the variable CC is {said!r:.80}, which is no command ({error})"
        raise ExportError("a shared library", problem) from None
    found = [shutil.which(name) for name in ([named[0]] if named else _COMPILERS)]
    first = next((path for path in found if path), None)
    if first is None:
        looked = (
            f"the variable CC names {named[0]!r}" if named else f"tried {', '.join(_COMPILERS)}"
        )
        raise ExportError(
            "a shared library",
            f"a C compiler links it, and there is none ({looked}): install gcc or clang, or "
            "export object files only, with library=False or --objects, which need no compiler",
        )
    return [first, *named[1:]]


def link(folder: Path, source: str, objects: Sequence[str], library: str) -> None:
    """Compile the C source of a bundle, and link it with object files.

    Args:
        folder: the bundle; all paths are within it.
        source: the C source.
        objects: the object files.
        library: the shared library to write.

    Raises:
        ExportError: if the compiler is missing or fails.
    """
    strict = f"-Wl,-soname,{Path(library).name},-z,defs,-z,noexecstack"
    command = [*compiler(), *_OPTIONS, source, *objects, "-o", library, strict, "-lm"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MOST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExportError("a shared library", f"{command[0]} failed: {error}") from None
    if done.returncode:
        said = " ".join(done.stderr.split())[-500:]
        raise ExportError(
            "a shared library", f"{command[0]} ended with exit status {done.returncode}: {said}"
        )
