"""The versions of a text under one id: the current one and earlier ones."""

from __future__ import annotations

import sys
import time
import types
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from tikgen.taichi import arrays, runtime
from tikgen.taichi.freed import freed_in

# Texts kept for each id.
MOST_VERSIONS = 20
# The number of objects of a module that are measured, and types of objects that it does not own.
_MOST_OBJECTS = 10_000
_NOT_COUNTED = (type, types.ModuleType, types.FunctionType)

State = Literal["current", "retired", "withdrawn", "failed"]


@dataclass(frozen=True, repr=False)
class Version:
    """One version of the text under an id.

    Attributes:
        number: counts from 1 for each id; failed attempts count as well.
        text: the text as it was given.
        params: values for the names of a Jinja2 text.
        digest: SHA-256 of the code; empty if the text could not be rendered.
        loaded_at: seconds since 1970.
        state: ``current``; ``retired`` if a later version replaced it; ``withdrawn`` by
            ``rollback``; or ``failed`` if it was refused or could not be compiled.
        error: why it failed.
    """

    number: int
    text: str
    params: Mapping[str, Any]
    digest: str
    loaded_at: float
    state: State
    error: str

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"<Version {self.number}{params}, {self.state}, {self.digest[:16] or 'no code'}>"


class Record:
    """A version in its loader, with its module while it is current, and weakly later."""

    def __init__(self, id: str, number: int, text: str, params: Mapping[str, Any]) -> None:
        self.id = id
        self.number = number
        self.given = given(text, params)
        self.text = text
        self.params = dict(params)
        self.loaded_at = time.time()
        self.digest = ""
        self.state: State = "current"
        self.error = ""
        self.executions = 0
        self.module: types.ModuleType | None = None
        self._weak_module: weakref.ref[types.ModuleType] | None = None
        # What its text imported from the same loader when it was executed.
        self.imported: dict[str, weakref.ref[types.ModuleType]] = {}
        self._epoch: object = None

    def enter(self, module: types.ModuleType) -> None:
        """Make this version current with ``module``."""
        self.state, self.error = "current", ""
        self._weak_module, self.module = weakref.ref(module), module

    def is_outdated(self, find: Callable[[str], types.ModuleType | None]) -> bool:
        """Return whether its text gives another module now: ``find`` returns those by id.

        What it imported was replaced, or its fields were of an earlier ``ti.init``.
        """
        if any(made() is not find(id) for id, made in self.imported.items()):
            return True
        if self.module is not None and runtime.epoch() is not self._epoch:
            if freed_in(vars(self.module)):
                return True
            self._epoch = runtime.epoch()
        return False

    def leave(self, state: State) -> int:
        """Release the module; return how many bytes that may free."""
        module, self.module, self.state = self.module, None, state
        return bytes_in(dict(vars(module))) if module is not None else 0

    def living_module(self) -> types.ModuleType | None:
        """Return the module if it was not freed."""
        return self._weak_module() if self._weak_module is not None else None

    def shown(self) -> Version:
        """Return the version for users."""
        params = types.MappingProxyType(self.params)
        outcome = (self.digest, self.loaded_at, self.state, self.error)
        return Version(self.number, self.text, params, *outcome)


class Versions:
    """The versions of one id, oldest first, of which one is current."""

    def __init__(self, first: Record) -> None:
        self.current = first
        self.records = [first]

    def add(self, record: Record) -> None:
        """Add a version, and discard the oldest if there are too many."""
        self.records.append(record)
        self.records.sort(key=lambda r: r.number)
        if len(self.records) > MOST_VERSIONS:
            self.records.remove(next(r for r in self.records if r is not self.current))

    def before(self, record: Record) -> Record | None:
        """Return the version that precedes ``record``, or None."""
        earlier = [r for r in self.records if r.number < record.number and r.state == "retired"]
        return earlier[-1] if earlier else None


def given(text: str, params: Mapping[str, Any]) -> object:
    """Return a key that is equal for identical texts with identical parameters."""
    return (text, *sorted((name, repr(v)) for name, v in params.items())) if params else text


def bytes_in(names: Mapping[str, object]) -> int:
    """Estimate the bytes of arrays, texts and containers that a module's names keep alive."""
    size = 0
    queue = deque(value for name, value in names.items() if not name.startswith("__"))
    seen: set[int] = set()
    while queue and len(seen) < _MOST_OBJECTS:
        value = queue.popleft()
        if id(value) in seen or isinstance(value, _NOT_COUNTED):
            continue
        seen.add(id(value))
        if isinstance(value, arrays.TaichiArray):
            size += arrays.bytes_of(value)
            continue
        try:  # A foreign object may raise anything.
            nbytes = getattr(value, "nbytes", 0)
            size += max(sys.getsizeof(value, 0), nbytes if isinstance(nbytes, int) else 0)
            inner = getattr(value, "__dict__", None)
        except Exception:
            continue
        if isinstance(value, dict):
            queue.extend(islice(value.values(), _MOST_OBJECTS))
        elif isinstance(value, list | tuple | set):
            queue.extend(islice(value, _MOST_OBJECTS))
        elif isinstance(inner, dict):
            queue.extend(islice(inner.values(), _MOST_OBJECTS))
    return size
