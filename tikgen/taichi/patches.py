"""What tikgen changes in Taichi, once, right after Taichi is imported.

Taichi cannot say which ``ti.init`` an array belongs to, and a launch with a stale field can kill
the process. So arrays, fields and runtimes get a stamp when they are made. When an array or a pack
of arguments of an earlier ``ti.init`` is deleted, Taichi frees the one that now lies where the old
one was: so only those of the current one are freed.

Taichi also keeps every kernel forever. The kernels of a module that tikgen loads are held weakly
instead: a token among the module's global names, under ``LIFE``, lives as long as its functions.
"""

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
from taichi.lang._ndarray import Ndarray, ScalarNdarray
from taichi.lang.argpack import ArgPack
from taichi.lang.exception import handle_exception_from_cpp
from taichi.lang.field import Field

from tikgen.errors import ArgumentError, TaichiNotInitialised, WrongThread
from tikgen.taichi import functions, reading, runtime, stores

epoch_at_import = impl.pytaichi
# Handles of kernels that died. They leave Taichi's list when the next kernel comes, not while
# Taichi may be iterating over it.
_dead_kernels: collections.deque[Any] = collections.deque()


def _stamp_runtimes() -> None:
    create, numbers = impl.PyTaichi.create_program, itertools.count(1)

    @functools.wraps(create)
    def stamping(self: Any) -> None:
        runtime.refuse_fork("ti.init")
        create(self)
        self._tikgen_thread = threading.get_ident()
        self._tikgen_number = next(numbers)

    impl.PyTaichi.create_program = stamping


def _stamp_instances(owner: type) -> None:
    make: Callable[..., None] = owner.__init__  # type: ignore[misc]

    @functools.wraps(make)
    def stamping(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._tikgen_epoch = impl.pytaichi

    owner.__init__ = stamping  # type: ignore[misc]


def _free_current_only(owner: Any) -> None:
    free = owner.__del__

    @functools.wraps(free)
    def freeing(self: Any) -> None:
        made = self.__dict__.get("_tikgen_epoch", epoch_at_import)
        if impl is not None and made is impl.pytaichi:
            free(self)

    owner.__del__ = freeing


class _WeakKernel(weakref.ref):  # type: ignore[type-arg]
    """Stands for a kernel in Taichi's list of all kernels without keeping it alive."""

    __slots__ = ()

    def reset(self) -> None:
        """Discard the compiled code of a living kernel, as ``ti.init`` does."""
        kernel = self()
        if kernel is not None:
            kernel.reset()

    @property
    def compiled_kernels(self) -> dict[Any, Any]:
        kernel = self()
        return {} if kernel is None else kernel.compiled_kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self(), name)


class _LiveKernel(kernel_impl.Kernel):  # type: ignore[misc]
    """A kernel that compiles under the lock, and reports a failure to the token of its module."""

    _was_compiled = False

    def ensure_compiled(self, *args: Any) -> Any:
        """Return the key of the instance for ``args``, after compiling it if necessary."""
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
        # Not under the lock: it may have to load other code.
        life = self.func.__globals__[functions.LIFE]
        raise life.explain(self.func, error, self._was_compiled) from None

    def _compile(self, args: Sequence[Any]) -> Any:
        if not runtime.is_initialised():
            runtime.refuse_fork(self.func.__name__)
            raise TaichiNotInitialised(self.func.__name__)
        if not runtime.may_materialise():
            raise WrongThread(self.func.__name__)
        self.runtime.materialize()
        number, features = self.mapper.lookup(args)  # Raises if an argument does not fit.
        key = (self.func, number, self.autodiff_mode)
        try:
            self.materialize(key=key, args=args, arg_features=features)
            program = impl.pytaichi.prog
            instance = self.compiled_kernels[key]
            program.compile_kernel(program.config(), program.get_device_caps(), instance)
        except Exception as error:
            self.compiled_kernels.pop(key, None)
            if isinstance(error, ArgumentError):
                raise  # Another text would not help: see `freed`.
            raise _CannotCompile(handle_exception_from_cpp(error)) from None
        self._was_compiled = True
        return key


class _CannotCompile(Exception):
    """Carries an error of Taichi's compiler, as opposed to a mistake of the caller."""


def _adopt_kernels() -> None:
    """Hold the kernels of modules that tikgen loads weakly from now on."""
    make = kernel_impl.Kernel.__init__

    @functools.wraps(make)
    def adopting(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        life = getattr(self.func, "__globals__", {}).get(functions.LIFE)
        if life is not None:
            # In atomic steps: other threads may be adding kernels.
            kernels = impl.pytaichi.kernels
            kernels.append(_WeakKernel(self, _dead_kernels.append))
            kernels.remove(self)
            with contextlib.suppress(IndexError, ValueError):
                while True:
                    kernels.remove(_dead_kernels.popleft())
            if life.explain is not None:
                self.__class__ = _LiveKernel

    kernel_impl.Kernel.__init__ = adopting


if not hasattr(Ndarray.__init__, "__wrapped__"):  # Once, even if this module is loaded again.
    _stamp_instances(Ndarray)
    _stamp_instances(Field)
    _stamp_instances(ArgPack)
    for owner in (ScalarNdarray, ArgPack):
        _free_current_only(owner)
    _stamp_runtimes()
    _adopt_kernels()
    functions.mend()
    reading.mend()
    stores.mend()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: runtime.after_fork())
