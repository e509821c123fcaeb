"""Has what was exported proved by fresh processes, which know it from Taichi's C library alone."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.exporting.example_data import count_of, data_file, has_wanted, write_data
from tikgen.aot.exporting.plan import KernelPlan, Plan, TemplateCheck
from tikgen.aot.exporting.progress import Progress
from tikgen.aot.exporting.template_kernels import core_arch
from tikgen.aot.exporting.waiting import in_threads, reply_of
from tikgen.children.process import ChildProcess, Died
from tikgen.errors import ExportError

_WORKER = "tikgen.aot.exporting.proof_child"
_MOST_SECONDS = 300.0
# So many artefacts are worth a process of their own.
_WORTHWHILE = 8

_Key = tuple[str, str]


def prove(
    plan: Plan,
    folder: Path,
    keys: Sequence[_Key],
    examples: int,
    seed: int,
    progress: Progress,
) -> tuple[dict[_Key, m.Proof], dict[_Key, str]]:
    """Return the proof of each artefact that does what it should, and what is wrong with the rest.

    Args:
        plan: what was exported.
        folder: the bundle.
        keys: name and arch of each artefact; graphs are proved after their kernels.
        examples: launches of each.
        seed: seed of the inputs.
        progress: is told of each that is done.
    """
    proofs: dict[_Key, m.Proof] = {}
    refuted: dict[_Key, str] = {}

    def one(batch: list[_Key], stop: threading.Event) -> list[tuple[_Key, m.Proof | str]]:
        return _prove_batch(plan, folder, batch, examples, seed, progress, stop)

    absent = _write_examples(plan, folder, keys, examples, seed)
    refuted |= {key: absent[key[0]] for key in keys if key[0] in absent}
    for names in (plan.kernels, plan.graphs):
        batches = _batches([k for k in sorted(keys) if k[0] in names and k not in refuted])
        found = in_threads(one, batches, os.cpu_count() or 1)
        for key, outcome in itertools.chain.from_iterable(found):
            if isinstance(outcome, str):
                refuted[key] = outcome
            else:
                proofs[key] = outcome
    return proofs, refuted


def _write_examples(
    plan: Plan, folder: Path, keys: Sequence[_Key], examples: int, seed: int
) -> dict[str, str]:
    """Write what is known of users' own kernels, once for all archs; return what is wrong."""
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
    """Return the keys in batches of one arch, each the work of one process."""
    batches = []
    for arch in sorted({arch for _, arch in keys}):
        mine = [key for key in keys if key[1] == arch]
        count = min(os.cpu_count() or 1, -(-len(mine) // _WORTHWHILE))
        batches += [mine[start::count] for start in range(count)]
    return batches


def _prove_batch(
    plan: Plan,
    folder: Path,
    keys: Sequence[_Key],
    examples: int,
    seed: int,
    progress: Progress,
    stop: threading.Event,
) -> list[tuple[_Key, m.Proof | str]]:
    found: list[tuple[_Key, m.Proof | str]] = []
    arch = keys[0][1]
    with ChildProcess(_WORKER, arch, str(folder)) as process:
        absent = process.start()
        for key in keys:
            if not process.is_running and not absent:
                absent = process.start()
            if absent:
                found.append((key, f"its proof could not run: {absent}"))
                continue
            job = _job(plan, folder, key, examples, seed)
            found.append((key, _outcome(process, job, seed, stop)))
            progress.advance("prove")
    return found


def _outcome(
    process: ChildProcess, job: dict[str, Any], seed: int, stop: threading.Event
) -> m.Proof | str:
    try:
        process.send(json.dumps(job))
        reply = reply_of(process, _MOST_SECONDS, stop)
    except Died as death:
        return f"it killed the process that proved it: {death}"
    except TimeoutError:
        process.stop()
        return f"it did not come back within {_MOST_SECONDS:g} s"
    if reply["problem"]:
        return f"its artefact failed the proof: {reply['problem']}"
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return m.Proof(
        against=job["against"],
        examples=job["examples"],
        seed=seed,
        worst=float(reply["worst"]),
        when=now,
        data=job.get("data", ""),
    )


def _job(plan: Plan, folder: Path, key: _Key, examples: int, seed: int) -> dict[str, Any]:
    """Return what the proving process is told of an artefact."""
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
    """Return where suitable inputs for a kernel come from, if anywhere."""
    file = data_file(kernel.entry.name)
    has_data = (folder / file).exists()
    return _template_of(kernel, arch) or ({"data": file} if has_data else {})


def _template_of(kernel: KernelPlan, arch: str) -> dict[str, Any] | None:
    """Return how to make a template's variant again; None for a user's own kernel."""
    if not isinstance(kernel.check, TemplateCheck):
        return None
    return {
        "folder": kernel.check.folder,
        "params": kernel.codes[arch].literals,
        "sizes": dict(kernel.entry.sizes),
    }
