"""The rows of a sweep: measurements, compared with the work done and the machine's limits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikgen.callables import function_name
from tikgen.errors import ParameterError
from tikgen.template.base import Cost, Template
from tikgen.tuning.sweeps.combinations import COLUMNS, RANKS, SIZE, Combination
from tikgen.tuning.sweeps.limits import Limits
from tikgen.tuning.sweeps.results_file import Done

Row = dict[str, Any]
Metric = Callable[[Row], Any]

# Columns of every row, after those that distinguish it from the others.
OUTCOME = ("digest", "kind", "message")
METRICS = {
    "device": "name of the device",
    "seconds": "median time of a launch, device synchronisation included",
    "spread": "interquartile range of the rounds over their median, measured by itself",
    "rounds": "rounds that were timed, by itself",
    "ratio": "seconds over those of the fastest row of its problem, measured in turn with it",
    "compile_seconds": "time that Taichi took to compile the kernel",
    "worst": "greatest error as a fraction of what is allowed",
    "bytes": "least bytes that a launch must move",
    "flops": "operations that a launch must do",
    "gb_per_s": "bytes over seconds, in 10^9 bytes per second",
    "gflop_per_s": "operations over seconds, in 10^9 per second",
    "limit_gb_per_s": "what a copy of as many bytes reaches on the same device",
    "limit_gflop_per_s": "what multiply-adds in registers reach on the same device",
    "share": "least time that the limits allow over seconds",
}
_MEASURED = ("seconds", "spread", "rounds", "compile_seconds", "worst")
MISSING = "missing"
# The greatest of these is the best; of all others the least.
GREATEST = ("gb_per_s", "gflop_per_s", "share")


def row_of(
    combination: Combination, done: Done | None, limits: Limits, met: Mapping[str, float]
) -> Row:
    """Return the row of a combination; unknown values are None.

    ``met`` holds the seconds of the kernels of its problem that were measured in turn, by work.
    """
    row: Row = {**combination.cells, **dict.fromkeys((*OUTCOME, *METRICS))}
    row["digest"] = combination.digest or None
    cost = combination.cost
    if cost is not None:
        row["bytes"], row["flops"] = cost.bytes, cost.flops
    if done is None:
        row["kind"] = combination.kind or MISSING
        row["message"] = combination.message or "the sweep was interrupted before"
        return row
    found = done.measurement
    row |= {"kind": found.kind, "message": found.message or None, "device": done.device}
    if not found.ok:
        return row
    row |= {name: getattr(found, name) for name in _MEASURED}
    if combination.work in met:
        row["seconds"] = met[combination.work]
        row["ratio"] = row["seconds"] / min(met.values())
    if cost is not None and combination.dtype:
        row |= _against_limits(row, cost, combination.dtype, limits)
    return row


def check_metrics(metrics: Sequence[str | Metric] | None, template: Template) -> None:
    """Raise ParameterError where ``metrics`` names no measured column, or hides another column."""
    if metrics is not None and not isinstance(metrics, list | tuple):
        problem = f"takes a list of columns and functions; got {metrics!r}"
        raise ParameterError("sweep", {"metrics": problem})
    taken = {*COLUMNS, *template.Problem.model_fields, *template.Schedule.model_fields}
    taken |= {RANKS, *OUTCOME, *METRICS}
    for metric in metrics or ():
        if not callable(metric):
            if metric not in METRICS:
                raise ParameterError.unknown("sweep", str(metric), METRICS)
            continue
        name = function_name(metric)
        if name in taken or name.startswith(SIZE):
            problem = f"has a function {name!r}, as another column is called; rename it"
            raise ParameterError("sweep", {"metrics": problem})
        taken.add(name)


def check_axes(template: str, params: Mapping[str, Sequence[Any]]) -> None:
    """Raise ParameterError where a parameter of several values has the name of another column."""
    for name, values in params.items():
        if len(values) > 1 and name in (*COLUMNS, RANKS, *OUTCOME, *METRICS):
            problem = "cannot be an axis: the table has another column of that name"
            raise ParameterError(template, {name: f"{problem}; give it one value a sweep"})


def with_own_metrics(rows: Sequence[Row], metrics: Sequence[str | Metric] | None) -> list[Row]:
    """Return the rows with the columns that ``metrics`` names and computes, None for all.

    A function that raises gives None: a mistake in it must not cost the sweep.
    """
    functions = [m for m in metrics or () if callable(m)]
    kept = [m for m in metrics or () if not callable(m)] or list(METRICS)
    return [
        {k: v for k, v in row.items() if k not in METRICS or k in kept}
        | {function_name(function): _value(function, row) for function in functions}
        for row in rows
    ]


def _against_limits(row: Row, cost: Cost, dtype: str, limits: Limits) -> Row:
    seconds, where = row["seconds"], (row["device"], row["arch"], dtype)
    bandwidth, peak = limits.bandwidth(*where, cost.bytes), limits.peak(*where)
    least = [cost.bytes / bandwidth] if bandwidth else []
    least += [cost.flops / peak] if peak else []
    return {
        "gb_per_s": cost.bytes / seconds / 1e9,
        "gflop_per_s": cost.flops / seconds / 1e9,
        "limit_gb_per_s": bandwidth and bandwidth / 1e9,
        "limit_gflop_per_s": peak and peak / 1e9,
        "share": max(least) / seconds if least else None,
    }


def _value(function: Metric, row: Row) -> Any:
    try:
        return function(dict(row))
    except Exception as error:
        if row["kind"] == "timed":  # Elsewhere most columns are None.
            warnings.warn(
                f"the metric {function_name(function)} fails: {type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
        return None
