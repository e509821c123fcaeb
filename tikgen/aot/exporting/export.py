"""Exports kernels ahead of time: plans, compiles and proves them, and writes a bundle."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tikgen.aot.bundle import Bundle
from tikgen.aot.exporting.graphs import StepLike
from tikgen.aot.module import Module
from tikgen.errors import ExportError, near
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.taichi.kernels import written
from tikgen.template.catalogue import find_template
from tikgen.tuning.sweeps.combinations import SIZE
from tikgen.tuning.sweeps.table import SweepResult


def export(
    kernels: Any,
    path: str | os.PathLike[str],
    archs: Sequence[str] | None = None,
    *,
    graphs: Mapping[str, Sequence[StepLike] | Mapping[str, Any]] | None = None,
    verify: bool = False,
    max_examples: int = 20,
    examples: int = 3,
    seed: int | None = None,
    capabilities: Sequence[str] = (),
    native: bool = False,
    target_cpu: str = "",
    library: bool = True,
) -> Bundle:
    """Export kernels into a bundle that runs without Python, and prove that it does.

    A separate process compiles each arch: ``ti.init`` need not have been called, and a running
    program is not disturbed. Another process then runs every artefact through Taichi's C library
    on random inputs and compares the results with the reference. What fails is left out and
    reported. An existing bundle is replaced in one step; what is unchanged is reused.

    Args:
        kernels: a kernel that :func:`tikgen.build` returned, a ``ti.kernel``, any number of them,
            a dict that names them, or a sweep, of which the fastest kernel of each problem is
            taken. A kernel whose schedule was not given uses on each arch the schedule tuned for
            it, else the default.
        path: a folder, or a file whose name ends in ``.zip``.
        archs: archs to compile for: ``"x64"``, ``"vulkan"``, ``"cuda"``, or ``"cpu"`` for the
            processor of this machine; None takes x64 and vulkan, of a native bundle the processor.
        graphs: by name the steps, as :meth:`Bundle.add_graph` takes them, or a dict of ``steps``
            and ``temporaries``; None keeps the graphs of the existing bundle whose kernels are
            among ``kernels``.
        verify: whether to verify kernels without evidence; otherwise they are refused.
        max_examples: number of examples of such a verification.
        examples: number of launches with which each artefact is proved.
        seed: seed of their inputs; None takes a new one.
        capabilities: what every Vulkan device that runs the bundle has, beyond what kernels need.
        native: whether to make a native bundle, which needs no library of Taichi's;
            see :class:`tikgen.aot.Module`.
        target_cpu: processor of a native bundle, such as ``"x86-64-v3"``.
        library: whether a native bundle has a shared library, which a C compiler links.

    Raises:
        ExportError: if there is nothing to export, or nothing passes its proof; if a native bundle
            cannot be made here.
        BundleError: if the bundle cannot be written, or something else is at ``path``.
        ParameterError: if an arch is unknown, or a setting is invalid.
    """
    from tikgen.aot.exporting.writing import target_of

    target_of(path)  # Before kernels are verified.
    module = Module(
        archs,
        verify=verify,
        max_examples=max_examples,
        capabilities=capabilities,
        native=native,
        target_cpu=target_cpu,
        library=library,
    )
    if isinstance(kernels, SweepResult):
        for kernel, schedules in _fastest_kernels(kernels):
            module.add_kernel(kernel, schedules=schedules)
    else:
        for name, kernel in _listed(kernels):
            module.add_kernel(kernel, name=name)
    if graphs is None:
        module.keep_graphs(path)
    for name, settings in _graphs(graphs or {}):
        module.add_graph(name, **settings)
    return module.save(path, examples=examples, seed=seed)


def _graphs(given: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name of each graph, and what :meth:`Module.add_graph` takes for it."""
    if not isinstance(given, Mapping):
        problem = f"they are a dict of steps by name; got {given!r:.60}"
        raise ExportError("graphs", problem)
    for name, said in given.items():
        settings = said if isinstance(said, Mapping) else {"steps": said}
        takes = "it takes a list of steps, or a dict of 'steps' and perhaps 'temporaries'"
        for key in settings:
            if key not in ("steps", "temporaries", "program_steps"):
                problem = f"it has {key!r}; {takes}.{near(str(key), ('steps', 'temporaries'))}"
                raise ExportError(f"the graph {name!r}", problem.rstrip("."))
        steps = settings.get("steps")
        if isinstance(steps, str) or not isinstance(steps, Iterable):
            got = f"got {said!r:.60}"
            raise ExportError(f"the graph {name!r}", f"{takes}; {got}")
        yield name, settings


def _listed(kernels: Any) -> list[tuple[str | None, Any]]:
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


def _fastest_kernels(sweep: SweepResult) -> list[tuple[Kernel, dict[str, dict[str, Any]]]]:
    """Return a kernel for each problem of a sweep, with its fastest schedule on each arch."""
    found: dict[str, tuple[Kernel, dict[str, dict[str, Any]]]] = {}
    for row in sweep.ranked:
        template = find_template(row["template"])
        problem = {n: row[n] for n in template.Problem.model_fields if n in row}
        schedule = {n: row[n] for n in template.Schedule.model_fields if n in row}
        sizes = None
        if row["baked"]:
            sizes = {
                name.removeprefix(SIZE): extent
                for name, extent in row.items()
                if name.startswith(SIZE) and extent is not None
            }
        key = repr((template.name, problem, sizes))
        if key not in found:
            found[key] = build(template, arch=row["arch"], shape=sizes, **problem), {}
        found[key][1].setdefault(row["arch"], schedule)
    if not found:
        raise ExportError("the sweep", "none of its kernels was timed")
    return list(found.values())
