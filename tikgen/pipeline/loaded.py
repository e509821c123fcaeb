"""The code of one source in Taichi: checks arguments, compiles, launches, and keeps its scratch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tikgen.errors import (
    ArgumentError,
    KernelCompileError,
    TaichiNotInitialised,
    UnsupportedOnArch,
    WrongThread,
)
from tikgen.machine.devices import ends_loops
from tikgen.pipeline import events, loop_steps
from tikgen.pipeline.loader import entry_of, load, unload
from tikgen.pipeline.rendering import Source, Variant
from tikgen.pipeline.signature import Signature
from tikgen.taichi import arrays, kernels, launches, runtime
from tikgen.template.arguments import Argument, Array, Scalar, concrete_shape
from tikgen.template.parameters import Invalid

# Scratch arrays kept for kernels whose workspace follows the sizes of their arguments.
_MOST_SCRATCH = 16
_MOST_EVENTS = 500
# So many launches are timed, and from then on so few, since that takes a while of its own.
_ALL_TIMED, _TIMED_EVERY = 16, 64
_MOST_TIMED = 64
# Extent of arrays that are made up where nothing says how large they are.
_SMALL = 8
_KERNEL = re.compile(r"@ti\.kernel\s+def (\w+)")


class Loaded:
    """A source as a module whose kernel can be compiled and launched.

    Args:
        source: the text.
        module: what it was loaded into.
        arguments_of: reads the arguments off the loaded function and the text, for sources whose
            template does not declare them.
        entry: name of the kernel, where the module defines several.

    Raises:
        KernelCompileError: if the module defines no such kernel.
    """

    def __init__(
        self,
        source: Source,
        module: types.ModuleType,
        arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None,
        entry: str | None = None,
    ) -> None:
        self.source = source
        self.module = module
        self.is_loaded = True
        self.function: Any = entry_of(module, entry or source.variant.template.name)
        arguments = (
            arguments_of(self.function, source.text) if arguments_of else source.variant.arguments
        )
        self.signature = Signature(self.name, arguments)
        self.subject = events.subject_of(self.function.__wrapped__)
        # What happened to it, kept whether or not anyone traces.
        self.life: deque[events.Event] = deque(maxlen=_MOST_EVENTS)
        self.launches = 0
        self.bound_launches = 0
        self.next_timed = 0
        self._next_plain_timed = 0
        # When launches began and ended, in which thread: the last of those that were timed.
        self._timed: deque[launches.Span] = deque(maxlen=_MOST_TIMED)
        events.lives[self.subject] = self
        self.workspace = source.variant.workspace
        self._partial = tuple(
            index
            for index, a in enumerate(arguments)
            if isinstance(a, Array) and a.written and not a.covered and a.storage == "ndarray"
        )
        self._scratch: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._epoch: Any = None
        self._counts_steps = False
        self._ready: set[tuple[type, ...]] = set()

    @property
    def name(self) -> str:
        """Return the name of the template, for messages."""
        return self.source.variant.template.name

    @functools.cached_property
    def host_signature(self) -> Signature:
        """Return the signature of the reference, which takes NumPy arrays in place of fields."""
        return Signature(
            self.name,
            tuple(
                dataclasses.replace(a, storage="ndarray") if isinstance(a, Array) else a
                for a in self.signature.arguments
            ),
        )

    def profiled_name(self) -> str:
        """Return the name under which Taichi's profiler knows the kernel."""
        return launches.profiled_name(self.function)

    def prepare(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the checked arguments followed by the workspace, for the current ``ti.init``.

        Args:
            values: the arguments in order.

        Raises:
            ArgumentError: if an argument does not fit the signature.
            TaichiNotInitialised: if ``ti.init`` was not called.
            UnsupportedOnArch: if the current arch cannot run the kernel.
        """
        if runtime.epoch() is not self._epoch:
            self._enter_epoch()
        sizes = self.signature.check(values)
        if self._counts_steps:
            self._check_steps(values, sizes)
        return (*values, *self._scratch_for(sizes)) if self.workspace else values

    def run(self, values: tuple[Any, ...]) -> Any:
        """Launch the kernel with what :meth:`prepare` returned; compile it where that is due."""
        kinds = tuple(map(type, values))
        if kinds in self._ready:
            return self._launch(values)
        with runtime.compiling, self._explaining():
            self._materialise()
            returned = self._launch(values)
        # What is compiled in cannot be told from the types: fields, and whatever is unknown.
        if not self.signature.is_opaque and arrays.TiScalarField not in kinds:
            self._ready.add(kinds)
        return returned

    def compile_for(self, values: tuple[Any, ...]) -> None:
        """Compile the kernel for what :meth:`prepare` returned, without launching it."""
        with runtime.compiling, self._explaining():
            self._materialise()
            kernels.ensure_compiled(self.function, self._as_launched(values))

    def is_compiled_for(self, values: tuple[Any, ...]) -> bool:
        """Tell whether a launch with what :meth:`prepare` returned would compile nothing."""
        with runtime.compiling:
            return kernels.is_compiled(self.function, self._as_launched(values))

    @property
    def is_compiled(self) -> bool:
        """Tell whether it is compiled, for whatever arguments, since the last ``ti.init``."""
        return self.is_loaded and kernels.is_compiled(self.function)

    def needs_staging(self, values: tuple[Any, ...]) -> bool:
        """Tell whether a host array has to be copied to the device and back by tikgen.

        Archs that run through Vulkan, Metal or OpenGL do not upload a host array that a kernel
        only writes, yet copy all of it back: elements that the kernel leaves alone would be
        garbage.
        """
        return (
            bool(self._partial)
            and not runtime.uploads_outputs()
            and any(arrays.is_on_host(values[index]) for index in self._partial)
        )

    def launch_bound(self, launch: Callable[[], None]) -> None:
        """Launch over a cached context: count it, and time it where a recording asks for that."""
        count = self.bound_launches = self.bound_launches + 1
        if count < self.next_timed:
            launch()
            return
        start = time.perf_counter()
        launch()
        stop = time.perf_counter()
        self._timed.append((start, stop, threading.get_ident()))
        events.tell_bound_launch(self, start, stop)

    @property
    def launched(self) -> events.Launches:
        """Return how often it was launched, and the times of the last launches that were timed."""
        found = events.Launches(self.subject)
        found.add(self.launches + self.bound_launches, list(self._timed))
        if self.is_loaded:
            count, seconds = launches.device_times().get(self.profiled_name(), (0, 0.0))
            found.device_count, found.device_seconds = count, seconds if count else None
        return found

    def unload(self) -> None:
        """Forget the compiled kernel; a later call raises ArgumentError."""
        unload(self.module)
        self.is_loaded = False
        self.function = self._refuse
        self._scratch.clear()
        self._ready = set()

    def _refuse(self, *_: Any) -> None:
        raise ArgumentError(self.name, "was unloaded; build it again")

    def _enter_epoch(self) -> None:
        """Make ready for the current ``ti.init``."""
        arch = runtime.current_arch()
        if arch is None:
            runtime.refuse_fork(self.name)
            raise TaichiNotInitialised(self.name)
        check_arch(self.source.variant, arch)
        self._counts_steps = ends_loops(arch)
        with runtime.compiling:
            if runtime.epoch() is not self._epoch:
                self._scratch.clear()
                self._ready = set()
                self._epoch = runtime.epoch()

    def _check_steps(self, values: tuple[Any, ...], sizes: list[int]) -> None:
        """Raise UnsupportedOnArch where the device would end a loop of the kernel in silence."""
        variant, signature = self.source.variant, self.signature
        named = dict(variant.sizes) | dict(zip(signature.symbols, sizes, strict=True))

        def read(name: str) -> Any:
            with runtime.compiling:  # Copying launches kernels of Taichi's own.
                return arrays.to_host(values[signature.names.index(name)])

        steps = variant.template.steps(variant.problem, variant.schedule, named, read)
        if problem := loop_steps.problem(steps):
            raise UnsupportedOnArch(self.name, "vulkan", problem)

    def _materialise(self) -> None:
        if not self.is_loaded:
            self._refuse()
        if not runtime.may_materialise():
            raise WrongThread(self.name)
        runtime.materialise()

    def _as_launched(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments of the kinds with which Taichi is launched: staged ones are arrays."""
        if not self.needs_staging(values):
            return values
        return tuple(
            arrays.stand_in(value) if index in self._partial and arrays.is_on_host(value) else value
            for index, value in enumerate(values)
        )

    def _launch(self, values: tuple[Any, ...]) -> Any:
        start = time.perf_counter() if self.launches >= self._next_plain_timed else None
        if self.needs_staging(values):
            returned = self._launch_staged(values)
        else:
            returned = self.function(*values)
        self.launches += 1
        if start is not None:
            self._note_time(start)
        return returned

    def _note_time(self, start: float) -> None:
        """Keep the time of the launch that is over, less that of the stages within it."""
        stop, thread = time.perf_counter(), threading.get_ident()
        within = (e.seconds for e in tuple(self.life) if e.start >= start and e.thread == thread)
        self._timed.append((start + sum(within), stop, thread))
        few = self.launches < _ALL_TIMED
        self._next_plain_timed = self.launches + (0 if few else _TIMED_EVERY)

    def _launch_staged(self, values: tuple[Any, ...]) -> Any:
        with runtime.compiling:  # Copying launches kernels of Taichi's own.
            staged = list(values)
            for index in self._partial:
                if arrays.is_on_host(values[index]):
                    staged[index] = arrays.to_ndarray(values[index])
            returned = self.function(*staged)
            for index in self._partial:
                if staged[index] is not values[index]:
                    arrays.copy_back(staged[index], values[index])
        return returned

    def _scratch_for(self, sizes: list[int]) -> tuple[Any, ...]:
        named = dict(zip(self.signature.symbols, sizes, strict=True))
        found = []
        for array in self.workspace:
            key = (array.name, concrete_shape(array, named))
            if key not in self._scratch:
                self._make_scratch(array, key)
            found.append(self._scratch[key])
        return tuple(found)

    def _make_scratch(self, array: Array, key: tuple[str, tuple[int, ...]]) -> None:
        if not runtime.may_allocate():
            raise WrongThread(self.name)
        with runtime.compiling:
            self._materialise()
            if len(self._scratch) >= _MOST_SCRATCH:
                runtime.sync()
                self._scratch.clear()
            self._scratch[key] = arrays.make_ndarray(array.dtype.value, key[1])

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn an error of Taichi's compiler into one that names the template's line."""
        try:
            yield
        except runtime.AssertionFailure:
            raise  # In debug mode, at run time: it says itself what is wrong.
        # The last two are of lines too long for Taichi, and of expressions that nest too deeply.
        except (
            runtime.CompilationError,
            runtime.RuntimeFailure,
            SyntaxError,
            RecursionError,
        ) as error:
            raise self.explained(error) from None

    def explained(self, error: Exception) -> KernelCompileError:
        """Return Taichi's error with rendered line, template line and parameters."""
        message = str(error).strip()
        places = re.findall(rf'File "{re.escape(self.source.filename)}", line (\d+)', message)
        number = int(places[-1]) if places else 0
        last = [li for li in message.splitlines() if li.strip()][-1:]
        return KernelCompileError(
            self.name,
            f"Taichi cannot compile the kernel: {last[0].strip() if last else message}",
            **self.source.located(number),
        )


def made_up(loaded: Loaded, on_host: bool) -> tuple[Any, ...]:
    """Return small arguments of the kinds that a kernel declares, to compile it for.

    Args:
        loaded: the kernel.
        on_host: whether arrays are NumPy's; else each is a ``ti.ndarray``.

    Raises:
        ArgumentError: if an argument is a field, which is compiled in, or is not declared.
        TaichiNotInitialised: if ``ti.init`` was not called.
    """
    if not runtime.is_initialised():
        runtime.refuse_fork(loaded.name)
        raise TaichiNotInitialised(loaded.name)
    variant = loaded.source.variant
    sizes = dict(variant.sizes) or variant.template.middle_sizes(variant.problem)
    sizes = {symbol: sizes.get(symbol, _SMALL) for symbol in loaded.signature.symbols}
    values: list[Any] = []
    for argument in loaded.signature.arguments:
        if isinstance(argument, Scalar):
            values.append(1.0 if argument.dtype.is_float else 1)
        elif isinstance(argument, Array) and argument.storage == "ndarray":
            shape = concrete_shape(argument, sizes)
            if on_host:
                values.append(np.zeros(shape, argument.dtype.numpy))
                continue
            if not runtime.may_allocate():
                raise WrongThread(loaded.name)
            with runtime.compiling:
                values.append(arrays.make_ndarray(argument.dtype.value, shape))
        else:
            raise ArgumentError(
                loaded.name,
                f"argument {argument.name!r} is compiled in, or its kind is not declared: "
                "pass the arguments to compile for",
            )
    return tuple(values)


def load_source(
    source: Source, arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None
) -> Loaded:
    """Return ``source`` as a module whose kernel can be launched.

    Raises:
        RenderError: if executing the text fails, naming its template line.
        KernelCompileError: if Taichi refuses the kernel's signature, or there is none.
    """
    journal, label = events.Journal(), source.variant.label
    if arguments_of and (kernel := _KERNEL.search(source.text)):  # The text speaks for itself.
        label = kernel[1]
    try:
        with events.collecting() as happened:
            module = journal.timed("load", lambda: load(source, label), file=source.filename)
        try:
            loaded = Loaded(source, module, arguments_of)
        except BaseException:
            unload(module)
            raise
    except BaseException:
        journal.tell(events.Subject(label, source.filename, 1, "tikgen"))
        raise
    loaded.life.extend(event for event in happened if event.subject == loaded.subject)
    journal.tell(loaded.subject)
    return loaded


def check_arch(variant: Variant, arch: str) -> None:
    """Raise :class:`UnsupportedOnArch` if ``arch`` cannot run ``variant``."""
    reason = variant.template.unsupported(variant.problem, arch)
    if not reason:
        try:
            variant.template.check_schedule(variant.problem, variant.schedule, arch)
        except Invalid as error:
            reason = f"the schedule's {error.parameter} {error.problem}"
    if reason:
        raise UnsupportedOnArch(variant.template.name, arch, reason)
