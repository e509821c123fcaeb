"""Collects kernels, fields and graphs to export: what Taichi has as ``ti.aot.Module``."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.bundle import Bundle
from tikgen.aot.exporting.example_data import checked_examples
from tikgen.aot.exporting.export_plan import USUAL_OPTIONS, Code, KernelPlan, OwnCheck, Plan
from tikgen.aot.exporting.graphs import StepLike, plan_graph, replanned
from tikgen.aot.exporting.staging import ARCHIVE
from tikgen.aot.exporting.template_kernels import plan_kernel
from tikgen.aot.names import identifier, told_apart
from tikgen.aot.user_kernels.extraction import OwnKernel, extract
from tikgen.errors import BundleError, ExportError, ParameterError
from tikgen.machine.devices import host_arch
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import digest_of
from tikgen.units import counted

ARCHS = ("x64", "vulkan")


class Module:
    """Kernels, fields and graphs that go into one bundle.

    Unlike ``ti.aot.Module`` it needs no ``ti.init`` of its own, takes any number of archs, and may
    be saved as often as one likes: each arch is compiled by a process of its own.

    Args:
        archs: where to: ``"x64"`` (``"cpu"`` is the host's arch), ``"vulkan"``, ``"cuda"``.
        verify: whether to verify kernels of templates that have no evidence; without it they are
            refused.
        max_examples: examples of such a verification.
        capabilities: what every Vulkan device that runs the bundle has, beyond what kernels need:
            such as ``"spirv_has_atomic_float_add"``, with which atomics are faster.

    Raises:
        ParameterError: if an arch is unknown or given twice, or a setting is of no use.
    """

    def __init__(
        self,
        archs: Sequence[str] = ARCHS,
        *,
        verify: bool = False,
        max_examples: int = 20,
        capabilities: Sequence[str] = (),
    ) -> None:
        self.archs = _archs(archs)
        if type(max_examples) is not int or max_examples < 1:
            problem = f"must be a positive integer; got {max_examples!r}"
            raise ParameterError("export", {"max_examples": problem})
        self._verify, self._max_examples = verify, max_examples
        self._capabilities = _capabilities(capabilities)
        self._kernels: list[tuple[KernelPlan, str | None]] = []
        # Fields by the object that they are, and their names in the bundle.
        self._fields: dict[int, tuple[str, Any]] = {}
        self._graphs: dict[str, tuple[list[StepLike], tuple[str, ...]]] = {}
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
        """Add a kernel of a template, or a ``ti.kernel`` of one's own.

        Args:
            kernel: what :func:`tikgen.build` returned, or a ``ti.kernel``.
            template_args: values for the ``ti.template()`` arguments of a ``ti.kernel``, which are
                compiled in; for arrays without dtype or dimension an array, or an annotation.
            name: its name in the bundle; without it one that says what it is.
            reference: takes the arguments of a ``ti.kernel`` as NumPy arrays, while fields hold
                zeros, and returns a dict of what written arrays and fields hold after a launch;
                what it does not name is compared with what Taichi compiles in Python.
            examples: arguments with which a ``ti.kernel`` is launched to prove it, where made-up
                ones would not do: indices, for example.
            schedules: schedule parameters of a template's kernel for some archs, in the place of
                what was tuned for them, and of their defaults.

        Raises:
            ExportError: if it cannot be exported, an example does not fit it, or the name is no
                identifier.
        """
        if name is not None and (not isinstance(name, str) or identifier(name) != name):
            raise ExportError(repr(name), "a name takes letters, digits and single underscores")
        if isinstance(kernel, Kernel) and _has_template(kernel):
            if template_args or reference or examples:
                raise ExportError(
                    kernel.name,
                    "the kernel of a template has its reference and its inputs from there",
                )
            given = {_archs((arch,))[0]: found for arch, found in (schedules or {}).items()}
            plan = plan_kernel(kernel, self.archs, given, self._verify, self._max_examples)
        else:
            if schedules:
                raise ExportError(
                    f"{kernel!r:.60}", "schedules are those of templates; a ti.kernel has none"
                )
            own = kernel if isinstance(kernel, OwnKernel) else extract(kernel, template_args)
            known = checked_examples(own.name, own.arguments, examples)
            plan = self._own(own, OwnCheck(known, reference))
        self._kernels.append((plan, name))

    def __repr__(self) -> str:
        counts = f"{counted(len(self._kernels), 'kernel')}, {counted(len(self._graphs), 'graph')}"
        return f"<Module of {counts} for {', '.join(self.archs)}>"

    @contextlib.contextmanager
    def add_kernel_template(self, kernel: Any) -> Iterator[KernelTemplate]:
        """Add instances of a ``ti.kernel`` that takes ``ti.template()`` arguments.

        Use it as ``with module.add_kernel_template(kernel) as t: t.instantiate(n=3)``.
        """
        yield KernelTemplate(self, kernel)

    def add_field(self, name: str, field: Any) -> None:
        """Give a field its name in the bundle, before the kernels that use it are added.

        Raises:
            ExportError: if the name is no identifier, or is that of another field.
        """
        if not isinstance(name, str) or identifier(name) != name:
            raise ExportError(repr(name), "a name takes letters, digits and single underscores")
        self._name_field(name, field, is_given=True)

    def add_graph(
        self, name: str, steps: Sequence[StepLike], *, temporaries: Sequence[str] = ()
    ) -> None:
        """Add kernels in sequence, launched by one call.

        Args:
            name: its name in the bundle.
            steps: ``(kernel, {argument: value})`` or ``(kernel, value, ...)`` for each launch,
                where ``kernel`` is a kernel that was added, or its name in the bundle, and a value
                is the name of an argument of the graph or of a temporary, or a number.
            temporaries: names of arrays that the runtime allocates, zeroed, and the steps share.
        """
        if name in self._graphs:
            raise ExportError(f"the graph {name!r}", "there is one of that name")
        self._graphs[name] = (list(steps), tuple(temporaries))

    def keep_graphs(self, filepath: str | os.PathLike[str]) -> None:
        """Keep the graphs of the bundle at a path, as far as they are of the same kernels."""
        with contextlib.suppress(BundleError):
            self._kept = Bundle(filepath).manifest

    def save(
        self, filepath: str | os.PathLike[str], *, examples: int = 3, seed: int | None = None
    ) -> Bundle:
        """Compile, prove and write everything, and return the bundle.

        Args:
            filepath: a folder, or a file whose name ends in ``.zip``. A bundle that is there is
                replaced in one step, once all is done; what is unchanged is taken over from it.
            examples: launches with which each artefact is proved.
            seed: seed of their inputs; None takes a new one.

        Raises:
            ExportError: if nothing can be exported, or a graph does not fit its kernels.
            BundleError: if the bundle cannot be written there.
            ParameterError: if the number of examples is not positive, or the seed is negative.
        """
        if type(examples) is not int or examples < 1:
            problem = f"must be a positive integer; got {examples!r}"
            raise ParameterError("export", {"examples": problem})
        if seed is not None and (type(seed) is not int or seed < 0):
            problem = f"must be None or an integer that is not negative; got {seed!r}"
            raise ParameterError("export", {"seed": problem})
        from tikgen.aot.exporting.writing import write

        return Bundle(*write(self.plan(), filepath, examples=examples, seed=seed))

    def archive(self, filepath: str | os.PathLike[str], **settings: Any) -> Bundle:
        """Write everything into one file; takes what :meth:`save` takes.

        Raises:
            ExportError: if the name of the file does not end in ``.zip``.
        """
        if not os.fspath(filepath).endswith(ARCHIVE):
            raise ExportError(str(filepath), f"the name of an archive ends in {ARCHIVE}")
        return self.save(filepath, **settings)

    def plan(self) -> Plan:
        """Return all that was added, with a name for everything.

        Raises:
            ExportError: if nothing was added, two things have one name, or a graph does not fit.
        """
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
            name: plan_graph(name, steps, entries, temporaries)
            for name, (steps, temporaries) in self._graphs.items()
        }
        for name, graph in (self._kept.graphs if self._kept is not None else {}).items():
            again = replanned(graph, entries) if self._is_kept(graph, entries) else None
            if again is not None:
                graphs.setdefault(name, again)
        _check_cases((*kernels, *graphs))
        return Plan(kernels, graphs, self.archs, self._capabilities)

    def _is_kept(self, graph: m.Graph, entries: Mapping[str, m.Kernel]) -> bool:
        """Tell whether every kernel of a graph is still for the same problem."""
        assert self._kept is not None
        pairs = [(self._kept.kernels[s.kernel], entries.get(s.kernel)) for s in graph.steps]
        return all(
            now is not None and (old.template, old.params) == (now.template, now.params)
            for old, now in pairs
        )

    def _names(self) -> list[str]:
        """Return the name of each kernel; those of unnamed ones that collide are told apart."""
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
            fields[inner[name]] = m.Field(
                name=inner[name],
                dtype=declared.dtype,
                shape=declared.shape,
                element=declared.element,
            )
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
        """Return the name of a field in the bundle; the same field has one name."""
        if id(field) in self._fields:
            return self._fields[id(field)][0]
        taken = {known for known, _ in self._fields.values()}
        if name in taken and is_given:
            raise ExportError(f"the field {name!r}", "another one has this name")
        free = name
        number = 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        self._fields[id(field)] = free, field
        return free


class KernelTemplate:
    """A kernel of which instances are added; made by :meth:`Module.add_kernel_template`."""

    def __init__(self, module: Module, kernel: Any) -> None:
        self._module = module
        self._kernel = kernel

    def instantiate(self, **template_args: Any) -> None:
        """Add the instance for these values of the ``ti.template()`` arguments."""
        self._module.add_kernel(self._kernel, template_args)


def _archs(archs: Sequence[str]) -> tuple[str, ...]:
    if isinstance(archs, str) or not isinstance(archs, Sequence):
        archs = (archs,)
    # Taichi's own archs go by their names.
    archs = [arch if isinstance(arch, str) else getattr(arch, "name", arch) for arch in archs]
    known = {"cpu": host_arch(), **{arch: arch for arch in m.ARCHS}}
    wrong = [arch for arch in archs if arch not in known]
    found = tuple(known[arch] for arch in archs if arch in known)
    if wrong or not found or len(set(found)) < len(found):
        problem = f"takes a sequence of {', '.join(known)}, each once; got {archs!r}"
        raise ParameterError("export", {"archs": problem})
    return found


def _capabilities(capabilities: Sequence[str]) -> tuple[str, ...]:
    if isinstance(capabilities, str) or not all(isinstance(c, str) for c in capabilities):
        problem = f"takes a sequence of names such as spirv_has_int64; got {capabilities!r}"
        raise ParameterError("export", {"capabilities": problem})
    return tuple(sorted(set(capabilities)))


def _check_cases(names: Sequence[str]) -> None:
    """Raise where two names are one for file systems that do not tell upper from lower case."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise ExportError(name, f"it differs from {other} in upper and lower case alone")


def _has_template(kernel: Kernel) -> bool:
    """Tell whether a kernel comes from a template, which has a reference."""
    return not kernel.signature.is_opaque and bool(kernel.variant.arguments)


def _digest(plan: KernelPlan) -> str:
    """Return what tells a kernel from others of its name: the digest of its text on every arch."""
    return hashlib.sha256(
        "".join(f"{arch}:{code.digest};" for arch, code in sorted(plan.codes.items())).encode()
    ).hexdigest()


def _shown(templates: Mapping[str, Any]) -> dict[str, Any]:
    """Return those values that can stand in a name."""
    return {n: v for n, v in templates.items() if isinstance(v, int | float | str)}
