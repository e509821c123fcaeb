"""A kernel with fixed arguments, which are checked once, launched over a cached context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, Protocol

from tikgen import engines
from tikgen.errors import ArgumentError
from tikgen.pipeline.automatic import Automatic, bytes_of, choice_of
from tikgen.pipeline.direct import direct_for, takes_context
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.signature import Signature
from tikgen.pipeline.tensors import tensors_among
from tikgen.taichi import launcher, runtime
from tikgen.template.arguments import Array, Scalar
from tikgen.template.here import Here
from tikgen.template.pinned import pinned


class _Bindable(Protocol):
    """The part of :class:`~tikgen.pipeline.kernel.Kernel` that a bound kernel uses."""

    @property
    def name(self) -> str: ...
    @property
    def loaded(self) -> Loaded: ...
    @property
    def offered(self) -> Any: ...
    def take_offer(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None: ...
    def for_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Bindable: ...


class BoundKernel(Here):
    """A kernel with fixed arguments; made by :meth:`Kernel.bind`.

    Call it to launch. Scalars given by name, ``bound(a=2.0)``, are kept for later calls.
    Each thread launches over a context of its own. If the cached context is not proven safe
    (an arch without measurements, debug mode, autodiff tapes, kernels that print or return), a
    call is a plain Taichi call with the same arguments.
    """

    def __init__(self, kernel: _Bindable, values: tuple[Any, ...], engine: str) -> None:
        self._asked = kernel  # Sizes may decide which code is bound.
        self._option = engine
        self._epoch = runtime.epoch()
        # Read once in each call, so that code and arguments always belong together.
        self._binding = _Binding(kernel.for_arguments(values, {}), values, engine)

    @property
    def kernel(self) -> _Bindable:
        """Return the kernel that it launches: of the class that the bound sizes take."""
        return self._binding.kernel

    @property
    def loaded(self) -> Loaded:
        """Return the code that it launches: old code if that of the kernel takes other arguments.

        Raises:
            ArgumentError: if the bound arguments are of no use now.
        """
        return self._current().loaded

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the bound arguments by name; raises ArgumentError if they are of no use now."""
        return self._current().named

    @property
    def given(self) -> dict[str, Any]:
        """Return the arguments by name as they were bound last, of use or not."""
        return self._binding.named

    def code_and_values(self) -> tuple[Loaded, tuple[Any, ...]]:
        """Return the code that it launches and its arguments; raises ArgumentError as above."""
        binding = self._current()
        return binding.loaded, tuple(binding.given)

    @property
    def signature(self) -> Signature:
        """Return the ordered arguments of the kernel."""
        return self._binding.loaded.signature

    @property
    def engine(self) -> str:
        """Return the engine that launches it."""
        return self._binding.engine

    def __call__(self, /, **scalars: Any) -> Any:
        """Launch the kernel with the bound arguments.

        Args:
            scalars: new values of scalar arguments, kept for later calls.

        Raises:
            ArgumentError: if a name or value does not fit, or if Taichi was initialised again or a
                tensor was resized since the kernel was bound.
        """
        binding = self._binding
        loaded, kernel = binding.loaded, binding.kernel
        context = binding.contexts.get(get_ident())
        if (
            scalars
            or context is None
            or context.version != binding.version
            or binding.tensors is not None
            or binding.choice is not None
            or kernel.offered is not None
            or kernel.loaded is not loaded
            or not loaded.is_loaded
            or not launcher.is_ordinary(self._epoch)
        ):
            return self._launch(scalars)
        launch = context.launcher.launch
        count = loaded.bound_launches = loaded.bound_launches + 1  # As Loaded.launch_bound does.
        launch() if count < loaded.next_timed else loaded.launch_timed(launch)
        if context.launcher.is_spent:
            context.version = -1
        return None

    def _launch(self, scalars: dict[str, Any]) -> Any:
        """Launch where something is new, or may be."""
        binding = self._current()
        if binding.tensors is not None and binding.tensors.are_elsewhere():
            self.rebind()
            return self(**scalars)
        context = binding.contexts.get(get_ident())
        if scalars and not binding.keep_scalars(scalars, context):
            return self(**scalars)  # The binding was replaced meanwhile.
        if binding.choice is not None and binding.choice.is_due(binding.loaded):
            return self._advance(binding, binding.choice)
        if not binding.is_fast or launcher.is_differentiating():
            return binding.run_plainly()
        if context is None or context.version != binding.version:
            context = binding.refresh(context)
        binding.loaded.launch_bound(context.launcher.launch)
        if context.launcher.is_spent:
            context.version = -1
        return None

    def rebind(self, /, **arguments: Any) -> None:
        """Replace arguments by name; all of them are checked again.

        Raises:
            ArgumentError: if a name or value does not fit; the old arguments then stay.
        """
        binding = self._current()
        loaded = binding.loaded
        for name in arguments:
            if name not in loaded.signature.names:
                problem = loaded.signature.unknown(name, arguments[name])
                raise ArgumentError(loaded.name, problem)
        values = tuple((binding.named | arguments).values())
        if binding.kernel.loaded is loaded:
            # Fields are compiled in: another field needs another instance of the kernel.
            made = _Binding(self._asked.for_arguments(values, {}), values, self._option)
        else:  # The code of the kernel takes other arguments.
            made = _Binding(binding.kernel, values, self._option, loaded)
        with binding.changing:
            self._binding, binding.is_current = made, False

    def _advance(self, binding: _Binding, choice: Automatic) -> Any:
        """Launch, and take another engine from then on if one is proven now."""
        if launcher.is_differentiating():
            return binding.run_plainly()
        arguments = tuple(binding.given)
        returned = choice.launch(binding.loaded, arguments, binding.sizes)
        if choice.direct is not None:
            version = binding.version
            made = _Binding(binding.kernel, arguments, self._option, binding.loaded)
            with binding.changing:
                if self._binding is binding and binding.version == version:
                    self._binding, binding.is_current = made, False
        return returned

    def _current(self) -> _Binding:
        """Return the arguments bound to the current code of the kernel."""
        binding = self._binding
        kernel, loaded = binding.kernel, binding.loaded
        if runtime.epoch() is not self._epoch:
            runtime.refuse_fork(loaded.name)
            raise ArgumentError(loaded.name, "was bound before the last ti.init; bind it again")
        if kernel.offered is not None or kernel.loaded is not loaded:
            binding = self._followed(binding)
            loaded = binding.loaded
        if not loaded.is_loaded:
            raise ArgumentError(loaded.name, "was unloaded; build and bind it again")
        return binding

    def _followed(self, binding: _Binding) -> _Binding:
        """Return the arguments of ``binding`` bound to the new code, where it takes them.

        They are matched by name, and have to keep their roles.
        """
        while True:
            version = binding.version
            arguments = binding.named
            kernel, signature = binding.kernel, binding.loaded.signature
            if (offer := kernel.offered) is not None:
                if changed := signature.change_of_roles(offer.loaded.signature):
                    offer.refuse(ArgumentError(binding.loaded.name, changed))
                else:
                    kernel.take_offer((), arguments)
            loaded = kernel.loaded
            if loaded is binding.loaded or signature.change_of_roles(loaded.signature):
                return binding
            try:
                values = loaded.signature.order((), arguments)
                made = _Binding(kernel, values, self._option, loaded)
            except ArgumentError:
                if not loaded.is_loaded:
                    problem = "was unloaded; build and bind it again"
                    raise ArgumentError(loaded.name, problem) from None
                return binding  # A call with other arguments took the new code.
            with binding.changing:
                if self._binding is binding and binding.version == version:
                    self._binding, binding.is_current = made, False
            binding = self._binding

    def __repr__(self) -> str:
        how = "a cached context" if self._binding.is_fast else "plain calls"
        return f"<BoundKernel {self.kernel.name} over {how} of {self.engine}>"


