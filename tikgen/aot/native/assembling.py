"""Adds to the object files of a native bundle what makes them a library: C texts, and the link."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tikgen.aot import manifest as m
from tikgen.aot.native.c_text import native_files, objects_in
from tikgen.aot.native.linking import link
from tikgen.aot.native.targets import Target, llvmlite_version


def described(target: Target, bundle: str, library: bool) -> m.Native:
    """Return a target as the manifest of a bundle describes it."""
    return m.Native(
        cpu=target.cpu,
        triple=target.triple,
        features=target.features,
        needed=target.needed,
        llvmlite=llvmlite_version(),
        library=f"lib/lib{bundle}.so" if library and target.is_here else "",
    )


def add_native_files(manifest: m.Manifest, folder: Path) -> None:
    """Write header, source and CMake package into a bundle, and link its shared library.

    Raises:
        ExportError: if there is no C compiler, or it fails.
    """
    write_texts(native_files(manifest), folder)
    for path in folder.glob("lib/*.so"):
        path.unlink()
    for arch, native in manifest.native.items():
        if native.library:
            link(folder, f"lib/{manifest.name}.c", objects_in(manifest, arch), native.library)


def write_texts(texts: Mapping[str, str], folder: Path) -> None:
    """Write texts into a bundle, by path."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
