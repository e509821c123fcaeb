"""Runs a ``template.py``, and the Python files beside it, as they were read."""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


def module_name(folder: Path) -> str:
    """Return the name under which the ``template.py`` of a folder is imported."""
    return f"tikgen_template_{folder.name}_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def message_of(error: BaseException, folder: Path) -> str:
    """Return the message of an error, which names files of a template instead of modules."""
    text, package = str(error), module_name(folder)
    named = (isinstance(error, ImportError) and error.name) or ""
    root, _, stem = named.partition(".")
    if root == package:
        text = text.replace(f"'{named}'", f"{stem or 'template'}.py")
    return text.replace(f"{package}.", "")


def is_same_template(one: str, other: str) -> bool:
    """Return whether two modules, by name, are files of one template."""
    root = one.partition(".")[0]
    return one == other or (root.startswith("tikgen_template_") and root == other.partition(".")[0])


def run(path: Path, code: bytes, beside: Mapping[str, bytes]) -> types.ModuleType:
    """Return a new module made of the text of a ``template.py``.

    It is a package: ``from .name import ...`` finds the files beside it.

    Args:
        path: the file.
        code: its text.
        beside: texts of the other Python files of its folder, by name without suffix.
    """
    name = module_name(path.parent)
    loader = _Loader(name, path, code, beside)
    spec = ModuleSpec(name, loader, origin=loader.path, is_package=True)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks the module up by name.
    loader.exec_module(module)
    return module


def forget(folder: Path) -> dict[str, types.ModuleType]:
    """Remove the modules of a template from those that were imported, and return them."""
    name = module_name(folder)
    found = [known for known in sys.modules if known == name or known.startswith(f"{name}.")]
    return {known: sys.modules.pop(known) for known in found}


def restore(folder: Path, modules: Mapping[str, types.ModuleType]) -> None:
    """Put back the modules of a template that :func:`forget` has returned."""
    forget(folder)
    sys.modules.update(modules)


class _Loader(importlib.machinery.SourceFileLoader):
    """Knows the text of a file as it was read, whatever the file holds by now.

    Python's cache of compiled files is left aside: it takes two saves of equal length within one
    second for one.
    """

    def __init__(self, name: str, path: Path, code: bytes, beside: Mapping[str, bytes]) -> None:
        super().__init__(name, str(path))
        self._code = code
        self.beside = beside

    def get_data(self, path: str) -> bytes:
        return self._code

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = self.source_to_code(self._code, self.path)
        return code


class _Finder:
    """Finds the files beside a ``template.py`` in what its loader knows."""

    @staticmethod
    def find_spec(name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how a file of a template is loaded, or None for all other modules."""
        package, _, stem = name.rpartition(".")
        known = getattr(sys.modules.get(package), "__loader__", None)
        if not isinstance(known, _Loader) or stem not in known.beside:
            return None
        file = Path(known.path).with_name(f"{stem}.py")
        loader = _Loader(name, file, known.beside[stem], {})
        return importlib.util.spec_from_file_location(name, file, loader=loader)


sys.meta_path.append(_Finder())
