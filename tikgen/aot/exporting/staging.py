"""Puts a bundle on disk in one step: until then the old bundle stays as it is.

An export to ``path`` fills ``.NAME.ID.tmp`` beside it, and holds a lock on ``.NAME.ID.lock``
meanwhile, which the system releases when the process ends. What has no owner is deleted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tikgen.aot import manifest as m
from tikgen.aot.manifest_reading import decode
from tikgen.disk import why
from tikgen.errors import BundleError

if TYPE_CHECKING:
    import filelock

ARCHIVE = ".zip"
_OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".xz", ".bz2", ".7z", ".tcm")
_LOCK = ".lock"
_LOCK_SECONDS = 600
_LEAST_BYTES = 1 << 20
# What a bundle has beside its manifest, and how an archive begins.
_FOLDERS = {*m.ARCHS, "sources", "proofs", "include", "cmake", "lib"}
_ZIP_BEGIN = b"PK\3\4"
_FIXED_TIME = (2000, 1, 1, 0, 0, 0)  # Same bundle, same bytes.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def is_archive(path: Path) -> bool:
    """Return whether a bundle is one file rather than a folder."""
    return path.suffix == ARCHIVE


@contextlib.contextmanager
def held(file: Path, seconds: float) -> Iterator[None]:
    """Hold the lock on a file, which is made for that and deleted at the end."""
    lock = _acquired(file, seconds)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Some systems delete no file that is open.
            file.unlink()
        lock.release()


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """Yield the name of a folder beside ``path`` that belongs to this process."""
    stem = path.parent / f".{path.name}.{uuid.uuid4().hex[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(Path(f"{stem}{_LOCK}"), 0):
        yield Path(f"{stem}.tmp")


def clear(path: Path) -> None:
    """Delete what exports to ``path`` left beside it, unless a living process owns it."""
    name = re.compile(rf"(\.{re.escape(path.name)}\.[0-9a-f]{{12}})\.(tmp|zip|old|lock)")
    with contextlib.suppress(OSError):
        found = [name.fullmatch(file.name) for file in path.parent.iterdir()]
        for stem in sorted({match[1] for match in found if match}):
            _clear_one(path, path.parent / stem)


def _clear_one(path: Path, stem: Path) -> None:
    import filelock

    with contextlib.suppress(OSError, filelock.Timeout), held(Path(f"{stem}{_LOCK}"), 0):
        shutil.rmtree(f"{stem}.tmp", ignore_errors=True)
        Path(f"{stem}.zip").unlink(missing_ok=True)
        if path.exists():  # Else it is the bundle that was there, moved aside.
            shutil.rmtree(f"{stem}.old", ignore_errors=True)


def _acquired(file: Path, seconds: float) -> filelock.BaseFileLock:
    """Return the lock on a file that other processes may delete at any time."""
    import filelock

    while True:
        lock = filelock.FileLock(file, timeout=seconds)
        with file.open("a") as before:
            lock.acquire()
            # While it is open no other file can have its number.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(before.fileno()), file.stat()):
                    return lock
        lock.release()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes of this user from exporting to ``path``."""
    import filelock

    # Each user has their own files: the lock of another user could not be opened.
    name = hashlib.sha256(f"{Path.home()}:{path.absolute()}".encode()).hexdigest()[:16]
    file = Path(tempfile.gettempdir()) / f"tikgen-export-{name}.lock"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(file, _LOCK_SECONDS))
        except filelock.Timeout:
            problem = f"cannot be written: another export to it is running ({file} is locked)"
            raise BundleError(path, problem) from None
        except OSError as error:
            problem = f"cannot be written: its lock {file} cannot be made ({why(error)})"
            raise BundleError(path, problem) from None
        yield


@contextlib.contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a folder beside ``path`` to fill; delete it, and what killed exports left there."""
    clear(path)
    try:
        with _own_folder(path) as folder:
            try:
                folder.mkdir()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise _disk_error(path, error) from None


def publish(folder: Path, path: Path) -> None:
    """Replace what is at ``path`` by the bundle that was staged in ``folder``."""
    if is_archive(path):
        packed = folder.with_suffix(ARCHIVE)
        try:
            _pack(folder, packed)
            packed.replace(path)
        finally:
            packed.unlink(missing_ok=True)
    elif path.exists():
        _exchange(folder, path)  # What was there is deleted with the staging folder.
    else:
        folder.rename(path)


def check_target(path: Path) -> None:
    """Raise :class:`BundleError` if ``path`` holds something that is not a bundle."""
    if not path.name or path.name in ("..", "."):
        raise BundleError(path, "has no name; give the path of a folder, or of a .zip file")
    if "\0" in str(path):
        raise BundleError(path, "cannot be written: no file name contains a null character")
    if path.suffix in _OTHER_ARCHIVES and not path.is_dir():
        problem = f"ends in {path.suffix}, and a bundle is a folder, or a {ARCHIVE} file"
        raise BundleError(path, problem)
    if is_archive(path):
        if path.is_dir():
            raise BundleError(path, "cannot be written: there is a folder of that name")
        if path.exists() and not _was_archive(path):
            raise BundleError(path, "cannot be replaced: the file holds something else")
        return
    if path.exists() and not path.is_dir():
        raise BundleError(path, "cannot be written: there is a file of that name")
    if path.is_dir() and any(path.iterdir()):
        found = {p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir()}
        file = path / m.FILE_NAME
        if not file.is_file() or _is_foreign(file.read_bytes()):
            raise BundleError(path, "cannot be written: the folder holds something else")
        try:
            known = decode(file.read_bytes(), path).files.keys() | {m.FILE_NAME}
        except BundleError:  # Damaged: files in the folders of a bundle belong to it.
            known = {n for n in found if n == m.FILE_NAME or n.partition("/")[0] in _FOLDERS}
        foreign = sorted(found - known)
        if foreign:
            names = ", ".join(foreign[:3]) + (" and more" if len(foreign) > 3 else "")
            raise BundleError(
                path,
                f"cannot be replaced: the folder holds files that are not the bundle's ({names}); "
                "move them elsewhere",
            )


def files_in(folder: Path) -> dict[str, m.File]:
    """Return size and SHA-256 of every file except the manifest, by path, sorted."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    named = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    named.pop(m.FILE_NAME, None)
    return {n: m.File(hashlib.sha256(d).hexdigest(), len(d)) for n, d in named.items()}


def check_space(folder: Path) -> None:
    """Raise OSError if the disk of ``folder`` is full."""
    if shutil.disk_usage(folder).free < _LEAST_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_foreign(manifest: bytes) -> bool:
    """Return whether a manifest is undamaged and was not written by tikgen."""
    try:
        return "tikgen" not in json.loads(manifest)
    except RecursionError:  # tikgen never nests so deep.
        return True
    except (TypeError, ValueError):
        return False


def _was_archive(path: Path) -> bool:
    """Return whether a file is the archive of a bundle, or a damaged archive."""
    try:
        with zipfile.ZipFile(path) as packed:
            return m.FILE_NAME in packed.namelist()
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            return file.read(len(_ZIP_BEGIN)) in (_ZIP_BEGIN, b"")


def _pack(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _FIXED_TIME)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, path.read_bytes())


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders: in one step if the system can, else in two."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "renameat2"):
            done = library.renameat2(
                _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
            )
            if done == 0:
                return
            if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(other))
    aside = one.with_suffix(".old")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)


def _disk_error(path: Path, error: OSError) -> BundleError:
    before = "; the existing bundle is unchanged" if os.path.lexists(path) else ""
    return BundleError(path, f"cannot be written: {why(error)}{before}")
