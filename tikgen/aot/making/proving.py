"""Has what was exported proved by fresh processes, which know it from Taichi's C library alone."""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tikgen.aot import manifest as m
from tikgen.aot.making.made_up import made_up, sizes_for
from tikgen.aot.making.plan import KernelPlan, OwnCheck, Plan, TemplateCheck
from tikgen.aot.making.progress import Progress
from tikgen.aot.making.template_kernels import core_arch
from tikgen.child_process import ChildProcess, Died
from tikgen.errors import ExportError

_WORKER = "tikgen.aot.making.proof_child"
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

    def one(batch: list[_Key]) -> list[tuple[_Key, m.Proof | str]]:
        return _prove_batch(plan, folder, batch, examples, seed, progress)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for names in (plan.kernels, plan.graphs):
            batches = _batches([key for key in sorted(keys) if key[0] in names])
            for key, outcome in itertools.chain.from_iterable(pool.map(one, batches)):
                if isinstance(outcome, str):
                    refuted[key] = outcome
                else:
                    proofs[key] = outcome
    return proofs, refuted


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
            try:
                job = _job(plan, folder, key, examples, seed)
                found.append((key, _outcome(process, job, examples, seed)))
            except ExportError as error:
                found.append((key, str(error)))
            progress.advance("prove")
    return found


def _outcome(process: ChildProcess, job: dict[str, Any], examples: int, seed: int) -> m.Proof | str:
    try:
        process.send(json.dumps(job))
        reply = process.reply(_MOST_SECONDS)
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


def data_file(name: str) -> str:
    """Return the file in the bundle that holds the examples of a user's own kernel."""
    return f"proofs/{name}.npz"


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
    assert isinstance(kernel.check, OwnCheck)
    code = kernel.codes[arch]
    file = folder / data_file(name)
    if not file.exists():
        _write_data(kernel, kernel.check, examples, seed, file)
    data, count = (data_file(name), _count(file)) if file.exists() else ("", examples)
    against = "reference" if data and _has_wanted(file) else "jit"
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


def _write_data(kernel: KernelPlan, check: OwnCheck, examples: int, seed: int, file: Path) -> None:
    """Write the examples of a user's own kernel, if any, and what its reference makes of them."""
    if check.reference is None and not check.examples:
        return
    arguments = kernel.entry.arguments
    rng = np.random.default_rng(seed)
    given = [_named(kernel, example) for example in check.examples]
    if not given:
        given = [made_up(arguments, sizes_for(arguments, n), rng) for n in range(examples)]
    arrays: dict[str, Any] = {}
    for number, values in enumerate(given):
        arrays |= {f"{number}/values/{n}": np.asarray(v) for n, v in values.items()}
        if check.reference is not None:
            wanted = _reference(kernel, check.reference, values)
            arrays |= {f"{number}/wanted/{n}": np.asarray(v) for n, v in wanted.items()}
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, **arrays)


def _named(kernel: KernelPlan, example: Sequence[Any]) -> dict[str, Any]:
    names = [a.name for a in kernel.entry.arguments]
    if len(example) != len(names):
        raise ExportError(
            kernel.entry.name,
            f"an example has {len(example)} values; it takes {', '.join(names) or 'none'}",
        )
    return dict(zip(names, example, strict=True))


def _count(file: Path) -> int:
    with np.load(file) as data:
        return len({name.partition("/")[0] for name in data.files})


def _has_wanted(file: Path) -> bool:
    with np.load(file) as data:
        return any("/wanted/" in name for name in data.files)


def _reference(
    kernel: KernelPlan, reference: Callable[..., Mapping[str, Any]], values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what the reference says that written arrays hold after a launch."""
    name = kernel.entry.name
    copies = {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
    try:
        wanted = reference(*copies.values())
    except Exception as error:
        raise ExportError(name, f"its reference fails: {type(error).__name__}: {error}") from None
    known = {a.name for a in kernel.entry.arguments if a.kind == "array"}
    if not isinstance(wanted, Mapping) or not wanted or wanted.keys() - known:
        raise ExportError(
            name,
            f"its reference returns {wanted!r:.80}; it is to return a dict from names of arrays "
            f"({', '.join(sorted(known))}) to what they hold after a launch",
        )
    return wanted
