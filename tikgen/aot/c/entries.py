"""The contents of a bundle for the templates of its C header."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tikgen.aot.c.identifiers import Names, defined_in, usable
from tikgen.aot.manifest import Argument, Build, Field, File, Graph, Kernel, Manifest, Role
from tikgen.template.arguments import split_extent
from tikgen.units import counted

C_TYPES = {
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "f16": "float",
    "f32": "float",
    "f64": "double",
}
# Scalars of 64 bits are passed as two halves; see the manifest.
_WIDE = frozenset({"i64", "u64", "f64"})
# The names in the bodies of generated functions, and in methods and their declarations.
_LOCALS = frozenset({"bundle", "arrays", "scalars", "members"})
_OF_METHODS = frozenset({"get", "check", "bundle_", "Array", "Half"})
_DOES = {"in": "only read", "out": "written", "inout": "updated", "work": "scratch"}


@dataclass(frozen=True)
class Parameter:
    """An argument of a generated function, and its name in C."""

    argument: Argument
    c: str
    constant: int | float | None = None  # Of a scalar that a graph fixes.

    @property
    def name(self) -> str:
        """Return its name in the bundle."""
        return self.argument.name

    @property
    def dtype(self) -> str:
        """Return its element type."""
        return self.argument.dtype

    @property
    def is_scalar(self) -> bool:
        """Return whether it is passed by value."""
        return self.argument.kind == "scalar"

    @property
    def is_written(self) -> bool:
        """Return whether it is written."""
        return self.argument.role != "in"

    @property
    def passed_as(self) -> list[tuple[str, str]]:
        """Return names and dtypes of what is passed for it: two halves of a wide scalar."""
        if self.is_scalar and self.dtype in _WIDE:
            return [(f"{self.name}.{half}", "TI_DATA_TYPE_I32") for half in ("low", "high")]
        return [(self.name, f"TI_DATA_TYPE_{self.dtype.upper()}")]

    @property
    def bits(self) -> list[str]:
        """Return the expressions for the 32 bits of each part of a scalar."""
        if self.dtype in _WIDE:
            return [f"NAME_{half}_(&{self.c})" for half in ("low", "high")]
        if self.dtype == "f16":
            return [f"NAME_half_({self.c})"]
        return [f"NAME_bits_(&{self.c}, sizeof {self.c})"]

    @property
    def access(self) -> str:
        """Return the header's name for how it is used."""
        if self.is_scalar:
            return "SCALAR"
        if not self.is_written:
            return "READ"
        return "WRITE_IN_PLACE" if self.argument.inplace else "WRITE"

    @property
    def split_shape(self) -> list[tuple[str | None, int]]:
        """Return each extent, those of elements last, as a symbol and a number."""
        return [split_extent(e) for e in (*self.argument.shape, *self.argument.element)]

    @property
    def extents(self) -> str:
        """Return the initialiser of its shape."""
        shape = self.split_shape or [(None, 0)]
        return ", ".join(f'{{"{s}", {n}}}' if s else f"{{NULL, {n}}}" for s, n in shape)

    @property
    def declaration(self) -> str:
        """Return its declaration in a function of the header."""
        if self.is_scalar:
            return f"{C_TYPES[self.dtype]} {self.c}"
        return f"{'' if self.is_written else 'const '}NAME_array *{self.c}"

    @property
    def description(self) -> str:
        """Return its dtype, its shape and its use."""
        if self.is_scalar:
            return self.dtype
        extents = ", ".join(map(str, (*self.argument.shape, *self.argument.element)))
        kept = (
            "; elements that are not written keep their values" if not self.argument.covered else ""
        )
        return f"{self.dtype}[{extents}], {_DOES[self.argument.role]}{kept}"


@dataclass(frozen=True)
class Module:
    """A folder of the bundle that Taichi's C library loads, with its files by path."""

    folder: str
    arch: str
    has_fields: bool
    files: list[tuple[str, File]]


@dataclass(frozen=True)
class BuildView:
    """A kernel or a graph, compiled for one arch; see ``NAME_build_`` in the header."""

    arch: str
    module: int
    entry: str
    capabilities: tuple[str, ...]
    scratch: list[Parameter]
    first_slot: int


