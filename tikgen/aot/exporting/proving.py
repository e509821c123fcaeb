"""Proves exported artefacts in fresh processes, which run them through Taichi's C library."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.exporting.example_data import count_of, data_file, has_wanted, write_data
from tikgen.aot.exporting.export_plan import KernelPlan, Plan
from tikgen.aot.exporting.worker_process import WorkerProcess, in_threads
from tikgen.errors import ExportError
from tikgen.machine.devices import core_arch

_WORKER = "tikgen.aot.exporting.proof_child"
_MOST_SECONDS = 300.0
# Number of artefacts that justify another process.
_WORTHWHILE = 8

_Key = tuple[str, str]


def prove(
    plan: Plan,
    folder: Path,
    keys: Sequence[_Key],
    examples: int,
    seed: int,
    advance: Callable[[str], None],
) -> tuple[dict[_Key, m.Proof], dict[_Key, str]]:
    """Return the proof of each correct artefact, and what is wrong with the others.

    Graphs are proved after their kernels; ``advance`` is called with ``"prove"`` after each proof.
    """
    proofs: dict[_Key, m.Proof] = {}
    absent = _write_examples(plan, folder, keys, examples, seed)
    refuted = {key: absent[key[0]] for key in keys if key[0] in absent}
    work = functools.partial(_prove_batch, plan, folder, examples, seed, advance)
    for names in (plan.kernels, plan.graphs):
        batches = _batches([k for k in sorted(keys) if k[0] in names and k not in refuted])
        found = in_threads(work, batches, os.cpu_count() or 1)
        for key, outcome in itertools.chain.from_iterable(found):
            if isinstance(outcome, str):
                refuted[key] = outcome
            else:
                proofs[key] = outcome
    return proofs, refuted


def _write_examples(
    plan: Plan, folder: Path, keys: Sequence[_Key], examples: int, seed: int
) -> dict[str, str]:
    """Write the examples of users' own kernels, once for all archs; return what is wrong."""
    problems = {}
    for name in sorted({name for name, _ in keys if name in plan.kernels}):
        file = folder / data_file(name)
        try:
            if not file.exists():
                write_data(plan.kernels[name], examples, seed, file)
        except ExportError as error:
            problems[name] = str(error)
    return problems


def _batches(keys: Sequence[_Key]) -> list[list[_Key]]:
    """Return the keys in batches of one arch, each for one process."""
    batches = []
    for arch in sorted({arch for _, arch in keys}):
        mine = [key for key in keys if key[1] == arch]
        count = min(os.cpu_count() or 1, -(-len(mine) // _WORTHWHILE))
        batches += [mine[start::count] for start in range(count)]
    return batches


def _prove_batch(
    plan: Plan,
    folder: Path,
    examples: int,
    seed: int,
    advance: Callable[[str], None],
    keys: Sequence[_Key],
    stop: threading.Event,
) -> list[tuple[_Key, m.Proof | str]]:
    """Return the proof of each artefact of one arch, or what is wrong with it."""
    found: list[tuple[_Key, m.Proof | str]] = []
    with WorkerProcess(
        _WORKER, keys[0][1], str(folder), doing="proof", seconds=_MOST_SECONDS, stop=stop
    ) as process:
        for key in keys:
            job = _job(plan, folder, key, examples, seed)
            reply = process.answer(job)
            if reply["problem"]:
                found.append((key, reply["problem"]))
                continue
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            proof = m.Proof(
                against=job["against"],
                examples=job["examples"],
                seed=seed,
                worst=float(reply["worst"]),
                when=now,
                data=job.get("data", ""),
            )
            found.append((key, proof))
            advance("prove")
    return found


def _job(plan: Plan, folder: Path, key: _Key, examples: int, seed: int) -> dict[str, Any]:
    name, arch = key
    job: dict[str, Any] = {"name": name, "examples": examples, "seed": seed}
    if name in plan.graphs:
        steps = [_behind(plan.kernels[s.kernel], folder, arch) for s in plan.graphs[name].steps]
        return job | {"kind": "graph", "against": "kernels", "steps": steps}
    kernel = plan.kernels[name]
    said = _template_of(kernel, arch)
    if said is not None:
        return job | {"kind": "template", "against": "reference", **said}
    code = kernel.codes[arch]
    file = folder / data_file(name)
    data, count = (data_file(name), count_of(file)) if file.exists() else ("", examples)
    against = "reference" if data and has_wanted(file) else "jit"
    return job | {
        "kind": "own",
        "against": against,
        "examples": count,
        "data": data,
        "text": code.text,
        "function": code.function,
        "core_arch": core_arch(arch),
        "options": dict(code.options),
        "inner_fields": dict(code.fields),
        "fields": {n: msgspec.to_builtins(f) for n, f in kernel.fields.items()},
    }


def _behind(kernel: KernelPlan, folder: Path, arch: str) -> dict[str, Any]:
    """Return where suitable inputs for a kernel come from, if they do."""
    file = data_file(kernel.entry.name)
    has_data = (folder / file).exists()
    return _template_of(kernel, arch) or ({"data": file} if has_data else {})


def _template_of(kernel: KernelPlan, arch: str) -> dict[str, Any] | None:
    """Return the template, parameters and sizes of a kernel; None for a user's own."""
    if not kernel.template:
        return None
    return {
        "folder": kernel.template,
        "fingerprint": kernel.fingerprint,
        "params": kernel.codes[arch].literals,
        "sizes": dict(kernel.entry.sizes),
    }
