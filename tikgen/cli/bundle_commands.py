"""Commands about bundles: bundle show, verify and run; none of them needs Taichi's compiler."""

from __future__ import annotations

import hashlib
import math
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikgen.cli.common import Json, Seed, check_file
from tikgen.cli.exit_codes import FAILED
from tikgen.cli.export_command import BundleArch
from tikgen.cli.given_arrays import FORMS, given_arrays
from tikgen.cli.output import print_json, print_table, say
from tikgen.errors import ArgumentError, BundleError, UnsupportedOnArch
from tikgen.template.literals import parse_literal
from tikgen.units import duration

if TYPE_CHECKING:
    import numpy as np

    from tikgen.aot.bundle import Bundle
    from tikgen.aot.running.bundle_runtime import Runtime

    Array = np.ndarray[Any, Any]

BundlePath = Annotated[Path, typer.Argument(metavar="PATH", help="A folder, or a .zip file.")]


def show_command(path: BundlePath, json: Json = False) -> None:
    """Show the contents of a bundle: kernels, graphs, fields, archs and proofs."""
    from tikgen.aot.bundle import Bundle
    from tikgen.aot.bundle_shown import HEADER, rows_of, title_of
    from tikgen.aot.manifest import encode

    manifest = Bundle(path).manifest
    if json:
        sys.stdout.write(encode(manifest).decode())
        return
    print_table(HEADER, rows_of(manifest), title=title_of(path, manifest))
    families: dict[str, list[str]] = {}
    for kernel in manifest.kernels.values():
        families.setdefault(kernel.family, []).append(kernel.name)
    for family, members in sorted(families.items()):
        if members != [family]:
            say(f"family {family}: {', '.join(members)}")


