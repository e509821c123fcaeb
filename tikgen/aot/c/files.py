"""The C header, the C++ wrapper and the CMake package of a bundle, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from tikgen.aot.c.entries import Entries
from tikgen.aot.c.identifiers import as_comment, names_in, prefix_of, quoted
from tikgen.aot.c.methods import CPP_TYPES, OWN_NAMES, methods
from tikgen.aot.c.selectors import selectors
from tikgen.aot.manifest import Manifest
from tikgen.machine.devices import HOST_ARCHS
from tikgen.template.shapes import MOST_ELEMENTS

_TEMPLATES = Path(__file__).parent / "templates"
# The parts of every header.
_NAMES = ("types", "messages", "memory", "arrays", "digests", "opening", "checks", "launching")
_PARTS = [f"{name}.h.j2" for name in _NAMES]


def c_files(manifest: Manifest) -> dict[str, str]:
    """Return the C header, the C++ wrapper and the CMake package of a bundle, by path.

    Programs check the files of a module against the digests of the manifest.
    """
    prefix = prefix_of(manifest.name)
    environment = environment_of(prefix)
    # Kernels and arguments cannot have names that the header defines.
    text = "".join(path.read_text(encoding="utf-8") for path in _TEMPLATES.glob("*.h*.j2"))
    entries = Entries(manifest, prefix, names_in(text, "NAME") | OWN_NAMES, text)
    values = _values(manifest, prefix, entries)
    made = {
        f"include/{manifest.name}.h": "header.h.j2",
        f"include/{manifest.name}.hpp": "wrapper.hpp.j2",
        f"cmake/{manifest.name}-config.cmake": "config.cmake.j2",
        f"cmake/{manifest.name}-config-version.cmake": "config-version.cmake.j2",
    }
    return rendered(environment, made, values)


def rendered(
    environment: jinja2.Environment, made: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, str]:
    """Return the text of each file in ``made``, which has the template of each path."""
    return {
        path: environment.get_template(template).render(values) for path, template in made.items()
    }


def environment_of(prefix: str, *folders: Path) -> jinja2.Environment:
    """Return an environment that replaces NAME and UPPER by the bundle's prefix.

    Templates are looked for in ``folders`` first.
    """

    def load(name: str) -> str:
        found = (folder / name for folder in (*folders, _TEMPLATES))
        text = next(path for path in found if path.is_file()).read_text(encoding="utf-8")
        text = re.sub(r"\bNAME(?=_|\b)", lambda _: prefix, text)
        return re.sub(r"\bUPPER(?=_)", lambda _: prefix.upper(), text)

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(load),
        variable_start_string="<$",
        variable_end_string="$>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals["most_elements"] = MOST_ELEMENTS
    environment.filters |= {"wrap": _wrapped, "quoted": quoted, "comment": as_comment}
    return environment


def version_of(tikgen: str) -> str:
    """Return a version of tikgen as CMake reads it."""
    return re.match(r"[\d.]*\d|", tikgen)[0] or "0"  # type: ignore[index]


def _wrapped(line: str) -> str:
    """Return a line of C, wrapped between arguments."""
    first, *rest = line.split(", ")
    lines = [first]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    for part in rest:
        if len(lines[-1]) + len(part) > 96:
            lines[-1] += ","
            lines.append(f"{indent}{part}")
        else:
            lines[-1] += f", {part}"
    return "\n".join(lines)


def _values(manifest: Manifest, prefix: str, entries: Entries) -> dict[str, Any]:
    callables = entries.callables
    families = selectors(manifest, prefix, entries)
    every = [p for it in callables for p in it.parameters]
    scratch = [p for it in callables for build in it.builds for p in build.scratch]
    major, minor = manifest.taichi.split(".")[:2]
    return {
        "parts": _PARTS,
        "bundle": manifest.name,
        "archs": manifest.archs,
        "arch_constants": [f"TI_ARCH_{arch.upper()}" for arch in manifest.archs],
        "tikgen": manifest.tikgen,
        "tikgen_version": version_of(manifest.tikgen),
        "taichi": manifest.taichi,
        "taichi_version": 1000 * int(major) + int(minor),
        "has_host": any(arch in HOST_ARCHS for arch in manifest.archs),
        "has_cuda": "cuda" in manifest.archs,
        "needs_runtime_folder": any(arch != "vulkan" for arch in manifest.archs),
        "has_half": any(p.dtype == "f16" and p.is_scalar for p in every),
        "modules": entries.modules,
        "callables": callables,
        "selectors": families,
        "methods": methods(callables, families),
        "types": [(cpp, dtype.upper()) for dtype, cpp in CPP_TYPES.items()],
        "handles": max(1, len(callables)),
        "slots": entries.slots,
        "most_axes": max([1, *(len(p.split_shape) for p in (*every, *scratch))]),
        "most_arguments": max([1, *(it.most_arguments for it in callables)]),
        "most_symbols": max([1, *(it.most_symbols for it in callables)]),
    }
