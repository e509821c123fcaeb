"""What changes of the loops of a kernel make of it, as code."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import taichi as ti

from tikgen.taichi import trees


def rewritten(
    rewrite: Callable[[ast.Module, Any, dict[str, Any]], None],
    arrays: Mapping[str, tuple[Any, int]],
    code: str,
    names: dict[str, Any] | None = None,
) -> str:
    """Return what is made of the code of a kernel.

    Args:
        rewrite: the change.
        arrays: dtype and number of axes of each argument.
        code: the statements of the kernel.
        names: names that Taichi finds in it; those of the change are added.
    """
    arguments = [
        SimpleNamespace(name=name, annotation=ti.types.ndarray(*kind))
        for name, kind in arrays.items()
    ]
    tree = ast.parse(f"def work({', '.join(arrays)}):\n{textwrap.indent(code, '    ')}")
    names = {} if names is None else names
    names.setdefault("ti", ti)
    rewrite(tree, SimpleNamespace(arguments=arguments), names)
    function = trees.function_of(tree)
    assert function is not None
    return "\n".join(map(ast.unparse, function.body))


def as_text(code: str, names: Mapping[str, Any]) -> str:
    """Return code with the names that a text has for Taichi and for dtypes."""
    for name, value in names.items():
        if "_dtype_" in name:
            code = code.replace(name, f"ti.{value.to_string()}")
    return code.replace("tikgen_ti.", "ti.")
