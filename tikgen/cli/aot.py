"""Commands about bundles: export, and bundle show, verify, run."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikgen.cli import bundle_run, completion
from tikgen.cli.exit_codes import FAILED
from tikgen.cli.options import Json, one_or_all, template_name
from tikgen.cli.output import print_json, print_table, say
from tikgen.cli.sweeps import parse_axes, split_values
from tikgen.errors import BundleError, TikgenError, UnsupportedOnArch

if TYPE_CHECKING:
    from tikgen.aot.bundle import Bundle, Failure
    from tikgen.aot.manifest import Manifest
    from tikgen.pipeline.kernel import Kernel

_COLUMNS = ("name", "takes", "archs", "proof")


class BundleArch(str, Enum):
    """The archs of bundles; cpu is the arch of this machine's processor."""

    cpu = "cpu"
    x64 = "x64"
    arm64 = "arm64"
    cuda = "cuda"
    vulkan = "vulkan"


BundlePath = Annotated[Path, typer.Argument(metavar="PATH", help="A folder, or a .zip file.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("export")(export_command)
    bundle = typer.Typer(no_args_is_help=True, help="Look at bundles, verify and run them.")
    bundle.command("show")(show_command)
    bundle.command("verify")(verify_command)
    bundle.command("run")(bundle_run.run_command)
    app.add_typer(bundle, name="bundle")


def export_command(
    to: Annotated[
        Path, typer.Option(help="Where to: a folder, or a file whose name ends in .zip.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEMPLATE [NAME=VALUE]",
            help="Templates, each with its parameters: stencil dim=2,3 dtype=f32,f64 reduce. "
            "Several values are an axis; every combination is exported.",
            autocompletion=completion.words,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--param",
            metavar="NAME=VALUE",
            help="A parameter, or an axis, of every template that is named.",
            autocompletion=completion.words,
        ),
    ] = None,
    arch: Annotated[
        list[BundleArch] | None,
        typer.Option(help="Arch to compile for; give it once for each; x64 and vulkan without."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N,N,...",
            help="Sizes to bake in, as 200,200 or rows=9,cols=7, or one number for all; "
            "give it once for each.",
        ),
    ] = None,
    sweep: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            dir_okay=False,
            help="A saved sweep; of each problem the fastest kernel is exported.",
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="A file that tikgen.aot.record wrote; as a graph."
        ),
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="Name of a recording's graph; step without.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify kernels that have no evidence yet.")
    ] = False,
    max_examples: Annotated[
        int, typer.Option(min=1, help="How many examples such a verification tries.")
    ] = 20,
    examples: Annotated[
        int, typer.Option(min=1, help="How often each artefact is launched to prove it.")
    ] = 3,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random inputs.")] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option(
            help="What every Vulkan device will have, such as spirv_has_atomic_float_add."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compile kernels ahead of time into a bundle, and prove that it does what it should.

    The bundle runs without Python's Taichi: from Python, C and C++. What it held before is
    replaced, so list all that it is to hold; what is unchanged is not compiled again.
    """
    _check_sources(words, sweep, recording, graph, [*(param or ()), *(shape or ())])
    settings: dict[str, Any] = {
        "verify": verify,
        "max_examples": max_examples,
        "examples": examples,
        "seed": seed,
        "capabilities": tuple(capability or ()),
    }
    if arch:
        settings["archs"] = tuple(a.value for a in arch)
        _check_archs(settings["archs"])
    before = _held_by(to)
    refused: list[Failure] = []
    if recording is not None:
        from tikgen.aot.recording.recorded_graph import export_recording

        bundle = export_recording(recording, to, graph=graph or "step", **settings)
    else:
        from tikgen.aot.exporting.run import export

        kernels: Any
        if sweep is not None:
            from tikgen.tuning.sweeps.table import SweepResult

            kernels = SweepResult.load(sweep)
        else:
            kernels, refused = _built(words or (), param or (), shape or (None,))
            if not json:  # Before export raises, where nothing else is left either.
                _tell(refused)
        bundle = export(kernels, to, **settings)
    dropped = sorted(
        before - _names(bundle.manifest) - {failure.name for failure in bundle.failures}
    )
    _report(bundle, refused, dropped, json)
    if refused or bundle.failures:
        raise typer.Exit(FAILED)


def show_command(path: BundlePath, json: Json = False) -> None:
    """Show what is in a bundle: kernels, graphs, fields, archs and proofs."""
    from tikgen.aot.bundle import Bundle
    from tikgen.aot.bundle_shown import rows_of
    from tikgen.aot.manifest import encode

    manifest = Bundle(path).manifest
    if json:
        sys.stdout.write(encode(manifest).decode())
        return
    print_table(_COLUMNS, rows_of(manifest), title=_title(path, manifest))
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
            help="Prove its artefacts again as well, which runs the bundle's code: its compiled "
            "kernels and its Python sources.",
        ),
    ] = False,
    arch: Annotated[
        list[BundleArch] | None,
        typer.Option(help="Arch to prove on; give it once for each; all that work without."),
    ] = None,
    json: Json = False,
) -> None:
    """Check the structure of a bundle and the digest of every file, and execute nothing of it."""
    if arch and not prove:
        raise typer.BadParameter("--arch says where to --prove")
    absent: dict[str, str] = {}
    proved: list[str] = []
    bundle, problems = _opened(path)
    if bundle is not None and prove:
        absent, proved = _places(bundle, arch)
        if proved:
            print(f"runs the code of {path}", file=sys.stderr)
    if bundle is not None:
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
            say(f"{path} is whole: {len(bundle.manifest.files)} files, {done}", style="bold green")
    if problems:
        raise typer.Exit(FAILED)


def parse_words(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each template with the parameters behind it, as in ``stencil dim=2 reduce``.

    Raises:
        typer.BadParameter: if a parameter stands in front of all templates.
    """
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if "=" not in word:
            found.append((word, []))
        elif found:
            found[-1][1].append(word)
        else:
            raise typer.BadParameter(f"{word} stands in front; name its template first")
    return found


