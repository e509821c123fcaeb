"""Collects kernels, fields and graphs to export, as ``ti.aot.Module`` does."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.bundle import Bundle
from tikgen.aot.contents import bundle_path
from tikgen.aot.exporting.example_data import checked_examples
from tikgen.aot.exporting.export_plan import USUAL_OPTIONS, Code, KernelPlan, OwnCheck, Plan
from tikgen.aot.exporting.graphs import StepLike, plan_graph, replanned, steps_of
from tikgen.aot.exporting.staging import ARCHIVE
from tikgen.aot.exporting.template_kernels import plan_kernel
from tikgen.aot.names import identifier, name_problem, told_apart
from tikgen.aot.native.planning import native_targets, without_fields
from tikgen.aot.running.c_library import CAPABILITIES
from tikgen.aot.user_kernels.extraction import OwnKernel, extract
from tikgen.aot.user_kernels.value_text import unused
from tikgen.errors import BundleError, ExportError, ParameterError, near
from tikgen.machine.devices import host_arch
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import digest_of
from tikgen.taichi.arrays import is_field
from tikgen.units import counted

ARCHS = ("x64", "vulkan")
NATIVE_ARCHS = ("cpu",)


class Module:
    """Kernels, fields and graphs of one bundle.

    Unlike ``ti.aot.Module`` it does not need ``ti.init``, takes any number of archs, and may be
    saved more than once: a separate process compiles each arch.

    Args:
        archs: archs to compile for: ``"x64"``, ``"vulkan"``, ``"cuda"``, or ``"cpu"`` for the
            processor of this machine; None takes x64 and vulkan, of a native bundle the processor.
        verify: whether to verify kernels of templates without evidence; otherwise they are refused.
        max_examples: number of examples of such a verification.
        capabilities: what every Vulkan device that runs the bundle has, beyond what kernels need,
            such as ``"spirv_has_atomic_float_add"``, with which atomics are faster.
        native: whether to make a native bundle: object files and plain C functions, which need no
            library of Taichi's, for ``"x64"`` or ``"arm64"``.
        target_cpu: processor of a native bundle: ``"x86-64-v3"`` or another level, ``"host"`` for
            this machine; empty for x86-64-v3 on x64 and generic on arm64.
        library: whether a native bundle has a shared library, which a C compiler links.

    Raises:
        ExportError: if a native bundle cannot be made here: llvmlite or the C compiler is missing.
        ParameterError: if an arch is unknown or given twice, or a setting is invalid.
        UnsupportedOnArch: if a native bundle cannot have an arch.
    """

    def __init__(
        self,
        archs: Sequence[str] | None = None,
        *,
        verify: bool = False,
        max_examples: int = 20,
        capabilities: Sequence[str] = (),
        native: bool = False,
        target_cpu: str = "",
        library: bool = True,
    ) -> None:
        if archs is None:
            archs = NATIVE_ARCHS if native else ARCHS
        self.archs = _archs(archs)
        self._native = native_targets(self.archs, target_cpu, library) if native else {}
        self._library = native and library
        _check_native_settings(native, target_cpu, library)
        _check_count("max_examples", max_examples)
        self._verify, self._max_examples = verify, max_examples
        self._capabilities = _capabilities(capabilities)
        self._kernels: list[tuple[KernelPlan, str | None]] = []
        # Names of fields in the bundle and the fields, by their ids.
        self._fields: dict[int, tuple[str, Any]] = {}
        self._graphs: dict[str, tuple[list[StepLike], tuple[str, ...], int]] = {}
        self._kept: m.Manifest | None = None

    def add_kernel(
        self,
        kernel: Any,
        template_args: Mapping[str, Any] | None = None,
        name: str | None = None,
        *,
        reference: Callable[..., Mapping[str, Any]] | None = None,
        examples: Sequence[Sequence[Any]] = (),
        schedules: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Add a kernel of a template, or a user's own ``ti.kernel``.

        Args:
            kernel: what :func:`tikgen.build` returned, or a ``ti.kernel``.
            template_args: constants for the ``ti.template()`` arguments of a ``ti.kernel``: a
                number, a dtype, a field; for arrays without dtype or dimension an array, or an
                annotation.
            name: its name in the bundle; by default it is made from template and parameters.
            reference: takes the arguments of a ``ti.kernel`` as NumPy arrays, while fields hold
                zeros, and returns a dict of what written arrays and fields hold after a launch;
                the rest is compared with what Taichi compiles in Python.
            examples: arguments that prove a ``ti.kernel`` for which random ones are unsuitable,
                such as indices.
            schedules: schedule parameters of a template's kernel, by arch.

        Raises:
            ExportError: if it cannot be exported, an example does not fit, or the name is no
                identifier.
        """
        if name is not None and (problem := name_problem(name)):
            raise ExportError(repr(name), problem)
        if isinstance(kernel, Kernel) and _has_template(kernel):
            if template_args or reference or examples:
                raise ExportError(
                    kernel.name,
                    "reference and inputs of a template's kernel come from the template",
                )
            given = {_archs((arch,))[0]: found for arch, found in (schedules or {}).items()}
            plan = plan_kernel(
                kernel,
                self.archs,
                given,
                self._verify,
                self._max_examples,
                is_native=bool(self._native),
            )
        else:
            if schedules:
                raise ExportError(f"{kernel!r:.60}", "schedules are for kernels of templates")
            own = kernel if isinstance(kernel, OwnKernel) else extract(kernel, template_args)
            known = checked_examples(own.name, own.arguments, examples)
            plan = self._own(own, OwnCheck(known, reference))
        self._kernels.append((plan, name))

    def __repr__(self) -> str:
        counts = f"{counted(len(self._kernels), 'kernel')}, {counted(len(self._graphs), 'graph')}"
        return f"<Module of {counts} for {', '.join(self.archs)}>"

    @contextlib.contextmanager
    def add_kernel_template(self, kernel: Any) -> Iterator[KernelTemplate]:
        """Add instances of a ``ti.kernel``: ``with ... as t: t.instantiate(n=3)``."""
        yield KernelTemplate(self, kernel)

    def add_field(self, name: str, field: Any) -> None:
        """Name a field, before kernels that use it are added.

        Raises:
            ExportError: if it is no field, or its name is no identifier or another field's.
        """
        if problem := name_problem(name):
            raise ExportError(repr(name), problem)
        if not (is_field(field) or isinstance(field, m.Field)):
            problem = f"it must be a field, such as ti.field(ti.f32, (8, 8)); got {field!r:.60}"
            raise ExportError(f"the field {name!r}", problem)
        self._name_field(name, field, is_given=True)

    def add_graph(
        self,
        name: str,
        steps: Sequence[StepLike],
        *,
        temporaries: Sequence[str] = (),
        program_steps: int = 0,
    ) -> None:
        """Add kernels in sequence, launched by one call; see :meth:`Bundle.add_graph`.

        Args:
            name: its name.
            steps: the launches.
            temporaries: names of arrays that the runtime allocates.
            program_steps: how many steps of a program one call does, for the manifest.
        """
        if name in self._graphs:
            raise ExportError(f"the graph {name!r}", "it is there already")
        self._graphs[name] = (steps_of(name, steps), tuple(temporaries), program_steps)

    def keep_graphs(self, filepath: str | os.PathLike[str]) -> None:
        """Keep the graphs of the bundle at a path whose kernels are added again."""
        with contextlib.suppress(BundleError):
            self._kept = Bundle(filepath).manifest

    def save(
        self, filepath: str | os.PathLike[str], *, examples: int = 3, seed: int | None = None
    ) -> Bundle:
        """Compile, prove and write everything, and return the bundle.

        Args:
            filepath: a folder, or a file whose name ends in ``.zip``. An existing bundle is
                replaced in one step at the end; what is unchanged is reused.
            examples: number of launches with which each artefact is proved.
            seed: seed of their inputs; None takes a new one.

        Raises:
            ExportError: if nothing can be exported, or a graph does not fit its kernels.
            BundleError: if the bundle cannot be written there.
            ParameterError: if a setting is invalid.
        """
        _check_count("examples", examples)
        if seed is not None and (type(seed) is not int or seed < 0):
            problem = f"must be None or an integer that is not negative; got {seed!r}"
            raise ParameterError("export", {"seed": problem})
        from tikgen.aot.exporting.writing import write

        return Bundle(*write(self.plan(), filepath, examples=examples, seed=seed))

    def archive(self, filepath: str | os.PathLike[str], **settings: Any) -> Bundle:
        """Write everything into one ``.zip`` file; see :meth:`save`."""
        if not str(bundle_path(filepath)).endswith(ARCHIVE):
            raise ExportError(str(filepath), f"the name of an archive ends in {ARCHIVE}")
        return self.save(filepath, **settings)

    def plan(self) -> Plan:
        """Return the plan of the export, in which everything has a name."""
        if not self._kernels:
            raise ExportError("nothing", "no kernel was added")
        kernels: dict[str, KernelPlan] = {}
        for name, plan in zip(self._names(), (p for p, _ in self._kernels), strict=True):
            known = kernels.get(name)
            if known is not None and known.codes == plan.codes:
                continue
            if known is not None:
                raise ExportError(name, "two kernels have this name; give one of them another")
            entry = msgspec.structs.replace(plan.entry, name=name)
            kernels[name] = replace(plan, entry=entry)
        entries = {name: plan.entry for name, plan in kernels.items()}
        graphs = {
            name: plan_graph(name, steps, entries, temporaries, program_steps)
            for name, (steps, temporaries, program_steps) in self._graphs.items()
        }
        for name, graph in (self._kept.graphs if self._kept is not None else {}).items():
            again = replanned(graph, entries) if self._is_kept(graph, entries) else None
            if again is not None:
                graphs.setdefault(name, again)
        _check_cases((*kernels, *graphs))
        if self._native:
            if self._graphs:
                problem = "a native bundle has no graphs; call its functions in turn"
                raise ExportError(f"the graph {next(iter(self._graphs))!r}", problem)
            kernels, graphs = without_fields(kernels), {}
        return Plan(kernels, graphs, self.archs, self._capabilities, self._native, self._library)

    def _is_kept(self, graph: m.Graph, entries: Mapping[str, m.Kernel]) -> bool:
        assert self._kept is not None
        pairs = [(self._kept.kernels[s.kernel], entries.get(s.kernel)) for s in graph.steps]
        return all(
            now is not None and (old.template, old.params) == (now.template, now.params)
            for old, now in pairs
        )

    def _names(self) -> list[str]:
        """Return the name of each kernel; equal default names get a digest."""
        unique = {(p.entry.name, _digest(p)): None for p, name in self._kernels if name is None}
        labels = told_apart([name for name, _ in unique], [digest for _, digest in unique])
        automatic = dict(zip(unique, labels, strict=True))
        return [
            automatic[plan.entry.name, _digest(plan)] if name is None else name
            for plan, name in self._kernels
        ]

    def _own(self, own: OwnKernel, check: OwnCheck) -> KernelPlan:
        fields, inner = {}, {}
        for name, declared in own.fields.items():
            inner[name] = self._name_field(name, own.sources[name])
            fields[inner[name]] = msgspec.structs.replace(declared, name=inner[name])
        code = Code(
            text=own.text,
            function=own.function,
            digest=digest_of(own.text),
            fields=inner,
            options={k: v for k, v in own.options.items() if v != USUAL_OPTIONS.get(k)},
        )
        label = "_".join([own.name, *(f"{k}{v}" for k, v in _shown(own.templates).items())])
        entry = m.Kernel(
            name=identifier(label),
            family=identifier(own.name),
            params={name: str(value) for name, value in own.templates.items()},
            arguments=own.arguments,
            fields=tuple(sorted(fields)),
        )
        return KernelPlan(entry, dict.fromkeys(self.archs, code), check, fields=fields)

    def _name_field(self, name: str, field: Any, is_given: bool = False) -> str:
        """Return the name of a field in the bundle, which is unique."""
        if id(field) in self._fields:
            return self._fields[id(field)][0]
        taken = {known for known, _ in self._fields.values()}
        if name in taken and is_given:
            raise ExportError(f"the field {name!r}", "another field has this name")
        free = unused(name, taken)
        self._fields[id(field)] = free, field
        return free


