"""What the bundle at a path holds already, as far as it can be taken over."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tikgen.aot import manifest as m
from tikgen.aot.contents import Contents
from tikgen.aot.exporting.example_data import is_current
from tikgen.aot.exporting.plan import ModulePlan
from tikgen.errors import BundleError


class OldBundle:
    """A bundle whose manifest can be read; its files are looked at one module at a time."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.manifest = contents.manifest

    def take_over(self, module: ModulePlan, folder: Path) -> dict[str, m.Build] | None:
        """Copy a module that is unchanged, proved and whole into the bundle in ``folder``.

        Returns its builds by name, or None where it has to be made anew.
        """
        found = {}
        for name in module.entries:
            entry = self.manifest.kernels.get(name) or self.manifest.graphs.get(name)
            build = entry.builds.get(module.arch) if entry is not None else None
            if build is None or build.proof is None or build.module != module.folder:
                return None
            if build.digest != module.digest:
                return None
            found[name] = build
        data: dict[str, Path] = {}
        try:
            held = self._contents.unpack(module.folder)
            for name, build in found.items():
                file = build.proof.data if build.proof else ""
                if file:
                    data[file] = self._contents.unpack(PurePosixPath(file).parent.as_posix()) / file
                if name in module.kernels and not is_current(module.kernels[name], data.get(file)):
                    return None
        except BundleError:
            return None
        for file, source in data.items():
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(source, folder / file)
        shutil.copytree(held / module.folder, folder / module.folder)
        return found


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OldBundle | None]:
    """Give the bundle at ``path``, or None where there is none that can be read."""
    try:
        contents = Contents(path)
    except BundleError:
        yield None
        return
    try:
        yield OldBundle(contents)
    finally:
        contents.close()
