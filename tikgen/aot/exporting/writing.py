"""Writes a bundle: compiles what changed, proves it, and replaces the old one in one step."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.c.files import c_files
from tikgen.aot.contents import bundle_path
from tikgen.aot.exporting.compiling import Compiled, compile_modules
from tikgen.aot.exporting.existing_bundle import OldBundle, old_bundle
from tikgen.aot.exporting.export_plan import ModulePlan, Plan, accessor_names
from tikgen.aot.exporting.graphs import scratch_of
from tikgen.aot.exporting.proving import prove
from tikgen.aot.exporting.staging import (
    check_space,
    check_target,
    files_in,
    locked,
    publish,
    staged,
)
from tikgen.aot.exporting.worker_process import in_threads
from tikgen.aot.names import bundle_name
from tikgen.aot.native.assembling import add_native_files, described, write_texts
from tikgen.aot.native.targets import symbol_of
from tikgen.consoles import make_console
from tikgen.disk import why
from tikgen.errors import BundleError, ExportError
from tikgen.pipeline.records import taichi_version
from tikgen.version import __version__

Builds = dict[tuple[str, str], m.Build]  # By name of a kernel or graph, and arch.
Failures = dict[tuple[str, str], str]


Advance = Callable[[str], None]  # Counts a module that is compiled, an artefact that is proved.


@dataclass(frozen=True)
class _Modules:
    """The modules of one arch: what was compiled or reused, and what was refused."""

    builds: Builds = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)
    reused: set[tuple[str, str]] = field(default_factory=set)


class Written(NamedTuple):
    """The contents of a bundle after an export, as :class:`tikgen.aot.Bundle` takes them."""

    path: Path
    manifest: m.Manifest
    failures: tuple[m.Failure, ...]
    reused: tuple[tuple[str, str], ...]


def write(
    plan: Plan,
    path: str | os.PathLike[str],
    *,
    examples: int = 3,
    seed: int | None = None,
    needed: Collection[tuple[str, str]] = (),
) -> Written:
    """Write the bundle of ``plan``, and return what it holds; see :meth:`Module.save`.

    What the bundle at ``path`` holds already, unchanged and proved, is reused. What cannot be
    compiled, or fails its proof, is left out and reported, unless its name and arch are in
    ``needed``: then ExportError is raised.
    """
    shown, target = target_of(path)
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    with (
        locked(target),
        staged(target) as folder,
        old_bundle(target) as old,
        _bars(plan) as advance,
    ):
        failures: Failures = {
            (n, arch): problem
            for n, k in plan.kernels.items()
            for arch, problem in k.failures.items()
        }
        written = _write_modules(plan, folder, old, advance)
        builds: Builds = {}
        for one in written:
            builds |= one.builds
            failures |= one.failures
        reused = {key for one in written for key in one.reused}
        _write_sources(plan, folder, builds)
        name = bundle_name(shown)
        draft = _manifest(plan, name, builds, folder)
        if plan.native and builds:
            add_native_files(draft, folder)
            draft = _manifest(plan, name, builds, folder)
        (folder / m.FILE_NAME).write_bytes(m.encode(draft))
        unproved = [key for key in builds if key not in reused and _is_runnable(plan, key[1])]
        proofs, refuted = prove(plan, folder, unproved, examples, seed, advance)
        failures |= refuted
        builds = {
            key: msgspec.structs.replace(build, proof=proofs.get(key, build.proof))
            for key, build in builds.items()
            if key not in refuted
        }
        builds, orphaned = _without_orphans(plan, builds)
        failures |= orphaned
        if failures:
            check_space(folder)  # Taichi does not report that it could not write a file.
        for key in sorted(failures.keys() & set(needed)):
            problem = f"its artefact for {key[1]} would be lost: {failures[key].rstrip('.')}"
            raise ExportError(key[0], problem)
        if not builds:
            raise ExportError(str(target), _all_failed(plan, failures))
        _delete_unused(folder, builds)
        final = _manifest(plan, name, builds, folder)
        if not plan.native:
            write_texts(c_files(final), folder)
        elif refuted:
            add_native_files(final, folder)
        final = _manifest(plan, name, builds, folder)
        (folder / m.FILE_NAME).write_bytes(m.encode(final))
        publish(folder, target)
    listed = tuple(m.Failure(n, arch, problem) for (n, arch), problem in sorted(failures.items()))
    return Written(shown, final, listed, tuple(sorted(key for key in builds if key in reused)))


def target_of(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return the path of a bundle as it is shown, and with links followed; check it."""
    try:
        shown = bundle_path(path).expanduser().absolute()
        target = shown.resolve() if shown.is_symlink() else shown
        check_target(target)
    except (OSError, RuntimeError, ValueError) as error:  # No such user, or links in a circle.
        raise BundleError(path, f"cannot be written: {why(error)}") from None
    return shown, target


def _write_modules(
    plan: Plan, folder: Path, old: OldBundle | None, advance: Advance
) -> list[_Modules]:

    def one(arch: str, stop: threading.Event) -> _Modules:
        return _write_arch(plan, arch, folder, old, advance, stop)

    return in_threads(one, plan.archs, len(plan.archs))


