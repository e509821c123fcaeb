"""Loads text as a module, and unloads it.

Taichi reads the text of a kernel through ``linecache``. The text is put there before it is
executed, and stays as long as any function of the module lives. ``linecache.clearcache()`` loses
nothing: a stand-in for the module is in ``sys.modules`` with a loader that has the text, and the
file name has no angle brackets.
"""

from __future__ import annotations
import __future__

import contextlib
import functools
import importlib.abc
import importlib.machinery
import linecache
import re
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tikgen.errors import KernelCompileError, RenderError, TemplateError
from tikgen.pipeline.budget import has_long_function
from tikgen.pipeline.rendering import Source, code_of
from tikgen.taichi import functions, runtime
from tikgen.taichi.kernels import is_kernel

PREFIX = "tikgen_rendered."
# Hexadecimal digits of the number of a module, which fits into 32 bits.
_DIGITS = 7

# Returns the error to raise if a kernel cannot be compiled: takes the kernel's Python function,
# Taichi's error, and whether the kernel was ever compiled.
Explain = Callable[[Any, Exception, bool], Exception]


class Life:
    """A token among the global names of a module, which lives as long as any of its functions.

    The text and the stand-in of the module are removed with it. ``label`` is the name of the
    module's only kernel in events, if it has one. ``number`` distinguishes its real functions
    from those of other code.
    """

    def __init__(self, filename: str, explain: Explain | None, label: str, digest: str) -> None:
        self.explain = explain
        self.label = label
        self.number = int(digest[:_DIGITS], 16)
        self._filename = filename
        self.end = weakref.finalize(self, _discard, filename)
        self.end.atexit = False

    @functools.cached_property
    def is_long(self) -> bool:
        """Return whether Taichi takes long to compile its real functions with all passes."""
        return has_long_function("".join(linecache.getlines(self._filename)))


# By file name: modules of the same text may share a token.
_lives: weakref.WeakValueDictionary[str, Life] = weakref.WeakValueDictionary()


class _TextLoader(importlib.abc.InspectLoader):
    """Has the text of one module."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        return self.text


def load(source: Source, label: str) -> types.ModuleType:
    """Return a new module with the kernel of ``source``, named ``label`` in events."""
    module = load_text(source.text, source.filename, source, label=label)
    try:
        _check_taken(source, module)
    except BaseException:
        unload(module)
        raise
    return module


def load_text(
    text: str,
    filename: str,
    source: Source,
    names: Mapping[str, Any] | None = None,
    explain: Explain | None = None,
    label: str = "",
) -> types.ModuleType:
    """Return a new module with ``text`` under ``filename``.

    Args:
        text: the text to execute.
        filename: a name that no other text has while a function of this one lives.
        source: the rendered source of ``text``, for the message of an error.
        names: global names for the text.
        explain: returns the error to raise if a kernel cannot be compiled at a launch. Such
            kernels always compile under the lock.
        label: name of its only kernel in events.

    Raises:
        RenderError: if executing the text fails, naming its template line.
        KernelCompileError: if Taichi refuses the kernel's signature.
    """
    code = code_of(text, filename)
    module = _module(filename, _TextLoader(text))
    vars(module).update(names or {})
    life = vars(module)[functions.LIFE] = _lives.get(filename) or Life(
        filename, explain, label, source.digest
    )
    _lives[filename] = life
    # Not str.splitlines, which ends lines at more characters than Python's parser does.
    lines = [line + "\n" for line in text.split("\n")]
    linecache.cache[filename] = (len(text), None, lines, filename)
    try:
        # A user's text may do anything, such as allocate arrays.
        with runtime.compiling if explain is not None else contextlib.nullcontext():
            _execute(code, module)
    except (Exception, SystemExit) as error:
        unload(module)
        kind = KernelCompileError if isinstance(error, runtime.CompilationError) else RenderError
        number = _line_of(error, filename)
        is_missing = isinstance(error, NameError) and getattr(error, "name", "") in ("ti", "tm")
        hint = "; import it in the text: import taichi as ti" if is_missing else ""
        is_text = code.co_flags & __future__.annotations.compiler_flag
        if is_text and "Invalid type annotation" in str(error):
            hint = (
                "; with from __future__ import annotations it is text, which Taichi does not read: "
                "remove that import"
            )
        raise kind(
            source.variant.template.name,
            f"{type(error).__name__}: {error}{hint}",
            **source.located(number),
        ) from None
    return module


def _execute(code: types.CodeType, module: types.ModuleType) -> None:
    # Dataclasses need their module in sys.modules while they are defined. Afterwards nothing may
    # keep it alive, and Taichi needs only its loader.
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
    """Discard the text of ``module``; code that Taichi compiled still runs."""
    vars(module)[functions.LIFE].end()


def _discard(filename: str) -> None:
    _lives.pop(filename, None)
    sys.modules.pop(_name_of(filename), None)
    linecache.cache.pop(filename, None)


def entry_of(module: types.ModuleType, name: str) -> Any:
    """Return the only kernel that ``module`` defines, or else the one called ``name``."""
    kernels = {k: v for k, v in vars(module).items() if is_kernel(v)}
    if len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    found = ", ".join(kernels) or "none"
    if not kernels and (methods := _kernels_in_classes(module)):
        found += f"; methods such as {methods[0]} are not taken: define a function of the module"
    raise KernelCompileError(
        name, f"the text must define one @ti.kernel, or one called {name!r}; it defines {found}"
    )


def _kernels_in_classes(module: types.ModuleType) -> list[str]:
    """Return the kernels that are methods of the classes that ``module`` defines."""
    return [
        f"{each.__name__}.{name}"
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__
        for name, value in vars(each).items()
        if is_kernel(value)
    ]


def _check_taken(source: Source, module: types.ModuleType) -> None:
    """Raise :class:`TemplateError` where a text takes other arguments than are declared.

    Calls pass them by place, so that their order matters as well.
    """
    variant = source.variant
    if not variant.arguments:  # A user's own text declares none.
        return
    code = entry_of(module, variant.template.name).__wrapped__.__code__
    takes = code.co_varnames[: code.co_argcount]
    given = (*variant.arguments, *variant.numbers, *variant.workspace)
    declared = tuple(argument.name for argument in given)
    if takes == declared:
        return
    fewer = [name for name in declared if name not in takes]
    more = [name for name in takes if name not in declared]
    told = [f"it lacks {', '.join(fewer)}"] if fewer else []
    told += [f"{', '.join(more)} is not declared"] if more else []
    methods = "arguments() declares"
    if variant.workspace:
        methods = "arguments() and workspace() declare"
    line = source.template_line(code.co_firstlineno)
    raise TemplateError(
        variant.template.name,
        f"the kernel's text takes {', '.join(takes) or 'nothing'}, but {methods} "
        f"{', '.join(declared)}: {' and '.join(told) or 'their order differs'}"
        f"{f' ({line})' if line else ''}",
    )


def line_in(message: str, filename: str) -> int:
    """Return the last line of a file that a message of Taichi names, or 0."""
    places = re.findall(rf'File "{re.escape(filename)}", line (\d+)', message)
    return int(places[-1]) if places else 0


def _line_of(error: BaseException, filename: str) -> int:
    number, frame = 0, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == filename:
            number = frame.tb_lineno
        frame = frame.tb_next
    return number
