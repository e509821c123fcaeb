"""Watches the files of templates, and has kernels rebuilt while they are in use."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tikgen.errors import TikgenError, UnknownTemplate, WatchError
from tikgen.live.rebuilding import Change, rebuild
from tikgen.live.saves import folders_behind, need_watchfiles, wakes
from tikgen.pipeline.kernel import Kernel
from tikgen.template import catalogue
from tikgen.template.base import TEXT_NAME, Template, files_of
from tikgen.template.dependencies import Files

# A file that does not work may be half saved: it is looked at again after so long.
_SETTLE_SECONDS = 0.1
_MOST_CHANGES = 100
_START_SECONDS = _JOIN_SECONDS = 10.0

_lock = threading.Lock()
_running: list[Watcher] = []

Target = Kernel | Template | str | os.PathLike[str]


def watch(*targets: Target, on_change: Callable[[Change], None] | None = None) -> Watcher:
    """Rebuild kernels whenever the files of their templates change.

    A save of ``kernel.py.j2``, of ``template.py`` or of a macro file to which the text leads
    makes all kernels of that template anew, each with the parameters it was built with. Who
    holds or runs such a kernel has the new code from its next call on, which compiles it. Where
    the new code does not work, the kernel keeps the old.

    Args:
        targets: a kernel, a template or its name, the folder of a template, or a folder of
            templates; one or several of these.
        on_change: is called with each change, mostly in the watching thread; by default the
            change is printed to the error stream.

    Returns:
        What watches in the background until :meth:`Watcher.stop`; a context manager as well.

    Raises:
        WatchError: if a target has no files, or is watched already.
        UnknownTemplate: if no template has that name.
        TikgenError: if watchfiles is not installed.
    """
    need_watchfiles()
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
        # Fingerprint of the files of which each template was last made anew, if it worked or not.
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
        """Return the folders of the templates that are watched."""
        found = {path.parent for root in self._roots for path in root.glob(f"*/{TEXT_NAME}")}
        # Unpacked at once: another thread may add to what is known.
        return frozenset([*self._templates, *found, *self._known])

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the changes so far, the last 100 of them."""
        return tuple(self._changes)

    @property
    def is_running(self) -> bool:
        """Tell whether it still watches."""
        return self._thread.is_alive() and not self._stop.is_set()

    def wait(self, timeout: float | None = None) -> Change | None:
        """Return the oldest rebuild that no ``wait`` has returned yet, or None after ``timeout``.

        A refusal of the new code by Taichi, which comes up when the kernel is next called, is
        told to ``on_change`` and stands among :attr:`changes`.

        Args:
            timeout: seconds to wait for one, None for as long as it watches.
        """
        with self._news:
            self._news.wait_for(lambda: self._awaited or self._stop.is_set(), timeout)
            return self._awaited.popleft() if self._awaited else None

    def stop(self) -> None:
        """End watching. Kernels stay as they are; to stop once more does nothing."""
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
        for _ in wakes(lambda: folders_behind(self.folders) | self._roots, self._stop):
            self._look()
            self._is_watching.set()

    def _look(self) -> None:
        """Follow each template whose files hold something else than they did."""
        loaded = {template.folder: template for template in catalogue.loaded_templates()}
        for folder in sorted(self.folders):
            files = files_of(folder)
            known = self._known.get(folder)
            if folder not in loaded:
                self._known[folder] = files
                continue
            is_changed = known is not None and known.fingerprint != files.fingerprint
            # It may also have been loaded, and saved again, since it was last looked at.
            old = {loaded[folder].fingerprint, self._tried.get(folder)}
            if is_changed or files.fingerprint not in old:
                self._follow(folder, known, files)
            else:
                self._known[folder] = files

    def _follow(self, folder: Path, known: Files | None, files: Files) -> None:
        failed = ""  # The state in which it did not work.
        while True:
            changed = files.changed_since(known) if known is not None else ()
            try:
                change = rebuild(folder, changed, self._report)
            except Exception as error:  # Whatever it is, the next save is followed again.
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
    """Tell whether the template in ``folder`` was loaded from what ``files`` holds, if at all."""
    known = [t.fingerprint for t in catalogue.loaded_templates() if t.folder == folder]
    return known in ([], [files.fingerprint])


def _folder_of(target: Target) -> Path:
    """Return the folder of a template, or a folder of templates, that ``target`` means."""
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
        raise WatchError(repr(target)[:80], "is no kernel, template or folder")
    try:
        folder = Path(target).expanduser().resolve()
        folder = folder.parent if folder.name == TEXT_NAME and folder.is_file() else folder
        is_folder = folder.is_dir()
    except (TypeError, OSError, ValueError, RuntimeError) as error:
        raise WatchError(repr(target)[:80], f"is no kernel, template or folder: {error}") from None
    if not is_folder:
        raise WatchError(str(target), "is not a folder")
    if not (folder / TEXT_NAME).is_file() and not any(folder.glob(f"*/{TEXT_NAME}")):
        raise WatchError(str(target), f"is no folder of a template, which holds a {TEXT_NAME}")
    return folder


def _print(change: Change) -> None:
    from rich.console import Console

    colour = "green" if change.rebuilt else "yellow"
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print(
        f"{time.strftime('%H:%M:%S')} {change}", style=colour if change.ok else "red", markup=False
    )
