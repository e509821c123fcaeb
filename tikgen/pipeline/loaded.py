"""The code of one source in Taichi: checks arguments, compiles, launches, keeps scratch arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
from tikgen.pipeline.loader import entry_of, line_in, load, unload
from tikgen.pipeline.rendering import Source, Variant
from tikgen.pipeline.signature import Signature
from tikgen.taichi import arrays, hooks, kernels, runtime
from tikgen.template.arguments import Argument, Array, Scalar, concrete_shape
from tikgen.template.blame import asked, asked_dict
from tikgen.template.declared import reason_against
from tikgen.template.parameters import Invalid
from tikgen.template.views import is_contiguous, strided

# Scratch arrays kept for a kernel whose workspace depends on the sizes of its arguments.
_MOST_SCRATCH = 16
_MOST_EVENTS = _MOST_COUNTED = 500
# The first launches are timed, and one in so many after them, since timing costs time.
_ALL_TIMED, _TIMED_EVERY = 16, 64
_MOST_TIMED = 64
# Default extent of example arguments.
_SMALL = 8
_KERNEL = re.compile(r"@ti\.kernel\s+def (\w+)")


class Loaded:
    """A source as a module whose kernel can be compiled and launched.

    Args:
        source: the text.
        module: the module into which it was loaded.
        arguments_of: returns the arguments of the loaded function and the text, for sources whose
            template does not declare them.
        entry: name of the kernel, if the module defines several.
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
        variant, template = source.variant, source.variant.template
        self.function: Any = entry_of(module, entry or template.name)
        arguments = arguments_of(self.function, source.text) if arguments_of else variant.arguments
        hint = functools.partial(template.hint, variant.problem)
        most = asked_dict(template, "largest_sizes()", variant.problem)
        self.signature = Signature(self.name, arguments, most, hint)
        self.subject = events.subject_of(self.function.__wrapped__)
        # Its events, kept with or without a trace.
        self.life: deque[events.Event] = deque(maxlen=_MOST_EVENTS)
        self.launches = self.bound_launches = 0
        self.next_timed = self._next_plain_timed = 0
        self._timed: deque[hooks.Span] = deque(maxlen=_MOST_TIMED)
        events.lives[self.subject] = self
        self.workspace = source.variant.workspace
        # What the code takes between arguments and workspace.
        self.numbers = source.variant.numbers
        self._partial = tuple(
            index
            for index, a in enumerate(arguments)
            if isinstance(a, Array) and a.written and not a.covered and a.storage == "ndarray"
        )
        # Sizes for which Taichi can count the iterations of every loop.
        self.counted: set[tuple[int, ...]] = set()
        self._scratch: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._epoch: Any = None
        # Of the arch, looked up once for each ``ti.init``.
        self._ends_loops = False
        self._writes_inputs, self._uploads_outputs = False, True
        self._ready: set[tuple[type, ...]] = set()

    @property
    def name(self) -> str:
        """Return the name of the template, for messages."""
        return self.source.variant.template.name

    @functools.cached_property
    def host_signature(self) -> Signature:
        """Return the signature of the reference, which takes NumPy arrays instead of fields."""
        return Signature(
            self.name,
            tuple(
                dataclasses.replace(a, storage="ndarray") if isinstance(a, Array) else a
                for a in self.signature.arguments
            ),
            self.signature.largest,
            self.signature.hint,
        )

    @functools.cached_property
    def strided_signature(self) -> Signature:
        """Return the signature that takes views as well, where there are kernels for them."""
        variant, own = self.source.variant, self.signature
        names = asked(variant.template, "takes_views()", tuple, "a tuple", variant.problem)
        return Signature(self.name, strided(own.arguments, names), own.largest, own.hint)

    def profiled_name(self) -> str:
        """Return the name of the kernel in Taichi's profiler."""
        return hooks.profiled_name(self.function)

    def check(self, values: tuple[Any, ...]) -> list[int]:
        """Return the value of each size symbol, if the arguments fit, for the current ``ti.init``.

        Raises:
            ArgumentError: naming the argument, what it must be and what it is.
        """
        if not self.is_loaded:
            self._refuse()
        if runtime.epoch() is not self._epoch:
            self._enter_epoch()
        sizes = self.signature.check(values)
        if self.numbers:
            self._refuse_copied(values)
        if self._ends_loops or tuple(sizes) not in self.counted:
            self._check_steps(values, sizes)
        return sizes

    def prepare(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the checked arguments followed by the workspace, for the current ``ti.init``."""
        return self.with_workspace(values, self.check(values))

    def with_workspace(self, values: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
        """Return checked arguments followed by the workspace for some sizes."""
        passed = self.passed(values, sizes)
        return (*passed, *self._scratch_for(sizes)) if self.workspace else passed

    def passed(self, values: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
        """Return checked arguments as the code takes them: views as what they span, and how."""
        variant = self.source.variant
        if variant.views is None:
            return tuple(values)
        baked = [size for _, size in variant.sizes]
        return variant.views.passed(self.signature.arguments, values, baked or sizes)

    def run(self, values: tuple[Any, ...]) -> Any:
        """Launch the kernel with the result of :meth:`prepare`, after compiling if necessary."""
        kinds = tuple(map(type, values))
        if kinds in self._ready:
            return self._launch(values)
        with runtime.compiling, self._explaining():
            self._materialise()
            returned = self._launch(values)
        # The types do not identify what is compiled in: fields, and opaque arguments.
        if not self.signature.is_opaque and arrays.TiScalarField not in kinds:
            self._ready.add(kinds)
        return returned

    def compile_for(self, values: tuple[Any, ...]) -> None:
        """Compile the kernel for the result of :meth:`prepare`, without launching it."""
        with runtime.compiling, self._explaining():
            self._materialise()
            kernels.ensure_compiled(self.function, self._as_launched(values))

    def compiled_text(self, text_of: Callable[[Any], str]) -> str:
        """Return the text that ``text_of`` has Taichi make of the kernel."""
        with runtime.compiling, self._explaining():
            self._materialise()
            return text_of(self.function)

    def is_compiled_for(self, values: tuple[Any, ...]) -> bool:
        """Return whether the kernel is compiled for the result of :meth:`prepare`."""
        with runtime.compiling:
            return kernels.is_compiled(self.function, self._as_launched(values))

    @property
    def is_compiled(self) -> bool:
        """Return whether it was compiled for any arguments since the last ``ti.init``."""
        return self.is_loaded and kernels.is_compiled(self.function)

    def needs_staging(self, values: tuple[Any, ...]) -> bool:
        """Return whether tikgen must copy a host array to the device, and perhaps back."""
        return bool(self._staged(values))

    def _staged(self, values: tuple[Any, ...]) -> Sequence[int]:
        """Return the indices of the host arrays that tikgen copies instead of Taichi.

        Archs that run through Vulkan, Metal or OpenGL do not upload a host array that a kernel
        only writes, yet copy all of it back: elements that the kernel does not write would be
        garbage. CUDA copies each array back, even one that is only read, which crashes where its
        memory is a file that is mapped read-only.
        """
        if self._writes_inputs:
            return [i for i, value in enumerate(values) if arrays.is_read_only(value)]
        if self._partial and not self._uploads_outputs:
            return [i for i in self._partial if arrays.is_on_host(values[i])]
        return ()

    def launch_bound(self, launch: Callable[[], None]) -> None:
        """Launch over a cached context; count the launch, and time some."""
        count = self.bound_launches = self.bound_launches + 1
        launch() if count < self.next_timed else self.launch_timed(launch)

    def launch_timed(self, launch: Callable[[], None]) -> None:
        """Launch over a cached context, and keep the time of a launch that was counted."""
        start = time.perf_counter()
        launch()
        self._timed.append((start, stop := time.perf_counter(), threading.get_ident()))
        events.record_bound_launch(self, start, stop)

    @property
    def launched(self) -> events.Launches:
        """Return the number of launches, with the times of the last ones that were timed."""
        found = events.Launches(self.subject)
        found.add(self.launches + self.bound_launches, list(self._timed))
        if self.is_loaded:
            count, seconds = hooks.device_times().get(self.profiled_name(), (0, 0.0))
            found.device_count, found.device_seconds = count, seconds if count else None
        return found

    def unload(self) -> None:
        """Discard the compiled kernel; a later call raises ArgumentError."""
        unload(self.module)
        self.is_loaded = False
        self.function = self._refuse
        self._scratch.clear()
        self._ready = set()

    def _refuse(self, *_: Any) -> None:
        raise ArgumentError(self.name, "was unloaded; build it again")

    def _enter_epoch(self) -> None:
        """Prepare for the current ``ti.init``."""
        arch = runtime.current_arch()
        if arch is None:
            runtime.refuse_fork(self.name)
            raise TaichiNotInitialised(self.name)
        check_arch(self.source.variant, arch)
        self._ends_loops = ends_loops(arch)
        self._writes_inputs = runtime.writes_inputs()
        self._uploads_outputs = runtime.uploads_outputs()
        with runtime.compiling:
            if runtime.epoch() is not self._epoch:
                self._scratch.clear()
                self._ready = set()
                self._epoch = runtime.epoch()

    def _check_steps(self, values: tuple[Any, ...], sizes: list[int]) -> None:
        """Raise UnsupportedOnArch if a loop would end early, or has too many iterations."""
        variant, signature = self.source.variant, self.signature
        named = dict(variant.sizes) | dict(zip(signature.symbols, sizes, strict=True))

        def read(name: str) -> Any:
            with runtime.compiling:  # Copying launches kernels of Taichi itself.
                return arrays.to_host(values[signature.names.index(name)])

        if problem := loop_steps.problem(variant, named, read, self._ends_loops):
            raise UnsupportedOnArch(self.name, runtime.current_arch() or "", problem)
        if len(self.counted) >= _MOST_COUNTED:
            self.counted.clear()
        self.counted.add(tuple(sizes))

    def _refuse_copied(self, values: tuple[Any, ...]) -> None:
        """Raise ArgumentError for a view that had to be copied to the device and back."""
        arch = runtime.current_arch()
        for name, value in zip(self.signature.names, values, strict=True):
            if arch != "cpu" and arrays.is_copied(value) and not is_contiguous(value):
                raise ArgumentError(
                    self.name,
                    f"argument {name!r} is a view of an array on the host, which {arch} cannot use "
                    "without a copy; pass a contiguous array, or a view of a tensor on the device",
                )

    def _materialise(self) -> None:
        if not self.is_loaded:
            self._refuse()
        if not runtime.may_materialise():
            raise WrongThread(self.name)
        runtime.materialise()

    def _as_launched(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return arguments of the types with which Taichi is launched: staged ones are arrays."""
        staged = self._staged(values)
        return tuple(
            arrays.stand_in(value) if index in staged else value
            for index, value in enumerate(values)
        )

    def _launch(self, values: tuple[Any, ...]) -> Any:
        start = time.perf_counter() if self.launches >= self._next_plain_timed else None
        if staged := self._staged(values):
            returned = self._launch_staged(values, staged)
        else:
            returned = self.function(*values)
        self.launches += 1
        if start is not None:
            self._note_time(start)
        return returned

    def _note_time(self, start: float) -> None:
        """Keep the time of the last launch without that of the stages within it."""
        stop, thread = time.perf_counter(), threading.get_ident()
        within = (e.seconds for e in tuple(self.life) if e.start >= start and e.thread == thread)
        self._timed.append((start + sum(within), stop, thread))
        few = self.launches < _ALL_TIMED
        self._next_plain_timed = self.launches + (0 if few else _TIMED_EVERY)

    def _launch_staged(self, values: tuple[Any, ...], staged: Sequence[int]) -> Any:
        with runtime.compiling:  # Copying launches kernels of Taichi itself.
            passed = list(values)
            for index in staged:
                passed[index] = arrays.to_ndarray(values[index])
            returned = self.function(*passed)
            for index in set(staged).intersection(self._partial):
                arrays.copy_back(passed[index], values[index])
        return returned

    def _scratch_for(self, sizes: Sequence[int]) -> tuple[Any, ...]:
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
            raise  # A failed bounds check in debug mode, with a clear message.
        except (runtime.CompilationError, runtime.RuntimeFailure) as error:
            raise self.explained(error) from None
        # Of lines that are too long for Taichi, and of expressions that nest too deeply.
        except (SyntaxError, RecursionError) as error:
            raise self.explained(error) from None

    def explained(self, error: Exception) -> KernelCompileError:
        """Return Taichi's error with rendered line, template line and parameters."""
        message = str(error).strip()
        last = [line for line in message.splitlines() if line.strip()][-1:]
        return KernelCompileError(
            self.name,
            f"Taichi cannot compile the kernel: {last[0].strip() if last else message}",
            **self.source.located(line_in(message, self.source.filename)),
        )


def made_up(loaded: Loaded, on_host: bool) -> tuple[Any, ...]:
    """Return small example arguments of the declared types: NumPy arrays, or ``ti.ndarray``."""
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
                f"argument {argument.name!r} is compiled in, or its type is not declared: "
                "pass the arguments to compile for",
            )
    return tuple(values)


def load_source(
    source: Source, arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None
) -> Loaded:
    """Return ``source`` loaded as a module; raises what :func:`load_text` raises."""
    journal, label = events.Journal(), source.variant.label
    if arguments_of and (kernel := _KERNEL.search(source.text)):
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
        journal.emit(events.Subject(label, source.filename, 1, "tikgen"))
        raise
    loaded.life.extend(event for event in happened if event.subject == loaded.subject)
    journal.emit(loaded.subject)
    return loaded


def check_arch(variant: Variant, arch: str) -> None:
    """Raise :class:`UnsupportedOnArch` if ``arch`` cannot run ``variant``."""
    reason = reason_against(variant.template, variant.problem, arch)
    if not reason:
        try:
            variant.template.check_schedule(variant.problem, variant.schedule, arch)
        except Invalid as error:
            reason = f"the schedule's {error.parameter} {error.problem}"
    if reason:
        raise UnsupportedOnArch(variant.template.name, arch, reason)
