"""The kernels of a sweep that are worth exporting: for each problem the fastest, arch by arch."""

from __future__ import annotations

from typing import Any

from tikgen.errors import ExportError
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.template.catalogue import find_template
from tikgen.tuning.sweeps.combinations import SIZE
from tikgen.tuning.sweeps.table import SweepResult


def fastest_kernels(sweep: SweepResult) -> list[tuple[Kernel, dict[str, dict[str, Any]]]]:
    """Return a kernel for each problem of a sweep, with the fastest schedule that each arch had.

    Raises:
        ExportError: if nothing in the sweep has a time.
    """
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
            kernel = build(template, arch=row["arch"], shape=sizes, **problem)
            found[key] = kernel, {}
        found[key][1].setdefault(row["arch"], schedule)
    if not found:
        raise ExportError("the sweep", "none of its kernels was timed")
    return list(found.values())
