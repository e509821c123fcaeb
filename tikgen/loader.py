"""Turns source into a module, and back into nothing.

Taichi reads the text of a kernel through ``linecache``. The text is put there before it is
executed. The module also stands in ``sys.modules`` with a loader that knows its text, and its
file name has no angle brackets, so that ``linecache.clearcache()`` loses nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import linecache
import sys
import types

from tikgen import taichi_bridge as bridge
from tikgen.errors import KernelCompileError, RenderError
from tikgen.rendering import Source, code_of

PREFIX = "tikgen_rendered."


class TextLoader(importlib.abc.InspectLoader):
    """Knows the text of one rendered module."""

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename

    def get_source(self, fullname: str) -> str:
        """Return the text of the module."""
        return self.text

    def exec_module(self, module: types.ModuleType) -> None:
        """Execute the text in ``module``."""
        exec(code_of(self.text, self.filename), module.__dict__)


def load(source: Source) -> types.ModuleType:
    """Return a new module that holds the kernel of ``source``.

    Raises:
        RenderError: if executing the text fails, naming its template line.
        KernelCompileError: if Taichi refuses the kernel's signature.
    """
    return load_text(source.text, source.filename, source)


def load_text(text: str, filename: str, source: Source) -> types.ModuleType:
    """Return a new module that holds ``text`` under ``filename``."""
    loader = TextLoader(text, filename)
    name = PREFIX + filename.replace(":", "_")
    module = types.ModuleType(name)
    module.__file__ = filename
    module.__loader__ = loader
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader, origin=filename)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except Exception as error:
        unload(module)
        kind = KernelCompileError if isinstance(error, bridge.CompilationError) else RenderError
        number = _line_of(error, filename)
        raise kind(
            source.variant.template.name,
            f"{type(error).__name__}: {error}",
            template_line=source.template_line(number) if number else "",
            rendered_line=f"{number}: {source.line(number).strip()}" if number else "",
            params=source.variant.params,
        ) from None
    return module


def unload(module: types.ModuleType) -> None:
    """Forget ``module``: its kernels in Taichi, its text and its entry in ``sys.modules``."""
    bridge.unload(module)
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]
    if module.__file__ is not None:
        linecache.cache.pop(module.__file__, None)


def entry_of(module: types.ModuleType, name: str) -> object:
    """Return the kernel that ``module`` defines: the only one, or else the one called ``name``.

    Raises:
        KernelCompileError: if the module defines no kernel, or several and none called ``name``.
    """
    kernels = {k: v for k, v in vars(module).items() if bridge.is_kernel(v)}
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
