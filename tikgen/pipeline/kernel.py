"""The callable at the end of the pipeline: checks its arguments, launches, knows its origin."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen import registry
from tikgen.errors import (
    ArgumentError,
    TaichiNotInitialised,
    TemplateError,
    TikgenError,
    WrongThread,
)
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.eject import eject_text
from tikgen.pipeline.events import Event
from tikgen.pipeline.evidence import Evidence, evidence_for
from tikgen.pipeline.loaded import Loaded, made_up
from tikgen.pipeline.records import Record
from tikgen.pipeline.rendering import Source, Variant
from tikgen.pipeline.signature import Signature
from tikgen.taichi import arrays, runtime
from tikgen.template.arguments import Array, concrete_shape, split_extent
from tikgen.template.base import Template
from tikgen.template.parameters import ParameterModel, canonical

if TYPE_CHECKING:
    # The one place where a type of a higher room is named.
    from tikgen.lifecycle.trace import Trace
    from tikgen.tuning.result import TuneResult


@dataclass
class _Offer:
    """Code that waits to be taken by the next call."""

    loaded: Loaded
    tell: Callable[[TikgenError | None], None]
    was_told: bool = False


class Kernel:
    """A loaded variant that can be called.

    Call it with NumPy arrays, ``ti.ndarray``, torch tensors or, with ``storage="field"``,
    ``ti.field``, positionally or by name. Arguments are checked before Taichi sees them.
    """

    def __init__(self, loaded: Loaded) -> None:
        # Read once in each call, so that another thread can put new code in its place.
        self._loaded = loaded
        self._offer: _Offer | None = None
        self._record: Record | None = None
        # This kernel and those that differ from it by their tuning record only.
        self._family: list[Kernel] = [self]

    # What it is.

    @property
    def variant(self) -> Variant:
        """Return the template with its parameters."""
        return self._loaded.source.variant

    @property
    def template(self) -> Template:
        """Return the template it was rendered from."""
        return self._loaded.source.variant.template

    @property
    def name(self) -> str:
        """Return a readable name such as ``stencil_dim3_f32_order2_interior``."""
        return self._loaded.source.variant.label

    @property
    def params(self) -> dict[str, Any]:
        """Return every parameter by name, problem parameters first."""
        return self._loaded.source.variant.params

    @property
    def problem(self) -> ParameterModel:
        """Return the parameters that decide what is computed."""
        return self._loaded.source.variant.problem

    @property
    def schedule(self) -> ParameterModel:
        """Return the parameters that decide how fast it runs."""
        return self._loaded.source.variant.schedule

    @property
    def schedule_origin(self) -> str:
        """Return where the schedule is from: a tuning record, the arch's default or the call."""
        if self._record is not None:
            return str(self._record)
        variant = self._loaded.source.variant
        arch = runtime.current_arch() or "cpu"
        default = variant.template.default_values(
            variant.problem, arch, dict(variant.sizes) or None
        )
        is_default = self.schedule == type(self.schedule)(**default)
        return f"default on {arch}" if is_default else "given"

    @property
    def record(self) -> Record | None:
        """Return the tuning record that its schedule comes from, if any."""
        return self._record

    @property
    def source(self) -> Source:
        """Return the rendered text with its digest and line map."""
        return self._loaded.source

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the rendered code."""
        return self._loaded.source.digest

    @property
    def signature(self) -> Signature:
        """Return the ordered arguments."""
        return self._loaded.signature

    @property
    def workspace(self) -> tuple[Array, ...]:
        """Return the scratch arrays that tikgen allocates and passes after the arguments."""
        return self._loaded.source.variant.workspace

    @property
    def function(self) -> Any:
        """Return the ``ti.kernel`` itself, which takes the arguments and then the workspace."""
        return self._loaded.function

    @property
    def loaded(self) -> Loaded:
        """Return the code that the next call runs, unless other code is on offer."""
        return self._loaded

    @property
    def is_changing(self) -> bool:
        """Tell whether other code is on offer, which the next call takes if it compiles."""
        return self._offer is not None

    @property
    def is_loaded(self) -> bool:
        """Tell whether it can still be called, and was not unloaded."""
        return self._loaded.is_loaded

    @property
    def launches(self) -> int:
        """Return how often it was launched."""
        return self._loaded.launches + self._loaded.bound_launches

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the stages that it went through so far, in order; the last 500 of them."""
        return tuple(sorted(self._loaded.life, key=lambda event: event.start))

    @property
    def lifecycle(self) -> Trace:
        """Return its life so far, as a trace would show it."""
        lifecycle: Trace = registry.call("kernel_lifecycle", self)
        return lifecycle

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return what verifications of this code showed, one entry for each arch."""
        return evidence_for(self.digest)

    @property
    def family(self) -> tuple[Kernel, ...]:
        """Return this kernel and those that differ from it by their tuning record only."""
        return tuple(self._family)

    def with_record(self, record: Record | None) -> Kernel:
        """Return the same kernel, loaded once, as one whose schedule comes from ``record``."""
        for kernel in self._family:
            if kernel._record == record:
                return kernel
        other = copy.copy(self)
        other._record = record
        self._family.append(other)
        return other

    # What it does.

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Check the arguments and launch the kernel; return what it returns, mostly None.

        Raises:
            ArgumentError: if an argument does not fit the signature.
            TaichiNotInitialised: if ``ti.init`` was not called.
            WrongThread: if no kernel ran yet in the thread that called ``ti.init``.
            UnsupportedOnArch: if the current arch cannot run the kernel.
            KernelCompileError: if Taichi refuses the kernel at its first launch.
        """
        if self._offer is not None:
            self.take_offer(args, kwargs)
        loaded = self._loaded
        return loaded.run(loaded.prepare(loaded.signature.order(args, kwargs)))

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundKernel:
        """Return the kernel with its arguments checked once and fixed.

        Args:
            args: arrays and scalars in order.
            kwargs: arrays and scalars by name.

        Raises:
            ArgumentError: if an argument does not fit the signature.
        """
        if self._offer is not None:
            self.take_offer(args, kwargs)
        return BoundKernel(self, self._loaded.signature.order(args, kwargs))

    def compile(self, /, *args: Any, **kwargs: Any) -> None:
        """Compile the kernel without launching it, so that the first launch need not.

        Args:
            args: arguments as in a call; without any, the kernel is compiled for NumPy arrays and
                for ``ti.ndarray``, of the dtypes and dimensions that it declares.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit the signature, or nothing is given and the
                signature does not say enough to make arguments up.
            TaichiNotInitialised: if ``ti.init`` was not called.
            KernelCompileError: if Taichi refuses the kernel.
        """
        loaded = self._loaded
        if args or kwargs:
            given = [loaded.signature.order(args, kwargs)]
        else:
            given = [made_up(loaded, on_host=True), made_up(loaded, on_host=False)]
        for values in given:
            loaded.compile_for(loaded.prepare(values))

    def is_compiled(self, /, *args: Any, **kwargs: Any) -> bool:
        """Tell whether a call with these arguments would compile nothing.

        Args:
            args: arguments as in a call; without any, whether it is compiled for whatever kind.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit the signature.
        """
        loaded = self._loaded
        if not loaded.is_compiled:
            return False
        if not (args or kwargs):
            return True
        return loaded.is_compiled_for(loaded.prepare(loaded.signature.order(args, kwargs)))

    def ir(self, kind: str, /, *args: Any, arch: str | None = None) -> str:
        """Return the code of the kernel at one stage of its compilation.

        Args:
            kind: ``python``, ``ast``, ``chi``, ``llvm``, ``llvm-optimized``, ``asm``, ``spirv``
                or ``ptx``.
            args: arguments to compile for; needed where the kernel does not declare what it
                takes, and for the shapes of fields.
            arch: where to compile for: the current arch, else cpu.

        Raises:
            ArgumentError: if there is no such kind, or arguments are needed.
            UnsupportedOnArch: if the arch has no such code.
            KernelCompileError: if Taichi refuses the kernel.
        """
        return str(registry.call("kernel_ir", self, kind, *args, arch=arch))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: parameters, source, evidence, times."""
        return str(registry.call("kernel_html", self))

    def reference(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what every written array must hold after a call, computed by NumPy.

        Takes NumPy arrays and scalars as a call does, and changes none. Outputs may be left out;
        they then hold zeros before the call. Returns one array, or a tuple in order.
        """
        if type(self.template).reference is Template.reference:
            raise TemplateError(self.template.name, "has no reference")
        named = self._loaded.signature.named(args, kwargs)
        given = {name: arrays.to_host(value) for name, value in named.items()}
        sizes = self.sizes_of(given)
        values: list[Any] = []
        for argument in self._loaded.signature.arguments:
            if not isinstance(argument, Array):
                values.append(given.get(argument.name))
            elif argument.name in given:
                # A copy, since the reference may take an output that is also an input.
                values.append(np.array(given[argument.name], order="C"))
            elif argument.role == "out":
                values.append(np.zeros(concrete_shape(argument, sizes), argument.dtype.numpy))
            else:
                raise ArgumentError(self.template.name, f"argument {argument.name!r} is missing")
        self._loaded.host_signature.check(values)
        return self.template.reference(self.problem, *values)

    def sizes_of(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the value of each size symbol, as the shapes of ``values`` imply."""
        sizes: dict[str, int] = {}
        for argument in self._loaded.signature.arguments:
            if isinstance(argument, Array) and argument.name in values:
                shape = np.shape(values[argument.name])
                if len(shape) != argument.ndim:
                    raise ArgumentError(
                        self.template.name,
                        f"argument {argument.name!r} takes {argument.ndim} axes; got shape {shape}",
                    )
                for (symbol, more), extent in zip(_extents(argument), shape, strict=True):
                    if symbol is not None:
                        sizes.setdefault(symbol, extent - more)
        return sizes

    def tune(self, /, *args: Any, **options: Any) -> TuneResult:
        """Find the fastest schedule of its problem on this machine, for data of your own.

        The kernel itself stays as it is: ``tikgen.build`` takes the schedule from then on.

        Args:
            args: arguments in order, as in a call; what is only written may be left out at the
                end. Without any, ``shape`` is needed.
            options: what :func:`tikgen.tune` takes beside the problem: ``arguments`` by name,
                ``shape``, ``budget``, ``strategy``, ``seed``, ``fresh``, ``timeout``.

        Raises:
            ArgumentError: if an argument is missing or does not fit.
            TikgenError: as :func:`tikgen.tune` does.
        """
        if args:
            options = {"arguments": args, **options}
        result: TuneResult = registry.call("tune", self.template, **options, **dict(self.problem))
        return result

    def eject(self) -> str:
        """Return a standalone Python file: the kernel, its NumPy reference and a self-check."""
        return eject_text(self.source)

    def offer(self, loaded: Loaded, tell: Callable[[TikgenError | None], None]) -> None:
        """Have the next call take ``loaded`` in the place of the code that there is now.

        That call compiles it for its arguments. Where that fails, the old code stays and serves
        the call.

        Args:
            loaded: the new code.
            tell: is called with None once it is taken, else with what speaks against it.
        """
        self._offer = _Offer(loaded, tell)

    def take_offer(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Take the code that was offered, if it compiles for these arguments."""
        refusal: TikgenError | None = None
        with runtime.compiling:
            offer = self._offer
            if offer is None:
                return
            loaded = offer.loaded
            try:
                loaded.compile_for(loaded.prepare(loaded.signature.order(args, kwargs)))
                self._loaded = loaded
            except (TaichiNotInitialised, WrongThread):
                return
            except TikgenError as error:
                refusal = error
            except Exception as error:  # Whatever it is, the old code serves the call.
                refusal = loaded.explained(error)
            # What does not fit these arguments may fit those of a later call.
            waits = isinstance(refusal, ArgumentError)
            if not waits and self._offer is offer:  # And nothing newer came in the meantime.
                self._offer = None
            was_told, offer.was_told = offer.was_told, waits
        if not (waits and was_told):
            offer.tell(refusal)  # Not under the lock, since it takes others.

    def unload(self) -> None:
        """Forget the compiled kernel; a later call raises ArgumentError."""
        self._loaded.unload()

    def __repr__(self) -> str:
        params = ", ".join(f"{k}={canonical(v)}" for k, v in self.params.items())
        # A text of the user's may define several kernels.
        function = self._loaded.subject.name
        its = f"{function} of " if self._loaded.subject.origin == "live" else ""
        return (
            f"<Kernel {its}{self.template.name}({params})\n"
            f"  takes {self._loaded.signature}\n"
            f"  digest {self.digest[:16]}>"
        )


def _extents(array: Array) -> list[tuple[str | None, int]]:
    return [split_extent(extent) for extent in array.shape]
