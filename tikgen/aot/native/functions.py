"""The plain C functions of a native bundle, as its templates need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tikgen.aot import manifest as m
from tikgen.aot.c.entries import C_TYPES, Parameter, wrapped
from tikgen.aot.c.identifiers import Names
from tikgen.aot.native.names import c_name, function_names
from tikgen.dtypes import DType
from tikgen.template.arguments import split_extent

# Begins the names of arguments in the source, in which nothing else begins so.
_GIVEN = "given_"


def elements_of(dtype: str) -> str:
    """Return the C type of elements of an array; f16 has none, so that it is its bits."""
    return "uint16_t" if dtype == "f16" else C_TYPES[dtype]


@dataclass(frozen=True)
class ArrayView:
    """An array that a caller gives, or a scratch array."""

    argument: m.Argument
    c: str
    shape: tuple[str, ...]  # Extents as expressions of C, those of elements last.

    @property
    def passed(self) -> tuple[str, ...]:
        """Return the extents that the code finds beside the address."""
        return self.shape[: len(self.argument.shape)]

    @property
    def initialiser(self) -> str:
        """Return its value in the list of arrays."""
        item = f"(int64_t)sizeof({elements_of(self.argument.dtype)})"
        return f"{{{self.c or 'NULL'}, {item}, {len(self.shape)}, {{{', '.join(self.shape)}}}, 0}}"


@dataclass(frozen=True)
class Function:
    """The function of a kernel.

    Attributes:
        kernel: the kernel.
        name: name of the function in C.
        c: the same without the prefix of the bundle.
        parameters: its arguments, in order.
        sizes: symbol and name of each size, which come after them.
        arrays: arrays that a caller gives, in order, then scratch arrays.
        given: how many of them a caller gives.
    """

    kernel: m.Kernel
    name: str
    c: str
    parameters: list[Parameter]
    sizes: list[tuple[str, str]]
    arrays: list[ArrayView]
    given: int

    @property
    def size_names(self) -> list[str]:
        """Return the names of its sizes in the source."""
        return [f"{_GIVEN}{c}" for _, c in self.sizes]

    @property
    def prototype(self) -> str:
        """Return its declaration in the header."""
        return self._declared("")

    @property
    def definition(self) -> str:
        """Return its head in the source, where the names of arguments hide no others."""
        return self._declared(_GIVEN)

    def _declared(self, begin: str) -> str:
        declared = [_declared(p, f"{begin}{p.c}") for p in self.parameters]
        declared += [f"int64_t {begin}{c}" for _, c in self.sizes]
        return f"int {self.name}({', '.join(declared) or 'void'})"

    @property
    def description(self) -> list[str]:
        """Return the lines of its comment."""
        params = ", ".join(f"{k}={v}" for k, v in self.kernel.params.items() if v != "None")
        origin = f"{self.kernel.template}({params})" if self.kernel.template else "a user"
        archs = ", ".join(self.kernel.builds) or "no arch"
        lines = [f"{self.kernel.name}: a kernel of {origin}. Built for {archs}.", ""]
        width = max((len(p.c) for p in self.parameters), default=0)
        for p in self.parameters:
            same = "; may be the same array as one that is only read" if p.argument.inplace else ""
            lines.append(f"{p.c:{width}}  {p.description}{same}")
        return wrapped(lines)

    @property
    def fields(self) -> list[str]:
        """Return the members of the struct in which the code finds its arguments."""
        made, views = [], iter(self.arrays)
        for number, p in enumerate((*self.parameters, *self.arrays[self.given :])):
            if isinstance(p, Parameter) and p.is_scalar:
                made.append(f"{elements_of(p.dtype)} a{number}")
            else:
                axes = len(next(views).passed)
                made.append(f"struct {{ int32_t shape[{axes}]; void *data; }} a{number}")
        return made

    @property
    def assignments(self) -> list[str]:
        """Return the statements that fill this struct."""
        made, place = [], 0
        half = f"{self.name.removesuffix(f'_{self.c}')}_half_"
        for number, p in enumerate((*self.parameters, *self.arrays[self.given :])):
            if isinstance(p, Parameter) and p.is_scalar:
                given = f"{_GIVEN}{p.c}"
                value = f"(uint16_t){half}({given})" if p.dtype == "f16" else given
                made.append(f"arguments.a{number} = {value};")
                continue
            for axis, extent in enumerate(self.arrays[place].passed):
                made.append(f"arguments.a{number}.shape[{axis}] = (int32_t)({extent});")
            made.append(f"arguments.a{number}.data = (void *)(uintptr_t)arrays[{place}].data;")
            place += 1
        return made

    @property
    def apart(self) -> list[tuple[int, int, int]]:
        """Return pairs of arrays that must not overlap, and whether they may be the same."""
        found = []
        arguments = [a.argument for a in self.arrays[: self.given]]
        for i, one in enumerate(arguments):
            for j, other in enumerate(arguments):
                written = one.role != "in", other.role != "in"
                if i != j and written[0] and (j > i or not written[1]):
                    found.append((i, j, int(one.inplace and not written[1])))
        return found


def functions(manifest: m.Manifest, taken: set[str]) -> list[Function]:
    """Return the function of each kernel, by name; no argument has a name in ``taken``."""
    names = function_names(manifest)
    return [
        _function(kernel, c_name(manifest, names[name]), names[name], taken)
        for name, kernel in manifest.kernels.items()
    ]


def _function(kernel: m.Kernel, name: str, c: str, taken: set[str]) -> Function:
    local = Names(taken)
    parameters = [Parameter(a, local.give(a.name)) for a in kernel.arguments]
    # All builds were compiled for the same arguments; their scratch may differ.
    scratch = next((b.workspace for b in kernel.builds.values()), ())
    symbols = {
        symbol: None
        for a in kernel.arguments
        for symbol, _ in map(split_extent, a.shape)
        if symbol is not None
    }
    sizes = {symbol: local.give(symbol) for symbol in symbols}
    named = {symbol: str(extent) for symbol, extent in kernel.sizes.items()}
    named |= {symbol: f"{_GIVEN}{c}" for symbol, c in sizes.items()}

    def view(argument: m.Argument, name: str) -> ArrayView:
        shape = (*argument.shape, *argument.element)
        return ArrayView(argument, name, tuple(_extent(e, named) for e in shape))

    arrays = [view(p.argument, f"{_GIVEN}{p.c}") for p in parameters if not p.is_scalar]
    return Function(
        kernel,
        name,
        c,
        parameters,
        list(sizes.items()),
        [*arrays, *(view(a, "") for a in scratch)],
        len(arrays),
    )


def _extent(extent: m.Extent, named: dict[str, str]) -> str:
    symbol, more = split_extent(extent)
    if symbol is None:
        return str(more)
    return f"{named[symbol]} + {more}" if more else named[symbol]


def _declared(p: Parameter, name: str) -> str:
    if p.is_scalar:
        return f"{C_TYPES[p.dtype]} {name}"
    return f"{'' if p.is_written else 'const '}{elements_of(p.dtype)} *{name}"


def has_half_scalar(found: Sequence[Function]) -> bool:
    """Return whether a function takes a number of 16 bits, which C passes as a float."""
    return any(p.is_scalar and DType(p.dtype) is DType.f16 for f in found for p in f.parameters)
