"""The callable at the end of the pipeline: checks arguments, launches, knows its source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tikgen import engines, registry
from tikgen.errors import (
    ArgumentError,
    EngineUnavailable,
    TaichiNotInitialised,
    TikgenError,
    WrongThread,
)
from tikgen.machine.devices import ARCHS
from tikgen.pipeline import automatic
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.choice import DEFAULT_ARCH, default_of
from tikgen.pipeline.direct import Direct, compile_for, direct_for, is_compiled
from tikgen.pipeline.eject import eject_text
from tikgen.pipeline.events import Event
from tikgen.pipeline.evidence import Evidence, evidence_for
from tikgen.pipeline.expected import expected
from tikgen.pipeline.loaded import Loaded, made_up
from tikgen.pipeline.offers import Offer
from tikgen.pipeline.records import Record
from tikgen.pipeline.rendering import Source, Variant
from tikgen.pipeline.signature import Signature
from tikgen.pipeline.viewing import Viewing
from tikgen.taichi import runtime
from tikgen.taichi.launcher import is_differentiating
from tikgen.template import shapes
from tikgen.template.arguments import Array
from tikgen.template.base import Template
from tikgen.template.here import Constant
from tikgen.template.parameters import ParameterModel, canonical

if TYPE_CHECKING:  # The only place that names types of higher rooms.
    from tikgen.lifecycle.trace import Trace
    from tikgen.tuning.result import TuneResult


class Kernel(Constant):
    """A loaded variant that can be called.

    Call it with NumPy arrays, ``ti.ndarray``, torch tensors or, with ``storage="field"``,
    ``ti.field``, positionally or by name. Arguments are checked before Taichi sees them.

    Attributes:
        loaded: the code that the next call runs, unless new code is on offer.
        offered: the code on offer, which the next call adopts if it compiles.
    """

    def __init__(self, loaded: Loaded, make: Callable[[Variant], Kernel] | None = None) -> None:
        self._viewing = Viewing(make)
        self.loaded = loaded  # Read once in each call, so that another thread can replace it.
        self.offered: Offer | None = None
        self._record: Record | None = None
        self._chosen_for: Mapping[str, int] | None = None
        self._direct: Direct | None = None  # What the last call took beside Taichi.
        self._engine = engines.DEFAULT
        self._family: list[Kernel] = [self]

    @property
    def variant(self) -> Variant:
        """Return the template with its parameters."""
        return self.loaded.source.variant

    @property
    def template(self) -> Template:
        """Return the template from which it was rendered."""
        return self.variant.template

    @property
    def name(self) -> str:
        """Return a readable name such as ``stencil_dim3_f32_order2_interior``."""
        return self.loaded.source.variant.label

    @property
    def params(self) -> dict[str, Any]:
        """Return every parameter by name, problem parameters first."""
        return self.loaded.source.variant.params

    @property
    def problem(self) -> ParameterModel:
        """Return the parameters that decide what is computed."""
        return self.loaded.source.variant.problem

    @property
    def schedule(self) -> ParameterModel:
        """Return the parameters that decide how fast it runs."""
        return self.loaded.source.variant.schedule

    @property
    def schedule_origin(self) -> str:
        """Return the origin of the schedule: a tuning record, the arch's default or the call."""
        if self._record is not None:
            return str(self._record)
        arch = runtime.current_arch() or DEFAULT_ARCH
        if self._chosen_for is not None:
            return f"default on {arch} for sizes such as {shapes.shown(self._chosen_for)}"
        default = default_of(self.variant, (arch, *ARCHS))
        return f"default on {default[0]}" if default else "given"

    @property
    def record(self) -> Record | None:
        """Return the tuning record from which its schedule comes, or None."""
        return self._record

    @property
    def chosen_for(self) -> Mapping[str, int] | None:
        """Return the sizes for which tikgen chose its default schedule, or None."""
        return self._chosen_for

    @property
    def engine(self) -> str:
        """Return the engine that launches it, if it is called with small arrays."""
        return automatic.engine_of(self.loaded, self._engine)

    @property
    def why(self) -> str:
        """Return in a sentence why that engine launches it, and no other one."""
        return automatic.why(self.loaded, self._engine)

    @property
    def source(self) -> Source:
        """Return the rendered text with its digest and line map."""
        return self.loaded.source

    @property
    def classes(self) -> tuple[Kernel, ...]:
        """Return a kernel for each schedule that calls took so far, of itself if it has one."""
        return (self,)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the sources of :attr:`classes`."""
        return tuple(kernel.source for kernel in self.classes)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the rendered code."""
        return self.loaded.source.digest

    @property
    def signature(self) -> Signature:
        """Return the ordered arguments."""
        return self.loaded.signature

    @property
    def workspace(self) -> tuple[Array, ...]:
        """Return the scratch arrays that tikgen allocates and passes after the arguments."""
        return self.variant.workspace

    @property
    def function(self) -> Any:
        """Return the ``ti.kernel`` itself, which takes the arguments and then the workspace."""
        return self.loaded.function

    @property
    def is_changing(self) -> bool:
        """Return whether new code is on offer, which the next call adopts if it compiles."""
        return self.offered is not None

    @property
    def upcoming(self) -> Loaded:
        """Return the code on offer, else that of :attr:`loaded`."""
        return self.loaded if self.offered is None else self.offered.loaded

    @property
    def is_loaded(self) -> bool:
        """Return whether it can be called: it was not unloaded."""
        return self.loaded.is_loaded

    @property
    def launches(self) -> int:
        """Return the number of launches."""
        return self.loaded.launches + self.loaded.bound_launches + self._viewing.launches

    @property
    def events(self) -> tuple[Event, ...]:
        """Return its last 500 events, in order of time."""
        return tuple(sorted(self.loaded.life, key=lambda event: event.start))

    @property
    def lifecycle(self) -> Trace:
        """Return its life so far as a trace."""
        lifecycle: Trace = registry.call("kernel_lifecycle", self)
        return lifecycle

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence for its code and reference, one entry for each arch."""
        return evidence_for(self.digest, self.template.code_fingerprint)

    @property
    def family(self) -> tuple[Kernel, ...]:
        """Return the kernels of the same code, this one included: of other records or engines."""
        return tuple(self._family)

    def with_record(self, record: Record | None, sizes: Mapping[str, int] | None = None) -> Kernel:
        """Return the kernel of the same code whose schedule is of a record, or of some sizes."""
        return self._relative(record, self._engine, None if record else sizes)

    def for_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        """Return the kernel that a call with these arguments launches: itself, or one for views."""
        made = self._viewing.kernel_for(self.loaded, self.loaded.signature.order(args, kwargs))
        return made._relative(self._record, self._engine, self._chosen_for) if made else self

    def with_engine(self, engine: str) -> Kernel:
        """Return the kernel of the same code that an engine launches.

        Args:
            engine: ``"taichi"``; ``"direct-cpu"``, which compiles Taichi's code for the processor
                at hand; ``"direct-cuda"``, Taichi's PTX; ``"direct"``, either, or Taichi;
                ``"auto"``, Taichi until one is proven; ``"default"``, see `engines.resolved`.

        Raises:
            EngineUnavailable: if the engine cannot run here, or is unknown.
        """
        if problem := engines.problem(engine):
            raise EngineUnavailable(self.name, engine, problem)
        return self._relative(self._record, engine, self._chosen_for)

    def _relative(
        self, record: Record | None, engine: str, sizes: Mapping[str, int] | None = None
    ) -> Kernel:
        for kernel in self._family:
            if (kernel._record, kernel._engine, kernel._chosen_for) == (record, engine, sizes):
                return kernel
        other = copy.copy(self)
        other._record, other._chosen_for, other._engine, other._direct = record, sizes, engine, None
        self._family.append(other)
        return other

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments and launch the kernel; return its return value, mostly None.

        Raises:
            ArgumentError: if an argument does not fit the signature.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if Taichi cannot prepare for the launch in this thread.
            UnsupportedOnArch: if the current arch cannot run the kernel.
            KernelCompileError: if Taichi refuses the kernel at its first launch.
        """
        if self.offered is not None:
            self.take_offer(args, kwargs)
        loaded, direct = self.loaded, self._direct
        if direct is not None and not kwargs and direct.call(loaded, args):
            return None
        return self._launch(args, kwargs)

    def _launch(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Check the arguments at length, and launch."""
        values = (loaded := self.loaded).signature.order(args, kwargs)
        sizes = self._viewing.check(loaded, values)
        if sizes is None:
            return self.for_arguments(values, {})._launch(values, {})
        engine = engines.TAICHI if is_differentiating() else self._engine
        engine = engines.resolved(engine, runtime.current_arch())
        if engine == engines.AUTO:
            returned, self._direct = automatic.launch(loaded, values, sizes)
            return returned
        direct = direct_for(loaded, engine)
        if direct is None:
            return loaded.run(loaded.with_workspace(values, sizes))
        self._direct = direct
        direct.launch(loaded, direct.passed(loaded, values, sizes))
        return None

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundKernel:
        """Return the kernel with fixed arguments, which are checked once.

        Args:
            args: arrays and scalars in order.
            kwargs: arrays and scalars by name.

        Raises:
            ArgumentError: if an argument does not fit the signature.
        """
        if self.offered is not None:
            self.take_offer(args, kwargs)
        return BoundKernel(self, self.loaded.signature.order(args, kwargs), self._engine)

    def compile(self, /, *args: Any, **kwargs: Any) -> None:
        """Compile the kernel without launching it.

        Args:
            args: arguments as in a call; without any, the kernel is compiled for NumPy arrays and
                for ``ti.ndarray``, of the dtypes and dimensions that it declares.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit the signature, or if none is given and the
                signature does not declare all types.
            TaichiNotInitialised: if ``ti.init`` was not called.
            KernelCompileError: if Taichi refuses the kernel.
        """
        loaded = self.loaded
        if args or kwargs:
            loaded = self.for_arguments(args, kwargs).loaded
            given = [loaded.signature.order(args, kwargs)]
        else:
            given = [made_up(loaded, on_host=True), made_up(loaded, on_host=False)]
        compile_for(loaded, self._engine, given)

    def is_compiled(self, /, *args: Any, **kwargs: Any) -> bool:
        """Return whether the kernel is compiled for these arguments.

        Args:
            args: arguments as in a call; without any, the result is True if the kernel is compiled
                for any arguments.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit the signature.
        """
        if not (args or kwargs):
            return is_compiled(self.loaded, self._engine)
        loaded = self.for_arguments(args, kwargs).loaded
        return is_compiled(loaded, self._engine, loaded.signature.order(args, kwargs))

    def ir(self, kind: str, /, *args: Any, arch: str | None = None) -> str:
        """Return the code of the kernel at one stage of its compilation.

        Args:
            kind: ``python``, the rendered source; ``ast``, Taichi's AST; ``chi``, Taichi's IR
                after all passes; ``llvm`` and ``llvm-optimized`` on cpu and cuda; ``asm`` on cpu;
                ``spirv`` on vulkan; ``ptx`` on cuda.
            args: arguments to compile for; needed if the kernel does not declare their types, and
                for the shapes of fields.
            arch: the arch to compile for: the current arch by default, else cpu.

        Raises:
            ArgumentError: if the kind is unknown, or arguments are needed.
            UnsupportedOnArch: if the arch has no such code.
            KernelCompileError: if Taichi refuses the kernel.
        """
        return str(registry.call("kernel_ir", self, kind, *args, arch=arch))

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: parameters, source, evidence, times."""
        return str(registry.call("kernel_html", self))

    def reference(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the expected contents of every written array after a call, computed by NumPy.

        Takes arrays and scalars as a call does, and changes none. Outputs may be omitted and are
        then zero before the call. Returns one array, or a tuple of arrays in order.

        Raises:
            TemplateError: if the template has no reference.
            ArgumentError: if an argument is missing or does not fit.
        """
        return expected(self.loaded, args, kwargs)

    def sizes_of(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the value of each size symbol, from the shapes of ``values``."""
        return self.loaded.signature.sizes_of(values)

    def tune(self, /, *args: Any, **options: Any) -> TuneResult:
        """Find the fastest schedule of its problem on this machine, for your own data.

        Builds take the schedule from then on, and so do calls that choose it by their sizes.

        Args:
            args: arguments in order, as in a call; arrays that are only written may be omitted at
                the end. Without any, ``shape`` is needed.
            options: options of :func:`tikgen.tune`: ``arguments`` by name, ``shape``, ``budget``,
                ``strategy``, ``seed``, ``fresh``, ``timeout``.

        Raises:
            ArgumentError: if an argument is missing or does not fit.
            TikgenError: as :func:`tikgen.tune` does.
        """
        if args:
            options = {"arguments": args, **options}
        result: TuneResult = registry.call("tune", self.template, **options, **dict(self.problem))
        return result

    def eject(self, arch: str | None = None) -> str:
        """Return a standalone Python file: the kernel, its NumPy reference and a self-check.

        Args:
            arch: the arch on which the file checks itself: the current arch by default, else cpu.

        Raises:
            TikgenError: if there is no such arch, or the template cannot be copied.
        """
        return eject_text(self.source, arch)

    def offer(self, loaded: Loaded, report: Callable[[TikgenError | None], None]) -> None:
        """Offer new code to the next call.

        That call compiles it for its arguments and adopts it, or keeps the old code if that fails.

        Args:
            loaded: the new code.
            report: is called with None once the code is adopted, or with the reason why not.
        """
        self.offered = Offer(loaded, report)

    def take_offer(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Adopt the code on offer, if it compiles for these arguments."""
        with runtime.compiling:
            offer = self.offered
            if offer is None or self._viewing.has_views(self.loaded, args, kwargs):
                return
            try:
                refusal = offer.refusal(args, kwargs)
            except (TaichiNotInitialised, WrongThread):
                return
            if refusal is None:
                self.loaded = offer.loaded
            # Code that does not fit these arguments may fit those of a later call.
            waits = isinstance(refusal, ArgumentError)
            if not waits and self.offered is offer:  # And not replaced by a newer offer.
                self.offered = None
            was_reported, offer.was_reported = offer.was_reported, waits
        if not (waits and was_reported):
            offer.report(refusal)  # Not under the lock: it takes other locks.

    def unload(self) -> None:
        """Discard the compiled kernel; a later call raises ArgumentError."""
        self.loaded.unload()

    def __repr__(self) -> str:
        params = ", ".join(f"{k}={canonical(v)}" for k, v in self.params.items())
        # A user's text may define several kernels.
        its = f"{self.loaded.subject.name} of " if self.loaded.subject.origin == "live" else ""
        engine = self.engine
        is_usual = engine == engines.TAICHI and self._engine in (engine, engines.DEFAULT)
        launched = "" if is_usual else f", launched by {engine}"
        return (
            f"<Kernel {its}{self.template.name}({params})\n"
            f"  takes {self.loaded.signature}\n"
            f"  digest {self.digest[:16]}{launched}>"
        )