def _write_arch(
    plan: Plan,
    arch: str,
    folder: Path,
    old: OldBundle | None,
    advance: Advance,
    stop: threading.Event,
) -> _Modules:
    written = _Modules()
    due: list[ModulePlan] = []
    for module in plan.modules(arch):
        found = old.reuse(module, folder) if old is not None else None
        if found is None:
            due.append(module)
            continue
        for name, build in found.items():
            written.builds[name, arch] = build
            written.reused.add((name, arch))
            advance("prove")
        advance("compile")

    again: list[ModulePlan] = []

    def compiled(module: ModulePlan, outcome: Compiled) -> None:
        rest = module.without(outcome.kernel)
        if outcome.kernel and rest.kernels:  # The rest of its module is compiled without it.
            written.failures[outcome.kernel, arch] = outcome.problem
            again.append(rest)
            return
        for name in module.entries:
            if outcome.problem:
                written.failures[name, arch] = outcome.problem
            else:
                written.builds[name, arch] = _build(module, name, outcome.capabilities)
        advance("compile")

    while due:
        compile_modules(arch, due, folder, compiled, stop)
        due = list(again)
        again.clear()
    return written


def _build(module: ModulePlan, name: str, capabilities: tuple[str, ...]) -> m.Build:
    said = m.Build(
        module=module.folder, entry=name, digest=module.digest, capabilities=capabilities
    )
    graph = next((g for g in module.graphs if g.name == name), None)
    if graph is not None:
        entries = {n: k.entry for n, k in module.kernels.items()}
        workspaces = {n: k.codes[module.arch].workspace for n, k in module.kernels.items()}
        return msgspec.structs.replace(said, workspace=scratch_of(graph, entries, workspaces))
    code = module.kernels[name].codes[module.arch]
    source = f"sources/{name}.{module.arch}.py"
    if module.target is not None:
        said = msgspec.structs.replace(said, entry=symbol_of(module.digest))
    return msgspec.structs.replace(said, source=source, **code.of_manifest)


def _write_sources(plan: Plan, folder: Path, builds: Builds) -> None:
    (folder / "sources").mkdir(exist_ok=True)
    for (name, arch), build in builds.items():
        if build.source:
            text = plan.kernels[name].codes[arch].text
            (folder / build.source).write_bytes(text.encode())


def _manifest(plan: Plan, name: str, builds: Builds, folder: Path) -> m.Manifest:

    def of(entry: str) -> dict[str, m.Build]:
        return {a: builds[entry, a] for a in plan.archs if (entry, a) in builds}

    kernels = {
        n: msgspec.structs.replace(k.entry, builds=of(n)) for n, k in sorted(plan.kernels.items())
    }
    graphs = {n: msgspec.structs.replace(g, builds=of(n)) for n, g in sorted(plan.graphs.items())}
    kernels = {n: k for n, k in kernels.items() if k.builds}
    graphs = {n: g for n, g in graphs.items() if g.builds}
    fields = {}
    for field_name, shared in sorted(plan.fields.items()):
        users = [
            (arch, build)
            for (n, arch), build in sorted(builds.items())
            if n in kernels and field_name in plan.kernels[n].fields
        ]
        read, write = accessor_names(field_name)
        accessors = {a: m.Accessor(module=b.module, read=read, write=write) for a, b in users}
        if accessors:
            fields[field_name] = msgspec.structs.replace(shared, builds=accessors)
    archs = {arch for _, arch in builds}
    native = {
        arch: described(target, name, plan.library and arch in archs)
        for arch, target in plan.native.items()
    }
    return m.Manifest(
        format=m.FORMAT if native else m.PLAIN_FORMAT,
        name=name,
        archs=plan.archs,
        tikgen=__version__,
        taichi=taichi_version(),
        capabilities=plan.capabilities,
        kernels=kernels,
        graphs=graphs,
        fields=fields,
        files=files_in(folder),
        native=native,
    )


def _is_runnable(plan: Plan, arch: str) -> bool:
    """Return whether an artefact can be run here, and so proved."""
    return not plan.native or (plan.library and plan.native[arch].is_here)


def _without_orphans(plan: Plan, builds: Builds) -> tuple[Builds, Failures]:
    """Return the builds without graphs that lack one of their kernels, and why."""
    failures: Failures = {}
    for name, graph in plan.graphs.items():
        for arch in plan.archs:
            absent = [s.kernel for s in graph.steps if (s.kernel, arch) not in builds]
            if absent:
                failures[name, arch] = f"its kernel {absent[0]} is not in the bundle"
    return {key: b for key, b in builds.items() if key not in failures}, failures


def _delete_unused(folder: Path, builds: Mapping[tuple[str, str], m.Build]) -> None:
    """Delete the files of artefacts that are not in the bundle."""
    modules = {build.module for build in builds.values()}
    for path in folder.glob("*/*"):
        if path.is_dir() and path.relative_to(folder).as_posix() not in modules:
            shutil.rmtree(path)
    files = {build.source for build in builds.values()}
    files |= {build.proof.data for build in builds.values() if build.proof is not None}
    for path in (*folder.glob("sources/*"), *folder.glob("proofs/*")):
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for path in folder.iterdir():
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _all_failed(plan: Plan, failures: Failures) -> str:
    """Return why each kernel failed; graphs only lack them."""
    lines = [
        f"{name} on {arch}: {problem}"
        for (name, arch), problem in sorted(failures.items())
        if name not in plan.graphs
    ]
    return "; ".join(lines[:5]).rstrip(".") + "; nothing is left to put into the bundle"


@contextlib.contextmanager
def _bars(plan: Plan) -> Iterator[Advance]:
    """Show progress bars on the error stream, if it is a terminal, and yield what advances them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = make_console(stderr=True)
    modules = [module for arch in plan.archs for module in plan.modules(arch)]
    totals = {"compile": len(modules), "prove": sum(len(module.entries) for module in modules)}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        tasks = {stage: bars.add_task(stage, total=total) for stage, total in totals.items()}
        yield lambda stage: bars.advance(tasks[stage])
