"""A kernel whose schedule is chosen where the sizes are known: at a call, and at ``bind``.

It holds a kernel for each class of sizes, which are those that take the same schedule. A class is
made when it is first met. A call looks its class up by the shapes of its arrays. For arguments of
new shapes a template may look at the data as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tikgen import engines
from tikgen.errors import ArgumentError, TikgenError
from tikgen.pipeline import records
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.events import Event
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.records import Record
from tikgen.pipeline.rendering import Variant
from tikgen.taichi import arrays, runtime
from tikgen.template import catalogue, shapes
from tikgen.template.arguments import Argument, Array, symbols
from tikgen.template.base import Template
from tikgen.template.blame import asked_dict
from tikgen.template.parameters import ParameterModel, ProblemModel, make_model
from tikgen.units import counted

# Classes of a kernel. Sizes of a further one take the nearest of these. On an H200, 500 drawn sizes
# of gemm took 1.3 times as long as their fastest schedules with 6 classes, 1.13 with 12, 1.08 with
# 16, and 1.05 with as many as they had.
MOST_CLASSES = 16
# Shapes whose class is known.
_MOST_SHAPES = 4096

# Returns the kernel of a variant whose schedule is chosen for some sizes.
At = Callable[[Variant, Mapping[str, int], str], Kernel]


class SizedKernel(Kernel):
    """A kernel that holds code for some classes of sizes.

    What it says of its source and its schedule holds for the class of the last call, and before
    any call for the schedule that does not know the sizes.

    Args:
        base: the kernel whose schedule was chosen without sizes.
        variant: what is built; the base may be that of other parameters with equal code.
        arch: the arch of the schedules, None for that on which Taichi runs.
        is_tuned: whether schedules come from tuning records, however far they are.
        at: returns the kernel of a class, of the default engine.
        making: held while a class is chosen and made.
    """

    def __init__(
        self,
        base: Kernel,
        variant: Variant,
        arch: str | None,
        is_tuned: bool,
        at: At,
        making: contextlib.AbstractContextManager[Any],
    ) -> None:
        self._base = self._last = base
        self._variant = variant
        self._arch, self._is_tuned, self._at, self._making = arch, is_tuned, at, making
        self._by_engine = {base._engine: self}
        self._taken: list[Kernel] = []
        self._forget()

    def __getattr__(self, name: str) -> Any:
        """Return what the kernel of the last call has under a name that this one lacks."""
        if name == "_last":  # Of an instance that is not made yet.
            raise AttributeError(name)
        return getattr(self._last, name)

    @property
    def problem(self) -> ParameterModel:
        """Return the parameters with which it was built; equal code may serve others as well."""
        return self._current_variant().problem

    def _forget(self) -> None:
        """Forget which class sizes take: files, records or ``ti.init`` may have changed it."""
        self._by_shape: dict[Hashable, Kernel] = {}
        # By what decides the schedule, with the first sizes of each.
        self._classes: dict[Hashable, tuple[Mapping[str, int], Kernel]] = {}
        self._found: tuple[Record, ...] | None = None
        self._shapes_of = _shapes_of(self._base.upcoming.signature.arguments)
        self._epoch = runtime.epoch()
        self._templates, self._records = catalogue.generation, records.generation

    def _is_current(self) -> bool:
        return (
            self._templates == catalogue.generation
            and self._records == records.generation
            and self._epoch is runtime.epoch()
        )

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel of the class that the sizes take, as :meth:`Kernel.__call__` does."""
        try:
            kernel = self._by_shape[self._shapes_of(args)]
            if self._templates != catalogue.generation or self._records != records.generation:
                kernel = self._choose(args, kwargs)
        except (KeyError, IndexError, AttributeError, TypeError):
            kernel = self._choose(args, kwargs)
        self._last = kernel
        if kernel.offered is None and not kwargs:  # As the kernel does, with a call less.
            direct = kernel._direct
            if direct is not None and direct.call(kernel.loaded, args):
                return None
            if self._epoch is runtime.epoch():
                return kernel._launch(args, kwargs)
        if self._epoch is not runtime.epoch():
            kernel = self._last = self._choose(args, kwargs)
        return kernel(*args, **kwargs)

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundKernel:
        """Return the kernel of the class that the sizes take, with fixed arguments."""
        kernel = self.for_arguments(args, kwargs)
        if kernel.is_changing:
            kernel.take_offer(args, kwargs)
        return BoundKernel(self, kernel.signature.order(args, kwargs), self._base._engine)

    def compile(self, /, *args: Any, **kwargs: Any) -> None:
        """Compile the class that the sizes take; without arguments, the last one."""
        kernel = self.for_arguments(args, kwargs) if args or kwargs else self._last
        kernel.compile(*args, **kwargs)

    def is_compiled(self, /, *args: Any, **kwargs: Any) -> bool:
        """Return whether the class that the sizes take is compiled; without arguments, any."""
        if args or kwargs:
            return self.for_arguments(args, kwargs).is_compiled(*args, **kwargs)
        return any(kernel.is_compiled() for kernel in self.classes)

    def for_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        """Return the kernel of the class that a call with these arguments takes."""
        kernel = self._last = self._choose(args, kwargs)
        return kernel.for_arguments(args, kwargs)

    def _choose(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        """Return the kernel of a class; where that is not known, one that says what is wrong."""
        base = self._base
        if not (base.is_loaded and runtime.is_initialised()):
            return base
        with self._making:
            if not self._is_current():
                self._forget()
            signature = base.upcoming.strided_signature
            try:
                values = signature.order(args, kwargs)
                shape = self._shapes_of(values)
                if shape in self._by_shape:
                    return self._by_shape[shape]
                extents = signature.check(values)
            except (ArgumentError, AttributeError, TypeError):
                return self._last
            if len(self._by_shape) >= _MOST_SHAPES:
                self._by_shape = {}
            sizes = dict(zip(signature.symbols, extents, strict=True))
            kernel = self._by_shape[shape] = self._class_of(sizes, values)
            return kernel

    def _class_of(self, sizes: Mapping[str, int], values: Sequence[Any]) -> Kernel:
        try:
            variant = self._current_variant()
            sizes = {**sizes, **self._traits(variant, sizes, values)}
            key, chosen = self._key(variant, sizes)
            if key not in self._classes and len(self._classes) < MOST_CLASSES:
                self._classes[key] = sizes, self._made(variant, sizes, chosen)
        except Exception as error:  # Of any kind: default_schedule is the template's own.
            why = error if isinstance(error, TikgenError) else f"{type(error).__name__}: {error}"
            text = f"{self.name} takes another schedule for {shapes.shown(sizes)}, since {why}"
            warnings.warn(text, UserWarning, stacklevel=2)
            return self._base
        if key in self._classes:
            return self._classes[key][1]
        known = self._classes.values()
        return min(known, key=lambda one: shapes.distance(one[0], sizes))[1]

    def _traits(
        self, variant: Variant, sizes: Mapping[str, int], values: Sequence[Any]
    ) -> Mapping[str, int]:
        """Return what the template wants to know of the arguments beside their sizes."""
        names = self._base.upcoming.signature.names

        def read(name: str) -> Any:
            with runtime.compiling:  # Copying launches kernels of Taichi itself.
                return arrays.to_host(values[names.index(name)])

        arch = self._current_arch()
        found = asked_dict(variant.template, "traits()", variant.problem, arch, sizes, read)
        return {name: max(1, value) for name, value in found.items()}

    def _current_arch(self) -> str:
        return self._arch or runtime.current_arch() or "cpu"

    def _current_variant(self) -> Variant:
        """Return what is built, of the template as the base has it: its files may have changed."""
        template, known = self._base.upcoming.source.variant.template, self._variant.problem
        if template is not self._variant.template:
            given = {name: getattr(known, name) for name in sorted(known.model_fields_set)}
            problem = make_model(template.Problem, given, template.name)
            assert isinstance(problem, ProblemModel)
            self._variant = dataclasses.replace(self._variant, template=template, problem=problem)
        return self._variant

    def _key(
        self, variant: Variant, sizes: Mapping[str, int]
    ) -> tuple[Hashable, Mapping[str, Any] | None]:
        """Return what decides the schedule for some sizes, and the default if that does."""
        if runtime.is_debug():
            return "plainest", None
        template, problem = variant.template, variant.problem
        arch = self._current_arch()
        if self._found is None:
            timed_by = engines.timed_by(self._base._engine, arch)
            self._found = records.records_for(template, problem, arch, timed_by)
        farthest = math.inf if self._is_tuned else records.NEAR
        if self._found and (record := records.best_of(self._found, sizes, farthest)):
            return record.candidate, None
        is_direct = engines.is_direct(self._base._engine, arch)
        chosen = template.chosen_schedule(problem, arch, sizes, is_direct)
        return repr(sorted(chosen.items())), chosen

    def _made(
        self, variant: Variant, sizes: Mapping[str, int], chosen: Mapping[str, Any] | None
    ) -> Kernel:
        base = self._base
        if chosen is not None and self._is_that_of_base(variant.template, chosen):
            return self._taking(base)
        made = _launched_by(self._at(variant, sizes, base._engine), base._engine)
        digests = [each.upcoming.source.digest for each in (made, base)]
        # Equal code of the base is launched by the base, even if another kernel has it too.
        return self._taking(
            base if digests[0] == digests[1] and made.record == base.record else made
        )

    def _is_that_of_base(self, template: Template, chosen: Mapping[str, Any]) -> bool:
        """Return whether the base has this schedule: then nothing has to be made."""
        schedule = make_model(template.Schedule, chosen, template.name)
        base = self._base
        return base.record is None and dict(schedule) == dict(base.upcoming.source.variant.schedule)

    def _taking(self, kernel: Kernel) -> Kernel:
        if all(known.loaded is not kernel.loaded for known in self._taken):
            self._taken.append(kernel)
        return kernel

    @property
    def classes(self) -> tuple[Kernel, ...]:
        """Return a kernel for each class that calls took so far, else that without sizes."""
        taken = tuple(_launched_by(kernel, self._base._engine) for kernel in self._taken)
        return taken or (self._base,)

    @property
    def launches(self) -> int:
        """Return the number of launches of all classes."""
        return sum(kernel.launches for kernel in self.classes)

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the last events of each class, in order of time."""
        found = (event for kernel in self.classes for event in kernel.events)
        return tuple(sorted(found, key=lambda event: event.start))

    def holds(self, kernel: Kernel) -> bool:
        """Return whether a kernel has the code of one of its classes."""
        return any(kernel in known.family for known in (self._base, *self._taken))

    def with_engine(self, engine: str) -> Kernel:
        """Return the kernel of the same classes that an engine launches."""
        base = self._base.with_engine(engine)
        with self._making:
            if engine not in self._by_engine:
                other = SizedKernel(
                    base, self._variant, self._arch, self._is_tuned, self._at, self._making
                )
                other._by_engine, other._taken = self._by_engine, self._taken
                self._by_engine[engine] = other
            return self._by_engine[engine]

    def _relative(
        self, record: Record | None, engine: str, sizes: Mapping[str, int] | None = None
    ) -> Kernel:
        return self._base._relative(record, engine, sizes)

    def offer(self, loaded: Loaded, report: Callable[[TikgenError | None], None]) -> None:
        """Offer new code to the class of the last call."""
        self._last.offer(loaded, report)

    def take_offer(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Adopt the code on offer to the class of the last call."""
        self._last.take_offer(args, kwargs)

    def unload(self) -> None:
        """Discard the compiled code of all classes."""
        for kernel in (self._base, *self._taken):
            kernel.unload()

    def __repr__(self) -> str:
        its = super().__repr__().removesuffix(">")
        count = counted(len(self.classes), "schedule")
        return f"{its}\n  chosen by sizes, {count} so far; {self.schedule_origin}>"


def _launched_by(kernel: Kernel, engine: str) -> Kernel:
    return kernel._relative(kernel._record, engine, kernel._chosen_for)


def _shapes_of(arguments: Sequence[Argument]) -> Callable[[Sequence[Any]], Hashable]:
    """Return a function from values to the shapes of those arrays that decide all sizes."""
    known: set[str] = set()
    deciding = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, Array) and not known.issuperset(symbols((argument,))):
            known.update(symbols((argument,)))
            deciding.append(index)
    if len(deciding) == 1:
        only = deciding[0]
        return lambda values: values[only].shape
    if len(deciding) == 2:
        one, other = deciding
        return lambda values: (values[one].shape, values[other].shape)
    return lambda values: tuple([values[index].shape for index in deciding])
