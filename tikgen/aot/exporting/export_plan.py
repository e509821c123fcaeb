"""What is to be exported: kernels, fields and graphs, before anything is compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.native.targets import Target, llvmlite_version, symbol_of
from tikgen.errors import ExportError
from tikgen.pipeline.records import taichi_version
from tikgen.version import __version__

# Types of Python's numbers as ti.init has them; they need no mention.
USUAL_OPTIONS = {"default_fp": "f32", "default_ip": "i32"}


@dataclass(frozen=True)
class Code:
    """The text of a kernel for one arch; see :class:`tikgen.aot.manifest.Build` for the rest."""

    text: str  # A Python module; fields that it uses are in its global dict ``FIELDS``.
    function: str
    digest: str  # SHA-256 of the text without comments.
    literals: str = ""
    schedule: Mapping[str, str] = field(default_factory=dict)
    workspace: tuple[m.Argument, ...] = ()
    evidence: m.Evidence | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_build(cls, build: m.Build, text: str, digest: str) -> Code:
        """Return the code from which a build was compiled."""
        shared = {name: getattr(build, name) for name in _OF_BUILD}
        return cls(text=text, digest=digest, **shared)

    @property
    def of_manifest(self) -> dict[str, Any]:
        """Return what a build in the manifest says of it."""
        return {name: getattr(self, name) for name in _OF_BUILD}


_OF_BUILD = ("function", "literals", "schedule", "workspace", "evidence", "fields", "options")


@dataclass(frozen=True)
class OwnCheck:
    """How the artefact of a user's own kernel is proved: by its reference, else by Taichi's JIT.

    Attributes:
        examples: arguments to launch it with; random ones if there are none.
        reference: takes what the kernel takes, while its fields hold zeros, and returns a dict of
            what written arrays and fields hold.
    """

    examples: tuple[tuple[Any, ...], ...] = ()
    reference: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class KernelPlan:
    """A kernel to export; code and failures are by arch, fields by their names in the bundle."""

    entry: m.Kernel  # Without builds.
    codes: Mapping[str, Code]
    check: OwnCheck = OwnCheck()  # Of a user's own kernel.
    template: str = ""  # Folder of the template, which has the reference.
    fingerprint: str = ""  # That of the template.
    fields: Mapping[str, m.Field] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """All that is to be exported: kernels and graphs by name, archs by Taichi's names.

    For a native bundle ``native`` has the processor for each arch, and ``library`` says whether it
    has a shared library.
    """

    kernels: Mapping[str, KernelPlan]
    graphs: Mapping[str, m.Graph]
    archs: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    native: Mapping[str, Target] = field(default_factory=dict)
    library: bool = False

    @property
    def fields(self) -> dict[str, m.Field]:
        """Return every field that a kernel uses, by name."""
        return _fields_of(self.kernels)

    def with_graph(self, graph: m.Graph) -> Plan:
        """Return the plan with another graph, which replaces one of the same name."""
        return replace(self, graphs={**self.graphs, graph.name: graph})

    def modules(self, arch: str) -> list[ModulePlan]:
        """Return the AOT modules of an arch; all that uses fields shares one."""
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
            ModulePlan(
                f"{arch}/{n}", arch, {n: k}, (), self.capabilities, target=self.native.get(arch)
            )
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
    """One AOT module to compile: a folder of the bundle."""

    folder: str
    arch: str
    kernels: Mapping[str, KernelPlan]
    graphs: tuple[m.Graph, ...]
    capabilities: tuple[str, ...] = ()
    is_graph: bool = False  # Its kernels have modules of their own as well.
    target: Target | None = None  # Of a native bundle, in which it has one kernel.

    @property
    def fields(self) -> dict[str, m.Field]:
        """Return the fields of its kernels, by name."""
        return _fields_of(self.kernels)

    @property
    def entries(self) -> tuple[str, ...]:
        """Return the kernels and graphs that are called through it."""
        kernels = () if self.is_graph else tuple(self.kernels)
        return (*kernels, *(graph.name for graph in self.graphs))

    @property
    def options(self) -> dict[str, str]:
        """Return the types of Python's numbers; raise ExportError if its kernels disagree."""
        found: dict[str, str] = {}
        first = ""
        for name, kernel in self.kernels.items():
            options = dict(kernel.codes[self.arch].options)
            if first and options != found:
                one, other = (
                    " and ".join(f"{n}={v}" for n, v in sorted({**USUAL_OPTIONS, **each}.items()))
                    for each in (found, options)
                )
                raise ExportError(
                    f"{first} and {name} together",
                    f"a module that graphs or fields make them share has one type for Python's "
                    f"numbers; these were made for {one} and {other}",
                )
            first, found = name, options
        return found

    def without(self, kernel: str) -> ModulePlan:
        """Return the module without a kernel and the graphs that launch it."""
        kernels = {n: k for n, k in self.kernels.items() if n != kernel}
        graphs = tuple(g for g in self.graphs if all(s.kernel != kernel for s in g.steps))
        return replace(self, kernels=kernels, graphs=graphs)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that determines the compiled module."""
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
            "format": m.FORMAT if self.target else m.PLAIN_FORMAT,
            "tikgen": __version__,
            "taichi": taichi_version(),
        }
        if self.target is not None:
            said["native"] = [self.target.triple, self.target.cpu, self.target.features]
            said["llvmlite"] = llvmlite_version()
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def job(self, folder: str) -> dict[str, Any]:
        """Return the job of the compiling process, which writes the module to ``folder``."""
        codes = {n: k.codes[self.arch] for n, k in self.kernels.items()}
        return {
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
            "native": None if self.target is None else vars(self.target),
            "symbol": symbol_of(self.digest),
        }


def _fields_of(kernels: Mapping[str, KernelPlan]) -> dict[str, m.Field]:
    return {name: f for k in kernels.values() for name, f in sorted(k.fields.items())}


def accessor_names(field: str) -> tuple[str, str]:
    """Return the names of the kernels that read and write a field."""
    return f"read__{field}", f"write__{field}"
