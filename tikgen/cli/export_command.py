"""The command export: compiles kernels ahead of time into a bundle."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikgen.cli import shell_completion
from tikgen.cli.common import Json, Seed, one_or_all, template_name
from tikgen.cli.exit_codes import FAILED
from tikgen.cli.output import print_json, print_table
from tikgen.cli.sweep_command import combinations, parse_axes, split_values
from tikgen.errors import BundleError, TikgenError, UnsupportedOnArch

if TYPE_CHECKING:
    from tikgen.aot.bundle import Bundle, Failure
    from tikgen.aot.manifest import Manifest
    from tikgen.pipeline.kernel import Kernel


class BundleArch(str, Enum):
    """The archs of bundles; cpu is the arch of this machine's processor."""

    cpu = "cpu"
    x64 = "x64"
    arm64 = "arm64"
    cuda = "cuda"
    vulkan = "vulkan"


def export_command(
    to: Annotated[
        Path, typer.Option(metavar="PATH", help="Bundle to write: a folder, or a .zip file.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEMPLATE [NAME=VALUE]",
            help="Templates, each with its parameters: stencil dim=2,3 dtype=f32,f64 reduce. "
            "Several values are an axis; every combination is exported.",
            autocompletion=shell_completion.words,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--param",
            metavar="NAME=VALUE",
            help="A parameter, or an axis, of every named template. Repeatable.",
            autocompletion=shell_completion.words,
        ),
    ] = None,
    arch: Annotated[
        list[BundleArch] | None,
        typer.Option(
            "--arch",
            metavar="ARCH",
            help="x64, vulkan, cuda, arm64, or cpu for this processor; by default x64 and vulkan. "
            "Repeatable.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N,N,...",
            help="Sizes to bake in, as 200,200 or rows=9,cols=7, or one number for all. "
            "Repeatable.",
        ),
    ] = None,
    sweep: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="A saved sweep; the fastest kernel of each problem is exported.",
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="A file of tikgen.aot.record; exported as a graph.",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the graph of a recording; by default step."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify kernels without evidence.")
    ] = False,
    max_examples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of examples of such a verification.")
    ] = 20,
    examples: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of launches that prove each artefact.")
    ] = 3,
    seed: Seed = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What every Vulkan device has, such as spirv_has_atomic_float_add. Repeatable.",
        ),
    ] = None,
    native: Annotated[
        bool,
        typer.Option(
            "--native",
            help="Write object files, a shared library and plain C functions, which need no "
            "library of Taichi's; for this processor, or --arch x64 or arm64.",
        ),
    ] = False,
    target_cpu: Annotated[
        str,
        typer.Option(
            metavar="CPU",
            help="Processor of a native bundle: x86-64, x86-64-v2, x86-64-v3 (the default on x64), "
            "x86-64-v4, generic (on arm64), or host.",
        ),
    ] = "",
    objects: Annotated[
        bool,
        typer.Option(
            "--objects", help="A native bundle without a shared library, which needs no C compiler."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Compile kernels ahead of time into a bundle, and prove that they are correct.

    The bundle runs from Python, C and C++, without Taichi's compiler. An export replaces the whole
    bundle, so list all kernels; what is unchanged is not compiled again.
    """
    _check_sources(words, sweep, recording, graph, [*(param or ()), *(shape or ())])
    settings: dict[str, Any] = {
        "verify": verify,
        "max_examples": max_examples,
        "examples": examples,
        "seed": seed,
        "capabilities": tuple(capability or ()),
    }
    if native:
        settings |= {"native": True, "target_cpu": target_cpu, "library": not objects}
    _check_native(native, target_cpu, objects, recording)
    if arch:
        settings["archs"] = tuple(a.value for a in arch)
        if not native:
            _check_archs(settings["archs"])
    before = _held_by(to)
    refused: list[Failure] = []
    if recording is not None:
        from tikgen.aot.recording.recorded_graph import export_recording

        bundle = export_recording(recording, to, graph=graph or "step", **settings)
    else:
        from tikgen.aot.exporting.export import export

        kernels: Any
        if sweep is not None:
            from tikgen.tuning.sweeps.table import SweepResult

            kernels = SweepResult.load(sweep)
        else:
            kernels, refused = _built(words or (), param or (), shape or (None,))
            if not json:  # Now, since export may raise.
                _print_failures(refused)
        bundle = export(kernels, to, **settings)
    dropped = sorted(
        before - _names(bundle.manifest) - {failure.name for failure in bundle.failures}
    )
    _report(bundle, refused, dropped, json)
    if refused or bundle.failures:
        raise typer.Exit(FAILED)


def parse_words(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each template with the parameters after it, as in ``stencil dim=2 reduce``."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if "=" not in word:
            found.append((word, []))
        elif found:
            found[-1][1].append(word)
        else:
            raise typer.BadParameter(f"{word} comes first; name its template before it")
    return found


def parse_combinations(template: str, given: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of parameters such as ``dim=2,3`` and ``order=4``."""
    return combinations(parse_axes(template, [_bracketed(text) for text in given]))


def _bracketed(text: str) -> str:
    """Return ``dim=2,3`` as sweeps write an axis, ``dim=[2,3]``; one value as it is."""
    name, equals, value = text.partition("=")
    return f"{name}=[{value}]" if equals and len(split_values(value)) > 1 else text


def _check_sources(
    words: Sequence[str] | None,
    sweep: Path | None,
    recording: Path | None,
    graph: str | None,
    details: Sequence[str],
) -> None:
    if sum(map(bool, (words, sweep, recording))) != 1:
        raise typer.BadParameter(
            "name templates, or a sweep by --from, or a --recording: one of them"
        )
    if graph is not None and recording is None:
        raise typer.BadParameter("--graph needs a --recording")
    if details and not words:
        raise typer.BadParameter("--param and --shape need named templates")


def _check_native(native: bool, target_cpu: str, objects: bool, recording: Path | None) -> None:
    if (target_cpu or objects) and not native:
        raise typer.BadParameter("--target-cpu and --objects need --native")
    if native and recording is not None:
        raise typer.BadParameter("a recording is a graph, which a native bundle cannot have")


def _check_archs(archs: Sequence[str]) -> None:
    """Raise :class:`UnsupportedOnArch` for an arch that does not work here."""
    from tikgen.machine.devices import arch_named, problem_with

    for name in archs:
        if problem := problem_with(arch_named(name)):
            raise UnsupportedOnArch("The export", name, problem)


def _built(
    words: Sequence[str], common: Sequence[str], shapes: Sequence[str | None]
) -> tuple[list[Kernel], list[Failure]]:
    """Return the kernel of every combination, and those refused; raise if all of them are."""
    from tikgen.aot.bundle import Failure
    from tikgen.pipeline.builder import build

    kernels, refused = [], []
    first: TikgenError | None = None
    for word, given in parse_words(words):
        template = template_name(word)
        for text in shapes:
            sizes = None if text is None else one_or_all(template, text)
            for params in parse_combinations(template, [*common, *given]):
                try:
                    kernels.append(build(template, shape=sizes, **params))
                except TikgenError as error:
                    first = first or error
                    said = ", ".join(f"{name}={value}" for name, value in params.items())
                    refused.append(Failure(f"{template}({said})", "every arch", str(error)))
    if not kernels and first is not None:
        raise first
    return kernels, refused


def _held_by(path: Path) -> set[str]:
    """Return the names of the contents of the bundle at ``path``, if there is one."""
    from tikgen.aot.bundle import Bundle

    try:
        return _names(Bundle(path).manifest)
    except BundleError:
        return set()


def _names(manifest: Manifest) -> set[str]:
    return {*manifest.kernels, *manifest.graphs}


def _print_failures(failures: Sequence[Failure]) -> None:
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)


def _report(bundle: Bundle, refused: Sequence[Failure], dropped: Sequence[str], json: bool) -> None:
    """Print the contents of a bundle, what is new, and what is missing and why."""
    from tikgen.aot.bundle_shown import HEADER, rows_of, title_of

    manifest = bundle.manifest
    if json:
        print_json(
            {
                "path": str(bundle.path),
                "archs": list(bundle.archs),
                "kernels": list(bundle.kernels),
                "graphs": list(bundle.graphs),
                "reused": [list(key) for key in bundle.reused],
                "failures": [vars(failure) for failure in (*refused, *bundle.failures)],
                "dropped": list(dropped),
            }
        )
        return
    rows = [(*row, _state(bundle, row[0])) for row in rows_of(manifest)]
    print_table((*HEADER, ""), rows, title=title_of(bundle.path, manifest))
    _print_failures(bundle.failures)
    if dropped:
        print(
            f"no longer in it: {', '.join(dropped)}; an export replaces the whole bundle, "
            "so list all kernels",
            file=sys.stderr,
        )


def _state(bundle: Bundle, name: str) -> str:
    """Return which builds of a kernel or a graph are new."""
    manifest = bundle.manifest
    entry = manifest.kernels.get(name) or manifest.graphs.get(name)
    if entry is None:
        return ""
    made = [arch for arch in entry.builds if (name, arch) not in bundle.reused]
    if not made:
        return "unchanged"
    return "new" if len(made) == len(entry.builds) else f"new on {', '.join(made)}"
