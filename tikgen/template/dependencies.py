"""The files behind a template: its own, and every macro file that its text leads to."""

from __future__ import annotations

import codecs
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MACROS = "_shared"
# A lookahead, since a line may hold several tags.
_REFERENCE = re.compile(
    r"(?:^[ \t]*#%-?|\{%[-+]?)\s*(?:from|import|include|extends)\b(?=\s*(?P<what>.*))", re.M
)
_NAME = re.compile(
    r"""(?P<quote>['"])(?P<name>[^'"]+)(?P=quote)\s*(?:(?:import|as|with|without|ignore)\b|[-+]?%\}|$)"""
)


class Macro(NamedTuple):
    """A macro file: the name by which texts import it, where it lies and what it holds."""

    name: str
    path: Path
    data: bytes


@dataclass(frozen=True)
class Files:
    """What the files of a template held when they were read.

    Attributes:
        contents: for each file its bytes, None where there is no such file: the template's own
            two, further Python files beside them, its macro files, and where nearer macro files of
            the same names would lie.
        macros: the macro files, sorted by name.
        beside: the further Python files, by name without suffix.
    """

    contents: Mapping[Path, bytes | None] = field(repr=False)
    macros: tuple[Macro, ...]
    beside: Mapping[str, bytes] = field(repr=False)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of what was read, wherever it lies."""
        own = list(self.contents.values())[:2]
        named = [(macro.name, macro.data) for macro in self.macros]
        named += [(f"{name}.py", data) for name, data in self.beside.items()]
        return _hash_of(own, named)

    @functools.cached_property
    def code_fingerprint(self) -> str:
        """Return the SHA-256 of the Python files: reference, tolerance, and what data is drawn."""
        own = list(self.contents.values())[1:2]
        return _hash_of(own, [(f"{name}.py", data) for name, data in self.beside.items()])

    def changed_since(self, before: Files) -> tuple[Path, ...]:
        """Return the files that hold something else than they did ``before``, sorted.

        Python files that are new or gone are among them. Macro files that a text alone begins or
        ceases to import are not.
        """
        now, then = self.contents, before.contents
        paths = now.keys() & then.keys() | {
            p for p in now.keys() ^ then.keys() if p.suffix == ".py"
        }
        return tuple(sorted(p for p in paths if now.get(p) != then.get(p)))


def _hash_of(own: Sequence[bytes | None], named: Sequence[tuple[str, bytes | None]]) -> str:
    digest = hashlib.sha256()
    names = [name.encode() for name, _ in named]
    for data in (*own, *names, *(data for _, data in named)):
        digest.update(b"-" if data is None else hashlib.sha256(data).digest())
    return digest.hexdigest()


def read_files(text: Path, code: Path, search_path: Sequence[Path]) -> Files:
    """Return what the files of a template hold now.

    Args:
        text: its Jinja2 text.
        code: its declarations.
        search_path: folders from which texts import, nearest first.
    """
    contents: dict[Path, bytes | None] = {text: _read(text), code: _read(code)}
    macros, nearer = read_macros(contents[text] or b"", search_path, text.parent)
    contents |= dict.fromkeys(nearer) | {macro.path: macro.data for macro in macros}
    beside = {}
    for path in sorted(code.parent.glob("*.py")):
        data = _read(path)
        if path != code and path.stem.isidentifier() and data is not None:
            contents[path] = beside[path.stem] = data
    return Files(contents, macros, beside)


def read_macros(
    text: bytes, search_path: Sequence[Path], folder: Path
) -> tuple[tuple[Macro, ...], tuple[Path, ...]]:
    """Return the macro files that ``text`` leads to, and where nearer ones would lie.

    Where a name is computed, any file beside the text in ``folder`` or among the shared macros
    may be meant, and all of them are returned.
    """
    found: dict[str, Macro] = {}
    absent: dict[Path, None] = {}
    asked: set[str] = set()
    awaiting = list(_references(text, search_path, folder))
    while awaiting:
        name = awaiting.pop()
        if name in asked or ".." in PurePosixPath(name).parts:
            continue
        asked.add(name)
        for root in search_path:
            path = root / name.lstrip("/")
            data = _read(path)
            if data is not None:
                found[name] = Macro(name, path, data)
                awaiting += _references(data, search_path, folder)
                break
            absent[path] = None
    return tuple(sorted(found.values())), tuple(absent)


def _references(data: bytes, search_path: Sequence[Path], folder: Path) -> Iterator[str]:
    """Yield the names of the files that a text imports, includes or extends."""
    for match in _REFERENCE.finditer(data.decode(errors="replace")):
        name = _NAME.match(match["what"].strip())
        if name is not None:
            yield name["name"]
        else:
            for root in search_path:
                for path in (*(root / MACROS).rglob("*.j2"), *folder.glob("*.j2")):
                    if path.is_relative_to(root):
                        yield path.relative_to(root).as_posix()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except (OSError, ValueError):  # Such as a name that the system cannot have.
        return None
