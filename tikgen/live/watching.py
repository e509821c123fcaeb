"""Watches the files of templates, and rebuilds their kernels while they are in use."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tikgen.consoles import make_console
from tikgen.errors import InvalidValue, TikgenError, UnknownTemplate, WatchError
from tikgen.live.rebuilding import Change, rebuild
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.template import catalogue
from tikgen.template.base import TEXT_NAME, Template, files_of
from tikgen.template.dependencies import Files

# A file that does not work may be half saved: it is read again after so long.
_SETTLE_SECONDS = 0.1
_MOST_CHANGES = 100
_START_SECONDS = _JOIN_SECONDS = 10.0
# Events are reported once none came for one step, or after the debounce time.
_STEP_MS, _DEBOUNCE_MS = 20, 100
# Files are also compared at this interval, since events get lost, for example on network disks.
_LOOK_MS = 1000
_POLL_SECONDS = 0.2

_lock = threading.Lock()
_running: list[Watcher] = []

Target = Kernel | Template | str | os.PathLike[str]


def watch(*targets: Target, on_change: Callable[[Change], None] | None = None) -> Watcher:
    """Rebuild kernels whenever the files of their templates change.

    A save of ``kernel.py.j2``, of ``template.py`` or of a macro file that the text imports
    rebuilds all kernels of that template with their parameters. The next call of such a kernel
    compiles and runs the new code. If the new code does not work, the kernel keeps the old code.

    Args:
        targets: kernels, templates or their names, folders of a template, or folders of
            templates.
        on_change: is called with each change, mostly in the watching thread; by default the
            change is printed to the error stream.

    Returns:
        A watcher that runs in the background until :meth:`Watcher.stop`; a context manager.

    Raises:
        WatchError: if a target has no files, or is watched already.
        UnknownTemplate: if no template has that name.
        InvalidValue: if ``on_change`` is no function.
        TikgenError: if watchfiles is not installed.
    """
    need_watchfiles()
    if on_change is not None and not callable(on_change):
        problem = f"takes a function of a change; got {on_change!r:.60}"
        raise InvalidValue("watch", {"on_change": problem})
    return Watcher(targets, on_change or _print)


class Watcher:
    """Watches templates in a thread of its own; made by :func:`watch`."""

    def __init__(self, targets: tuple[Target, ...], on_change: Callable[[Change], None]) -> None:
        if not targets:
            raise WatchError("nothing", "takes a kernel, a template or a folder")
        places = [_folder_of(target) for target in targets]
        self._templates = {p for p in places if (p / TEXT_NAME).is_file()}
        self._roots = set(places) - self._templates
        self._on_change = on_change
        self._known: dict[Path, Files] = {}
        # Fingerprint of the files at the last attempt to rebuild each template.
        self._tried: dict[Path, str] = {}
        self._changes: deque[Change] = deque(maxlen=_MOST_CHANGES)
        self._awaited: deque[Change] = deque(maxlen=_MOST_CHANGES)
        self._news = threading.Condition()
        self._stop, self._is_watching = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="tikgen watch", daemon=True)
        with _lock:
            for other in _running:
                for folder in other.folders & self.folders:
                    raise WatchError(folder.name, "is watched already; stop() that watcher first")
            _running.append(self)
        self._thread.start()
        self._is_watching.wait(_START_SECONDS)

    @property
    def folders(self) -> frozenset[Path]:
        """Return the folders of the watched templates."""
        found = {folder for root in self._roots for folder in _templates_in(root)}
        # Unpacked in one step: another thread may add to the known ones.
        return frozenset([*self._templates, *found, *self._known])

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the last 100 changes."""
        return tuple(self._changes)

    @property
    def is_running(self) -> bool:
        """Return whether it still watches."""
        return self._thread.is_alive() and not self._stop.is_set()

    def wait(self, timeout: float | None = None) -> Change | None:
        """Return the oldest rebuild that no ``wait`` has returned yet, or None after ``timeout``.

        Whether Taichi compiles or refuses the new code at the next call of the kernel goes to
        ``on_change`` and :attr:`changes` only.

        Args:
            timeout: seconds to wait, or None to wait as long as it watches.
        """
        with self._news:
            self._news.wait_for(lambda: self._awaited or self._stop.is_set(), timeout)
            return self._awaited.popleft() if self._awaited else None

    def stop(self) -> None:
        """Stop watching. Kernels do not change; a second call does nothing."""
        self._stop.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_SECONDS)
        with _lock:
            if self in _running:
                _running.remove(self)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        names = ", ".join(sorted(folder.name for folder in self.folders))
        state = "running" if self.is_running else "stopped"
        return f"<Watcher of {names}, {state}, {len(self._changes)} changes>"

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            for folder in self._known:
                catalogue.follow(folder, follows=False)

    def _watch(self) -> None:
        for _ in wakes(lambda: folders_behind(self.folders) | self._roots, self._stop):
            self._look()
            self._is_watching.set()

    def _look(self) -> None:
        """Rebuild each template whose files have changed."""
        loaded = {template.folder: template for template in catalogue.loaded_templates()}
        for folder in sorted(self.folders):
            if folder not in self._known:
                catalogue.follow(folder, follows=True)
            files = files_of(folder)
            known = self._known.get(folder)
            if folder not in loaded:
                self._known[folder] = files
                continue
            is_changed = known is not None and known.fingerprint != files.fingerprint
            # It may also have been loaded, and saved again, since the last look.
            old = {loaded[folder].fingerprint, self._tried.get(folder)}
            # Builds take the files as they are, and leave earlier kernels behind.
            is_behind = known is None and any(
                kernel.template.folder == folder
                and kernel.template.fingerprint != files.fingerprint
                for kernel in builder.kernels()
            )
            if is_changed or is_behind or files.fingerprint not in old:
                self._follow(folder, known, files)
            else:
                self._known[folder] = files

    def _follow(self, folder: Path, known: Files | None, files: Files) -> None:
        failed = ""  # Fingerprint of files that did not work.
        while True:
            changed = files.changed_since(known) if known is not None else ()
            try:
                change = rebuild(folder, changed, self._report)
            # Of any kind, since no signal reaches this thread: the next save is followed again.
            except BaseException as error:
                problem = f"{type(error).__name__}: {error}"
                change = Change(folder.name, changed, error=TikgenError(problem))
            self._known[folder] = files
            self._tried[folder] = files.fingerprint
            # Files may have been saved, or half saved, between the two looks at them.
            if not change.ok and failed != files.fingerprint:
                failed = files.fingerprint
                if self._stop.wait(_SETTLE_SECONDS):
                    break
            elif not change.ok or _is_loaded(folder, files):
                break
            files = files_of(folder)
        with self._news:
            self._awaited.append(change)
        self._report(change)

    def _report(self, change: Change) -> None:
        with self._news:
            self._changes.append(change)
            self._news.notify_all()
        try:
            self._on_change(change)
        except Exception:
            print("tikgen watch: on_change fails", file=sys.stderr)
            traceback.print_exc()


