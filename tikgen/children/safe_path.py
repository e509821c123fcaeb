"""The import path of child processes: never the working directory unless it was requested."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE_PARENT = str(Path(__file__).parents[2])
# Runs first in the process, with the working directory still in front: it imports only ``sys``,
# which is built in.
_BEGIN = """\
import sys
sys.path[:] = {path!r}
sys.argv = sys.argv[1:]
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module as ``python -P -m`` does, on every Python."""
    return [sys.executable, "-c", _BEGIN.format(path=importable()), module, *arguments]


def environment() -> dict[str, str]:
    """Return the environment of such a process, without empty entries of PYTHONPATH."""
    found = {**os.environ, "ENABLE_TAICHI_HEADER_PRINT": "0"}
    if "PYTHONPATH" in found:
        found["PYTHONPATH"] = os.pathsep.join(_named())
    return found


def importable() -> list[str]:
    """Return the folders from which this process imports, without the working directory.

    Relative entries are dropped, such as the empty one of ``python -c``, and the working directory
    if ``python -m MODULE`` added it without finding the module there, or an empty entry of
    PYTHONPATH did. The folder of a script stays.
    """
    found = [entry for entry in sys.path if isinstance(entry, str) and Path(entry).is_absolute()]
    unasked = _unasked()
    found = [entry for entry in found if entry not in unasked]
    if _PACKAGE_PARENT not in found:
        found.insert(0, _PACKAGE_PARENT)
    return list(dict.fromkeys(found))


def _unasked() -> set[str]:
    try:
        here = Path.cwd()
    except FileNotFoundError:  # It was deleted.
        return set()
    named = _named()
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_elsewhere = main is not None and not _was_found_in(here, main.name, main.origin)
    if str(here) in map(os.path.abspath, named) or not (is_elsewhere or "" in _entries()):
        return set()
    return {str(here)}


def _named() -> list[str]:
    """Return the entries of PYTHONPATH that are not empty."""
    return [entry for entry in _entries() if entry]


def _entries() -> list[str]:
    variable = os.environ.get("PYTHONPATH")
    return variable.split(os.pathsep) if variable else []


def _was_found_in(folder: Path, module: str, origin: str | None) -> bool:
    """Return whether a module, or its package, is in ``folder``."""
    parents = Path(origin or "").absolute().parents
    depth = module.count(".")
    return depth < len(parents) and parents[depth] == folder