def combinations(template: str, given: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values of parameters such as ``dim=2,3`` and ``order=4``.

    Raises:
        ParameterError: if one is given twice, has no value, or has another option.
    """
    axes = {}
    for name, value in parse_axes(template, [_bracketed(text) for text in given]).items():
        axes[name] = value if isinstance(value, list) else [value]
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


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
        raise typer.BadParameter("name templates, or --from a sweep, or a --recording: one of them")
    if graph is not None and recording is None:
        raise typer.BadParameter("--graph is the name for a --recording")
    if details and not words:
        raise typer.BadParameter("--param and --shape are for templates that are named")


def _check_archs(archs: Sequence[str]) -> None:
    """Raise :class:`UnsupportedOnArch` for an arch that was named and does not work here."""
    from tikgen.aot.running.devices import arch_named, problem_with

    for name in archs:
        if problem := problem_with(arch_named(name)):
            raise UnsupportedOnArch("The export", name, problem)


def _built(
    words: Sequence[str], common: Sequence[str], shapes: Sequence[str | None]
) -> tuple[list[Kernel], list[Failure]]:
    """Return the kernel of every combination, and which ones their templates refuse.

    Raises:
        TikgenError: if all of them are refused: what is wrong with the first.
    """
    from tikgen.aot.bundle import Failure
    from tikgen.pipeline.builder import build

    kernels, refused = [], []
    first: TikgenError | None = None
    for word, given in parse_words(words):
        template = template_name(word)
        for text in shapes:
            sizes = None if text is None else one_or_all(template, text)
            for params in combinations(template, [*common, *given]):
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
    """Return the names of what the bundle at ``path`` holds, if there is one."""
    from tikgen.aot.bundle import Bundle

    try:
        return _names(Bundle(path).manifest)
    except BundleError:
        return set()


def _names(manifest: Manifest) -> set[str]:
    return {*manifest.kernels, *manifest.graphs}


def _tell(failures: Sequence[Failure]) -> None:
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)


def _report(bundle: Bundle, refused: Sequence[Failure], dropped: Sequence[str], json: bool) -> None:
    """Print what is in a bundle now, what was taken over, and what is not in it and why."""
    from tikgen.aot.bundle_shown import rows_of

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
    print_table((*_COLUMNS, ""), rows, title=_title(bundle.path, manifest))
    _tell(bundle.failures)
    if dropped:
        print(
            f"no longer in it: {', '.join(dropped)}; an export replaces the whole bundle, "
            "so list all that it is to hold",
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


def _title(path: Path, manifest: Manifest) -> str:
    return f"{path}: bundle {manifest.name}, tikgen {manifest.tikgen}, Taichi {manifest.taichi}"


def _opened(path: Path) -> tuple[Bundle | None, tuple[str, ...]]:
    """Return the bundle at ``path``, or what is wrong with it.

    Raises:
        BundleError: if there is nothing at ``path``.
    """
    from tikgen.aot.bundle import Bundle

    try:
        return Bundle(path), ()
    except BundleError as error:
        if not path.exists():
            raise
        return None, (str(error),)


def _places(bundle: Bundle, archs: Sequence[BundleArch] | None) -> tuple[dict[str, str], list[str]]:
    """Return on which archs nothing can be proved here and why, and those on which it can.

    Raises:
        BundleError: if the bundle has nothing for an arch that is named.
        UnsupportedOnArch: if an arch that is named does not work here.
    """
    from tikgen.aot.running.devices import problem_with

    wanted = _chosen(bundle, archs)
    absent = {name: problem for name in wanted if (problem := problem_with(name))}
    for name, problem in absent.items():
        if archs:
            raise UnsupportedOnArch(str(bundle.path), name, problem)
    return absent, [name for name in wanted if name not in absent]


def _chosen(bundle: Bundle, archs: Sequence[BundleArch] | None) -> list[str]:
    """Return the archs to prove on: those of the bundle where none is named.

    Raises:
        BundleError: if the bundle has nothing for one that is named.
    """
    from tikgen.aot.running.devices import arch_named

    wanted = [arch_named(arch.value) for arch in archs or ()] or list(bundle.archs)
    for arch in wanted:
        if arch not in bundle.archs:
            has = ", ".join(bundle.archs)
            raise BundleError(bundle.path, f"has nothing for {arch}; it has {has}")
    return wanted
