"""Turns text into a module, and back into nothing.

Taichi reads the text of a kernel through ``linecache``. The text is put there before it is
executed, and stays as long as any function of the module lives. A stand-in for the module is in
``sys.modules`` with a loader that knows the text, and the file name has no angle brackets, so
that ``linecache.clearcache()`` loses nothing.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import linecache
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tikgen.errors import KernelCompileError, RenderError
from tikgen.pipeline.rendering import Source, code_of
from tikgen.taichi import functions, runtime
from tikgen.taichi import kernels as taichi_kernels

PREFIX = "tikgen_rendered."
# Hexadecimal ones, so few that they fit into 32 bits.
_DIGITS = 7

# Makes an error of one of Taichi's compiler: takes the kernel's Python function, what Taichi said,
# and whether the kernel was ever compiled.
Explain = Callable[[Any, Exception, bool], Exception]


class Life:
    """Stands among the global names of a module, and so lives as long as any of its functions.

    With it go the text and the stand-in of the module. ``label`` is what the one kernel of the
    module is called in events, if it has but one. ``number`` tells its real functions from those
    of other code, in the eyes of Taichi.
    """

    def __init__(self, filename: str, explain: Explain | None, label: str, digest: str) -> None:
        self.explain = explain
        self.label = label
        self.number = int(digest[:_DIGITS], 16)
        self.end = weakref.finalize(self, _forget, filename)
        self.end.atexit = False


# By file name: modules of the same text may share it.
_lives: weakref.WeakValueDictionary[str, Life] = weakref.WeakValueDictionary()


class TextLoader(importlib.abc.InspectLoader):
    """Knows the text of one module."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        """Return the text of the module."""
        return self.text


def load(source: Source, label: str) -> types.ModuleType:
    """Return a new module that holds the kernel of ``source``, known as ``label`` in events.

    Raises:
        RenderError: if executing the text fails, naming its template line.
        KernelCompileError: if Taichi refuses the kernel's signature.
    """
    return load_text(source.text, source.filename, source, label=label)


def load_text(
    text: str,
    filename: str,
    source: Source,
    names: Mapping[str, Any] | None = None,
    explain: Explain | None = None,
    label: str = "",
) -> types.ModuleType:
    """Return a new module that holds ``text`` under ``filename``.

    Args:
        text: what to execute.
        filename: what no other text was ever loaded under, as long as a function of it lives.
        source: what ``text`` was rendered to, for the message of an error.
        names: what the text finds in its namespace.
        explain: makes the error where a kernel, once launched, cannot be compiled. Such kernels
            compile under the lock whoever launches them.
        label: what its one kernel is called in events.

    Raises:
        RenderError: if executing the text fails, naming its template line.
        KernelCompileError: if Taichi refuses the kernel's signature.
    """
    code = code_of(text, filename)
    module = _module(filename, TextLoader(text))
    vars(module).update(names or {})
    life = vars(module)[functions.LIFE] = _lives.get(filename) or Life(
        filename, explain, label, source.digest
    )
    _lives[filename] = life
    # Not str.splitlines: Python's parser ends lines at fewer characters.
    lines = [line + "\n" for line in text.split("\n")]
    linecache.cache[filename] = (len(text), None, lines, filename)
    try:
        # A text of the user's may do anything, such as to make arrays.
        with runtime.compiling if explain is not None else contextlib.nullcontext():
            _execute(code, module)
    except (Exception, SystemExit) as error:
        unload(module)
        kind = KernelCompileError if isinstance(error, runtime.CompilationError) else RenderError
        number = _line_of(error, filename)
        raise kind(
            source.variant.template.name,
            f"{type(error).__name__}: {error}",
            **source.located(number),
        ) from None
    return module


def _execute(code: types.CodeType, module: types.ModuleType) -> None:
    # Classes such as dataclasses look their module up while they are made; afterwards nothing
    # may keep it alive, and Taichi needs no more of it than its loader.
    sys.modules[module.__name__] = module
    try:
        exec(code, vars(module))
    finally:
        sys.modules[module.__name__] = _module(str(module.__file__), module.__loader__)


def _module(filename: str, loader: Any) -> types.ModuleType:
    name = _name_of(filename)
    module = types.ModuleType(name)
    module.__file__ = filename
    module.__loader__ = loader
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader, origin=filename)
    return module


def _name_of(filename: str) -> str:
    return PREFIX + filename.replace(":", "_")


def unload(module: types.ModuleType) -> None:
    """Forget the text of ``module``: what Taichi compiled still runs, and nothing else does."""
    vars(module)[functions.LIFE].end()


def _forget(filename: str) -> None:
    _lives.pop(filename, None)
    sys.modules.pop(_name_of(filename), None)
    linecache.cache.pop(filename, None)


def entry_of(module: types.ModuleType, name: str) -> Any:
    """Return the kernel that ``module`` defines: the only one, or else the one called ``name``.

    Raises:
        KernelCompileError: if the module defines no kernel, or several and none called ``name``.
    """
    kernels = {k: v for k, v in vars(module).items() if taichi_kernels.is_kernel(v)}
    if len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    found = ", ".join(kernels) or "none"
    raise KernelCompileError(
        name, f"the text must define one @ti.kernel, or one called {name!r}; it defines {found}"
    )


def _line_of(error: BaseException, filename: str) -> int:
    number, frame = 0, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == filename:
            number = frame.tb_lineno
        frame = frame.tb_next
    return number
