"""The plan behind a bundle on disk, from which it can be extended, or proved once more."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.contents import Contents
from tikgen.aot.exporting.plan import Code, KernelPlan, OwnCheck, Plan, TemplateCheck
from tikgen.aot.exporting.proving import prove
from tikgen.aot.running.devices import arch_named, problem_with
from tikgen.errors import ParameterError, UnknownTemplate
from tikgen.pipeline.rendering import digest_of
from tikgen.template.catalogue import find_template


class _Silent:
    def advance(self, stage: str) -> None:
        """Take no notice."""


def planned(contents: Contents, *, may_lack_templates: bool = False) -> Plan:
    """Return what would export the bundle again.

    Args:
        contents: the bundle.
        may_lack_templates: whether the kernel of a template that is not known here passes for one
            of the user's own, which its text is enough to prove.

    Raises:
        BundleError: if a file of it is missing or damaged.
        UnknownTemplate: if a template is not known here, and has to be.
    """
    folder = contents.unpack("sources")
    manifest = contents.manifest
    kernels = {}
    for name, kernel in manifest.kernels.items():
        codes = {}
        for arch, build in kernel.builds.items():
            text = (folder / build.source).read_text(encoding="utf-8")
            codes[arch] = Code(
                text=text,
                function=build.function,
                digest=digest_of(text),
                literals=build.literals,
                schedule=build.schedule,
                workspace=build.workspace,
                evidence=build.evidence,
                fields=build.fields,
                options=build.options,
            )
        check: TemplateCheck | OwnCheck = OwnCheck()
        if kernel.template:
            try:
                check = TemplateCheck(str(find_template(kernel.template).folder))
            except UnknownTemplate:
                if not may_lack_templates:
                    raise
        fields = {n: msgspec.structs.replace(manifest.fields[n], builds={}) for n in kernel.fields}
        entry = msgspec.structs.replace(kernel, builds={})
        kernels[name] = KernelPlan(entry, codes, check, fields)
    graphs = {n: msgspec.structs.replace(g, builds={}) for n, g in manifest.graphs.items()}
    return Plan(kernels, graphs, manifest.archs, manifest.capabilities)


def proved_again(path: str | os.PathLike[str], archs: Sequence[str] | None) -> tuple[str, ...]:
    """Return what is wrong with the artefacts of a whole bundle, one sentence each.

    Args:
        path: the bundle.
        archs: archs to prove on; None takes those that work here.

    Raises:
        ParameterError: if the bundle holds nothing for one of the archs.
    """
    contents = Contents(path)
    try:
        wanted = None if archs is None else {arch_named(arch) for arch in archs}
        held = {a for entry in contents.manifest.launchable for a in entry.builds}
        if wanted is not None and not wanted <= held:
            known = ", ".join(sorted(held))
            problem = f"takes archs of the bundle, {known}; got {archs!r}"
            raise ParameterError("verify", {"archs": problem})
        try:
            plan = planned(contents)
        except UnknownTemplate as error:
            return (f"its artefacts cannot be proved here: {error}",)
        examples, keys = 1, []
        for entry in contents.manifest.launchable:
            for arch, build in entry.builds.items():
                examples = max(examples, build.proof.examples if build.proof else 1)
                if arch in wanted if wanted is not None else not problem_with(arch):
                    keys.append((entry.name, arch))
        folder = contents.unpack()
        if folder != contents.path:  # Of an archive, whose manifest is not unpacked.
            (folder / m.FILE_NAME).write_bytes(m.encode(contents.manifest))
        seed = random.SystemRandom().randrange(2**32)
        _, refuted = prove(plan, folder, keys, examples, seed, _Silent())
    finally:
        contents.close()
    return tuple(f"{name} on {arch}: {problem}" for (name, arch), problem in refuted.items())
