"""Says what is wrong with a kernel that was loaded from text, and what is in force instead."""

from __future__ import annotations

import re
import textwrap
from typing import TypeVar

from tikgen.errors import KernelCompileError, TikgenError
from tikgen.pipeline.rendering import Source

Error = TypeVar("Error", bound=TikgenError)


def compile_error(
    source: Source, filename: str, kernel: str, error: Exception
) -> KernelCompileError:
    """Return Taichi's error as one that shows line and column, and the template's line."""
    message = str(error).strip() or type(error).__name__
    if isinstance(error, RecursionError):
        message = "an expression nests too deeply for Taichi; split long chains of operators"
    places = re.findall(rf'File "{re.escape(filename)}", line (\d+)', message)
    number = int(places[-1]) if places else 0
    is_rendered = source.text != source.variant.template.text
    return KernelCompileError(
        source.variant.template.name,
        f"Taichi cannot compile the kernel {kernel}:\n{textwrap.indent(message, '    ')}",
        **source.located(number if is_rendered else 0),
    )


def with_note(error: Error, note: str) -> Error:
    """Return ``error`` with a further line."""
    if note:
        error.args = (f"{error}\n{note}",)
    return error
