"""Functions of a problem whose value is computed once for each problem."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

# Problems whose values are kept, the latest ones: a build asks for those of one or two.
_MOST = 16

_lock = threading.Lock()
# By the id of a problem, with the problem: as long as it is kept nothing else has that id.
_known: dict[int, tuple[Any, dict[Any, Any]]] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def once(function: Function) -> Function:
    """Return a function that computes its value once for each problem, its first argument.

    Further arguments must be hashable. Nobody may change the value.
    """

    @functools.wraps(function)
    def found(p: Any, *rest: Any, **named: Any) -> Any:
        values = _values_of(p)
        key = (function, rest, *named.items())
        try:
            return values[key]
        except KeyError:
            value = values[key] = function(p, *rest, **named)
            return value

    return cast("Function", found)


def _values_of(p: Any) -> dict[Any, Any]:
    known = _known.get(id(p))
    if known is None:
        with _lock:
            known = _known.setdefault(id(p), (p, {}))
            if len(_known) > _MOST:
                del _known[next(iter(_known))]
    return known[1]
