"""The content-addressed store: JSON documents on disk, by kind and key.

An entry is the file ``<folder>/<kind>/<first two characters>/<key>.json`` with the SHA-256 of its
document. Entries are replaced atomically. Problems with the disk never stop a caller: a damaged
entry reads as missing, and one that cannot be written is kept in memory.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import inspect
import json
import os
import re
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tikgen import untrusted
from tikgen.disk import why
from tikgen.errors import StoreError, StoreWarning

ENVIRONMENT_VARIABLE = "TIKGEN_CACHE_DIR"

Document = dict[str, Any]

# What tikgen keeps in the store.
KINDS = ("code", "compiling", "evidence", "sources", "tuning")

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_LOCK_SECONDS = 60
# An older temporary file belongs to a process that died while writing.
_ABANDONED_SECONDS = 3600

_PACKAGE = str(Path(__file__).parent) + os.sep

_warned: set[tuple[Path, str]] = set()
_default: Store | None = None


class Store:
    """Keeps documents in a folder that any number of processes share.

    Args:
        folder: the folder, which the first write creates.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = _expanded(folder)
        # Entries that could not be written, as JSON; newer than those on disk.
        self._memory: dict[tuple[str, str], str] = {}

    def read(self, kind: str, key: str) -> Document | None:
        """Return the document under ``key``, or None if it is missing or damaged.

        Raises:
            StoreError: if ``kind`` or ``key`` is not a plain name.
        """
        path = self._path(kind, key)
        if (kind, key) in self._memory:
            return _document(self._memory[kind, key])
        try:
            return _document(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn_of_disk(error)
        except ValueError as error:
            self._warn("damaged", f"{path} is damaged ({error}); it will be written again")
        return None

    def write(self, kind: str, key: str, document: Document) -> None:
        """Write ``document`` under ``key``, replacing any other.

        Raises:
            StoreError: if ``kind`` or ``key`` is not a plain name, or ``document`` is not JSON.
        """
        path = self._path(kind, key)
        text = _entry(kind, key, document)
        try:
            self._make(path.parent)
            _replace(path, text)
        except OSError as error:
            self._warn_of_disk(error)
            self._memory[kind, key] = text
        else:
            self._memory.pop((kind, key), None)

    def update(
        self, kind: str, key: str, change: Callable[[Document | None], Document]
    ) -> Document:
        """Replace the document under ``key`` by ``change`` of it, under a lock of all processes.

        Returns the new document.

        Raises:
            StoreError: if ``kind`` or ``key`` is not a plain name, or the document is not JSON.
        """
        self._path(kind, key)
        with self._locked():
            document = change(self.read(kind, key))
            self.write(kind, key, document)
        return document

    def remove(self, kind: str, key: str) -> None:
        """Remove the document under ``key``, if there is one.

        Raises:
            StoreError: if ``kind`` or ``key`` is not a plain name.
        """
        path = self._path(kind, key)
        self._memory.pop((kind, key), None)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._warn_of_disk(error)

    def keys(self, kind: str) -> tuple[str, ...]:
        """Return the keys of all entries of ``kind``, sorted."""
        _check_name("kind", kind)
        on_disk = {path.stem for path in self._files(kind)}
        return tuple(sorted(on_disk | {key for k, key in self._memory if k == kind}))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return (number of entries, bytes on disk) for each kind that has entries."""
        found = {}
        for kind in self._kinds():
            count = len(self.keys(kind))
            if count:
                found[kind] = (count, sum(_size(path) for path in self._files(kind)))
        return found

    def clear(self, kind: str | None = None) -> int:
        """Remove the entries of ``kind``, or all entries; return their number."""
        kinds = self._kinds() if kind is None else (kind,)
        before = sum(len(self.keys(k)) for k in kinds)
        if not before:
            return 0
        with self._locked():
            try:
                for name in kinds:
                    for path in (*self._files(name), *self._abandoned(name)):
                        path.unlink(missing_ok=True)
            except OSError as error:
                self._warn_of_disk(error)
        for known in [k for k in self._memory if k[0] in kinds]:
            del self._memory[known]
        return before - sum(len(self.keys(k)) for k in kinds)

    def _path(self, kind: str, key: str) -> Path:
        _check_name("kind", kind)
        _check_name("key", key)
        return self.folder / kind / key[:2] / f"{key}.json"

    def _make(self, folder: Path) -> None:
        if self.folder.parts[:1] and self.folder.parts[0].startswith("~"):
            raise FileNotFoundError(errno.ENOENT, "there is no such home folder")
        folder.mkdir(parents=True, exist_ok=True)

    def _kinds(self) -> tuple[str, ...]:
        found = {kind for kind, _ in self._memory}
        try:
            found |= {p.name for p in self.folder.iterdir() if _NAME.fullmatch(p.name)}
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn_of_disk(error)
        return tuple(sorted(found))

    def _files(self, kind: str) -> Iterator[Path]:
        """Yield the files that hold the entries of ``kind``."""
        try:
            yield from (p for p in self.folder.glob(f"{kind}/*/*.json") if _NAME.fullmatch(p.stem))
        except OSError as error:
            self._warn_of_disk(error)

    def _abandoned(self, kind: str) -> Iterator[Path]:
        for path in self.folder.glob(f"{kind}/*/.*.tmp"):
            if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                yield path

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder, if the disk supports it."""
        import filelock  # Most runs never lock.

        lock = filelock.FileLock(self.folder / ".lock", timeout=_LOCK_SECONDS)
        try:
            self._make(self.folder)
            lock.acquire()
        except (OSError, NotImplementedError) as error:
            self._warn_of_disk(error)
        try:
            yield
        finally:
            lock.release()

    def _warn_of_disk(self, error: Exception) -> None:
        self._warn("disk", f"cannot be used ({why(error)}); results are kept in memory meanwhile")

    def _warn(self, trouble: str, message: str) -> None:
        """Warn once for each kind of trouble."""
        if (self.folder, trouble) not in _warned:
            _warned.add((self.folder, trouble))
            text = f"Store {self.folder}: {message}"
            warnings.warn(text, StoreWarning, stacklevel=_outer_level())

    def __repr__(self) -> str:
        return f"<Store {self.folder}>"


def default_store() -> Store:
    """Return the store in the folder ``TIKGEN_CACHE_DIR``, or else in the user's cache."""
    global _default
    folder = _expanded(os.environ.get(ENVIRONMENT_VARIABLE) or _user_folder())
    if _default is None or _default.folder != folder:
        _default = Store(folder)
    return _default


@functools.cache
def _user_folder() -> str:
    import platformdirs

    return platformdirs.user_cache_dir("tikgen")


def _expanded(folder: str | os.PathLike[str]) -> Path:
    """Return ``folder`` with ``~`` expanded, if the home folder is known."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        return Path(folder)


def _outer_level() -> int:
    """Return the ``stacklevel`` of a warning that points to the caller of tikgen."""
    frame = inspect.currentframe()
    level = 0
    while frame and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return level


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise StoreError(
            f"{name!r} cannot be a {what} of the store: it must have 1 to 128 letters, digits, "
            "'.', '_' and '-', and not begin with a dot."
        )


def _entry(kind: str, key: str, document: Document) -> str:
    """Return the text of the file that holds ``document``."""
    try:
        text = _canonical(untrusted.checked(document))
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"The document {kind}/{key} is not JSON: {error}.") from None
    return f'{{"document":{text},"sha256":"{_checksum(text)}"}}'


def _document(text: str) -> Document:
    """Return the document in ``text``, or raise ValueError."""
    entry = untrusted.from_json(text)
    if not isinstance(entry, dict) or not isinstance(entry.get("document"), dict):
        raise ValueError("it has no document")
    document: Document = entry["document"]
    if entry.get("sha256") != _checksum(_canonical(document)):
        raise ValueError("its checksum does not match")
    return document


def _canonical(document: Document) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
