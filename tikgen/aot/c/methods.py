"""The methods of the C++ wrapper: for each function, and each element type of a selector."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from tikgen.aot.c.entries import C_TYPES, Callable, Parameter
from tikgen.aot.c.identifiers import as_comment
from tikgen.aot.c.selectors import Selector

CPP_TYPES = {dtype: f"std::{c}" for dtype, c in C_TYPES.items() if dtype[0] != "f"}
CPP_TYPES |= {"f16": "Half", "f32": "float", "f64": "double"}
# Names that the class of the wrapper has, or the types that it uses.
OWN_NAMES = frozenset(
    {"get", "check", "bundle_", "Bundle", "Array", "Error", "Half", "DType", "TiArch"}
)


@dataclass(frozen=True)
class Method:
    """A method of the class ``Bundle``, and the C function that it calls."""

    c: str
    calls: str
    parameters: list[Parameter]
    about: str

    @property
    def cpp_parameters(self) -> str:
        """Return the declarations of its parameters."""
        return ", ".join(map(_declaration, self.parameters))

    @property
    def cpp_arguments(self) -> str:
        """Return the arguments that it passes on."""
        given = [p.c if p.is_scalar else f"{p.c}.get()" for p in self.parameters]
        return ", ".join(["get()", *given])


def methods(callables: list[Callable], families: list[Selector]) -> list[Method]:
    """Return the methods; those of a selector differ in element types."""
    made = [Method(it.c, it.c, it.passed, _sentence(it.about)) for it in callables]
    for family in families:
        groups: dict[tuple[str, ...], list[Callable]] = {}
        for member in family.members:
            groups.setdefault(tuple(map(_type, member.kernel.parameters)), []).append(member.kernel)
        for kernels in groups.values():
            first = kernels[0]
            if len(kernels) == 1:
                made.append(
                    Method(family.c, first.c, first.parameters, _sentence(f"calls {first.name}"))
                )
                continue
            names = ", ".join(kernel.name for kernel in kernels)
            about = _sentence(f"calls the first of {names} that the arrays fit")
            made.append(Method(family.c, family.c, first.parameters, about))
    return made


def _sentence(about: str) -> str:
    text = f"{about[0].upper()}{about[1:]}."
    return textwrap.fill(as_comment(text), 92, subsequent_indent="     ", break_long_words=False)


def _type(p: Parameter) -> str:
    return C_TYPES[p.dtype] if p.is_scalar else f"Array<{CPP_TYPES[p.dtype]}>"


def _declaration(p: Parameter) -> str:
    if p.is_scalar:
        return f"{_type(p)} {p.c}"
    return f"{'' if p.is_written else 'const '}{_type(p)} &{p.c}"