def _is_loaded(folder: Path, files: Files) -> bool:
    """Return whether the template in ``folder`` was loaded from ``files``, or not at all."""
    known = [t.fingerprint for t in catalogue.loaded_templates() if t.folder == folder]
    return known in ([], [files.fingerprint])


def _folder_of(target: Target) -> Path:
    """Return the folder of a template, or the folder of templates, for ``target``."""
    if isinstance(target, Kernel):
        return _folder_of(target.template)
    if isinstance(target, Template):
        if not (target.folder / TEXT_NAME).is_file():
            raise WatchError(target.name, "has no file; a kernel from a string cannot be watched")
        return target.folder
    if isinstance(target, str) and os.sep not in target and "/" not in target:
        try:
            return catalogue.find_template(target).folder
        except UnknownTemplate:
            if not Path(target).is_dir():
                raise
    if not isinstance(target, str | os.PathLike):
        raise WatchError(repr(target)[:80], "is not a kernel, template or folder")
    try:
        folder = Path(target).expanduser().resolve()
        folder = folder.parent if folder.name == TEXT_NAME and folder.is_file() else folder
        is_folder = folder.is_dir()
    except (TypeError, OSError, ValueError, RuntimeError) as error:
        problem = f"is not a kernel, template or folder: {error}"
        raise WatchError(repr(target)[:80], problem) from None
    if not is_folder:
        raise WatchError(str(target), "is not a folder")
    if not (folder / TEXT_NAME).is_file() and not any(folder.glob(f"*/{TEXT_NAME}")):
        raise WatchError(str(target), f"is not the folder of a template: it has no {TEXT_NAME}")
    return folder


def _templates_in(root: Path) -> list[Path]:
    """Return the folders of templates in a folder, which may be deleted at any time."""
    try:
        return [path.parent for path in root.glob(f"*/{TEXT_NAME}")]
    except FileNotFoundError:
        return []


def _print(change: Change) -> None:
    colour = "green" if change.rebuilt or change.compiled else "yellow"
    console = make_console(stderr=True, highlight=False, soft_wrap=True)
    console.print(
        f"{time.strftime('%H:%M:%S')} {change}", style=colour if change.ok else "red", markup=False
    )


def need_watchfiles() -> Any:
    """Return the class of watchfiles that watches folders, or raise TikgenError without it."""
    try:
        # Not its function watch(), which does not report when it has begun to watch.
        from watchfiles._rust_notify import RustNotify
    except ImportError:
        raise TikgenError("Watching needs watchfiles: pip install 'tikgen[live]'.") from None
    return RustNotify


def wakes(folders: Callable[[], frozenset[Path]], stop: threading.Event) -> Iterator[None]:
    """Yield once it watches, and then whenever files in ``folders()`` may have changed.

    If the system cannot watch, it yields every 0.2 s. ``stop`` ends the iteration.
    """
    notifier = need_watchfiles()
    while not stop.is_set():
        watched = folders()
        # A folder may have been deleted, and the system may have no watches left.
        with (
            contextlib.suppress(OSError, RuntimeError),
            notifier([str(f) for f in watched], False, False, 0, False, True) as notify,
        ):
            changes: Any = ()
            while not stop.is_set() and not any(Path(path) in watched for _, path in changes):
                yield
                if folders() != watched:
                    break
                changes = notify.watch(_DEBOUNCE_MS, _STEP_MS, _LOOK_MS, stop)
                if changes == "signal":
                    raise KeyboardInterrupt
                if isinstance(changes, str):  # A timeout, or the end.
                    changes = ()
            continue
        yield
        stop.wait(_POLL_SECONDS)


def folders_behind(templates: Iterable[Path]) -> frozenset[Path]:
    """Return the folders of the files of ``templates``, or their nearest existing parents."""
    found = set()
    for template in templates:
        for path in files_of(template).contents:
            folder = path.parent
            while not folder.is_dir():
                folder = folder.parent
            found.add(folder)
    return frozenset(found)
