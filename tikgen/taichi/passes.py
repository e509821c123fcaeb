"""Chooses the passes that Taichi's compiler takes over a long real function.

Taichi splits a kernel into tasks before it optimises them, but not a real function. The time of two
passes, the analysis of reaching definitions and the search for common subexpressions in a whole
kernel, grows with the square of its operations. On cpu a function of 2,300 took 4.5 s with these
passes and 1.2 s without, one of 8,000 took 60 s and 4 s; launches took 0.8 to 1.2 of the time, as
LLVM optimises the code anyway. On cuda kernels of as many operations compile in 2 s, and take up to
1.7 times as long without.
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
