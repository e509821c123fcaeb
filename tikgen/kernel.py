"""The callable at the end of the pipeline: checks its arguments, launches, knows its origin."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import re
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen import taichi_bridge as bridge
from tikgen.arguments import Argument, Array, concrete_shape, split_extent
from tikgen.errors import (
    ArgumentError,
    KernelCompileError,
    TaichiNotInitialised,
    TemplateError,
    UnsupportedOnArch,
    WrongThread,
)
from tikgen.evidence import Evidence, evidence_for
from tikgen.loader import entry_of, unload
from tikgen.parameters import Invalid, ParameterModel, canonical
from tikgen.records import Record
from tikgen.rendering import Source, Variant
from tikgen.signature import Signature
from tikgen.template import Template

if TYPE_CHECKING:
    from tikgen.bound import BoundKernel

# Neither Taichi's compiler nor the making of arrays is thread-safe.
_compiling = threading.RLock()
# Scratch arrays kept for kernels whose workspace follows the sizes of their arguments.
_MOST_SCRATCH = 16


class Kernel:
    """A loaded variant that can be called.

    Call it with NumPy arrays, ``ti.ndarray``, torch tensors or, with ``storage="field"``,
    ``ti.field``, positionally or by name. Arguments are checked before Taichi sees them.
    """

    def __init__(
        self,
        source: Source,
        module: types.ModuleType,
        arguments_of: Callable[[Any, str], tuple[Argument, ...]] | None = None,
    ) -> None:
        self.is_loaded = True
        self._source = source
        self._module = module
        self._function: Any = entry_of(module, source.variant.template.name)
        arguments = (
            arguments_of(self._function, source.text) if arguments_of else source.variant.arguments
        )
        self._signature = Signature(source.variant.template.name, arguments)
        self._partial = tuple(
            index
            for index, a in enumerate(arguments)
            if isinstance(a, Array) and a.written and not a.covered and a.storage == "ndarray"
        )
        self._scratch: dict[tuple[str, tuple[int, ...]], Any] = {}
        self._epoch: Any = None
        self._ready: set[tuple[type, ...]] = set()
        self._record: Record | None = None
        # This kernel and those that differ from it by their tuning record only.
        self._family: list[Kernel] = [self]

    # What it is.

    @property
    def variant(self) -> Variant:
        """Return the template with its parameters."""
        return self._source.variant

    @property
    def template(self) -> Template:
        """Return the template it was rendered from."""
        return self._source.variant.template

    @property
    def name(self) -> str:
        """Return a readable name such as ``stencil_dim3_f32_order2_interior``."""
        return self._source.variant.label

    @property
    def params(self) -> dict[str, Any]:
        """Return every parameter by name, problem parameters first."""
        return self._source.variant.params

    @property
    def problem(self) -> ParameterModel:
        """Return the parameters that decide what is computed."""
        return self._source.variant.problem

    @property
    def schedule(self) -> ParameterModel:
        """Return the parameters that decide how fast it runs."""
        return self._source.variant.schedule

    @property
    def schedule_origin(self) -> str:
        """Return where the schedule is from: a tuning record, the arch's default or the call."""
        if self._record is not None:
            return str(self._record)
        variant = self._source.variant
        arch = bridge.current_arch() or "cpu"
        default = variant.template.default_schedule(
            variant.problem, arch, dict(variant.sizes) or None
        )
        is_default = self.schedule == type(self.schedule)(**default)
        return f"default on {arch}" if is_default else "given"

    @property
    def source(self) -> Source:
        """Return the rendered text with its digest and line map."""
        return self._source

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the rendered code."""
        return self._source.digest

    @property
    def signature(self) -> Signature:
        """Return the ordered arguments."""
        return self._signature

    @property
    def workspace(self) -> tuple[Array, ...]:
        """Return the scratch arrays that tikgen allocates and passes after the arguments."""
        return self._source.variant.workspace

    @property
    def function(self) -> Any:
        """Return the ``ti.kernel`` itself, which takes the arguments and then the workspace."""
        return self._function

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return what verifications of this code showed, one entry for each arch."""
        return evidence_for(self)

    def with_record(self, record: Record | None) -> Kernel:
        """Return the same kernel, loaded once, as one whose schedule comes from ``record``."""
        for kernel in self._family:
            if kernel._record == record:
                return kernel
        other = copy.copy(self)
        other._record, other._scratch, other._epoch, other._ready = record, {}, None, set()
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
        return self.run(self.prepare(self._signature.order(args, kwargs)))

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundKernel:
        """Return the kernel with its arguments checked once and fixed.

        Args:
            args: arrays and scalars in order.
            kwargs: arrays and scalars by name.

        Raises:
            ArgumentError: if an argument does not fit the signature.
        """
        from tikgen.bound import BoundKernel

        return BoundKernel(self, self._signature.order(args, kwargs))

    def reference(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return what every written array must hold after a call, computed by NumPy.

        Takes NumPy arrays and scalars as a call does, and changes none. Outputs may be left out;
        they then hold zeros before the call. Returns one array, or a tuple in order.
        """
        if type(self.template).reference is Template.reference:
            raise TemplateError(self.template.name, "has no reference")
        named = self._signature.named(args, kwargs)
        given = {name: bridge.to_host(value) for name, value in named.items()}
        sizes = self.sizes_of(given)
        values: list[Any] = []
        for argument in self._signature.arguments:
            if not isinstance(argument, Array):
                values.append(given.get(argument.name))
            elif argument.name in given:
                # A copy, since the reference may take an output that is also an input.
                values.append(np.array(given[argument.name], order="C"))
            elif argument.role == "out":
                values.append(np.zeros(concrete_shape(argument, sizes), argument.dtype.numpy))
            else:
                raise ArgumentError(self.template.name, f"argument {argument.name!r} is missing")
        self._host_signature.check(values)
        return self.template.reference(self.problem, *values)

    def sizes_of(self, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the value of each size symbol, as the shapes of ``values`` imply."""
        sizes: dict[str, int] = {}
        for argument in self._signature.arguments:
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

    def eject(self) -> str:
        """Return a standalone Python file: the kernel, its NumPy reference and a self-check."""
        from tikgen.eject import eject_text

        return eject_text(self._source)

    def prepare(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the checked arguments followed by the workspace, for the current ``ti.init``.

        Args:
            values: the arguments in order.

        Raises:
            ArgumentError: if an argument does not fit the signature.
            TaichiNotInitialised: if ``ti.init`` was not called.
            UnsupportedOnArch: if the current arch cannot run the kernel.
        """
        if bridge.epoch() is not self._epoch:
            self._enter_epoch()
        sizes = self._signature.check(values)
        return (*values, *self._scratch_for(sizes)) if self.workspace else values

    def run(self, values: tuple[Any, ...]) -> Any:
        """Launch the kernel with what :meth:`prepare` returned; compile it where that is due."""
        kinds = tuple(map(type, values))
        if kinds in self._ready:
            return self._launch(values)
        with _compiling, self._explaining():
            self._materialise()
            returned = self._launch(values)
        # What is compiled in cannot be told from the types: fields, and whatever is unknown.
        if not self._signature.is_opaque and bridge.TiScalarField not in kinds:
            self._ready.add(kinds)
        return returned

    def needs_staging(self, values: tuple[Any, ...]) -> bool:
        """Tell whether a host array has to be copied to the device and back by tikgen.

        Archs that run through Vulkan, Metal or OpenGL do not upload a host array that a kernel
        only writes, yet copy all of it back: elements that the kernel leaves alone would be
        garbage.
        """
        return (
            bool(self._partial)
            and not bridge.uploads_outputs()
            and any(bridge.is_on_host(values[index]) for index in self._partial)
        )

    def compile_for(self, values: tuple[Any, ...]) -> None:
        """Compile the kernel for what :meth:`prepare` returned, without launching it."""
        with _compiling, self._explaining():
            self._materialise()
            bridge.ensure_compiled(self._function, values)

    def unload(self) -> None:
        """Forget the compiled kernel; a later call raises ArgumentError."""
        unload(self._module)
        for kernel in self._family:
            kernel.is_loaded = False
            kernel._function = kernel._refuse
            kernel._scratch.clear()
            kernel._ready = set()

    # How it does it.

    @functools.cached_property
    def _host_signature(self) -> Signature:
        """Return the signature of the reference, which takes NumPy arrays in place of fields."""
        return Signature(
            self.template.name,
            tuple(
                dataclasses.replace(a, storage="ndarray") if isinstance(a, Array) else a
                for a in self._signature.arguments
            ),
        )

    def _refuse(self, *_: Any) -> None:
        raise ArgumentError(self.template.name, "was unloaded; build it again")

    def _enter_epoch(self) -> None:
        """Make ready for the current ``ti.init``."""
        arch = bridge.current_arch()
        if arch is None:
            raise TaichiNotInitialised(self.template.name)
        check_arch(self._source.variant, arch)
        with _compiling:
            if bridge.epoch() is not self._epoch:
                self._scratch.clear()
                self._ready = set()
                if not any(kernel._epoch is bridge.epoch() for kernel in self._family):
                    bridge.forget_functions(self._module)
                self._epoch = bridge.epoch()

    def _materialise(self) -> None:
        if not bridge.may_materialise():
            raise WrongThread(self.template.name)
        bridge.materialise()

    def _launch(self, values: tuple[Any, ...]) -> Any:
        if not self.needs_staging(values):
            return self._function(*values)
        with _compiling:  # Copying launches kernels of Taichi's own.
            staged = list(values)
            for index in self._partial:
                if bridge.is_on_host(values[index]):
                    staged[index] = bridge.to_ndarray(values[index])
            returned = self._function(*staged)
            for index in self._partial:
                if staged[index] is not values[index]:
                    bridge.copy_back(staged[index], values[index])
        return returned

    def _scratch_for(self, sizes: list[int]) -> tuple[Any, ...]:
        named = dict(zip(self._signature.symbols, sizes, strict=True))
        found = []
        for array in self.workspace:
            key = (array.name, concrete_shape(array, named))
            if key not in self._scratch:
                self._make_scratch(array, key)
            found.append(self._scratch[key])
        return tuple(found)

    def _make_scratch(self, array: Array, key: tuple[str, tuple[int, ...]]) -> None:
        if not bridge.may_allocate():
            raise WrongThread(self.template.name)
        with _compiling:
            self._materialise()
            if len(self._scratch) >= _MOST_SCRATCH:
                bridge.sync()
                self._scratch.clear()
            self._scratch[key] = bridge.make_ndarray(array.dtype.value, key[1])

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn an error of Taichi's compiler into one that names the template's line."""
        try:
            yield
        except bridge.AssertionFailure:
            raise  # In debug mode, at run time: it says itself what is wrong.
        except (bridge.CompilationError, bridge.RuntimeFailure) as error:
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> KernelCompileError:
        """Return Taichi's error with rendered line, template line and parameters."""
        message = str(error).strip()
        places = re.findall(rf'File "{re.escape(self._source.filename)}", line (\d+)', message)
        number = int(places[-1]) if places else 0
        last = [li for li in message.splitlines() if li.strip()][-1:]
        return KernelCompileError(
            self.template.name,
            f"Taichi cannot compile the kernel: {last[0].strip() if last else message}",
            template_line=self._source.template_line(number) if number else "",
            rendered_line=f"{number}: {self._source.line(number).strip()}" if number else "",
            params=self.params,
        )

    def __repr__(self) -> str:
        params = ", ".join(f"{k}={canonical(v)}" for k, v in self.params.items())
        return (
            f"<Kernel {self.template.name}({params})\n"
            f"  takes {self._signature}\n"
            f"  digest {self.digest[:16]}>"
        )


def check_arch(variant: Variant, arch: str) -> None:
    """Raise :class:`UnsupportedOnArch` if ``arch`` cannot run ``variant``."""
    reason = variant.template.unsupported(variant.problem, arch)
    if not reason:
        try:
            variant.template.check(variant.problem, variant.schedule, arch)
        except Invalid as error:
            reason = f"the schedule's {error.parameter} {error.problem}"
    if reason:
        raise UnsupportedOnArch(variant.template.name, arch, reason)


def _extents(array: Array) -> list[tuple[str | None, int]]:
    return [split_extent(extent) for extent in array.shape]
