"""Methods that all processes of a grid call: an error on one of them is one on all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tikgen.grid.domain import Domain

_Method = TypeVar("_Method", bound=Callable[..., Any])


def of_all(method: _Method) -> _Method:
    """Return a method of which an error on one process is one on all, so that none waits.

    Afterwards all have as many fields as before.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        domain: Domain = self._domain
        fields, told = domain.fields, f"grid.{method.__name__}(...)"
        try:
            with domain.processes.refusing(told):
                return method(self, *args, **kwargs)
        except Exception:
            domain.fields = fields
            raise

    return cast("_Method", call)