def verify_command(
    path: BundlePath,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Prove its artefacts again. This runs the bundle's code: its compiled kernels "
            "and its Python sources.",
        ),
    ] = False,
    arch: Annotated[
        list[BundleArch] | None,
        typer.Option(
            "--arch", metavar="ARCH", help="Arch to prove on; by default all that work. Repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check the manifest of a bundle and the digest of every file, without running its code."""
    from tikgen.aot.bundle import Bundle

    if arch and not prove:
        raise typer.BadParameter("--arch needs --prove")
    absent: dict[str, str] = {}
    proved: list[str] = []
    problems: tuple[str, ...] = ()
    bundle = None
    try:
        bundle = Bundle(path)
    except BundleError as error:
        if not path.exists():
            raise
        problems = (str(error),)
    if bundle is not None:
        if prove:
            absent, proved = _places(bundle, arch)
        if proved:
            print(f"runs the code of {path}", file=sys.stderr)
        problems = bundle.verify(prove=bool(proved), archs=proved or None)
    if json:
        print_json({"problems": list(problems), "proved": proved, "not_proved": absent})
    else:
        for problem in problems:
            say(problem, style="bold red")
        for name, problem in absent.items():
            say(f"not proved on {name}: {problem}", style="yellow")
        if bundle is not None and not problems:
            done = f"proved again on {', '.join(proved)}" if proved else "not proved again"
            files = len(bundle.manifest.files)
            say(f"{path} is undamaged: {files} files, {done}", style="bold green")
    if problems:
        raise typer.Exit(FAILED)


def _places(bundle: Bundle, archs: Sequence[BundleArch] | None) -> tuple[dict[str, str], list[str]]:
    """Return why nothing can be proved, by arch, and archs to prove on; refuse others."""
    from tikgen.aot.running.loading import problem_here
    from tikgen.machine.devices import arch_named

    named = [arch_named(arch.value) for arch in archs or ()]
    for name in named:
        if name not in bundle.archs:
            raise BundleError(
                bundle.path, f"has nothing for {name}; it has {', '.join(bundle.archs)}"
            )
        if problem := problem_here(bundle.manifest, name):
            raise UnsupportedOnArch(str(bundle.path), name, problem)
    problems = {name: problem_here(bundle.manifest, name) for name in named or bundle.archs}
    absent = {name: problem for name, problem in problems.items() if problem}
    return absent, [name for name in problems if name not in absent]


def run_command(
    path: BundlePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A kernel or a graph.")],
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE",
            help=f"Its arguments: numbers such as a=0.5, arrays such as {FORMS}. random draws "
            "floats from -1 to 1, and integers from 0 to 3 that are less than every extent; "
            "random(0,10) draws numbers from 0 on that are less than 10. Draw what a kernel takes "
            "for indices from within its arrays: outside of them it damages the process.",
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch", metavar="ARCH", help="Arch to run on; by default the first that works."
        ),
    ] = None,
    seed: Seed = None,
    repeat: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of further, timed launches.")
    ] = 5,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the written arrays, such as out.npz."),
    ] = None,
    json: Json = False,
) -> None:
    """Launch a kernel or a graph, summarise the arrays that it wrote, and time more launches."""
    from tikgen.aot.running.loading import load

    check_file(save, (".npz",))
    texts = _texts(name, given or ())
    seed = secrets.randbits(32) if seed is None else seed
    began = time.perf_counter()
    with load(path, arch) as runtime:
        launch, outputs = _bound(runtime, name, texts, seed)
        _timed(runtime, launch)
        first = time.perf_counter() - began
        written: dict[str, Any] = {name: read() for name, read in outputs.items()}
        seconds = statistics.median(_timed(runtime, launch) for _ in range(repeat))
        chosen = runtime.arch
    if save is not None:
        _save(save, written)
    summaries = {name: _summary(array) for name, array in written.items()}
    if json:
        times = {"first_seconds": first, "seconds": seconds, "repeat": repeat}
        print_json({"name": name, "arch": chosen, "seed": seed, **times, "arrays": summaries})
        return
    columns = ("array", "dtype", "shape", "min", "max", "mean", "sha256")
    rows = [(array, *map(_shown, about.values())) for array, about in summaries.items()]
    if rows:
        print_table(columns, rows)
    say(
        f"{name} on {chosen}: {duration(seconds)} per launch (median of {repeat}), "
        f"{duration(first)} to the end of the first; seed {seed}"
    )
    if save is not None:
        say(f"wrote {save}")


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to a .npz file, all of it or nothing."""
    import numpy as np

    with path.open("wb") as file:
        try:
            np.savez(file, **arrays)
            file.flush()
        except OSError as error:
            path.unlink()
            raise OSError(error.errno, error.strerror, str(path)) from None


def _texts(kernel: str, given: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise ArgumentError(kernel, f"argument {name!r} has no value; write {name}=VALUE")
        if name in texts:
            raise ArgumentError(kernel, f"argument {name!r} is given twice")
        texts[name] = value
    return texts


def _bound(
    runtime: Runtime, name: str, texts: Mapping[str, str], seed: int
) -> tuple[Callable[[], None], dict[str, Callable[[], Array]]]:
    """Return a function that launches a kernel or graph, and one that reads each result."""
    import numpy as np

    launchable = runtime[name]
    arguments = {a.name: a for a in launchable.described.arguments}
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    outputs: dict[str, Callable[[], Array]] = {}
    is_array = {key: key in arguments and arguments[key].kind != "scalar" for key in texts}
    held = {key: text for key, text in texts.items() if is_array[key]}
    for key, array in given_arrays(name, held, arguments, rng).items():
        values[key] = runtime.array(array)
        if arguments[key].role in ("out", "inout"):
            outputs[key] = values[key].to_numpy
    for key, text in texts.items():
        if not is_array[key]:
            argument = arguments.get(key)
            values[key] = parse_literal(text)
            if argument is not None and isinstance(values[key], str):
                takes = f"takes a number of dtype {argument.dtype}"
                raise ArgumentError(name, f"argument {key!r} {takes}; got {text!r}")
    launch = launchable.bind(**values)
    for key in _fields_of(runtime, name):
        outputs[key] = runtime.fields[key].to_numpy
    return launch, outputs


def _fields_of(runtime: Runtime, name: str) -> list[str]:
    """Return the names of the fields that a kernel, or any kernel of a graph, uses."""
    manifest = runtime.manifest
    graph = manifest.graphs.get(name)
    kernels = [name] if graph is None else [step.kernel for step in graph.steps]
    return sorted({field for kernel in kernels for field in manifest.kernels[kernel].fields})


def _timed(runtime: Runtime, launch: Callable[[], None]) -> float:
    began = time.perf_counter()
    launch()
    runtime.sync()
    return time.perf_counter() - began


def _summary(array: Array) -> dict[str, Any]:
    """Return a summary of an array; None in place of what is not finite."""
    import numpy as np

    with np.errstate(all="ignore"):
        numbers = array.min(), array.max(), array.mean(dtype=np.float64)
    least, most, mean = (number.item() for number in numbers)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": least if math.isfinite(least) else None,
        "max": most if math.isfinite(most) else None,
        "mean": mean if math.isfinite(mean) else None,
        "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None:
        return "not finite"
    return str(value)[:12]
