"""Launches a compiled kernel over a context that is kept, without Taichi's Python layer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import taichi as ti
from taichi.lang import impl
from taichi.lang._ndarray import Ndarray

from tikgen.taichi import arrays, kernels, runtime


def can_bind() -> bool:
    """Return whether launches over a cached context are proven safe in this epoch."""
    return ti.__version__[:2] == (1, 7) and runtime.is_initialised() and not runtime.is_debug()


def is_differentiating() -> bool:
    """Return whether an autodiff tape must see each launch."""
    program = impl.pytaichi
    return program.target_tape is not None or program.fwd_mode_manager is not None


def is_ordinary(epoch: Any) -> bool:
    """Return whether Taichi was not initialised since ``epoch``, and no tape sees launches."""
    program = impl.pytaichi
    return program is epoch and program.target_tape is None and program.fwd_mode_manager is None


class Launcher:
    """A compiled kernel with a launch context of its own, for one thread and one epoch.

    Arguments stay set from launch to launch, unless a launch leaves the context
    :attr:`is_spent`. On cpu a ``ti.ndarray`` is passed by address, because there a launch
    replaces its handle.
    """

    def __init__(self, kernel: Any, values: Sequence[Any]) -> None:
        self._program = impl.pytaichi.prog
        self._kernel, self._compiled = kernels.ensure_compiled(kernel, values)
        self._by_address = runtime.current_arch() == "cpu"
        # A launch on cuda leaves device addresses in the context: setting an argument then is a
        # SIGSEGV.
        self.is_spent = runtime.current_arch() == "cuda"
        self.renew()

    def renew(self) -> None:
        """Begin a new context, in which no argument is set."""
        self._context = self._kernel.make_launch_context()
        self.launch: Callable[[], None] = functools.partial(
            self._program.launch_kernel, self._compiled, self._context
        )

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``; template arguments have no slot."""
        context, where = self._context, (slot,)
        if isinstance(array, Ndarray) and not self._by_address:
            context.set_arg_ndarray(where, array.arr)
            return
        address, size = arrays.address_of(array)
        context.set_arg_external_array_with_shape(where, address, size, tuple(array.shape), 0)

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""
        name = "float" if is_float else "int" if is_signed else "uint"
        return functools.partial(getattr(self._context, f"set_arg_{name}"), (slot,))
