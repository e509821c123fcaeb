"""Commands about kernels: render, build, verify, eject."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikgen.cli import exit_codes
from tikgen.cli.options import (
    Arch,
    Json,
    Name,
    Params,
    Shape,
    parse_shape,
    template_name,
)
from tikgen.cli.output import (
    plain,
    print_code,
    print_json,
    print_result,
    print_stage,
    say,
    say_error,
)
from tikgen.disk import why
from tikgen.template.literals import parse_params

if TYPE_CHECKING:
    from tikgen.demo.stages import Stage

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write, in place of the screen.")
]
ForArch = Annotated[Arch, typer.Option(help="Arch whose default schedule is taken.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("render")(render_command)
    app.command("build")(build_command)
    app.command("verify")(verify_command)
    app.command("eject")(eject_command)


def render_command(
    name: Name,
    param: Params = None,
    arch: ForArch = Arch.cpu,
    shape: Shape = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Print the source of a kernel."""
    from tikgen.pipeline.builder import render

    name = template_name(name)
    source = render(
        name, arch=arch.value, shape=parse_shape(name, shape), **parse_params(name, param)
    )
    if json:
        print_json(
            {
                "template": name,
                "params": plain(source.variant.params),
                "digest": source.digest,
                "filename": source.filename,
                "text": source.text,
                "line_map": list(source.line_map),
            }
        )
    else:
        _emit(source.text, output)


def build_command(
    name: Name,
    param: Params = None,
    arch: Annotated[Arch, typer.Option(help="Arch to run on.")] = Arch.cpu,
    shape: Shape = None,
    json: Json = False,
) -> None:
    """Render, load, compile and launch a kernel on small inputs; tell what each stage did."""
    from tikgen.demo.stages import build_in_stages, launch_in_stages, start_taichi

    stages: list[Stage] = []

    def report(stage: Stage) -> None:
        stages.append(stage)
        if not json:
            print_stage(stage)

    name = template_name(name)
    sizes = parse_shape(name, shape)
    params = parse_params(name, param)
    kernel = build_in_stages(name, report, arch=arch.value, shape=sizes, **params)
    start_taichi(arch.value, name)
    outcome = launch_in_stages(kernel, report, seed=secrets.randbits(32))
    if json:
        print_json(
            {
                "template": name,
                "params": plain(kernel.params),
                "arch": arch.value,
                "digest": kernel.digest,
                "arguments": [str(a) for a in kernel.signature.arguments],
                "stages": [vars(stage) for stage in stages],
                "ok": outcome.ok,
                "problem": outcome.message,
            }
        )
    elif outcome.ok:
        say(f"{kernel.name} works on {arch.value}", style="bold green")
    else:
        say(f"{kernel.name} disagrees with its reference on {arch.value}", style="bold red")
    if not outcome.ok:
        raise typer.Exit(exit_codes.FAILED)


def verify_command(
    name: Name,
    param: Params = None,
    arch: Annotated[
        list[Arch] | None, typer.Option(help="Arch to run on; give it once for each.")
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option(min=1, help="How many variants to try on each arch.")
    ] = None,
    mutants: Annotated[
        int,
        typer.Option(
            min=0, help="How many kernels, each changed in one place, to try: are they noticed?"
        ),
    ] = 0,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Least part of the mutants that must be noticed, such as 0.95."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, to repeat a verification.")] = None,
    json: Json = False,
) -> None:
    """Compare random variants of a template with its NumPy reference on every arch.

    Exits with 1 where one disagrees or the score is below `--min-score`, and with 2 where an arch
    that was named does not work here.
    """
    from tikgen.verification import verify
    from tikgen.verification.run import quiet

    if min_score is not None and not mutants:
        raise typer.BadParameter("--min-score needs --mutants, which measures the score")
    name = template_name(name)
    options: dict[str, Any] = {"max_examples": max_examples, "mutants": mutants, "seed": seed}
    if arch:
        options["archs"] = tuple(a.value for a in arch)
    given = {k: v for k, v in options.items() if v is not None}
    with quiet():
        report = verify(name, **given, **parse_params(name, param))
    print_result(report, json)
    if code := exit_codes.of_report(report, every_arch=bool(arch)):
        raise typer.Exit(code)
    if min_score is not None and (report.score is None or report.score < min_score):
        measured = "none" if report.score is None else f"{report.score:.1%}"
        say_error(f"the mutation score is {measured}, below {min_score:.1%}")
        raise typer.Exit(exit_codes.FAILED)


def eject_command(
    name: Name,
    param: Params = None,
    arch: ForArch = Arch.cpu,
    shape: Shape = None,
    output: Output = None,
) -> None:
    """Write a kernel as a Python file of its own: kernel, NumPy reference and self-check."""
    from tikgen.pipeline.builder import build

    name = template_name(name)
    kernel = build(
        name, arch=arch.value, shape=parse_shape(name, shape), **parse_params(name, param)
    )
    _emit(kernel.eject(), output)


def _emit(text: str, output: Path | None) -> None:
    if output is None:
        print_code(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {why(error)}") from None
    say(f"wrote {output}")
