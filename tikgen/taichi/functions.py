"""Mends what Taichi does with real functions, which it compiles once and kernels call.

Written for Taichi 1.7.4, the private names of which it touches as ``taichi_bridge`` does.

- Taichi takes kernels of the same code for one. Of the real functions that a kernel calls it reads
  the code only where it keeps an offline cache, and not all of it where functions call each other
  in a circle.
- It keeps functions that failed to compile, and those of an earlier ``ti.init``: kernels then run
  without them, or crash.
- On archs that do not run through LLVM it leaves calls of them out.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import taichi as ti
from taichi.lang import impl, kernel_impl

# Modules that tikgen loads hold a token under this name, whose number goes with their code.
LIFE = "__tikgen_life__"

_LLVM_ARCHS = ("x64", "arm64", "cuda", "amdgpu")


def mend() -> None:
    """Have Taichi tell real functions apart, forget them when it must, and refuse what it omits."""
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
    """Return an object that changes with ``ti.init``, and whenever a function fails to compile."""
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
        problem = f"{name} is a real function, which {arch} has not; make it a @ti.func"
        raise ti.TaichiCompilationError(problem)
    try:
        original(function, *args, **kwargs)
    except BaseException:
        impl.pytaichi._tikgen_era = object()  # Those that call it may seem to be compiled.
        raise


def _set_body(original: Any, function: Any, body: Callable[[], None]) -> None:
    """Have the code of a function count among that of its kernels, whatever cache there is."""
    config = impl.current_cfg()
    keeps_cache = config.offline_cache

    def made() -> None:
        body()
        config.offline_cache = True  # Taichi looks at it next, before anything else runs.

    try:
        original(function, made)
    finally:
        config.offline_cache = keeps_cache


def _read(original: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Put the number of its module into a real function, which tells circles of them apart."""
    tree, context = original(function, *args, **kwargs)
    life = function.func.__globals__.get(LIFE)
    if life is not None and kwargs.get("is_real_function"):
        body = tree.body[0].body
        name = ast.Name("_tikgen_number", ast.Store())
        number = ast.Assign([name], ast.Constant(life.number))
        body.insert(0, ast.fix_missing_locations(ast.copy_location(number, body[0])))
    return tree, context
