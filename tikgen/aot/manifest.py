"""The manifest of a bundle, ``manifest.json``, as types.

Running a bundle needs this module, so it imports neither Taichi nor templates.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

# The latest format; native bundles have it, and others the one before.
FORMAT = 2
PLAIN_FORMAT = 1
FILE_NAME = "manifest.json"
# Taichi's names for the archs of bundles, and their numbers in its C library.
ARCHS = {"vulkan": 1, "cuda": 3, "x64": 4, "arm64": 5}

Extent = int | str
Role = Literal["in", "out", "inout", "work"]


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of a kernel or a graph, or an array that the runtime allocates for it.

    Taichi's C library passes at most 32 bits by value. A module takes a scalar of 64 bits (i64,
    u64, f64) as two of type i32, its low half and then its high half, in a graph by the names
    ``<name>.low`` and ``<name>.high``. Narrower integers are passed as i32, f16 as bits of an i32.

    Attributes:
        name: name in the signature.
        kind: ``"array"`` or ``"scalar"``.
        dtype: element type, such as ``"f32"``.
        shape: the extent of each axis of an array: a number, a symbol with the same value in all
            arguments, or a symbol plus a number such as ``"rows + 1"``.
        element: shape of each element of an array of vectors or matrices.
        role: ``"in"`` is only read, ``"out"`` only written, ``"inout"`` both, ``"work"`` is
            scratch.
        covered: whether every element of a written array is written.
        inplace: whether an output may be the same array as an input.
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
    """A product in a cost model: a number times sizes."""

    factor: float
    symbols: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True):
    """The least bytes moved and operations done by a launch, as sums of products of sizes."""

    bytes: tuple[Term, ...]
    flops: tuple[Term, ...]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying a kernel before its export."""

    examples: int
    seed: int
    worst: float
    when: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of running the artefact in a fresh process through Taichi's C library.

    Attributes:
        against: what it was compared with: ``"reference"``; ``"jit"``, the same code run by Taichi
            in Python; ``"kernels"``, the kernels of a graph launched one by one.
        examples: number of launches.
        seed: seed of the inputs.
        worst: greatest error as a fraction of what is allowed.
        when: time in UTC, ISO 8601.
        data: file in the bundle with the inputs and results of a user's own kernel that came with
            examples or a reference.
    """

    against: Literal["reference", "jit", "kernels"]
    examples: int
    seed: int
    worst: float
    when: str
    data: str = ""


class Build(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel or a graph, compiled for one arch.

    Attributes:
        module: folder of the AOT module in the bundle, such as ``x64/stencil_dim3_f32``; of a
            native bundle it has an object file.
        entry: name of the kernel or the graph in that module.
        digest: SHA-256 of the source, of all else in the module, and of the versions.
        source: file of the rendered source in the bundle, such as ``sources/<digest>.py``.
        function: name of the kernel in that source.
        literals: every parameter of a template as a Python dict, to prove it again.
        schedule: schedule parameters as text.
        fields: names of fields in the bundle, by their names in the source.
        options: types of Python's numbers, as ``ti.init`` takes them.
        workspace: scratch arrays, passed after the arguments in this order.
        capabilities: what the device must have, Taichi's names, such as ``spirv_has_float64``.
        evidence: its verification; None for a user's own kernel.
        proof: the proof of the artefact.
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
        name: its unique name in the bundle; an identifier in Python and C.
        family: name of the selector that dispatches to it, by dtype, dimension and shape.
        template: name of the template; empty for a user's own kernel.
        params: problem parameters as text.
        sizes: baked sizes, by symbol.
        arguments: what a caller passes, in order.
        fields: names of the fields that it uses, which the runtime holds.
        cost: the least work of a launch, if known.
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
    """A launch in a graph, with the graph's name for each argument of the kernel."""

    kernel: str
    arguments: dict[str, str]


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kernels in sequence, launched by one call.

    Attributes:
        name: its unique name in the bundle.
        arguments: what a caller passes, in order.
        temporaries: arrays that the runtime allocates, shared by the steps; the workspace of a
            build comes on top.
        constants: scalars that are fixed, by name.
        steps: the launches, in order.
        program_steps: how many steps of a program they are; 0 if they are of no program.
        builds: by arch.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    temporaries: tuple[Argument, ...] = ()
    constants: dict[str, int | float] = {}
    steps: tuple[Step, ...] = ()
    program_steps: int = 0
    builds: dict[str, Build] = {}


class Accessor(msgspec.Struct, frozen=True, kw_only=True):
    """The two kernels of a module that copy a field to the argument ``array`` and back."""

    module: str
    read: str
    write: str


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field that kernels share; ``element`` is the shape of its vectors or matrices."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    element: tuple[int, ...] = ()
    builds: dict[str, Accessor] = {}


class File(msgspec.Struct, frozen=True):
    """The SHA-256 of a file in hexadecimal, and its size in bytes."""

    sha256: str
    size: int


class Native(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the object files of a native bundle were compiled for, and their shared library.

    Attributes:
        cpu: LLVM's name of the processor or of its level, such as ``"x86-64-v3"``.
        triple: LLVM's name of processor and system.
        features: LLVM's features of the processor beyond those of ``cpu``.
        needed: instructions that are looked for before a kernel runs, as C compilers name them.
        llvmlite: version of llvmlite that compiled them.
        library: file of the shared library in the bundle; empty if there is none.
    """

    cpu: str
    triple: str
    features: str = ""
    needed: tuple[str, ...] = ()
    llvmlite: str = ""
    library: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a bundle.

    Attributes:
        format: version of this format.
        name: name of the bundle: an identifier, the prefix of its names in C.
        archs: requested archs, in order.
        capabilities: what every Vulkan device must have, beyond what kernels need.
        tikgen: version of tikgen that exported it.
        taichi: version of Taichi that compiled it and must run it.
        kernels: by name, sorted.
        graphs: by name, sorted.
        fields: by name, sorted.
        files: every other file, by its path in the bundle, sorted.
        native: by arch; empty except for a native bundle, whose modules are object files.
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
    native: dict[str, Native] = {}

    @property
    def launchable(self) -> tuple[Kernel | Graph, ...]:
        """Return kernels, then graphs."""
        return (*self.kernels.values(), *self.graphs.values())


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as indented JSON, with its digest."""
    text = msgspec.json.encode(manifest, order="deterministic")
    digest = _digest_of(msgspec.json.decode(text))
    whole = text.removesuffix(b"}") + f',"digest":"{digest}"}}'.encode()
    return msgspec.json.format(whole, indent=2) + b"\n"


def is_altered(data: bytes) -> bool:
    """Return whether the JSON of a manifest differs from its digest, which older ones lack."""
    parts = msgspec.json.decode(data)
    digest = parts.pop("digest", "")
    return bool(digest) and digest != _digest_of(parts)


def _digest_of(parts: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


@dataclass(frozen=True)
class Failure:
    """A kernel or a graph that is missing from a bundle for an arch, and why."""

    name: str
    arch: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name} on {self.arch}: {self.problem}"
