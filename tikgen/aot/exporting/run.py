"""The entry: exports kernels ahead of time, proves what came out, and writes a bundle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tikgen.aot.bundle import Bundle
from tikgen.aot.exporting.graphs import StepLike
from tikgen.aot.exporting.sweeps import fastest_kernels
from tikgen.aot.module import ARCHS, Module
from tikgen.errors import ExportError
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi.kernels import written
from tikgen.tuning.sweeps.table import SweepResult


def export(
    kernels: Any,
    path: str | os.PathLike[str],
    archs: Sequence[str] = ARCHS,
    *,
    graphs: Mapping[str, Sequence[StepLike] | Mapping[str, Any]] | None = None,
    verify: bool = False,
    max_examples: int = 20,
    examples: int = 3,
    seed: int | None = None,
    capabilities: Sequence[str] = (),
) -> Bundle:
    """Export kernels into a bundle that runs without Python, and prove that it does.

    Each arch is compiled by a process of its own, so that ``ti.init`` need not have been called and
    a program that runs is left alone. Every artefact is then run through Taichi's C library by a
    fresh process, on random inputs against the reference. What fails is left out and reported. A
    bundle that is there already keeps what is unchanged, and is replaced in one step.

    Args:
        kernels: a kernel that :func:`tikgen.build` returned, a ``ti.kernel``, any number of them,
            a dict that names them, or a sweep, of which the fastest kernel of each problem is
            taken. A kernel whose schedule was not given gets on each arch the one tuned for it,
            else the default.
        path: a folder, or a file whose name ends in ``.zip``.
        archs: where to: ``"x64"`` (``"cpu"`` is the host's arch), ``"vulkan"``, ``"cuda"``.
        graphs: by name the steps, as :meth:`Bundle.add_graph` takes them, or a dict of ``steps``
            and ``temporaries``; None keeps the graphs of the bundle that is there, as far as their
            kernels are among ``kernels``.
        verify: whether to verify what has no evidence; without it such kernels are refused.
        max_examples: examples of such a verification.
        examples: launches with which each artefact is proved.
        seed: seed of their inputs; None takes a new one.
        capabilities: what every Vulkan device that runs the bundle has, beyond what kernels need.

    Raises:
        ExportError: if there is nothing to export, or nothing passes its proof.
        BundleError: if the bundle cannot be written, or something else is at ``path``.
        ParameterError: if an arch is unknown, or a setting is of no use.
    """
    module = Module(archs, verify=verify, max_examples=max_examples, capabilities=capabilities)
    if isinstance(kernels, SweepResult):
        for kernel, schedules in fastest_kernels(kernels):
            module.add_kernel(kernel, schedules=schedules)
    else:
        for name, kernel in _listed(kernels):
            module.add_kernel(kernel, name=name)
    if graphs is None:
        module.keep_graphs(path)
    for name, said in (graphs or {}).items():
        module.add_graph(name, **(said if isinstance(said, Mapping) else {"steps": said}))
    return module.save(path, examples=examples, seed=seed)


def _listed(kernels: Any) -> list[tuple[str | None, Any]]:
    """Return every kernel with the name that it is given, if any."""
    if isinstance(kernels, Mapping):
        return list(kernels.items())
    if isinstance(kernels, Kernel) or written(kernels) is not None:
        return [(None, kernels)]
    if isinstance(kernels, Iterable) and not isinstance(kernels, str | bytes):
        found = list(kernels)
        if found:
            return [(None, kernel) for kernel in found]
    raise ExportError(
        f"{kernels!r:.60}",
        "give a kernel, several, a dict of them by name, or the result of a sweep",
    )
