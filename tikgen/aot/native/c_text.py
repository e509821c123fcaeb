"""The C header, the C source and the CMake package of a native bundle, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tikgen.aot import manifest as m
from tikgen.aot.c.files import environment_of, rendered, version_of
from tikgen.aot.c.identifiers import defined_in, prefix_of
from tikgen.aot.native.functions import Function, functions, has_half_scalar
from tikgen.aot.native.objects import OBJECT
from tikgen.aot.native.targets import LEVELS
from tikgen.engines import direct_cpu
from tikgen.errors import ExportError

_TEMPLATES = Path(__file__).parent / "templates"
_MACROS = {"x64": "__x86_64__", "arm64": "__aarch64__"}
_PROCESSORS = {"x64": "x86_64|AMD64", "arm64": "aarch64|arm64"}


def native_files(manifest: m.Manifest) -> dict[str, str]:
    """Return the header, the source and the CMake package of a native bundle, by path.

    Raises:
        ExportError: if a kernel has other scratch arrays on another arch.
    """
    name = manifest.name
    for kernel in manifest.kernels.values():
        if len({build.workspace for build in kernel.builds.values()}) > 1:
            problem = "its schedules for several archs need other scratch arrays; give one schedule"
            raise ExportError(kernel.name, problem)
    prefix = prefix_of(name)
    header = (_TEMPLATES / "header.h.j2").read_text(encoding="utf-8")
    environment = environment_of(prefix, _TEMPLATES)
    values = _values(manifest, functions(manifest, defined_in(header, prefix)))
    made = {
        f"include/{name}.h": "header.h.j2",
        f"lib/{name}.c": "source.c.j2",
        f"cmake/{name}-config.cmake": "native.cmake.j2",
        f"cmake/{name}-config-version.cmake": "config-version.cmake.j2",
    }
    return rendered(environment, made, values)


def objects_in(manifest: m.Manifest, arch: str) -> list[str]:
    """Return the object files of an arch, by path in the bundle."""
    builds = (kernel.builds.get(arch) for kernel in manifest.kernels.values())
    return [f"{build.module}/{OBJECT}" for build in builds if build is not None]


def _values(manifest: m.Manifest, found: list[Function]) -> dict[str, Any]:
    archs = [arch for arch in manifest.archs if objects_in(manifest, arch)]
    return {
        "bundle": manifest.name,
        "tikgen": manifest.tikgen,
        "tikgen_version": version_of(manifest.tikgen),
        "pattern": f"$(find {archs[0]} -name {OBJECT})",
        "functions": found,
        "machines": [_machine(manifest, arch, found) for arch in archs],
        "most_axes": max([1, *(len(a.shape) for f in found for a in f.arrays)]),
        "has_half": has_half_scalar(found),
        "few_bytes": direct_cpu.FEW_BYTES,
        "offsets": {
            "pool": direct_cpu.POOL,
            "parallel_for": direct_cpu.PARALLEL_FOR,
            "temporaries": direct_cpu.TEMPORARIES,
        },
    }


def _machine(manifest: m.Manifest, arch: str, found: list[Function]) -> dict[str, Any]:
    said = manifest.native[arch]
    needed = said.needed
    builds = [(f.c, f.kernel.builds.get(arch)) for f in found]
    return {
        "macro": _MACROS[arch],
        "processors": _PROCESSORS[arch],
        "cpu": f"{arch}, {said.cpu}" if said.cpu in LEVELS[arch] else f"{arch}, for {said.cpu}",
        "needed": needed,
        "condition": " && ".join(f'__builtin_cpu_supports("{name}")' for name in needed),
        "symbols": [(c, build.entry if build is not None else "") for c, build in builds],
        "objects": objects_in(manifest, arch),
        "library": said.library,
    }
