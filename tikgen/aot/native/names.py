"""Names of the C functions of a native bundle, apart from the code that generates C."""

from __future__ import annotations

from tikgen.aot import manifest as m
from tikgen.aot.c.identifiers import Names, prefix_of

# What the header defines beside kernels, without the prefix of the bundle.
HEADER_NAMES = frozenset({"problem", "parallel_for", "use_parallel_for", "use_threads"})
# A kernel of the name of a function gets an underscore, and so has a function within the library.
_OWN = HEADER_NAMES | {"parallel_for_"}


def function_names(manifest: m.Manifest) -> dict[str, str]:
    """Return the name in C for each kernel, without the prefix of the bundle."""
    names = Names(set(_OWN))
    return {kernel: names.give(kernel) for kernel in manifest.kernels}


def c_name(manifest: m.Manifest, name: str) -> str:
    """Return a name of the header with the prefix of the bundle."""
    return f"{prefix_of(manifest.name)}_{name}"
