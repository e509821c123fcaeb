"""Engines: who compiles a kernel and launches it.

``taichi`` is Taichi itself, which is always there and is the reference. ``direct-cpu`` takes the
code that Taichi makes for a processor, compiles it for the processor at hand, and launches it
without Taichi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tikgen.engines.argument_struct import Kind
    from tikgen.engines.direct_cpu import Code, DirectLauncher

TAICHI, DIRECT_CPU = "taichi", "direct-cpu"
ENGINES = (TAICHI, DIRECT_CPU)


class AnyLauncher(Protocol):
    """Launches one kernel over a context in which its arguments stay set."""

    launch: Callable[[], None]
    is_spent: bool

    def renew(self) -> None:
        """Begin a new context, in which no argument is set."""

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``."""

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""


def problem(engine: str) -> str:
    """Return why an engine cannot be used on this machine, or an empty string."""
    if engine == TAICHI:
        return ""
    if engine != DIRECT_CPU:
        return f"there is none of that name; take one of {', '.join(ENGINES)}"
    from tikgen.engines import native, thread_pool

    return native.problem() or thread_pool.problem()


def compiled(text: str, kinds: Sequence[Kind]) -> Code:
    """Return the machine code of a kernel.

    Args:
        text: the LLVM text that Taichi makes of it for the processor.
        kinds: dtype and number of axes of each argument.

    Raises:
        ValueError: if the code cannot run without Taichi; the message says why.
    """
    from tikgen.engines.direct_cpu import Code

    return Code(text, kinds)


def launcher(code: Code, threads: int) -> DirectLauncher:
    """Return a launcher for machine code, whose parallel loops run in ``threads`` threads."""
    from tikgen.engines.direct_cpu import DirectLauncher

    return DirectLauncher(code, threads)