@dataclass(frozen=True)
class Callable:
    """A kernel, a graph, or a copy from or to a field."""

    name: str
    c: str
    prefix: str
    is_graph: bool
    parameters: list[Parameter]
    builds: list[BuildView]
    about: str

    @property
    def passed(self) -> list[Parameter]:
        """Return the parameters that a caller passes."""
        return [p for p in self.parameters if p.constant is None]

    @property
    def prototype(self) -> str:
        """Return the function's name and parameters."""
        return prototype(self.prefix, self.c, (p.declaration for p in self.passed))

    @property
    def constants(self) -> list[str]:
        """Return the declarations of fixed scalars."""
        return [
            f"const {C_TYPES[p.dtype]} {p.c} = {literal(p.dtype, p.constant)};"
            for p in self.parameters
            if p.constant is not None
        ]

    @property
    def arrays(self) -> list[str]:
        """Return the names of the arrays."""
        return [p.c for p in self.parameters if not p.is_scalar]

    @property
    def scalars(self) -> list[str]:
        """Return the expressions for the bits of the scalars."""
        parts = [part for p in self.parameters if p.is_scalar for part in p.bits]
        return [part.replace("NAME", self.prefix, 1) for part in parts]

    @property
    def parameter_count(self) -> int:
        """Return the number of Taichi's arguments without scratch."""
        return sum(len(p.passed_as) for p in self.parameters)

    @property
    def description(self) -> list[str]:
        """Return the lines of the function's comment."""
        archs = ", ".join(build.arch for build in self.builds) or "no arch"
        lines = [f"{self.name}: {self.about}. Built for {archs}."]
        if self.parameters:
            width = max(len(p.c) for p in self.parameters)
            lines.append("")
            for p in self.parameters:
                fixed = "" if p.constant is None else f", always {p.constant}"
                lines.append(f"{p.c:{width}}  {p.description}{fixed}")
        return wrapped(lines)

    @property
    def most_arguments(self) -> int:
        """Return the greatest number of arguments, with scratch."""
        return self.parameter_count + max([0, *(len(b.scratch) for b in self.builds)])

    @property
    def most_symbols(self) -> int:
        """Return the number of symbols in its shapes."""
        every = [*self.parameters, *(p for b in self.builds for p in b.scratch)]
        return len({symbol for p in every for symbol, _ in p.split_shape if symbol})


