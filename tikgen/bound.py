"""A kernel whose arguments were checked once, launched over a cached context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from tikgen import taichi_bridge as bridge
from tikgen.arguments import Array, Scalar
from tikgen.errors import ArgumentError
from tikgen.loaded import Loaded

if TYPE_CHECKING:
    from tikgen.kernel import Kernel

# Where launching over a cached context was measured to be right.
_PROVEN_ARCHS = frozenset({"cpu", "cuda", "vulkan"})


class BoundKernel:
    """A kernel with fixed arguments; made by :meth:`Kernel.bind`.

    Call it to launch. Scalars given by name, ``bound(a=2.0)``, are kept for later calls.
    Each thread launches over a context of its own. Where the cached context is not proven safe
    (an arch without measurements, debug mode, autodiff tapes, kernels that print or return), a
    call is a plain Taichi call with the same arguments.
    """

    def __init__(self, kernel: Kernel, values: tuple[Any, ...]) -> None:
        self.kernel = kernel
        self._changing = threading.Lock()
        self._version = 0
        self._epoch = bridge.epoch()
        self._begin(kernel.loaded, values)

    def _begin(self, loaded: Loaded, values: tuple[Any, ...]) -> None:
        """Bind ``values`` to the code that the kernel has now."""
        prepared = list(loaded.prepare(values))
        fast = self._is_proven(loaded, prepared)
        with self._changing:
            self._loaded = loaded
            self._slots = _slots(loaded)
            self._scalars = {
                argument.name: (index, argument)
                for index, argument in enumerate(loaded.signature.arguments)
                if isinstance(argument, Scalar)
            }
            self._values = prepared
            self._contexts: dict[int, _Context] = {}
            self._version += 1
            self._fast = fast

    def __call__(self, /, **scalars: Any) -> Any:
        """Launch the kernel with the bound arguments.

        Args:
            scalars: new values of scalar arguments, kept for later calls.

        Raises:
            ArgumentError: if a name or value does not fit, or if Taichi was initialised again
                since the kernel was bound.
        """
        self._check_alive()
        contexts = self._contexts
        context = contexts.get(get_ident())
        if scalars:
            self._keep_scalars(scalars, context)
        if not self._fast or bridge.is_recording():
            return self._loaded.run(tuple(self._values))
        if context is None or context.version != self._version:
            context = self._refresh(contexts, context)
            if context is None:  # Other code came in between.
                return self()
        for slot, tensor in context.tensors:  # A tensor may have moved since the last call.
            context.launcher.set_array(slot, tensor)
        self._loaded.launch_bound(context.launcher.launch)
        if context.launcher.is_spent:
            context.version = -1
        return None

    def rebind(self, /, **arguments: Any) -> None:
        """Replace arguments by name, checking all of them again.

        Raises:
            ArgumentError: if a name or value does not fit; the old arguments then stay.
        """
        self._check_alive()
        names = self._loaded.signature.names
        for name in arguments:
            if name not in names:
                raise self._error(f"has no argument {name!r}; it takes {self._loaded.signature}")
        old = dict(zip(names, self._values, strict=False))  # Behind them stands the workspace.
        # Fields are compiled in: another field is another instance of the kernel.
        self._begin(self._loaded, tuple((old | arguments).values()))

    def _keep_scalars(self, scalars: dict[str, Any], context: _Context | None) -> None:
        """Keep new values, all or none; a context that is up to date stays so."""
        for name, value in scalars.items():
            if name not in self._scalars:
                takes = ", ".join(self._scalars) or "no scalar"
                raise self._error(f"has no scalar argument {name!r}; it takes {takes}")
            if problem := self._loaded.signature.scalar_problem(self._scalars[name][0], value):
                raise self._error(problem)
        with self._changing:
            is_current = context is not None and context.version == self._version
            self._version += 1  # The contexts of other threads have to follow.
            for name, value in scalars.items():
                self._values[self._scalars[name][0]] = value
                if is_current:
                    context.setters[name](value)  # type: ignore[union-attr]
            if is_current:
                context.version = self._version  # type: ignore[union-attr]

    def _refresh(self, contexts: dict[int, _Context], context: _Context | None) -> _Context | None:
        """Return the context of this thread, made if it is missing, with every argument set.

        Returns None where the arguments were bound to other code since ``contexts`` was read.
        """
        with self._changing:
            if contexts is not self._contexts:
                return None
            if context is None:
                context = contexts[get_ident()] = _Context(
                    bridge.Launcher(self._loaded.function, self._values)
                )
            elif context.launcher.is_spent:
                context.launcher.renew()
            context.set_all(self._values, self._slots, self._scalars)
            context.version = self._version
        return context

    def _check_alive(self) -> None:
        if bridge.epoch() is not self._epoch:
            raise self._error("was bound before the last ti.init; bind it again")
        if self.kernel.is_changing or self.kernel.loaded is not self._loaded:
            self._follow()
        if not self._loaded.is_loaded:
            raise self._error("was unloaded; build and bind it again")

    def _follow(self) -> None:
        """Go over to the code that the kernel has taken, or takes now."""
        arguments = tuple(self._values[: len(self._loaded.signature.names)])
        self.kernel.take_offer(arguments, {})
        if self.kernel.loaded is not self._loaded:
            self._begin(self.kernel.loaded, arguments)

    @staticmethod
    def _is_proven(loaded: Loaded, prepared: list[Any]) -> bool:
        if bridge.current_arch() not in _PROVEN_ARCHS or not bridge.can_bind():
            return False
        if loaded.signature.is_opaque:  # Such an argument may take no slot, or several.
            return False
        values = tuple(prepared)
        if loaded.needs_staging(values):
            return False
        loaded.compile_for(values)
        return bridge.is_plain_launch(loaded.function)

    def _error(self, problem: str) -> ArgumentError:
        return ArgumentError(self.kernel.template.name, problem)

    def __repr__(self) -> str:
        how = "cached context" if self._fast else "plain calls"
        return f"<BoundKernel {self.kernel.name} over {how}>"


class _Context:
    """What one thread needs to launch."""

    def __init__(self, launcher: bridge.Launcher) -> None:
        self.version = -1
        self.launcher = launcher
        self.setters: dict[str, Callable[[Any], None]] = {}
        self.tensors: list[tuple[int, Any]] = []

    def set_all(
        self, values: list[Any], slots: dict[int, int], scalars: dict[str, tuple[int, Scalar]]
    ) -> None:
        self.setters = {
            name: self.launcher.scalar_setter(
                slots[index], scalar.dtype.is_float, scalar.dtype.is_signed
            )
            for name, (index, scalar) in scalars.items()
        }
        for name, (index, _) in scalars.items():
            self.setters[name](values[index])
        arrays = slots.keys() - {index for index, _ in scalars.values()}
        for index in arrays:
            self.launcher.set_array(slots[index], values[index])
        self.tensors = [(slots[i], values[i]) for i in arrays if hasattr(values[i], "data_ptr")]


def _slots(loaded: Loaded) -> dict[int, int]:
    """Return the launch slot of each argument that is passed at run time; fields have none."""
    passed = [
        index
        for index, argument in enumerate((*loaded.signature.arguments, *loaded.workspace))
        if not (isinstance(argument, Array) and argument.storage == "field")
    ]
    return {index: slot for slot, index in enumerate(passed)}
