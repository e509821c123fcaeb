"""Plans a native bundle: what it needs here, its processors, and what it cannot have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tikgen.aot.exporting.export_plan import KernelPlan
from tikgen.aot.native.linking import compiler
from tikgen.aot.native.targets import Target, target_for
from tikgen.engines import native
from tikgen.errors import ExportError, ParameterError


def native_targets(archs: Sequence[str], target_cpu: str, library: bool) -> dict[str, Target]:
    """Return the processor for each arch of a native bundle, once it is clear that one can be made.

    Raises:
        ExportError: if llvmlite or the C compiler is missing.
        ParameterError: if an arch has no such processor.
        UnsupportedOnArch: if a native bundle cannot have an arch.
    """
    if not isinstance(target_cpu, str):
        problem = f"takes the name of a processor or of a level; got {target_cpu!r}"
        raise ParameterError("export", {"target_cpu": problem})
    if problem := native.problem():
        raise ExportError("a native bundle", problem)
    targets = {arch: target_for(arch, target_cpu) for arch in archs}
    if library and any(target.is_here for target in targets.values()):
        compiler()
    return targets


def without_fields(kernels: Mapping[str, KernelPlan]) -> dict[str, KernelPlan]:
    """Return the plans for a native bundle, in which kernels that use fields fail."""
    problem = "it uses fields, for which a native bundle has no memory; pass arrays"
    return {
        name: replace(
            plan, codes={}, failures={**plan.failures, **dict.fromkeys(plan.codes, problem)}
        )
        if plan.fields
        else plan
        for name, plan in kernels.items()
    }
