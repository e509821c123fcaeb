"""The files of a bundle, in a folder or in one archive: opened and checked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from tikgen.aot.manifest import ARCHS, FILE_NAME, File, Manifest, is_altered
from tikgen.aot.manifest_reading import decode, is_inside
from tikgen.disk import TemporaryFolder, path_of, why
from tikgen.errors import BundleError

# A larger bundle is refused, since it would fill the disk.
_MOST_MANIFEST = 1 << 26
_MOST_BYTES = 1 << 32
_CHUNK = 1 << 18
_AGAIN = "export it again"


def bundle_path(path: object) -> Path:
    """Return the path of a bundle, which a user gave."""
    problem = "is no path of a folder or an archive"
    if isinstance(path, str | os.PathLike):
        problem += ": no file name contains a null character"
    return path_of(path, lambda _: BundleError(repr(path)[:80], problem))


class Contents:
    """The files of a bundle; those of an archive are unpacked into a temporary folder if needed.

    Args:
        path: the bundle: a folder, or an archive whose name ends in ``.zip``.

    Raises:
        BundleError: if there is no bundle, or its manifest cannot be used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = bundle_path(path)
        self._files: _Folder | _Archive
        try:
            is_folder, is_file = self.path.is_dir(), self.path.is_file()
        except OSError as error:
            raise BundleError(self.path, f"cannot be read: {why(error)}") from None
        if not is_folder and not is_file:
            raise BundleError(self.path, "does not exist")
        self._files = _Folder(self.path) if is_folder else _Archive(self.path)
        try:
            self.manifest: Manifest = decode(
                b"".join(self._files.read(FILE_NAME, _MOST_MANIFEST)), self.path
            )
        except BaseException:
            self.close()
            raise

    def check(self, folder: str) -> None:
        """Raise :class:`BundleError` if a file in a folder of the bundle is damaged."""
        for name, file in self._below(folder).items():
            _check(self._files, name, file)

    def unpack(self, folder: str = "") -> Path:
        """Return a folder that holds the checked files of a folder such as ``x64``, or all files.

        Raises:
            BundleError: if a file is missing or damaged, or if the disk is full.
        """
        return self._files.unpack(self._below(folder))

    def _below(self, folder: str) -> dict[str, File]:
        prefix = f"{folder}/" if folder else ""
        found = {p: file for p, file in self.manifest.files.items() if p.startswith(prefix)}
        if sum(file.size for file in found.values()) > _MOST_BYTES:
            raise BundleError(self.path, f"claims more than {_MOST_BYTES} bytes")
        return found

    def problems(self) -> list[str]:
        """Return what is wrong with the files, one sentence each."""
        found = [str(BundleError(self.path, text)) for text in self._problems_of_manifest()]
        for path, file in self.manifest.files.items():
            try:
                _check(self._files, path, file)
            except BundleError as error:
                found.append(str(error))
        known = {FILE_NAME, *self.manifest.files}
        for path in sorted(set(self._files.names()) - known):
            problem = f"holds the file {path!r}, which its manifest does not name"
            found.append(str(BundleError(self.path, problem)))
        return found

    def _problems_of_manifest(self) -> Iterator[str]:
        from importlib import metadata  # Loading needs it not.

        if is_altered(b"".join(self._files.read(FILE_NAME, _MOST_MANIFEST))):
            yield f"has a {FILE_NAME} that differs from its digest; {_AGAIN}"
        try:
            here = metadata.version("taichi")
        except metadata.PackageNotFoundError:
            return
        if not self.manifest.native and (problem := taichi_problem(self.manifest.taichi, here)):
            yield problem

    def close(self) -> None:
        """Remove what was unpacked."""
        self._files.close()


def taichi_problem(version: str, here: str) -> str:
    """Return why a bundle of a version of Taichi cannot run with the one here, or nothing."""
    if version.split(".")[:2] == here.split(".")[:2]:
        return ""
    return (
        f"was compiled by Taichi {version}, and the library here is of Taichi {here}: "
        f"install taichi=={version}, or export it again"
    )


def check_all(path: str | os.PathLike[str]) -> list[str]:
    """Return what is wrong with the files of a bundle, one sentence each."""
    try:
        contents = Contents(path)
    except BundleError as error:
        return [str(error)]
    with contextlib.closing(contents):
        return contents.problems()


