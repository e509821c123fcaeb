"""Corrects how Taichi handles real functions, which it compiles once and which kernels call.

- Taichi takes two kernels of the same code for one. It includes the code of the real functions
  that a kernel calls only if it keeps an offline cache, and not all of it if functions call each
  other in a circle.
- It keeps functions that failed to compile, and those of an earlier ``ti.init``. Kernels then run
  without them, or crash.
- On archs that do not run through LLVM it omits calls of them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import taichi as ti
from taichi.lang import impl, kernel_impl

# Modules that tikgen loads hold a token under this name. Its number follows from their code.
LIFE = "__tikgen_life__"

_LLVM_ARCHS = ("x64", "arm64", "cuda", "amdgpu")


def mend() -> None:
    """Make Taichi distinguish real functions, discard stale ones, and refuse calls it omits."""
    function = ti._lib.core.Function
    _wrap(kernel_impl.Func, "__call__", _call)
    _wrap(kernel_impl.Func, "do_compile", _compile)
    _wrap(function, "set_function_body", _set_body)
    _wrap(kernel_impl, "_get_tree_and_ctx", _read)


def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(owner, name, wrapped)


def _era() -> Any:
    """Return an object that changes with ``ti.init`` and when a function fails to compile."""
    return getattr(impl.pytaichi, "_tikgen_era", impl.pytaichi)


def _call(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    if function.is_real_function:
        era = _era()
        if getattr(function, "_tikgen_era", era) is not era:
            function.compiled, function.taichi_functions = None, {}
            function.func_id = kernel_impl.Func.function_counter
            kernel_impl.Func.function_counter += 1
        function._tikgen_era = era
    return original(function, *args, **kwargs)


def _compile(original: Any, function: Any, *args: Any, **kwargs: Any) -> None:
    arch = ti._lib.core.arch_name(impl.current_cfg().arch)
    if arch not in _LLVM_ARCHS:
        name = function.func.__name__
        problem = f"{name} is a real function, which {arch} does not support; make it a @ti.func"
        raise ti.TaichiCompilationError(problem)
    try:
        original(function, *args, **kwargs)
    except BaseException:
        impl.pytaichi._tikgen_era = object()  # Its callers may seem to be compiled.
        raise


def _set_body(original: Any, function: Any, body: Callable[[], None]) -> None:
    """Make the code of a function part of that of its kernels, with and without a cache."""
    config = impl.current_cfg()
    keeps_cache = config.offline_cache

    def made() -> None:
        body()
        config.offline_cache = True  # Taichi reads it next, before anything else runs.

    try:
        original(function, made)
    finally:
        config.offline_cache = keeps_cache


def _read(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Put the number of its module into a real function, which distinguishes circles of them."""
    tree, context = original(function, *args, **kwargs)
    life = function.func.__globals__.get(LIFE)
    if life is not None and kwargs.get("is_real_function"):
        body = tree.body[0].body
        name = ast.Name("_tikgen_number", ast.Store())
        number = ast.Assign([name], ast.Constant(life.number))
        body.insert(0, ast.fix_missing_locations(ast.copy_location(number, body[0])))
    return tree, context
