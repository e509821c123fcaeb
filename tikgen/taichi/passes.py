"""Chooses the passes that Taichi's compiler takes over a long real function.

Its analysis of reaching definitions, and its search for common subexpressions in a whole kernel,
look at each pair of operations of a function, whereas it splits a kernel into shorter tasks. On cpu
a function of 2,300 operations took 4.5 s with these passes and 1.2 s without, one of 8,000 took
60 s and 4, and ran as fast: LLVM does the same in linear time. On cuda kernels of as many
operations compile in 2 s, and run up to 1.7 times as long without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from taichi.lang import impl

from tikgen.taichi import functions, runtime


@contextlib.contextmanager
def suited_to(kernel: Any) -> Iterator[None]:
    """Compile ``kernel``, of Taichi's own type, without slow passes if that takes long on cpu."""
    life = kernel.func.__globals__.get(functions.LIFE)
    if runtime.current_arch() != "cpu" or life is None or not life.is_long:
        yield
        return
    config = impl.current_cfg()
    level = config.opt_level
    config.opt_level = 0
    try:
        yield
    finally:
        config.opt_level = level
