"""The process that proves artefacts: ``python -m tikgen.aot.exporting.proof_child ARCH BUNDLE``.

It runs them through Taichi's C library as any program would, and compares their results with the
reference. Each line that it reads has the name of a kernel or graph, and how to prove it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tikgen.aot import manifest as m
from tikgen.aot.exporting.example_data import (
    EXTENTS,
    made_up,
    shape_of,
    sizes_for,
    sizes_of,
    worst_error,
)
from tikgen.aot.running.bundle_runtime import Runtime
from tikgen.aot.running.loading import load
from tikgen.children.work import serve, start
from tikgen.errors import one_line
from tikgen.machine.devices import core_arch
from tikgen.template.base import Template
from tikgen.template.catalogue import load_unchanged
from tikgen.template.declared import tried_sizes
from tikgen.untrusted import from_literal
from tikgen.verification.check import Trial

_DATA = ("whole", "uniform", "sparse")
# The largest size in a trial, so that trials are quick.
_MOST_SIZE = 48


class _Wrong(Exception):
    """An artefact is wrong; the message says how."""


def main() -> None:
    """Prove artefacts of the bundle on the arch of the command line until the input ends."""
    arch, folder = sys.argv[1:]
    with load(folder, arch) as runtime:
        serve(None, lambda line, tell: _answer(runtime, json.loads(line)))


def _answer(runtime: Runtime, job: dict[str, Any]) -> str:
    prove = {"template": _by_template, "own": _by_own, "graph": _by_kernels}[job["kind"]]
    try:
        return json.dumps({"worst": prove(runtime, job), "problem": ""})
    except Exception as error:
        problem = str(error) if isinstance(error, _Wrong) else one_line(error)
        return json.dumps({"problem": f"its artefact failed the proof: {problem}"})


def _by_template(runtime: Runtime, job: dict[str, Any]) -> float:
    """Return the worst error of trials against the template's reference."""
    template = load_unchanged(job["folder"], job["fingerprint"])
    params = from_literal(job["params"])
    kernel = runtime.kernels[job["name"]]
    rng = np.random.default_rng(job["seed"])
    worst = 0.0
    for number in range(job["examples"]):
        sizes = job["sizes"] or _drawn_sizes(template, params, rng, number)
        trial = Trial(
            template,
            params,
            sizes=sizes,
            seed=int(rng.integers(2**32)),
            data=_DATA[number % len(_DATA)],  # type: ignore[arg-type]
            baked=bool(job["sizes"]),
            launch=lambda values: kernel(*values),
            arch=core_arch(runtime.arch),
        )
        outcome = trial.run()
        if not outcome.ok:
            raise _Wrong(f"{outcome.message} (sizes {sizes})")
        worst = max(worst, outcome.worst)
    return worst


def _drawn_sizes(
    template: Template, params: Mapping[str, Any], rng: np.random.Generator, number: int
) -> dict[str, int]:
    """Return the template's middle sizes first, then some of its sizes."""
    problem = _problem_of(template, params)
    if number == 0:
        return template.middle_sizes(problem)
    tried = tried_sizes(template, problem)
    sizes = {}
    for symbol in template.size_symbols(problem):
        options = [n for n in tried.get(symbol, [17]) if n <= _MOST_SIZE] or [17]
        sizes[symbol] = int(rng.choice(options))
    return sizes


