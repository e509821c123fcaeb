"""What a bundle says about itself: ``manifest.json``, typed.

Whoever runs a bundle reads this file, so that it imports neither Taichi nor what templates need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

FORMAT = 1
FILE_NAME = "manifest.json"
# Taichi's names for the archs of bundles, and how its C library numbers them.
ARCHS = {"vulkan": 1, "cuda": 3, "x64": 4, "arm64": 5}

Extent = int | str
Role = Literal["in", "out", "inout", "work"]


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of a kernel or a graph, or an array that the runtime allocates for it.

    Taichi's C library passes 32 bits by value and no more. So a module takes a scalar of 64 bits
    (i64, u64, f64) as two of type i32, its low half and then its high half, in a graph by the names
    ``<name>.low`` and ``<name>.high``. Narrower integers go as i32, f16 as the bits of an i32.

    Attributes:
        name: name in the signature.
        kind: ``"array"`` or ``"scalar"``.
        dtype: element type, such as ``"f32"``.
        shape: one extent an axis of an array: a number, a symbol that must agree wherever it
            stands, or a symbol plus a number such as ``"rows + 1"``.
        element: shape of each element of an array of vectors or matrices; behind the axes.
        role: ``"in"`` is only read, ``"out"`` only written, ``"inout"`` both, ``"work"`` is
            scratch.
        covered: whether a written array gets every element written.
        inplace: whether an output may be the very array that is also an input.
    """

    name: str
    kind: Literal["array", "scalar"]
    dtype: str
    shape: tuple[Extent, ...] = ()
    element: tuple[int, ...] = ()
    role: Role = "in"
    covered: bool = True
    inplace: bool = False


class Term(msgspec.Struct, frozen=True):
    """A product in a cost model: a number times the sizes that are named."""

    factor: float
    symbols: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True):
    """What one launch must do at least, each a sum of products of sizes.

    Attributes:
        bytes: bytes moved through memory.
        flops: operations done.
    """

    bytes: tuple[Term, ...]
    flops: tuple[Term, ...]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the verification of a kernel showed before it was exported."""

    examples: int
    seed: int
    worst: float
    when: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the artefact did when a fresh process ran it through Taichi's C library.

    Attributes:
        against: ``"reference"``; ``"jit"`` for a user's own kernel without a reference: the same
            code, compiled and run by Taichi in Python; ``"kernels"`` for a graph: its kernels,
            launched one by one.
        examples: launches, each on random inputs.
        seed: seed of the inputs.
        worst: greatest error as a fraction of what is allowed.
        when: time in UTC, ISO 8601.
        data: file in the bundle with the inputs and what was computed from them, where a user's
            own kernel came with examples or a reference.
    """

    against: Literal["reference", "jit", "kernels"]
    examples: int
    seed: int
    worst: float
    when: str
    data: str = ""


class Build(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel or a graph as it was compiled for one arch.

    Attributes:
        module: folder of the AOT module in the bundle, such as ``x64/stencil_dim3_f32``.
        entry: name of the kernel or the graph in that module.
        digest: SHA-256 of the source, of whatever else went into the module, and of the versions.
        source: file of the rendered source in the bundle, such as ``sources/<digest>.py``.
        function: name of the kernel in that source.
        literals: every parameter of a template, as a Python dict, for whoever proves it again.
        schedule: schedule parameters as text.
        fields: by the names under which the source has them, their names in the bundle.
        options: types of Python's numbers, as ``ti.init`` takes them.
        workspace: scratch arrays, passed behind the arguments in this order.
        capabilities: what the device must have, Taichi's names, such as ``spirv_has_float64``.
        evidence: what verification showed before; None for a user's own kernel.
        proof: what the artefact itself did.
    """

    module: str
    entry: str
    digest: str
    source: str = ""
    function: str = ""
    literals: str = ""
    schedule: dict[str, str] = {}
    fields: dict[str, str] = {}
    options: dict[str, str] = {}
    workspace: tuple[Argument, ...] = ()
    capabilities: tuple[str, ...] = ()
    evidence: Evidence | None = None
    proof: Proof | None = None


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel of the bundle.

    Attributes:
        name: its one name in the bundle; an identifier in Python and C.
        family: name of the selector that dispatches to it, by dtype, dimension and shape.
        template: name of the template, or nothing for a user's own kernel.
        params: problem parameters as text.
        sizes: sizes that are baked in, by symbol.
        arguments: what a caller passes, in order.
        fields: names of the fields that it uses, which the runtime holds.
        cost: what a launch must do at least, where that is known.
        builds: by arch.
    """

    name: str
    family: str
    template: str = ""
    params: dict[str, str] = {}
    sizes: dict[str, int] = {}
    arguments: tuple[Argument, ...] = ()
    fields: tuple[str, ...] = ()
    cost: Cost | None = None
    builds: dict[str, Build] = {}


class Step(msgspec.Struct, frozen=True):
    """A launch within a graph.

    Attributes:
        kernel: name of the kernel.
        arguments: for each argument of the kernel the graph's argument, temporary or constant.
    """

    kernel: str
    arguments: dict[str, str]


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kernels in sequence, launched by one call.

    Attributes:
        name: its one name in the bundle; no kernel has the same.
        arguments: what a caller passes, in order.
        temporaries: arrays that the runtime allocates, shared by the steps; a build's workspace
            comes on top. The graph takes each of them by its name.
        constants: scalars that are fixed, by name.
        steps: the launches, in order.
        builds: by arch.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    temporaries: tuple[Argument, ...] = ()
    constants: dict[str, int | float] = {}
    steps: tuple[Step, ...] = ()
    builds: dict[str, Build] = {}


class Accessor(msgspec.Struct, frozen=True, kw_only=True):
    """The two kernels of a module that copy a field to an array and back, ``array`` by name."""

    module: str
    read: str
    write: str


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field that kernels of the bundle share; the runtime holds it.

    Attributes:
        name: its name in the bundle.
        dtype: element type.
        shape: its shape.
        element: shape of each element, of a field of vectors or matrices.
        builds: by arch.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    element: tuple[int, ...] = ()
    builds: dict[str, Accessor] = {}


class File(msgspec.Struct, frozen=True):
    """The SHA-256 of a file of the bundle, in hexadecimal, and its bytes."""

    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a bundle says about itself.

    Attributes:
        format: version of this format.
        name: name of the bundle: an identifier, the prefix of its names in C.
        archs: archs that were asked for, in order.
        capabilities: what every Vulkan device is to have, beyond what kernels need.
        tikgen: version of tikgen that exported it.
        taichi: version of Taichi that compiled it, and whose C library runs it.
        kernels: by name, sorted.
        graphs: by name, sorted.
        fields: by name, sorted.
        files: every file but this one, by its path in the bundle, sorted.
    """

    format: int
    name: str
    archs: tuple[str, ...]
    tikgen: str
    taichi: str
    capabilities: tuple[str, ...] = ()
    kernels: dict[str, Kernel] = {}
    graphs: dict[str, Graph] = {}
    fields: dict[str, Field] = {}
    files: dict[str, File] = {}

    @property
    def launchable(self) -> tuple[Kernel | Graph, ...]:
        """Return what can be launched: kernels, then graphs."""
        return (*self.kernels.values(), *self.graphs.values())


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON that a person can read."""
    return (
        msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=2) + b"\n"
    )


@dataclass(frozen=True)
class Failure:
    """A kernel or a graph that is not in a bundle for an arch, and why.

    Attributes:
        name: its name.
        arch: the arch.
        problem: what speaks against it.
    """

    name: str
    arch: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name} on {self.arch}: {self.problem}"
