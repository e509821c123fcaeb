"""Lets the texts of a loader import each other by id, and leaves all other imports to Python."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Find = Callable[[str], types.ModuleType | None]


def builtins_with(find: Find) -> dict[str, Any]:
    """Return the builtins of a module whose ``import`` statements ask ``find`` first.

    Nothing is put into ``sys.modules``, so that no other code can import what a loader holds.

    Args:
        find: returns the module in force under an id, None where there is none. No id is the name
            of an installed module.
    """

    def importing(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        # `import a.b` binds `a`, which such an id has not.
        if level == 0 and (fromlist or "." not in name):
            module = find(name)
            if module is not None:
                return module
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return {**vars(builtins), "__import__": importing}
