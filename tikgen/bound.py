"""A kernel whose arguments were checked once, launched over a cached context."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from tikgen import taichi_bridge as bridge
from tikgen.arguments import Array, Scalar
from tikgen.errors import ArgumentError

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
        self._slots = _slots(kernel)
        self._scalars = {
            argument.name: (index, argument)
            for index, argument in enumerate(kernel.signature.arguments)
            if isinstance(argument, Scalar)
        }
        self._contexts: dict[int, _Context] = {}
        self._version = 0
        self._values: list[Any] = []
        self._accept(values)
        self._epoch = bridge.epoch()
        self._fast = self._is_proven()

    def __call__(self, **scalars: Any) -> Any:
        """Launch the kernel with the bound arguments.

        Args:
            scalars: new values of scalar arguments, kept for later calls.

        Raises:
            ArgumentError: if a name or value does not fit, or if Taichi was initialised again
                since the kernel was bound.
        """
        if bridge.epoch() is not self._epoch:
            raise self._error("was bound before the last ti.init; bind it again")
        context = self._contexts.get(get_ident())
        is_current = context is not None and context.version == self._version
        for name, value in scalars.items():
            self._keep_scalar(name, value)
            if is_current:
                context.setters[name](value)  # type: ignore[union-attr]
        if not self._fast or bridge.is_recording():
            return self.kernel.launch(tuple(self._values))
        if context is None or not is_current:
            context = self._refresh(context)
        context.version = self._version
        for slot, tensor in context.tensors:  # A tensor may have moved since the last call.
            context.launcher.set_array(slot, tensor)
        context.launcher.launch()
        if context.launcher.is_spent:
            context.version = -1
        return None

    def rebind(self, **arguments: Any) -> None:
        """Replace arguments by name, checking all of them again.

        Raises:
            ArgumentError: if a name or value does not fit; the old arguments then stay.
        """
        if bridge.epoch() is not self._epoch:
            raise self._error("was bound before the last ti.init; bind it again")
        names = self.kernel.signature.names
        for name in arguments:
            if name not in names:
                raise self._error(f"has no argument {name!r}; it takes {self.kernel.signature}")
        old = dict(zip(names, self._values, strict=False))  # Behind them stands the workspace.
        self._accept(tuple((old | arguments).values()))
        # Fields are compiled in: another field is another instance of the kernel.
        self._contexts = {}
        self._fast = self._is_proven()

    def _accept(self, values: tuple[Any, ...]) -> None:
        self._values = list(self.kernel.prepare(values))
        self._version += 1

    def _keep_scalar(self, name: str, value: Any) -> None:
        if name not in self._scalars:
            takes = ", ".join(self._scalars) or "no scalar"
            raise self._error(f"has no scalar argument {name!r}; it takes {takes}")
        index, _ = self._scalars[name]
        if problem := self.kernel.signature.scalar_problem(index, value):
            raise self._error(problem)
        self._values[index] = value
        self._version += 1  # The contexts of other threads have to follow.

    def _refresh(self, context: _Context | None) -> _Context:
        """Return the context of this thread, made if it is missing, with every argument set."""
        if context is None:
            context = self._contexts[get_ident()] = _Context(
                bridge.Launcher(self.kernel.function, self._values)
            )
        elif context.launcher.is_spent:
            context.launcher.renew()
        context.set_all(self._values, self._slots, self._scalars)
        return context

    def _is_proven(self) -> bool:
        if bridge.current_arch() not in _PROVEN_ARCHS or not bridge.can_bind():
            return False
        values = tuple(self._values)
        if self.kernel.needs_staging(values):
            return False
        self.kernel.compile_for(values)
        return bridge.is_plain_launch(self.kernel.function)

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


def _slots(kernel: Kernel) -> dict[int, int]:
    """Return the launch slot of each argument that is passed at run time; fields have none."""
    passed = [
        index
        for index, argument in enumerate((*kernel.signature.arguments, *kernel.workspace))
        if not (isinstance(argument, Array) and argument.storage == "field")
    ]
    return {index: slot for slot, index in enumerate(passed)}