def _by_own(runtime: Runtime, job: dict[str, Any]) -> float:
    """Return the worst error of launches against the reference or Taichi's JIT."""
    entry = runtime.manifest.kernels[job["name"]]
    rng = np.random.default_rng(job["seed"])
    worst = 0.0
    for number in range(job["examples"]):
        given = _given(job, number)
        sizes = sizes_for(entry.arguments, number)
        values = given or made_up(entry.arguments, sizes, rng)
        fields = _random_fields(runtime, job["fields"], rng)
        wanted = _given(job, number, "wanted") or {}
        if wanted:
            fields = {name: np.zeros_like(held) for name, held in fields.items()}
        written = {a.name for a in entry.arguments if a.kind == "array" and a.role != "in"}
        if not written | fields.keys() <= wanted.keys():  # The reference leaves some out.
            wanted = _by_jit(job, entry, values, fields) | wanted
        got = {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
        _fill(runtime, fields)
        runtime.kernels[job["name"]](**got)
        runtime.sync()
        for name, expected in wanted.items():
            found = runtime.fields[name].to_numpy() if name in fields else got[name]
            error = worst_error(found, np.asarray(expected))
            if not error <= 1:
                raise _Wrong(
                    f"{name} differs from what {job['against']} computes, by {error:.3g} times "
                    f"what rounding may cost (example {number})"
                )
            worst = max(worst, error)
    return worst


def _given(job: dict[str, Any], number: int, what: str = "values") -> dict[str, Any] | None:
    """Return the values of an example, or the results of its reference; None if none is given."""
    if not job.get("data"):
        return None
    with np.load(Path(sys.argv[2]) / job["data"]) as data:
        prefix = f"{number}/{what}/"
        found = {k.removeprefix(prefix): data[k] for k in data.files if k.startswith(prefix)}
    return {k: v.item() if not v.ndim else v for k, v in found.items()} or None


def _random_fields(
    runtime: Runtime, names: Iterable[str], rng: np.random.Generator
) -> dict[str, np.ndarray[Any, Any]]:
    """Return values for fields, by name: floats in [0, 1), small integers."""
    values: dict[str, np.ndarray[Any, Any]] = {}
    for name in names:
        field = runtime.fields[name]
        if field.dtype.is_float:
            values[name] = np.asarray(rng.uniform(0, 1, field.shape), field.dtype.numpy)
        else:
            values[name] = np.asarray(rng.integers(0, 4, field.shape), field.dtype.numpy)
    return values


def _fill(runtime: Runtime, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for name, held in values.items():
        runtime.fields[name].from_numpy(held)


_jit_of: dict[str, tuple[Any, dict[str, Any]]] = {}


def _by_jit(
    job: dict[str, Any], entry: m.Kernel, values: Mapping[str, Any], fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results of the same code and arguments with Taichi's JIT."""
    import taichi as ti

    from tikgen.aot.exporting.kernel_texts import init_options, load_text, make_field

    if job["name"] not in _jit_of:
        start(job["core_arch"], **init_options(job["options"]))
        _jit_of.clear()
        made = {name: make_field(f) for name, f in job["fields"].items()}
        inner = {inner: made[outer] for inner, outer in job["inner_fields"].items()}
        kernel = load_text(job["name"], job["text"], job["function"], inner)
        _jit_of[job["name"]] = kernel, made
    kernel, made = _jit_of[job["name"]]
    for name, held in fields.items():
        made[name].from_numpy(held)
    copies = {n: _on_device(a, values[a.name]) for a in entry.arguments for n in (a.name,)}
    kernel(*(copies[a.name] for a in entry.arguments))
    ti.sync()
    wanted = {
        a.name: copies[a.name].to_numpy()
        for a in entry.arguments
        if a.kind == "array" and a.role != "in"
    }
    return {**wanted, **{name: field.to_numpy() for name, field in made.items()}}


def _on_device(argument: m.Argument, value: Any) -> Any:
    """Return a scalar as it is, and an array as a Taichi array, which keeps its dtype."""
    import taichi as ti

    from tikgen.aot.exporting.kernel_texts import element_type

    if argument.kind == "scalar":
        return value
    dtype = element_type(argument.element, getattr(ti, argument.dtype))
    shape = value.shape[: value.ndim - len(argument.element)]
    array = ti.ndarray(dtype, shape)
    array.from_numpy(np.ascontiguousarray(value))
    return array


def _by_kernels(runtime: Runtime, job: dict[str, Any]) -> float:
    """Return the worst error of a graph against its kernels, which are proved, one by one."""
    graph = runtime.manifest.graphs[job["name"]]
    rng = np.random.default_rng(job["seed"])
    worst = 0.0
    example = _example(job, graph)
    # Each run takes other sizes, since the runtime keeps the contents of temporaries.
    for number in range(min(job["examples"], len(EXTENTS))):
        sizes = sizes_for((*graph.arguments, *graph.temporaries), number)
        for argument in graph.arguments:
            if argument.name in example:
                sizes |= sizes_of(argument, np.shape(example[argument.name]))
        given = _special_inputs(runtime, job, graph, sizes, rng) | example
        start_values = made_up(graph.arguments, sizes, rng, given)
        fields = _random_fields(runtime, runtime.fields, rng)
        _fill(runtime, fields)
        by_graph = _copied(start_values)
        runtime.graphs[job["name"]](**by_graph)
        runtime.sync()
        by_graph |= {name: runtime.fields[name].to_numpy() for name in fields}
        _fill(runtime, fields)
        one_by_one = _copied(start_values) | dict(graph.constants)
        for array in graph.temporaries:
            one_by_one[array.name] = np.zeros_like(made_up([array], sizes, rng)[array.name])
        for step in graph.steps:
            given = {inner: one_by_one[outer] for inner, outer in step.arguments.items()}
            runtime.kernels[step.kernel](**given)
            runtime.sync()
        one_by_one |= {name: runtime.fields[name].to_numpy() for name in fields}
        for name in (*start_values, *fields):
            if isinstance(by_graph[name], np.ndarray):
                error = worst_error(by_graph[name], one_by_one[name])
                if not error <= 1:
                    raise _Wrong(f"{name} differs from what its kernels compute one by one")
                worst = max(worst, error)
    return worst


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}


def _example(job: dict[str, Any], graph: m.Graph) -> dict[str, Any]:
    """Return the values that examples of users' own kernels have for arguments of a graph."""
    found: dict[str, Any] = {}
    for step, said in zip(graph.steps, job["steps"], strict=True):
        values = _given(said, 0) if "data" in said else None
        for name, value in (values or {}).items():
            found.setdefault(step.arguments[name], value)
    return found


def _special_inputs(
    runtime: Runtime,
    job: dict[str, Any],
    graph: m.Graph,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the inputs of the steps' templates for arguments that need special values."""
    found: dict[str, Any] = {}
    taken = {a.name: a for a in (*graph.arguments, *graph.temporaries)}
    for step, said in zip(graph.steps, job["steps"], strict=True):
        if "folder" not in said:
            continue
        kernel = runtime.manifest.kernels[step.kernel]
        inner = dict(kernel.sizes)
        for argument in kernel.arguments:
            outer = taken.get(step.arguments[argument.name])
            if outer is not None:
                inner |= sizes_of(argument, shape_of(outer, sizes))
        template = load_unchanged(said["folder"], said["fingerprint"])
        problem = _problem_of(template, from_literal(said["params"]))
        inputs = template.inputs(problem, inner, rng)
        for name, value in inputs.items():
            found.setdefault(step.arguments[name], value)
    return found


def _problem_of(template: Template, params: Mapping[str, Any]) -> Any:
    names = template.Problem.model_fields
    return template.Problem(**{name: value for name, value in params.items() if name in names})


if __name__ == "__main__":
    main()
