"""Lets Taichi read a kernel in less time; what it makes of it and its messages stay the same.

Taichi quotes the line of every node of a kernel's syntax tree, broken at column 80, whether or not
there is ever a message.
"""

from __future__ import annotations

import functools
from textwrap import TextWrapper

from taichi.lang import kernel_impl
from taichi.lang.ast import ast_transformer_utils

from tikgen.taichi import import_hook

_KEPT = 4096  # Lines of some kernels, and the marks below them.


class _Wrapper(TextWrapper):
    """Breaks lines as its base does, and each text once."""

    def wrap(self, text: str) -> list[str]:
        """Return the lines of a text."""
        return list(wrapped(text, self.width))


@functools.lru_cache(_KEPT)
def wrapped(text: str, width: int) -> tuple[str, ...]:
    """Return the lines of a text, as ``TextWrapper`` breaks it."""
    line = text.rstrip(" \n")
    # Printable, or it might hold other white space, which breaks lines too.
    if len(text) <= width and line.isascii() and line.isprintable():
        return (line,) if line else ()
    return tuple(TextWrapper(width=width).wrap(text))


def mend() -> None:
    """Let Taichi break each line once, and search for no class around a function of a module."""
    ast_transformer_utils.TextWrapper = _Wrapper
    import_hook.spare_search(kernel_impl)  # Taichi may have been there before tikgen.