class Entries:
    """The callables of a bundle and their modules.

    Args:
        manifest: the manifest of the bundle.
        prefix: what names begin with.
        taken: names that no callable has.
        text: the templates of headers; no argument has a name that they define.
    """

    def __init__(self, manifest: Manifest, prefix: str, taken: set[str], text: str) -> None:
        self._manifest = manifest
        self._prefix = prefix
        families = {kernel.family for kernel in manifest.kernels.values()}
        own = {*manifest.kernels, *manifest.graphs, *families}
        self._locals = {
            *_LOCALS,
            *_OF_METHODS,
            *defined_in(text, prefix),
            *(f"{prefix}_{name}" for name in own),
            *(f"{prefix}_callable_{name}_" for name in own),
        }
        self._modules: dict[str, tuple[int, str]] = {}
        self.names = Names(taken)
        self.slots = 0
        self.kernels = {name: self._of_kernel(k) for name, k in sorted(manifest.kernels.items())}
        graphs = [self._of_graph(g) for _, g in sorted(manifest.graphs.items())]
        fields = [c for _, f in sorted(manifest.fields.items()) for c in self._of_field(f)]
        self.callables = [*self.kernels.values(), *graphs, *fields]

    @property
    def modules(self) -> list[Module]:
        """Return the modules in the order of their numbers."""
        files = sorted(self._manifest.files.items())
        fields = self._manifest.fields.values()
        with_fields = {build.module for field in fields for build in field.builds.values()}
        return [
            Module(
                folder,
                arch,
                folder in with_fields,
                [item for item in files if item[0].startswith(f"{folder}/")],
            )
            for folder, (_, arch) in self._modules.items()
        ]

    def _of_kernel(self, kernel: Kernel) -> Callable:
        params = ", ".join(f"{k}={v}" for k, v in kernel.params.items() if v != "None")
        origin = f"{kernel.template}({params})" if kernel.template else "a user"
        about = f"a kernel of {origin}"
        return self._callable(kernel.name, about, False, kernel.arguments, {}, kernel.builds, ())

    def _of_graph(self, graph: Graph) -> Callable:
        dtypes = {
            given: argument.dtype
            for step in graph.steps
            for argument in self._manifest.kernels[step.kernel].arguments
            for given in [step.arguments.get(argument.name)]
            if given in graph.constants
        }
        constants = {
            Argument(name=name, kind="scalar", dtype=dtypes[name]): value
            for name, value in graph.constants.items()
            if name in dtypes
        }
        steps = ", then ".join(step.kernel for step in graph.steps)
        about = f"a graph of {steps}"
        if graph.program_steps:
            about += f"; each call does {counted(graph.program_steps, 'step')} of the program"
        return self._callable(
            graph.name, about, True, graph.arguments, constants, graph.builds, graph.temporaries
        )

    def _of_field(self, field: Field) -> list[Callable]:
        made = []
        verbs: tuple[tuple[str, Role], ...] = (("read", "out"), ("write", "in"))
        for verb, role in verbs:
            array = Argument(
                name="array",
                kind="array",
                dtype=field.dtype,
                # A field without axes is copied to an array that has one.
                shape=field.shape or (1,),
                element=field.element,
                role=role,
            )
            builds = {
                arch: Build(module=build.module, entry=getattr(build, verb), digest="")
                for arch, build in field.builds.items()
            }
            about = f"copies the field {field.name} {'to' if verb == 'read' else 'from'} an array"
            name = f"{verb}_{field.name}"
            made.append(self._callable(name, about, False, (array,), {}, builds, ()))
        return made

    def _callable(
        self,
        name: str,
        about: str,
        is_graph: bool,
        arguments: Iterable[Argument],
        constants: Mapping[Argument, int | float],
        builds: Mapping[str, Build],
        temporaries: tuple[Argument, ...],
    ) -> Callable:
        local = Names(self._locals)
        parameters = [Parameter(a, local.give(a.name)) for a in arguments]
        parameters += [Parameter(a, local.give(a.name), v) for a, v in constants.items()]
        return Callable(
            name=name,
            c=self.names.give(name),
            prefix=self._prefix,
            is_graph=is_graph,
            parameters=parameters,
            builds=[self._build(arch, b, temporaries) for arch, b in sorted(builds.items())],
            about=about.replace("*/", "* /"),
        )

    def _build(self, arch: str, build: Build, temporaries: tuple[Argument, ...]) -> BuildView:
        scratch = [Parameter(a, usable(a.name)) for a in (*temporaries, *build.workspace)]
        first_slot, self.slots = self.slots, self.slots + len(scratch)
        number, _ = self._modules.setdefault(build.module, (len(self._modules), arch))
        return BuildView(arch, number, build.entry, build.capabilities, scratch, first_slot)


def wrapped(lines: list[str]) -> list[str]:
    """Return the lines of a comment, wrapped like code."""
    made = []
    for line in lines:
        made += textwrap.wrap(line, 96, subsequent_indent="    ", break_long_words=False) or [""]
    return made


def prototype(prefix: str, name: str, declarations: Iterable[str]) -> str:
    """Return a function's name and parameters."""
    parameters = ", ".join([f"{prefix}_bundle *bundle", *declarations])
    return f"{prefix}_{name}({parameters})".replace("NAME_array *", f"{prefix}_array *")


def literal(dtype: str, value: int | float) -> str:
    """Return a constant of a dtype in C."""
    if dtype.startswith("f"):
        return f"{float(value)!r}{'' if dtype == 'f64' else 'f'}"
    number = int(value)
    if dtype == "u64":
        return f"UINT64_C({number})"
    if number == -(2**63):  # C has no literal for the least number.
        return f"(-INT64_C({2**63 - 1}) - 1)"
    return f"INT64_C({number})" if dtype == "i64" else f"({C_TYPES[dtype]})INT64_C({number})"
