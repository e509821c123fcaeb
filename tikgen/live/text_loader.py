"""Loads text as modules, and replaces them while their kernels run."""

from __future__ import annotations

import builtins
import functools
import gc
import itertools
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import taichi as ti

from tikgen.errors import CheckFailed, InvalidText, NoEarlierVersion, TikgenError, UnknownId
from tikgen.live.texts import check_id, compile_error, prepare, with_note
from tikgen.live.versions import Record, State, Version, Versions, given
from tikgen.pipeline import events
from tikgen.pipeline.loader import load_text
from tikgen.pipeline.rendering import Source

# More bytes of garbage are collected immediately, which takes about 10 ms.
_MOST_GARBAGE = 16_000_000
_numbers = itertools.count(1)


class Loader:
    """Modules by id, each of which can be replaced while its kernels run.

    A new text takes effect as a whole or not at all: it is parsed, executed and checked before it
    replaces the old one. If one of its kernels cannot be compiled at the first launch, the
    previous version takes effect again. References to a replaced module or its kernels keep
    running the old code. Every method may be called from any thread.

    The Python objects of a replaced module are freed with the last reference to it; modules with
    more than 16 MB of data are collected immediately. Taichi keeps compiled code until ``ti.init``
    or ``ti.reset`` and reuses the memory then: about 130 kB on cpu and 180 kB on Vulkan for each
    small kernel that was launched.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        # Held briefly: no user code runs and nothing compiles under it.
        self._lock = threading.RLock()
        self._loaded: OrderedDict[str, Versions] = OrderedDict()  # Last loaded last.
        self._latest: str | None = None
        self._versions_made: dict[str, int] = {}
        self._unnamed: dict[object, str] = {}
        self._unnamed_made = 0
        self._garbage = 0
        # Ids whose first version has a kernel that cannot be compiled, for a notebook to take.
        self.failed_first: set[str] = set()

    def load(
        self,
        text: str,
        id: str | None = None,
        *,
        check: Callable[[types.ModuleType], object] | None = None,
        **params: Any,
    ) -> types.ModuleType:
        """Load a text as the module under ``id`` and return it.

        The text is plain Python with kernels, ``ti.func``, data-oriented classes and anything else
        that a module may contain, or Jinja2 that renders to it. ``ti``, ``np`` and ``tm``
        (``taichi.math``) are in scope, and other loaded texts can be imported by their ids. Common
        indentation is removed; lines keep their numbers. A text that is identical to the current
        one, parameters included, is not loaded again, unless a text that it imports was replaced,
        or ``ti.init`` freed fields that it made.

        Args:
            text: the text to load.
            id: the name of the module, which may not be that of an installed module; by default
                ``kernel_0``, ``kernel_1`` and so on.
            check: is called with the new module before it takes effect; it may launch kernels. If
                it raises or returns False, the text is refused.
            params: values for the names of a Jinja2 text, as :func:`tikgen.from_string` takes.

        Raises:
            InvalidId: if the id holds anything but letters, digits, ``_``, ``-`` and ``.``, begins
                with one of the last two, is longer than 100, or names an installed module.
            InvalidText: if the text cannot be a module: empty, huge, binary, not Python.
            ParameterError: if a parameter is unknown or could carry code.
            RenderError: if the text is malformed Jinja2, or fails when it is executed.
            KernelCompileError: if Taichi refuses a kernel's signature.
            CheckFailed: if ``check`` refuses the module.
        """
        return self._look_up(text, id, params) or self._load(text, id, check, params)

    def rollback(self, id: str) -> types.ModuleType:
        """Return to the version before the current one, and return its module.

        Raises:
            UnknownId: if nothing is loaded under ``id``.
            NoEarlierVersion: if there is no earlier version.
            RenderError: if its module was freed, and executing the text again fails.
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
                note = f"Version {current.number} of {id!r} is still current."
                raise with_note(error, note) from error.__cause__
            if self._replace(current, previous, module, "withdrawn"):
                return module

    def history(self, id: str) -> tuple[Version, ...]:
        """Return the last 20 versions of ``id``, oldest first, including failed ones."""
        with self._lock:
            return tuple(record.shown() for record in self._versions(id).records)

    def cleanup_all(self) -> None:
        """Unload every module. Modules and kernels that are still referenced run on."""
        with self._lock:
            for id in list(self._loaded):
                self._drop(id)
        gc.collect()

    def __getitem__(self, id: str | None) -> types.ModuleType:
        """Return the module under ``id``, or the one loaded last for None.

        Raises:
            UnknownId: if there is none.
        """
        while True:  # The module may be replaced between the two look-ups.
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
        """Iterate over the ids, last loaded last."""
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

    def _look_up(
        self, text: str, id: str | None, params: dict[str, Any]
    ) -> types.ModuleType | None:
        """Return the current module if it has this very text."""
        if type(text) is not str or not (id is None or type(id) is str):
            return None
        wanted = given(text, params)
        versions = self._loaded.get(self._unnamed.get(wanted, "") if id is None else id)
        current = versions.current if versions is not None else None
        if current is None or current.given != wanted:
            return None
        if current.is_outdated(functools.partial(_current_module, weakref.ref(self))):
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
        if id is None and type(text) is str:  # An outdated one keeps its id.
            id = self._unnamed.get(given(text, params))
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
                # The text that was submitted last stays, even if it was ready first.
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
            # Numbers continue after `del`, since no file name may ever have two texts.
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
        record.imported = {}
        find = functools.partial(_imported_module, weakref.ref(self), record.imported)
        names = {"ti": ti, "np": np, "tm": ti.math, "__builtins__": _builtins_with(find)}
        start = time.perf_counter()
        module = load_text(source.text, filename, source, names, explain)
        seconds = time.perf_counter() - start
        subject = events.Subject(record.id, filename, 1, "live")
        events.emit("load", subject, start, seconds, file=filename)
        return module

    def _revive(self, record: Record) -> types.ModuleType:
        """Return the module of an earlier version, executed again if it was freed."""
        return record.living_module() or self._execute(record)

    def _replace(
        self, current: Record, previous: Record, module: types.ModuleType, state: State
    ) -> bool:
        """Replace ``current`` by ``previous``, unless it was replaced already."""
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
        """Record that ``record`` failed; return a sentence about the current version."""
        with self._lock:
            versions = self._loaded.get(record.id)
            if not isinstance(error, InvalidText):  # Which may be of any type and size.
                record.state, record.error = "failed", str(error)
                # The traceback keeps its objects alive: collect them at the next text.
                self._garbage += _MOST_GARBAGE
                if versions is not None:
                    versions.add(record)
            if versions is None:
                return ""
            return f"Version {versions.current.number} of {record.id!r} is still current."

    def go_back(self, record: Record, error: Exception) -> str:
        """Return to the version before ``record``, of which a kernel cannot be compiled.

        Returns a sentence about it, or an empty string if ``record`` is not current.
        """
        with self._lock:
            versions = self._loaded.get(record.id)
            if versions is None or versions.current is not record:
                return ""
            previous = versions.before(record)
        if previous is None:
            self.failed_first.add(record.id)
            return ""
        try:
            module = self._revive(previous)
        except TikgenError as failure:
            return f"Version {previous.number} could not be loaded again: {failure}"
        if not self._replace(record, previous, module, "failed"):
            return ""
        record.error = str(error)
        return f"Version {previous.number} of {record.id!r} is current again."

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


