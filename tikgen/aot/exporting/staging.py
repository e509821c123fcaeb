"""Puts a bundle on disk in one step: whatever happens before, the old bundle stays whole."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tikgen.aot import manifest as m
from tikgen.aot.exporting import leftovers
from tikgen.aot.manifest_reading import decode
from tikgen.disk import why
from tikgen.errors import BundleError

ARCHIVE = ".zip"
_LOCK_SECONDS = 600
_LEAST_BYTES = 1 << 20
# What a bundle has beside its manifest, and how an archive begins.
_FOLDERS = {*m.ARCHS, "sources", "proofs", "include", "cmake"}
_ZIP_BEGIN = b"PK\3\4"
_FIXED_TIME = (2000, 1, 1, 0, 0, 0)  # Same bundle, same bytes.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def is_archive(path: Path) -> bool:
    """Tell whether a bundle is one file rather than a folder."""
    return path.suffix == ARCHIVE


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes of this user from exporting to ``path`` meanwhile.

    Raises:
        BundleError: if another one goes on exporting to it.
    """
    import filelock

    # Each user has files of their own: the lock of another one could not be opened.
    name = hashlib.sha256(f"{Path.home()}:{path.absolute()}".encode()).hexdigest()[:16]
    file = Path(tempfile.gettempdir()) / f"tikgen-export-{name}.lock"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(leftovers.held(file, _LOCK_SECONDS))
        except filelock.Timeout:
            problem = f"cannot be written: another export to it is going on ({file} is locked)"
            raise BundleError(path, problem) from None
        except OSError as error:
            problem = f"cannot be written: its lock {file} cannot be made ({why(error)})"
            raise BundleError(path, problem) from None
        yield


@contextlib.contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Give a folder beside ``path`` to fill, and delete what is left of it in the end.

    What exports that were killed have left there is deleted as well.

    Raises:
        BundleError: if the disk is full, or cannot be written.
    """
    leftovers.clear(path)
    try:
        with leftovers.own_folder(path) as folder:
            try:
                folder.mkdir()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise _disk_error(path, error) from None


def publish(folder: Path, path: Path) -> None:
    """Let the bundle that was staged in ``folder`` take the place of what is at ``path``."""
    if is_archive(path):
        packed = folder.with_suffix(ARCHIVE)
        try:
            _pack(folder, packed)
            packed.replace(path)
        finally:
            packed.unlink(missing_ok=True)
    elif path.exists():
        _exchange(folder, path)  # What was there is deleted where the new one was.
    else:
        folder.rename(path)


def check_target(path: Path) -> None:
    """Raise unless a bundle may be put at ``path``: nothing that is no bundle may be lost.

    Raises:
        BundleError: saying what is there.
    """
    if not path.name or path.name in ("..", "."):
        raise BundleError(path, "has no name; give the path of a folder, or of a .zip file")
    if is_archive(path):
        if path.is_dir():
            raise BundleError(path, "is to be a file, and there is a folder of that name")
        if path.exists() and not _was_archive(path):
            raise BundleError(path, "cannot be replaced: the file holds something else")
        return
    if path.exists() and not path.is_dir():
        raise BundleError(path, "is to be a folder, and there is a file of that name")
    if path.is_dir() and any(path.iterdir()):
        found = {p.relative_to(path).as_posix() for p in path.rglob("*") if not p.is_dir()}
        file = path / m.FILE_NAME
        if not file.is_file() or _is_foreign(file.read_bytes()):
            raise BundleError(path, "cannot be written: the folder holds something else")
        try:
            known = decode(file.read_bytes(), path).files.keys() | {m.FILE_NAME}
        except BundleError:  # Damaged: files where a bundle has them are a bundle's.
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
    """Return size and SHA-256 of every file but the manifest, by path, sorted."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    named = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}
    named.pop(m.FILE_NAME, None)
    return {n: m.File(hashlib.sha256(d).hexdigest(), len(d)) for n, d in named.items()}


def check_space(folder: Path) -> None:
    """Raise the error of a full disk, if the disk of ``folder`` is full."""
    if shutil.disk_usage(folder).free < _LEAST_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_foreign(manifest: bytes) -> bool:
    """Tell whether a file of this common name is whole, and none of tikgen's."""
    try:
        return "tikgen" not in json.loads(manifest)
    except RecursionError:  # No tikgen writes what is so deep.
        return True
    except (TypeError, ValueError):
        return False


def _was_archive(path: Path) -> bool:
    """Tell whether a file is an archive of a bundle, or what is left of one."""
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
    """Exchange two folders in one step where the system can, else in two."""
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
    before = "; the bundle that was there stays as it was" if os.path.lexists(path) else ""
    return BundleError(path, f"cannot be written: {why(error)}{before}")
