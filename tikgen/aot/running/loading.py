"""Loads a bundle: chooses an arch of this machine, starts the runtime, checks the files."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from tikgen.aot.running.c_library import open_library
from tikgen.errors import BundleError, LibraryError, UnsupportedOnArch

if TYPE_CHECKING:
    from tikgen.aot.contents import Contents
    from tikgen.aot.manifest import Manifest
    from tikgen.aot.running.bundle_runtime import Runtime


def load(path: str | os.PathLike[str], arch: str | None = None, *, device: int = 0) -> Runtime:
    """Load a bundle and return it ready to run, without Taichi's compiler.

    The runtime starts in the background; the first use waits for it.

    Args:
        path: the bundle: a folder, or an archive whose name ends in ``.zip``.
        arch: ``"x64"``, ``"arm64"``, ``"cuda"`` or ``"vulkan"``, or ``"cpu"`` for the processor of
            this machine; by default the first arch of the bundle that works on this machine.
        device: number of the device.

    Raises:
        BundleError: if the bundle is missing, damaged, of a later version, or has nothing for the
            arch.
        UnsupportedOnArch: if this machine lacks the arch.
    """
    from tikgen.aot.contents import Contents

    contents = Contents(path)
    try:
        if contents.manifest.native:
            from tikgen.aot.native.runtime import native_runtime

            return native_runtime(contents, _chosen(contents, arch, device))
        # The rest is imported while the library is read from disk.
        threading.Thread(target=_open_library, name="tikgen-library").start()
        from tikgen.aot.running.c_engine import Engine

        chosen = _chosen(contents, arch, device)
        engine = Engine(contents, chosen, device)
        try:
            contents.check(chosen)
            engine.first_module = _module_of_fields(contents, chosen)
            from tikgen.aot.running.bundle_runtime import (
                Runtime,  # With NumPy, while the library starts.
            )

            return Runtime(engine, contents)
        except BaseException:
            engine.close()
            raise
    except BaseException:
        contents.close()
        raise


def _open_library() -> None:
    with contextlib.suppress(LibraryError):  # Its users report it.
        open_library()


def problem_here(manifest: Manifest, arch: str, device: int = 0) -> str:
    """Return why a bundle cannot run on one of its archs here, or nothing if it can."""
    from tikgen.machine.devices import problem_with

    if arch in manifest.native and not manifest.native[arch].library:
        return "it has object files only, which are linked into programs"
    return problem_with(arch, device)


def _chosen(contents: Contents, arch: str | None, device: int) -> str:
    from tikgen.aot.manifest import ARCHS
    from tikgen.machine.devices import arch_named, problem_with

    manifest = contents.manifest
    entries = (manifest.kernels, manifest.graphs, manifest.fields)
    built = {name for held in entries for entry in held.values() for name in entry.builds}
    offered = [name for name in manifest.archs if name in built]
    if arch is not None:
        named = arch_named(arch)
        problem = problem_with(named, device)
        if not problem and named in offered:
            problem = problem_here(manifest, named, device)
        if problem:
            raise UnsupportedOnArch(manifest.name, arch, problem)
        if named not in offered:
            raise BundleError(
                contents.path, f"has nothing for {arch}; it has {', '.join(offered) or 'nothing'}"
            )
        return named
    problems = {name: problem_here(manifest, name, device) for name in offered}
    for name, problem in problems.items():
        if not problem:
            return name
    reasons = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
    raise UnsupportedOnArch(
        manifest.name, "this machine", reasons or f"it has nothing for any of {', '.join(ARCHS)}"
    )


def _module_of_fields(contents: Contents, arch: str) -> str:
    fields = contents.manifest.fields.values()
    modules = sorted({field.builds[arch].module for field in fields if arch in field.builds})
    if len(modules) > 1:
        raise BundleError(
            contents.path,
            f"has fields in the modules {', '.join(modules)}; a runtime can hold those of one",
        )
    return modules[0] if modules else ""