class _Folder:
    """The files of a bundle that is a folder."""

    def __init__(self, root: Path) -> None:
        self.path = root
        self._real: set[str] = set()

    def names(self) -> Iterator[str]:
        """Yield the path of every file in the folders of a bundle."""
        for folder in (*ARCHS, "sources", "include", "cmake", "lib"):
            for path in (self.path / folder).rglob("*"):
                if path.is_symlink() or not path.is_dir():
                    yield path.relative_to(self.path).as_posix()

    def read(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the content of a file, at most one byte more than ``most``."""
        self._refuse_links(name)
        try:
            with open(f"{self.path}/{name}", "rb") as file:  # noqa: PTH123  # For speed.
                yield from _pieces(file, most)
        except FileNotFoundError:
            raise BundleError(self.path, _missing(name)) from None
        except OSError as error:
            problem = f"has a file {name} that cannot be read: {why(error)}"
            raise BundleError(self.path, problem) from None

    def unpack(self, files: dict[str, File]) -> Path:
        """Return the folder itself, its files checked."""
        for name, file in files.items():
            _check(self, name, file)
        return self.path

    def close(self) -> None:
        """Leave the folder as it is."""

    def _refuse_links(self, name: str) -> None:
        while name and name not in self._real:
            if os.path.islink(f"{self.path}/{name}"):  # noqa: PTH114  # For speed.
                problem = f"has a link in place of {name}, which may lead outside"
                raise BundleError(self.path, problem)
            self._real.add(name)
            name = name.rpartition("/")[0]


class _Archive:
    """The files of a bundle that is one archive."""

    def __init__(self, path: Path) -> None:
        import zipfile  # Bundles in folders load faster without them.
        import zlib

        self.path = path
        # A NotImplementedError is a RuntimeError.
        self._errors = zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError
        self._folder: TemporaryFolder | None = None
        try:
            self._zip = zipfile.ZipFile(path)
        except self._errors as error:
            raise BundleError(path, f"is a damaged archive: {error}; {_AGAIN}") from None
        try:
            self._check_names()
        except BaseException:
            self._zip.close()
            raise

    def _check_names(self) -> None:
        seen: set[str] = set()
        for item in self._zip.infolist():
            name = item.filename
            if item.is_dir():
                name = name.removesuffix("/")
            if not is_inside(name):
                raise BundleError(self.path, f"holds the file {name!r}, which is outside of it")
            if name in seen:
                raise BundleError(self.path, f"holds the file {name!r} twice; {_AGAIN}")
            kind = stat.S_IFMT(item.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BundleError(self.path, f"holds {name!r}, which is neither file nor folder")
            if item.compress_type not in (0, 8) or item.flag_bits & 1:
                raise BundleError(self.path, f"holds {name!r}, encrypted or packed unusually")
            seen.add(name)

    def names(self) -> Iterator[str]:
        """Return the path of every file."""
        return (item.filename for item in self._zip.infolist() if not item.is_dir())

    def read(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the content of a file, at most one byte more than ``most``."""
        try:
            with self._zip.open(name) as file:
                yield from _pieces(cast("BinaryIO", file), most)
        except KeyError:
            raise BundleError(self.path, _missing(name)) from None
        except self._errors as error:
            raise BundleError(self.path, f"has a damaged file {name}: {error}; {_AGAIN}") from None

    def unpack(self, files: dict[str, File]) -> Path:
        """Return a temporary folder with these files, which :meth:`close` removes."""
        import tempfile

        try:
            if self._folder is None:
                self._folder = TemporaryFolder()
            for name, file in files.items():
                target = self._folder.path / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as out:
                    for piece in _checked(self, name, file):
                        out.write(piece)
        except OSError as error:
            problem = f"cannot be unpacked into {tempfile.gettempdir()}: {why(error)}"
            raise BundleError(self.path, problem) from None
        return self._folder.path

    def close(self) -> None:
        self._zip.close()
        if self._folder is not None:
            self._folder.remove()


def _missing(name: str) -> str:
    if name == FILE_NAME:
        return f"is no bundle: it lacks the file {name}"
    return f"lacks the file {name}; {_AGAIN}"


def _pieces(file: BinaryIO, most: int) -> Iterator[bytes]:
    left = most + 1
    while left > 0 and (piece := file.read(min(left, _CHUNK))):
        left -= len(piece)
        yield piece


def _check(files: _Folder | _Archive, name: str, file: File) -> None:
    """Raise :class:`BundleError` if a file differs from the manifest."""
    for _ in _checked(files, name, file):
        pass


def _checked(files: _Folder | _Archive, name: str, file: File) -> Iterator[bytes]:
    """Yield the content of a file; raise BundleError at its end if the manifest differs."""
    digest, size = hashlib.sha256(), 0
    for piece in files.read(name, file.size):
        digest.update(piece)
        size += len(piece)
        yield piece
    if size > file.size:
        problem = f"is longer than the {file.size} bytes"
    elif size < file.size:
        problem = f"has {size} bytes in place of the {file.size}"
    elif digest.hexdigest() != file.sha256:
        problem = "differs from the file"
    else:
        return
    raise BundleError(files.path, f"has a file {name} that {problem} of its manifest; {_AGAIN}")
