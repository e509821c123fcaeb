"""A bundle that exists already: reused, extended, or proved once more."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.contents import Contents
from tikgen.aot.exporting.example_data import is_current
from tikgen.aot.exporting.export_plan import Code, KernelPlan, ModulePlan, Plan
from tikgen.aot.exporting.proving import prove
from tikgen.aot.native.targets import Target
from tikgen.aot.running.loading import problem_here
from tikgen.errors import BundleError, ParameterError, UnknownTemplate
from tikgen.machine.devices import arch_named
from tikgen.pipeline.rendering import digest_of
from tikgen.template.catalogue import find_template


class OldBundle:
    """A bundle to reuse modules of; its files are checked one module at a time."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.manifest = contents.manifest

    def reuse(self, module: ModulePlan, folder: Path) -> dict[str, m.Build] | None:
        """Copy an unchanged, proved, undamaged module into the bundle in ``folder``.

        Returns its builds by name, or None if it has to be compiled anew.
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
def old_bundle(path: Path) -> Iterator[OldBundle | None]:
    """Yield the bundle at ``path``, or None if there is none that can be read."""
    try:
        contents = Contents(path)
    except BundleError:
        yield None
        return
    with contextlib.closing(contents):
        yield OldBundle(contents)


def planned(contents: Contents, *, may_lack_templates: bool = False) -> Plan:
    """Return the plan that would export a bundle again.

    An unknown template raises UnknownTemplate, or its kernel is treated as a user's own.
    """
    folder = contents.unpack("sources")
    manifest = contents.manifest
    kernels = {}
    for name, kernel in manifest.kernels.items():
        codes = {}
        for arch, build in kernel.builds.items():
            text = (folder / build.source).read_text(encoding="utf-8")
            codes[arch] = Code.of_build(build, text, digest_of(text))
        template = ""
        if kernel.template:
            try:
                template = str(find_template(kernel.template).folder)
            except UnknownTemplate:
                if not may_lack_templates:
                    raise
        fields = {n: msgspec.structs.replace(manifest.fields[n], builds={}) for n in kernel.fields}
        entry = msgspec.structs.replace(kernel, builds={})
        kernels[name] = KernelPlan(entry, codes, template=template, fields=fields)
    graphs = {n: msgspec.structs.replace(g, builds={}) for n, g in manifest.graphs.items()}
    native = {
        arch: Target(arch, said.cpu, said.features, said.needed)
        for arch, said in manifest.native.items()
    }
    return Plan(kernels, graphs, manifest.archs, manifest.capabilities, native)


def proved_again(path: str | os.PathLike[str], archs: Sequence[str] | None) -> tuple[str, ...]:
    """Return what is wrong with the artefacts of a bundle, one sentence each."""
    with contextlib.closing(Contents(path)) as contents:
        wanted = None if archs is None else {arch_named(arch) for arch in archs}
        held = {a for entry in contents.manifest.launchable for a in entry.builds}
        if wanted is not None and not wanted <= held:
            problem = f"takes archs of the bundle, {', '.join(sorted(held))}; got {archs!r}"
            raise ParameterError("verify", {"archs": problem})
        try:
            plan = planned(contents)
        except UnknownTemplate as error:
            return (f"its artefacts cannot be proved here: {error}",)
        examples, keys, manifest = 1, [], contents.manifest
        for entry in contents.manifest.launchable:
            for arch, build in entry.builds.items():
                examples = max(examples, build.proof.examples if build.proof else 1)
                if arch in wanted if wanted is not None else not problem_here(manifest, arch):
                    keys.append((entry.name, arch))
        folder = contents.unpack()
        if folder != contents.path:  # Of an archive, whose manifest is not unpacked.
            (folder / m.FILE_NAME).write_bytes(m.encode(contents.manifest))
        seed = random.SystemRandom().randrange(2**32)
        _, refuted = prove(plan, folder, keys, examples, seed, lambda stage: None)
    return tuple(f"{name} on {arch}: {problem}" for (name, arch), problem in refuted.items())
