"""Functions that choose among the kernels of a family by their arrays."""

from __future__ import annotations

from dataclasses import dataclass

from tikgen.aot.c.entries import C_TYPES, Callable, Entries, Parameter, prototype, wrapped
from tikgen.aot.manifest import Kernel, Manifest

# Integers below it are no other integers that were rounded to a double.
_EXACT = 2**53


@dataclass(frozen=True)
class Check:
    """A check that an integer fits a dtype, and was not rounded on the way."""

    name: str
    condition: str
    problem: str


@dataclass(frozen=True)
class Member:
    """A kernel of a family."""

    kernel: Callable
    scalars: dict[str, str]

    @property
    def c(self) -> str:
        """Return the kernel's name in C."""
        return self.kernel.c

    @property
    def arguments(self) -> str:
        """Return what the selector passes to the kernel's function."""
        given = [self._converted(p) for p in self.kernel.parameters]
        return ", ".join(["bundle", *given])

    @property
    def checks(self) -> list[Check]:
        """Return the checks of integers that are made narrower."""
        return [
            Check(p.name, self._misfit(p), self._problem(p))
            for p in self.kernel.parameters
            if p.is_scalar and self._is_narrowed(p) and p.dtype[0] != "f"
        ]

    def _misfit(self, p: Parameter) -> str:
        """Return the condition that a scalar does not fit."""
        wide = self.scalars[p.name]
        same = f"({wide}){self._converted(p)} == {p.c}"
        bits, is_signed = int(p.dtype[1:]), p.dtype[0] == "i"
        if wide != "double":
            # A negative number in u64 and back is the same again.
            is_wrapped = not is_signed and bits == 64
            return f"!({p.c} >= 0 && {same})" if is_wrapped else f"!({same})"
        if bits == 64:
            # Others that the caller had in 64 bits may have been rounded to a double.
            above = f"> {-_EXACT}.0" if is_signed else ">= 0.0"
            return f"!({p.c} {above} && {p.c} < {_EXACT}.0 && {same})"
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
        return f"!({p.c} >= {low}.0 && {p.c} < {high}.0 && {same})"

    def _problem(self, p: Parameter) -> str:
        problem = f"does not fit {p.dtype}"
        if not p.dtype.endswith("64"):
            return problem
        bits = 53 if self.scalars[p.name] == "double" else 63
        return f"{problem}, or {bits} bits; {self.kernel.name} takes all of {p.dtype}"

    def _converted(self, p: Parameter) -> str:
        if not p.is_scalar or not self._is_narrowed(p):
            return p.c
        return f"({C_TYPES[p.dtype]}){p.c}"

    def _is_narrowed(self, p: Parameter) -> bool:
        return self.scalars[p.name] != C_TYPES[p.dtype]


@dataclass(frozen=True)
class Selector:
    """A function for every dtype, dimension and shape of a family."""

    name: str
    c: str
    prefix: str
    members: list[Member]
    scalars: dict[str, str]

    @property
    def parameters(self) -> list[Parameter]:
        """Return the parameters of its first member."""
        return self.members[0].kernel.parameters

    @property
    def prototype(self) -> str:
        """Return its name and parameters."""
        declarations = []
        for place, p in enumerate(self.parameters):
            if p.is_scalar:
                declarations.append(f"{self.scalars[p.name]} {p.c}")
            else:
                written = any(m.kernel.parameters[place].is_written for m in self.members)
                declarations.append(f"{'' if written else 'const '}NAME_array *{p.c}")
        return prototype(self.prefix, self.c, declarations)

    @property
    def arrays(self) -> list[str]:
        """Return the names of the arrays."""
        return self.members[0].kernel.arrays

    @property
    def description(self) -> list[str]:
        """Return the lines of its comment."""
        lines = [f"{self.name}: calls the first of these kernels that the arrays fit.", ""]
        for member in self.members:
            takes = ", ".join(
                f"{p.name} {p.description.partition('],')[0]}{'' if p.is_scalar else ']'}"
                for p in member.kernel.parameters
            )
            lines.append(f"{member.kernel.name}: {takes}")
        return wrapped(lines)


def selectors(manifest: Manifest, prefix: str, entries: Entries) -> list[Selector]:
    """Return a selector for each family whose kernels take the same arguments."""
    families: dict[str, list[Kernel]] = {}
    for kernel in manifest.kernels.values():
        families.setdefault(kernel.family, []).append(kernel)
    made = []
    for family, kernels in sorted(families.items()):
        is_alone = len(kernels) == 1 and kernels[0].name == family
        likes = {tuple((a.name, a.kind) for a in k.arguments) for k in kernels}
        if is_alone or len(likes) > 1 or not any(a.kind == "array" for a in kernels[0].arguments):
            continue
        # A kernel for one shape is faster if it fits.
        kernels.sort(key=lambda k: (-_baked(k), k.name))
        scalars = _scalars(kernels)
        made.append(
            Selector(
                family,
                entries.names.give(family),
                prefix,
                [Member(entries.kernels[k.name], scalars) for k in kernels],
                scalars,
            )
        )
    return made


def _baked(kernel: Kernel) -> int:
    """Return the number of fixed extents."""
    return sum(isinstance(extent, int) for a in kernel.arguments for extent in a.shape)


def _scalars(kernels: list[Kernel]) -> dict[str, str]:
    """Return a C type for each scalar that holds its values in all kernels."""
    found: dict[str, set[str]] = {}
    for kernel in kernels:
        for argument in kernel.arguments:
            if argument.kind == "scalar":
                found.setdefault(argument.name, set()).add(argument.dtype)
    return {name: _common(dtypes) for name, dtypes in found.items()}


def _common(dtypes: set[str]) -> str:
    if len(dtypes) == 1:
        return C_TYPES[next(iter(dtypes))]
    if any(dtype.startswith("f") for dtype in dtypes):
        return "double"
    return "uint64_t" if all(dtype.startswith("u") for dtype in dtypes) else "int64_t"
