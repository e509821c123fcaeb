"""What tikgen changes in Taichi, once, as soon as Taichi is imported."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from taichi.lang import impl, kernel_impl
from taichi.lang._ndarray import Ndarray
from taichi.lang.exception import handle_exception_from_cpp
from taichi.lang.field import Field

from tikgen.errors import TaichiNotInitialised, WrongThread
from tikgen.taichi import functions as taichi_functions
from tikgen.taichi import runtime
from tikgen.taichi.functions import LIFE as LIFE


def _stamp_on_create() -> None:
    create, numbers = impl.PyTaichi.create_program, itertools.count(1)

    @functools.wraps(create)
    def stamping(self: Any) -> None:
        runtime.refuse_fork("ti.init")
        create(self)
        self._tikgen_thread = threading.get_ident()
        self._tikgen_number = next(numbers)

    impl.PyTaichi.create_program = stamping


# Arrays and fields. Taichi gives no way to ask an array which ti.init it belongs to, and
# launching with a stale field can kill the process. So their makers stamp them with the epoch.


def _stamp_on_init(owner: type) -> None:
    make: Callable[..., None] = owner.__init__  # type: ignore[misc]

    @functools.wraps(make)
    def stamping(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._tikgen_epoch = impl.pytaichi

    owner.__init__ = stamping  # type: ignore[misc]


if not hasattr(Ndarray.__init__, "__wrapped__"):
    _stamp_on_init(Ndarray)
    _stamp_on_init(Field)
    _stamp_on_create()
    taichi_functions.mend()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: runtime.after_fork())
epoch_at_import = impl.pytaichi


# Modules whose text may be replaced. Their global names hold a token under LIFE: the token dies
# with the last function of the module. Taichi holds every kernel for ever, but those it must not.


class _WeakKernel(weakref.ref):  # type: ignore[type-arg]
    """Stands for a kernel in Taichi's list of all kernels, and does not keep it alive."""

    __slots__ = ()

    def reset(self) -> None:
        """Have the kernel, where it lives, compiled anew; Taichi asks for it in ``ti.init``."""
        kernel = self()
        if kernel is not None:
            kernel.reset()

    @property
    def compiled_kernels(self) -> dict[Any, Any]:
        """Return the instances of the kernel, none where it died."""
        kernel = self()
        return {} if kernel is None else kernel.compiled_kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self(), name)


# Handles of kernels that died. They leave the list when the next one comes, not while Taichi
# may be walking through it.
_dead_kernels: collections.deque[Any] = collections.deque()


class _LiveKernel(kernel_impl.Kernel):  # type: ignore[misc]
    """A kernel that compiles under the lock, and tells the token of its module of a failure."""

    _was_compiled = False

    def ensure_compiled(self, *args: Any) -> Any:
        """Return the key of the instance for ``args``, compiling it where that is due."""
        number = self.mapper.mapping.get(self.mapper.extract(args))
        key = (self.func, number, self.autodiff_mode)
        if key in self.compiled_kernels:
            self.runtime.materialize()
            return key
        with runtime.compiling:
            try:
                return self._compile(args)
            except _CannotCompile as caught:
                error = caught.args[0]
        # Not under the lock: whoever is told may have to load other code.
        raise self.func.__globals__[LIFE].explain(self.func, error, self._was_compiled) from None

    def _compile(self, args: Sequence[Any]) -> Any:
        if not runtime.is_initialised():
            runtime.refuse_fork(self.func.__name__)
            raise TaichiNotInitialised(self.func.__name__)
        if not runtime.may_materialise():
            raise WrongThread(self.func.__name__)
        self.runtime.materialize()
        number, features = self.mapper.lookup(args)  # Raises where an argument does not fit.
        key = (self.func, number, self.autodiff_mode)
        try:
            self.materialize(key=key, args=args, arg_features=features)
            program = impl.pytaichi.prog
            instance = self.compiled_kernels[key]
            program.compile_kernel(program.config(), program.get_device_caps(), instance)
        except Exception as error:
            self.compiled_kernels.pop(key, None)
            raise _CannotCompile(handle_exception_from_cpp(error)) from None
        self._was_compiled = True
        return key


class _CannotCompile(Exception):
    """Carries the error of Taichi's compiler past those that are the caller's fault."""


def _adopt_on_init() -> None:
    make = kernel_impl.Kernel.__init__

    @functools.wraps(make)
    def adopting(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        life = getattr(self.func, "__globals__", {}).get(LIFE)
        if life is not None:
            # One step at a time, each of them atomic: other threads may be adding kernels.
            kernels = impl.pytaichi.kernels
            kernels.append(_WeakKernel(self, _dead_kernels.append))
            kernels.remove(self)
            with contextlib.suppress(IndexError, ValueError):
                while True:
                    kernels.remove(_dead_kernels.popleft())
            if life.explain is not None:
                self.__class__ = _LiveKernel

    kernel_impl.Kernel.__init__ = adopting
    kernel_impl.Kernel._tikgen_adopts = True


if not hasattr(kernel_impl.Kernel, "_tikgen_adopts"):
    _adopt_on_init()
