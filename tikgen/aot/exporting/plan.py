"""What is to be exported: kernels, fields and graphs, before anything is compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.errors import ExportError
from tikgen.pipeline.records import taichi_version
from tikgen.version import __version__

# Types of Python's numbers as ti.init has them; they need no mention.
USUAL_OPTIONS = {"default_fp": "f32", "default_ip": "i32"}


@dataclass(frozen=True)
class Code:
    """The text of a kernel for one arch.

    Attributes:
        text: a Python module; fields that it uses are in a dict ``FIELDS`` among its globals.
        function: name of the ``ti.kernel`` in it.
        digest: SHA-256 of the text less comments.
        literals: every parameter of a template, as a Python dict.
        schedule: schedule parameters as text.
        workspace: scratch arrays that it takes behind the arguments.
        evidence: what verification showed; None for a user's own kernel.
        fields: by the names under which the text has them, their names in the bundle.
        options: types of Python's numbers, as ``ti.init`` takes them.
    """

    text: str
    function: str
    digest: str
    literals: str = ""
    schedule: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[m.Argument, ...] = ()
    evidence: m.Evidence | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TemplateCheck:
    """How the artefact of a template's kernel is proved: by trials against the reference.

    Attributes:
        folder: folder of the template.
    """

    folder: str


@dataclass(frozen=True)
class OwnCheck:
    """How the artefact of a user's own kernel is proved: by its reference, else by Taichi's JIT.

    Attributes:
        examples: arguments to launch it with; without any they are made up.
        reference: takes what the kernel takes, while its fields hold zeros, and returns a dict of
            what written arrays and fields hold.
    """

    examples: tuple[tuple[Any, ...], ...] = ()
    reference: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class KernelPlan:
    """A kernel to export.

    Attributes:
        entry: what the manifest will say of it, but for its builds.
        codes: its text, by arch.
        fields: the fields that it uses, by their names in the bundle.
        check: how it is proved.
        failures: what speaks against an arch, by arch.
    """

    entry: m.Kernel
    codes: Mapping[str, Code]
    check: TemplateCheck | OwnCheck
    fields: Mapping[str, m.Field] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """All that is to be exported.

    Attributes:
        kernels: by name.
        graphs: by name, without their builds.
        archs: where to, Taichi's names.
        capabilities: what a Vulkan device may be relied on to have, beyond what kernels need.
    """

    kernels: Mapping[str, KernelPlan]
    graphs: Mapping[str, m.Graph]
    archs: tuple[str, ...]
    capabilities: tuple[str, ...] = ()

    @property
    def fields(self) -> dict[str, m.Field]:
        """Return every field that a kernel uses, by name."""
        return {name: f for k in self.kernels.values() for name, f in sorted(k.fields.items())}

    def with_graph(self, graph: m.Graph) -> Plan:
        """Return the plan with a graph, in the place of one of its name."""
        return replace(self, graphs={**self.graphs, graph.name: graph})

    def modules(self, arch: str) -> list[ModulePlan]:
        """Return the AOT modules of an arch: kernels with fields share one with their graphs."""
        usable = {n: k for n, k in sorted(self.kernels.items()) if arch in k.codes}
        graphs = [
            g
            for _, g in sorted(self.graphs.items())
            if all(step.kernel in usable for step in g.steps)
        ]
        with_fields = {n for n, k in usable.items() if k.fields}
        rest = tuple(g for g in graphs if any(s.kernel in with_fields for s in g.steps))
        together = with_fields | {s.kernel for g in rest for s in g.steps}
        modules = [
            ModulePlan(f"{arch}/{n}", arch, {n: k}, (), self.capabilities)
            for n, k in usable.items()
            if n not in together
        ]
        for graph in (g for g in graphs if g not in rest):
            kernels = {s.kernel: usable[s.kernel] for s in graph.steps}
            modules.append(
                ModulePlan(f"{arch}/{graph.name}", arch, kernels, (graph,), self.capabilities, True)
            )
        if together:
            kernels = {n: usable[n] for n in sorted(together)}
            folder = f"{arch}/with-fields"  # No identifier, so not the folder of another module.
            modules.append(ModulePlan(folder, arch, kernels, rest, self.capabilities))
        return modules


@dataclass(frozen=True)
class ModulePlan:
    """One AOT module to compile: a folder of the bundle.

    Attributes:
        folder: its folder in the bundle.
        arch: what it is compiled for.
        kernels: the kernels in it, by name.
        graphs: the graphs in it.
        capabilities: what a device may be relied on to have.
        is_graph: whether kernels are there for its graphs only, and have modules of their own.
    """

    folder: str
    arch: str
    kernels: Mapping[str, KernelPlan]
    graphs: tuple[m.Graph, ...]
    capabilities: tuple[str, ...] = ()
    is_graph: bool = False

    @property
    def fields(self) -> dict[str, m.Field]:
        """Return the fields of its kernels, by name."""
        return {n: f for k in self.kernels.values() for n, f in sorted(k.fields.items())}

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the kernels and graphs that are called through it."""
        kernels = () if self.is_graph else tuple(self.kernels)
        return (*kernels, *(graph.name for graph in self.graphs))

    @property
    def options(self) -> dict[str, str]:
        """Return the types of Python's numbers, in which all kernels of a module agree.

        Raises:
            ExportError: if they do not.
        """
        found: dict[str, str] = {}
        first = ""
        for name, kernel in self.kernels.items():
            options = dict(kernel.codes[self.arch].options)
            if first and options != found:
                told = [_told_types(found), _told_types(options)]
                raise ExportError(
                    f"{first} and {name} together",
                    f"a module that graphs or fields make them share has one type for Python's "
                    f"numbers; these were made for {told[0]} and {told[1]}",
                )
            first, found = name, options
        return found

    def without(self, kernel: str) -> ModulePlan:
        """Return the module less a kernel and the graphs that launch it."""
        kernels = {n: k for n, k in self.kernels.items() if n != kernel}
        graphs = tuple(g for g in self.graphs if all(s.kernel != kernel for s in g.steps))
        return replace(self, kernels=kernels, graphs=graphs)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that decides what the module will hold."""
        said = {
            "arch": self.arch,
            "kernels": {
                n: [code.digest, code.function, code.literals, dict(code.fields)]
                for n, code in ((n, k.codes[self.arch]) for n, k in self.kernels.items())
            },
            "fields": [msgspec.to_builtins(f) for f in self.fields.values()],
            "graphs": [msgspec.to_builtins(g) for g in self.graphs],
            "options": self.options,
            "capabilities": sorted(self.capabilities) if self.arch == "vulkan" else [],
            "format": m.FORMAT,
            "tikgen": __version__,
            "taichi": taichi_version(),
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def job(self, folder: str) -> str:
        """Return what the exporting process is told, as a line of JSON."""
        codes = {n: k.codes[self.arch] for n, k in self.kernels.items()}
        return json.dumps(
            {
                "folder": folder,
                "capabilities": list(self.capabilities),
                "is_graph": self.is_graph,
                "options": self.options,
                "fields": [msgspec.to_builtins(f) for f in self.fields.values()],
                "kernels": {
                    n: {
                        "text": code.text,
                        "function": code.function,
                        "fields": dict(code.fields),
                        "arguments": msgspec.to_builtins(
                            (*self.kernels[n].entry.arguments, *code.workspace)
                        ),
                        "workspace": [w.name for w in code.workspace],
                    }
                    for n, code in codes.items()
                },
                "graphs": [msgspec.to_builtins(g) for g in self.graphs],
            }
        )


def _told_types(options: Mapping[str, str]) -> str:
    return " and ".join(f"{n}={v}" for n, v in sorted({**USUAL_OPTIONS, **options}.items()))


def accessor_names(field: str) -> tuple[str, str]:
    """Return the names of the kernels that read and write a field, which no other kernel has."""
    return f"read__{field}", f"write__{field}"