class KernelTemplate:
    """A kernel whose instances are added; see :meth:`Module.add_kernel_template`."""

    def __init__(self, module: Module, kernel: Any) -> None:
        self._module = module
        self._kernel = kernel

    def instantiate(self, **template_args: Any) -> None:
        """Add the instance for these values of the ``ti.template()`` arguments."""
        self._module.add_kernel(self._kernel, template_args)


def _archs(archs: Sequence[str]) -> tuple[str, ...]:
    if isinstance(archs, str) or not isinstance(archs, Sequence):
        archs = (archs,)
    # Archs of Taichi have names.
    archs = [arch if isinstance(arch, str) else getattr(arch, "name", arch) for arch in archs]
    known = {"cpu": host_arch(), **{arch: arch for arch in m.ARCHS}}
    found = tuple(known[arch] for arch in archs if isinstance(arch, str) and arch in known)
    if len(found) < len(archs) or not found or len(set(found)) < len(found):
        problem = f"takes a sequence of {', '.join(known)}, each once; got {archs!r}"
        raise ParameterError("export", {"archs": problem})
    return found


def _check_count(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise ParameterError("export", {name: f"must be a positive integer; got {value!r}"})


def _capabilities(capabilities: Sequence[str]) -> tuple[str, ...]:
    is_listed = isinstance(capabilities, Iterable) and not isinstance(capabilities, str)
    if not is_listed or not all(isinstance(name, str) for name in capabilities):
        problem = f"takes a sequence of names such as spirv_has_int64; got {capabilities!r}"
        raise ParameterError("export", {"capabilities": problem})
    known = [name for name in CAPABILITIES if name.startswith("spirv_has_")]
    for name in capabilities:
        if name not in known:
            problem = f"names {name!r}, which is none of {', '.join(known)}.{near(name, known)}"
            raise ParameterError("export", {"capabilities": problem})
    return tuple(sorted(set(capabilities)))


def _check_cases(names: Sequence[str]) -> None:
    """Raise if two names are equal for file systems that ignore case."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ExportError(name, f"it differs from {other} in upper and lower case alone")


def _check_native_settings(native: bool, target_cpu: str, library: bool) -> None:
    given = {"target_cpu": target_cpu != "", "library": not library}
    problems = {name: "needs native=True" for name, is_given in given.items() if is_given}
    if problems and not native:
        raise ParameterError("export", problems)


def _has_template(kernel: Kernel) -> bool:
    """Return whether a kernel comes from a template, which has a reference."""
    return not kernel.signature.is_opaque and bool(kernel.variant.arguments)


def _digest(plan: KernelPlan) -> str:
    """Return the digest of a kernel's text on every arch."""
    return hashlib.sha256(
        "".join(f"{arch}:{code.digest};" for arch, code in sorted(plan.codes.items())).encode()
    ).hexdigest()


def _shown(templates: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v for n, v in templates.items() if isinstance(v, int | float | str)}
