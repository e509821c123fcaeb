"""Persistent kernels as proved bundles in the store, made once and loaded from then on."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tikgen.consoles import make_console
from tikgen.disk import TemporaryFolder
from tikgen.errors import BundleError, UnsupportedOnArch
from tikgen.ring.errors import BackendNotAvailableError
from tikgen.ring.persistent.handler import NAME, RingBody, kernel_of, key_of
from tikgen.ring.persistent.layout import Layout
from tikgen.store import default_store

if TYPE_CHECKING:
    from tikgen.aot import Runtime

log = logging.getLogger("tikgen.ring")
FOLDER = "ring"
# Number of launches that prove a kernel.
PROOFS = 16
_LOCK_SECONDS = 600


def load_ring(handler: object, layout: Layout, arch: str, device: int) -> Runtime:
    """Return a runtime with the persistent kernel of a handler, under the name ``ring``.

    The first time, it is compiled and proved, which takes some seconds.
    """
    from tikgen import aot
    from tikgen.machine.devices import arch_named, problem_with

    if arch not in ("cpu", "cuda"):
        raise UnsupportedOnArch(
            "a persistent kernel",
            str(arch),
            "only a kernel on cpu or cuda sees what is written while it runs; use engine='batch'",
        )
    if problem := problem_with(arch_named(arch), device):
        raise BackendNotAvailableError(arch, problem)
    folder = _root() / key_of(handler, layout, arch, importlib.metadata.version("taichi"))
    path = folder / "bundle"
    with contextlib.suppress(BundleError):  # None, or a damaged one.
        return aot.load(path, arch, device=device)
    with _locked(folder):
        with contextlib.suppress(BundleError):
            return aot.load(path, arch, device=device)
        shutil.rmtree(folder, ignore_errors=True)
        _announce()
        make(handler, layout, arch, path)
        return aot.load(path, arch, device=device)


def make(handler: object, layout: Layout, arch: str, path: Path) -> None:
    """Compile and prove the kernel of a handler; raises as :func:`load_ring`."""
    from tikgen.aot.exporting.export_plan import Plan
    from tikgen.aot.exporting.template_kernels import plan_kernel
    from tikgen.aot.exporting.writing import write
    from tikgen.aot.module import Module
    from tikgen.ring.persistent.proof import examples_of, reference_of

    module = Module((arch,))
    kernel = kernel_of(handler, layout, arch)
    if isinstance(handler, RingBody):
        reference = reference_of(handler.reference, layout) if handler.reference else None
        examples = examples_of(layout, PROOFS)
        module.add_kernel(kernel, name=NAME, reference=reference, examples=examples)
        plan = module.plan()
    else:  # The template has a reference, which proves the artefact itself.
        made = plan_kernel(kernel, module.archs, {}, False, 0, needs_evidence=False)
        entry = msgspec.structs.replace(made.entry, name=NAME)
        plan = Plan({NAME: replace(made, entry=entry)}, {}, module.archs, ())
    write(plan, path, examples=PROOFS, seed=None)


@functools.cache
def _announce() -> None:
    """Explain the delay, once, in a terminal or notebook."""
    why = (
        "tikgen.ring compiles a persistent kernel and proves it against NumPy. This takes some "
        "seconds, once for each handler; later the kernel is loaded from the store."
    )
    log.info(why)
    console = make_console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        console.print(why, style="dim", highlight=False)


def _root() -> Path:
    """Return the folder of all bundles; a temporary one if the store cannot be used."""
    folder = default_store().folder / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _temporary().path
    return folder


@functools.cache
def _temporary() -> TemporaryFolder:
    return TemporaryFolder("tikgen-ring-")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Have one process make a bundle; others wait and find it."""
    import filelock

    lock = filelock.FileLock(folder.with_suffix(".lock"), timeout=_LOCK_SECONDS)
    with contextlib.suppress(OSError, NotImplementedError, filelock.Timeout):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