class MetaKernelLoader(Loader):
    """A :class:`Loader` with the interface of taichi-meta's ``MetaKernelLoader``."""

    def compile_and_load(self, kernel_code: str, kernel_id: str | None = None) -> types.ModuleType:
        """Load a text and return its module; see :meth:`Loader.load`.

        Args:
            kernel_code: a module with kernels.
            kernel_id: the name of the module; ``kernel_<n>`` by default.
        """
        return self.load(kernel_code, kernel_id)

    @property
    def kernel_cache(self) -> OrderedDict[str, types.ModuleType]:
        """Return the modules by id, last loaded last."""
        return OrderedDict((id, self[id]) for id in self)

    @property
    def current_kernel_id(self) -> str | None:
        """Return the id that was loaded last, or None if nothing is loaded."""
        return self._latest

    @property
    def kernel_counter(self) -> int:
        """Return the number of the next default id."""
        return self._unnamed_made


def _current_module(loader: weakref.ref[Loader], id: str) -> types.ModuleType | None:
    """Return the module under ``id``, or None if there is none or the loader was freed."""
    owner = loader()
    versions = owner._loaded.get(id) if owner is not None else None
    return versions.current.module if versions is not None else None


def _imported_module(
    loader: weakref.ref[Loader], imported: dict[str, weakref.ref[types.ModuleType]], id: str
) -> types.ModuleType | None:
    """Return the module under ``id`` as :func:`_current_module` does, and note it."""
    module = _current_module(loader, id)
    if module is not None:
        imported[id] = weakref.ref(module)
    return module


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
    """Return the error of a kernel; restore the previous version if it was never compiled."""
    owner = loader()
    explained = compile_error(source, filename, function.__name__, error)
    note = owner.go_back(record, explained) if owner is not None and not was_compiled else ""
    return with_note(explained, note)


def _builtins_with(find: Callable[[str], types.ModuleType | None]) -> dict[str, Any]:
    """Return the builtins of a module whose ``import`` statements call ``find`` first.

    Loaded texts are not in ``sys.modules``, so that no other code can import them.
    """

    def importing(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        # `import a.b` binds `a`, which is not loaded under such an id.
        if level == 0 and (fromlist or "." not in name):
            module = find(name)
            if module is not None:
                return module
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return {**vars(builtins), "__import__": importing}
