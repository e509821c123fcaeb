"""Loads text as modules, and replaces them while their kernels run."""

from __future__ import annotations

import functools
import gc
import itertools
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import taichi as ti

from tikgen.errors import CheckFailed, InvalidText, NoEarlierVersion, TikgenError, UnknownId
from tikgen.live.diagnosis import compile_error, with_note
from tikgen.live.ids import check_id
from tikgen.live.imports import builtins_with
from tikgen.live.texts import prepare
from tikgen.live.versions import Record, State, Version, Versions, given
from tikgen.pipeline import events
from tikgen.pipeline.loader import load_text
from tikgen.pipeline.rendering import Source

# Garbage of more bytes than this is collected at once, which takes some 10 ms.
_MOST_GARBAGE = 16_000_000
_numbers = itertools.count(1)


class Loader:
    """Modules by id, each of which can be replaced while its kernels run.

    A new text comes into force as a whole or not at all: it is parsed, executed and checked, and
    only then takes the place of the old one. Where a kernel of a new text cannot be compiled at
    its first launch, the version before comes back. Whoever holds a module or a kernel that was
    replaced keeps running the old code. Every method may be called from any thread.

    Python's objects of a replaced module go with the last reference to it; modules that held more
    than 16 MB are collected at once. Taichi itself keeps what it compiled: about 130 kB on cpu and
    180 kB on Vulkan for each small kernel that was launched, until ``ti.init`` or ``ti.reset``;
    what it compiles next then takes that memory.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        # Held for a moment only: nobody's code runs, and nothing compiles, under this lock.
        self._lock = threading.RLock()
        self._loaded: OrderedDict[str, Versions] = OrderedDict()  # The last one loaded stands last.
        self._latest: str | None = None
        self._versions_made: dict[str, int] = {}
        self._unnamed: dict[object, str] = {}
        self._unnamed_made = 0
        self._garbage = 0

    def load(
        self,
        text: str,
        id: str | None = None,
        *,
        check: Callable[[types.ModuleType], object] | None = None,
        **params: Any,
    ) -> types.ModuleType:
        """Return the module that a text makes, which is from now on the one under ``id``.

        The text is plain Python with kernels, ``ti.func``, data-oriented classes and whatever else
        a module may hold, or Jinja2 that renders to it. It finds ``ti``, ``np`` and ``tm``
        (``taichi.math``) in scope, and imports what is loaded by its id. Its common indentation is
        taken out; its lines keep their numbers. A text that is identical to the one in force,
        parameters included, is looked up.

        Args:
            text: what to load.
            id: the name under which to keep it, which may not be that of an installed module;
                without it ``kernel_0``, ``kernel_1`` and so on.
            check: is called with the new module before it comes into force; it may launch
                kernels. The text is refused where it raises or returns False.
            params: values for the names of a Jinja2 text, as :func:`tikgen.from_string` takes.

        Raises:
            InvalidId: if the id is no name or the name of an installed module.
            InvalidText: if the text cannot be a module: empty, huge, binary, not Python.
            ParameterError: if a parameter is unknown or could carry code.
            RenderError: if the text is malformed Jinja2, or fails when it is executed.
            KernelCompileError: if Taichi refuses a kernel's signature.
            CheckFailed: if ``check`` refuses the module.
        """
        return self._look_up(text, id, params) or self._load(text, id, check, params)

    def rollback(self, id: str) -> types.ModuleType:
        """Return to the version before the one in force, and return its module.

        Raises:
            UnknownId: if nothing is loaded under ``id``.
            NoEarlierVersion: if there is none.
            RenderError: if nobody holds its module, and executing the text again fails.
        """
        while True:
            with self._lock:
                current = self._versions(id).current
                previous = self._versions(id).before(current)
            if previous is None:
                raise NoEarlierVersion(id, current.number)
            try:
                module = self._revive(previous)
            except TikgenError as error:
                note = f"Version {current.number} of {id!r} is still in force."
                raise with_note(error, note) from error.__cause__
            if self._replace(current, previous, module, "withdrawn"):
                return module

    def history(self, id: str) -> tuple[Version, ...]:
        """Return the last 20 versions of ``id``, oldest first, those that failed among them."""
        with self._lock:
            return tuple(record.shown() for record in self._versions(id).records)

    def cleanup_all(self) -> None:
        """Unload everything. Modules and kernels that somebody holds still run."""
        with self._lock:
            for id in list(self._loaded):
                self._drop(id)
        gc.collect()

    def __getitem__(self, id: str | None) -> types.ModuleType:
        """Return the module under ``id``; that which was loaded last for None.

        Raises:
            UnknownId: if there is none.
        """
        while True:  # A module that leaves between two looks makes way for another one.
            module = self._versions(id).current.module
            if module is not None:
                return module

    def __delitem__(self, id: str) -> None:
        with self._lock:
            self._drop(self._versions(id).current.id)
        gc.collect()

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and id in self._loaded

    def __len__(self) -> int:
        return len(self._loaded)

    def __iter__(self) -> Iterator[str]:
        """Go through the ids; the one that was loaded last comes last."""
        with self._lock:
            return iter(list(self._loaded))

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup_all()

    def __repr__(self) -> str:
        with self._lock:
            held = [f"{id} (version {v.current.number})" for id, v in self._loaded.items()]
        return f"<{type(self).__name__} of {', '.join(held) or 'nothing'}>"

    # How it does it.

    def _look_up(
        self, text: str, id: str | None, params: dict[str, Any]
    ) -> types.ModuleType | None:
        """Return the module in force if it has this very text."""
        if type(text) is not str or not (id is None or type(id) is str):
            return None
        wanted = given(text, params)
        versions = self._loaded.get(self._unnamed.get(wanted, "") if id is None else id)
        current = versions.current if versions is not None else None
        if current is None or current.given != wanted:
            return None
        self._come_last(current.id)
        return current.module

    def _load(
        self,
        text: str,
        id: str | None,
        check: Callable[[types.ModuleType], object] | None,
        params: dict[str, Any],
    ) -> types.ModuleType:
        self._collect()
        record = self._begin(text, id, params)
        try:
            module = self._execute(record)
            if check is not None:
                _run_check(check, module, record.id)
        except TikgenError as error:
            raise with_note(error, self._refuse(record, error)) from error.__cause__
        record.enter(module)
        with self._lock:
            if id is None:
                self._unnamed[record.given] = record.id
            versions = self._loaded.get(record.id)
            if versions is None:
                self._loaded[record.id] = Versions(record)
            else:
                versions.add(record)
                # The text that was handed in last stays, even if it was the first to be ready.
                overtaken = record.number < versions.current.number
                outgoing = record if overtaken else versions.current
                versions.current = versions.current if overtaken else record
                self._garbage += outgoing.leave("retired")
            self._come_last(record.id)
        self._collect()
        return module

    def _begin(self, text: str, id: str | None, params: dict[str, Any]) -> Record:
        if id is not None:
            check_id(id)
        with self._lock:
            while id is None:
                name = f"kernel_{self._unnamed_made}"
                self._unnamed_made += 1
                id = None if name in self._versions_made else name
            # Numbers go on after `del`, since no file name may ever have two texts.
            number = self._versions_made[id] = self._versions_made.get(id, 0) + 1
        return Record(id, number, text, params)

    def _execute(self, record: Record) -> types.ModuleType:
        """Return a new module with the text of ``record``."""
        filename = f"tikgen-live:{record.id}:{self._number}.{record.number}"
        filename += f"+{record.executions}" if record.executions else ""
        record.executions += 1
        source = prepare(record.text, record.params, record.id, filename)
        record.digest = source.digest
        explain = functools.partial(_explain, weakref.ref(self), record, source, filename)
        find = functools.partial(_in_force, weakref.ref(self))
        names = {"ti": ti, "np": np, "tm": ti.math, "__builtins__": builtins_with(find)}
        start = time.perf_counter()
        module = load_text(source.text, filename, source, names, explain)
        if events.is_on():
            seconds = time.perf_counter() - start
            subject = events.Subject(record.id, filename, 1, "live")
            events.emit("load", subject, start, seconds, file=filename)
        return module

    def _revive(self, record: Record) -> types.ModuleType:
        """Return the module of an earlier version: the one that somebody holds, or a new one."""
        return record.living_module() or self._execute(record)

    def _replace(
        self, current: Record, previous: Record, module: types.ModuleType, state: State
    ) -> bool:
        """Let ``previous`` take the place of ``current``, unless something else did already."""
        with self._lock:
            versions = self._loaded.get(current.id)
            if versions is None or versions.current is not current:
                return False
            previous.enter(module)
            versions.current = previous
            self._garbage += current.leave(state)
        self._collect()
        return True

    def _refuse(self, record: Record, error: TikgenError) -> str:
        """Note that ``record`` failed; return what is to be said about the version in force."""
        with self._lock:
            versions = self._loaded.get(record.id)
            if not isinstance(error, InvalidText):  # Which may be anything, and of any size.
                record.state, record.error = "failed", str(error)
                # What it made hangs on the traceback: collect it when the next text comes.
                self._garbage += _MOST_GARBAGE
                if versions is not None:
                    versions.add(record)
            if versions is None:
                return ""
            return f"Version {versions.current.number} of {record.id!r} is still in force."

    def go_back(self, record: Record, error: Exception) -> str:
        """Return to the version before ``record``, a kernel of which cannot be compiled.

        Returns what is to be said about it; nothing where ``record`` is not in force.
        """
        with self._lock:
            versions = self._loaded.get(record.id)
            if versions is None or versions.current is not record:
                return ""
            previous = versions.before(record)
        if previous is None:
            return ""
        try:
            module = self._revive(previous)
        except TikgenError as failure:
            return f"Version {previous.number} could not be loaded again: {failure}"
        if not self._replace(record, previous, module, "failed"):
            return ""
        record.error = str(error)
        return f"Version {previous.number} of {record.id!r} is in force again."

    def _versions(self, id: str | None) -> Versions:
        wanted = self._latest if id is None else id
        versions = self._loaded.get(wanted) if isinstance(wanted, str) else None
        if versions is None:
            raise UnknownId(id, self)
        return versions

    def _come_last(self, id: str) -> None:
        if id != self._latest:
            with self._lock:
                if id in self._loaded:
                    self._loaded.move_to_end(id)
                    self._latest = id

    def _drop(self, id: str) -> None:
        self._loaded.pop(id).current.leave("retired")
        self._unnamed = {key: name for key, name in self._unnamed.items() if name != id}
        self._latest = next(reversed(self._loaded), None)

    def _collect(self) -> None:
        if self._garbage >= _MOST_GARBAGE:
            self._garbage = 0
            gc.collect()


def _in_force(loader: weakref.ref[Loader], id: str) -> types.ModuleType | None:
    """Return the module under ``id``, None where there is none or the loader is gone."""
    owner = loader()
    versions = owner._loaded.get(id) if owner is not None else None
    return versions.current.module if versions is not None else None


def _run_check(
    check: Callable[[types.ModuleType], object], module: types.ModuleType, id: str
) -> None:
    try:
        passed = check(module)
    except TikgenError:
        raise
    except Exception as error:
        raise CheckFailed(id, error) from error
    if isinstance(passed, bool | np.bool_) and not passed:
        raise CheckFailed(id, ValueError("it returned False"))


def _explain(
    loader: weakref.ref[Loader],
    record: Record,
    source: Source,
    filename: str,
    function: Any,
    error: Exception,
    was_compiled: bool,
) -> Exception:
    """Return the error for a kernel that cannot be compiled, and go back where it never was."""
    owner = loader()
    told = compile_error(source, filename, function.__name__, error)
    note = owner.go_back(record, told) if owner is not None and not was_compiled else ""
    return with_note(told, note)
