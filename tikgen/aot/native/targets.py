"""Processors that native bundles are compiled for, as LLVM and as C compilers name them."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass

from tikgen.errors import ParameterError, UnsupportedOnArch
from tikgen.machine.devices import HOST_ARCHS, host_arch

HOST = "host"
_DIGITS = 24
_TRIPLES = {"x64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
_X86_64_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_X86_64_V3 = (*_X86_64_V2, "avx", "avx2", "bmi", "bmi2", "fma")
_X86_64_V4 = (*_X86_64_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# What a program must find before it calls code for a level: names that gcc and clang take in
# __builtin_cpu_supports. What a level has beside them came to processors together with them.
LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "x64": {
        "x86-64": (),
        "x86-64-v2": _X86_64_V2,
        "x86-64-v3": _X86_64_V3,
        "x86-64-v4": _X86_64_V4,
    },
    "arm64": {"generic": ()},
}
_DEFAULTS = {"x64": "x86-64-v3", "arm64": "generic"}
# Features of the host beyond all levels that C compilers can look for.
_MORE = frozenset(
    {"avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq"}
)


@dataclass(frozen=True)
class Target:
    """A processor that code is compiled for.

    Attributes:
        arch: arch of bundles, ``"x64"`` or ``"arm64"``.
        cpu: name of the processor or of the level, as LLVM knows it.
        features: LLVM's features beyond those of ``cpu``, such as ``+avx2,-avx512f``.
        needed: features that a program looks for before it calls the code.
    """

    arch: str
    cpu: str
    features: str = ""
    needed: tuple[str, ...] = ()

    @property
    def triple(self) -> str:
        """Return LLVM's name for processor and system."""
        return _TRIPLES[self.arch]

    @property
    def is_here(self) -> bool:
        """Return whether this machine has the arch, so that code can be linked and proved."""
        return self.arch == host_arch()


def target_for(arch: str, cpu: str = "") -> Target:
    """Return the target of an arch of bundles.

    Args:
        arch: ``"x64"`` or ``"arm64"``.
        cpu: ``"x86-64-v3"`` or another level, or ``"host"`` for the processor of this machine with
            all its features; empty for the default of the arch.

    Raises:
        UnsupportedOnArch: if native bundles cannot have the arch, or not on this system.
        ParameterError: if the arch has no such level.
    """
    if arch not in HOST_ARCHS:
        raise UnsupportedOnArch(
            "A native bundle",
            arch,
            f"it holds code for processors, {' or '.join(HOST_ARCHS)}; export without native",
        )
    if platform.system() != "Linux":
        raise UnsupportedOnArch("A native bundle", arch, "it is made on Linux only, and for Linux")
    levels = LEVELS[arch]
    name = cpu or _DEFAULTS[arch]
    if name in levels:
        return Target(arch, name, needed=levels[name])
    if name == HOST and arch == host_arch():
        return _host(arch)
    known = ", ".join((*levels, *([HOST] if arch == host_arch() else [])))
    raise ParameterError("export", {"target_cpu": f"takes {known} for {arch}; got {cpu!r}"})


def _host(arch: str) -> Target:
    from tikgen.engines import native

    cpu, features = native.host()
    has = {name.removeprefix("+") for name in features.split(",") if name.startswith("+")}
    known = {*_X86_64_V4, *_MORE} if arch == "x64" else set()
    return Target(arch, cpu, features, tuple(sorted(has & known)))


def symbol_of(digest: str) -> str:
    """Return the name of the function in the object file of a module with this digest."""
    return f"tikgen_{digest[:_DIGITS]}"


def llvmlite_version() -> str:
    """Return the version of llvmlite, which compiles object files; empty if it is missing."""
    try:
        return importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError:
        return ""