class _Binding:
    """Arguments bound to the code for which they were checked."""

    def __init__(
        self,
        kernel: _Bindable,
        values: tuple[Any, ...],
        engine: str,
        loaded: Loaded | None = None,
    ) -> None:
        self.kernel = kernel
        loaded = self.loaded = loaded or kernel.loaded
        # What was passed, and below what the code takes.
        self.given = list(values)
        self._pinned = pinned(values)
        self.sizes = loaded.check(values)
        self.tensors = tensors_among(loaded.name, loaded.signature.names, values)
        # What will choose another engine, if that is open.
        self.choice: Automatic | None = None
        self._direct = None
        engine = engines.resolved(engine, runtime.current_arch())
        if engine == engines.AUTO:
            choice = choice_of(loaded)
            if bytes_of(values) <= choice.most_bytes:
                self._direct = choice.direct
                self.choice = None if choice.direct or choice.why else choice
        else:
            self._direct = direct_for(loaded, engine)
        self.engine = engines.TAICHI if self._direct is None else self._direct.engine
        if self._direct is None:
            self.values = list(loaded.with_workspace(values, self.sizes))
            self.is_fast = takes_context(loaded, tuple(self.values))
        else:
            self.values, self.is_fast = list(loaded.passed(values, self.sizes)), True
        self.contexts: dict[int, _Context] = {}  # By thread.
        self.version = 0  # Counts the changes of scalars.
        self.is_current = True
        self.changing = threading.Lock()
        self._slots = _slots(loaded)
        self._scalars = {
            argument.name: (index, argument)
            for index, argument in enumerate(loaded.signature.arguments)
            if isinstance(argument, Scalar)
        }
        behind = len(loaded.signature.arguments)
        self._numbers = {a.name: (n, a) for n, a in enumerate(loaded.numbers, behind)}

    @property
    def named(self) -> dict[str, Any]:
        """Return what was passed, by name."""
        return dict(zip(self.loaded.signature.names, self.given, strict=True))

    def keep_scalars(self, scalars: dict[str, Any], context: _Context | None) -> bool:
        """Keep all new values, or none and return False if this binding was replaced."""
        for name, value in scalars.items():
            if name not in self._scalars:
                takes = ", ".join(self._scalars) or "no scalar"
                problem = f"has no scalar argument {name!r}; it takes {takes}"
                raise ArgumentError(self.loaded.name, problem)
            if problem := self.loaded.signature.scalar_problem(self._scalars[name][0], value):
                raise ArgumentError(self.loaded.name, problem)
        with self.changing:
            if not self.is_current:
                return False
            is_current = context is not None and context.version == self.version
            self.version += 1  # The contexts of other threads are outdated.
            for name, value in scalars.items():
                index = self._scalars[name][0]
                self.given[index] = self.values[index] = value
                if is_current:
                    context.setters[name](value)  # type: ignore[union-attr]
            if is_current:
                context.version = self.version  # type: ignore[union-attr]
        return True

    def refresh(self, context: _Context | None) -> _Context:
        """Return the context of this thread, made if missing, with every argument set."""
        with self.changing:
            if context is None:
                context = self.contexts[get_ident()] = self._new_context()
            elif context.launcher.is_spent:
                context.launcher.renew()
            context.set_all(
                [*self.values, *context.scratch], self._slots, self._scalars | self._numbers
            )
            context.version = self.version
        return context

    def _new_context(self) -> _Context:
        if self._direct is None:
            return _Context(launcher.Launcher(self.loaded.function, self.values))
        return _Context(self._direct.launcher(), self._direct.scratch(self.sizes))

    def run_plainly(self) -> Any:
        """Launch by a plain call of Taichi."""
        if self._direct is None:
            return self.loaded.run(tuple(self.values))
        return self.loaded.run(self.loaded.prepare(tuple(self.given)))


class _Context:
    """The launcher of one thread, with setters for its scalars, and scratch arrays of its own."""

    def __init__(self, made: engines.AnyLauncher, scratch: Sequence[Any] = ()) -> None:
        self.version = -1
        self.launcher = made
        self.scratch = scratch
        self.setters: dict[str, Callable[[Any], None]] = {}

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


def _slots(loaded: Loaded) -> dict[int, int]:
    """Return the launch slot of each argument that is passed at run time; fields have none."""
    every = (*loaded.signature.arguments, *loaded.numbers, *loaded.workspace)
    passed = [
        index
        for index, argument in enumerate(every)
        if not (isinstance(argument, Array) and argument.storage == "field")
    ]
    return {index: slot for slot, index in enumerate(passed)}
