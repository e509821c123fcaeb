"""The names under which a loader keeps modules, and those that it refuses."""

from __future__ import annotations

import functools
import importlib.machinery
import re
import sys

from tikgen.errors import InvalidId

_ID = re.compile(r"\w[\w.-]{0,99}")


def check_id(id: object) -> str:
    """Return ``id`` where it can name a module.

    Raises:
        InvalidId: if it is not text, not a plain name, or the name of an installed module.
    """
    if not isinstance(id, str):
        raise InvalidId(id, f"is of type {type(id).__name__}; an id is a str")
    if not _ID.fullmatch(id):
        takes = "letters, digits, '_', '-' and '.', at most 100, the first a letter, digit or '_'"
        raise InvalidId(id if len(id) < 200 else f"{id[:40]}...", f"is no name; it takes {takes}")
    if _is_installed(id.partition(".")[0]):
        raise InvalidId(id, f"is the name of an installed module; take {id + '_kernel'!r}")
    return id


@functools.lru_cache(maxsize=256)
def _is_installed(name: str) -> bool:
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if name in sys.stdlib_module_names or loaded is not None:
        return True
    # Not all of sys.path: a folder beside the user's script is no installed module.
    site = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    spec = importlib.machinery.PathFinder.find_spec(name, site)
    return spec is not None and spec.origin is not None
