"""Commands about kernels: render, build, verify, eject, ir, why."""

from __future__ import annotations

import secrets
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikgen.cli import exit_codes
from tikgen.cli.common import (
    Arch,
    Engine,
    Force,
    Json,
    Name,
    Output,
    Params,
    RunArch,
    RunArchs,
    ScheduleArch,
    Shape,
    request,
    write_text,
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

if TYPE_CHECKING:
    from tikgen.demo.stepwise import Stage


class Kind(str, Enum):
    """The representations of a kernel."""

    python = "python"
    ast = "ast"
    chi = "chi"
    llvm = "llvm"
    llvm_optimized = "llvm-optimized"
    asm = "asm"
    spirv = "spirv"
    ptx = "ptx"


def render_command(
    name: Name,
    param: Params = None,
    arch: ScheduleArch = Arch.cpu,
    shape: Shape = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Print the source of a kernel."""
    from tikgen.pipeline.builder import render

    name, asked = request(name, param, shape)
    source = render(name, arch=arch.value, **asked)
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
        _emit(source.text, output, force)


def build_command(
    name: Name,
    param: Params = None,
    arch: RunArch = Arch.cpu,
    shape: Shape = None,
    json: Json = False,
) -> None:
    """Render, load, compile and launch a kernel on small inputs, and report each stage."""
    from tikgen.demo.stepwise import build_in_stages, launch_in_stages, start_taichi

    stages: list[Stage] = []

    def report(stage: Stage) -> None:
        stages.append(stage)
        if not json:
            print_stage(stage)

    name, asked = request(name, param, shape)
    kernel = build_in_stages(name, report, arch=arch.value, **asked)
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
    arch: RunArchs = None,
    max_examples: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of variants to try on each arch.")
    ] = None,
    mutants: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of mutants to try: kernels changed in one place. Are they noticed?",
        ),
    ] = 0,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="N",
            help="Smallest share of mutants that must be noticed, such as 0.95.",
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="What launches the kernels; direct-cpu needs llvmlite, direct-cuda CUDA. "
            "By default Taichi; on cpu each variant by Taichi or direct-cpu."
        ),
    ] = Engine.default,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed, to repeat a verification.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare random variants of a template with its NumPy reference on every arch.

    Exits with 1 if one disagrees or the score is below `--min-score`, and with 2 if an arch that
    was named does not work here.
    """
    from tikgen import engines
    from tikgen.verification import verify
    from tikgen.verification.run import quiet

    if min_score is not None and not mutants:
        raise typer.BadParameter("--min-score needs --mutants, which measures the score")
    name, params = request(name, param)
    options: dict[str, Any] = {"max_examples": max_examples, "mutants": mutants, "seed": seed}
    options["engine"] = engine.value
    if engine.value not in (engines.DEFAULT, engines.TAICHI):
        options["archs"] = (engines.arch_of(engine.value),)
    if arch:
        options["archs"] = tuple(a.value for a in arch)
    given = {k: v for k, v in options.items() if v is not None}
    with quiet():
        report = verify(name, **given, **params)
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
    arch: ScheduleArch = Arch.cpu,
    shape: Shape = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Write a kernel as a standalone Python file: kernel, NumPy reference and self-check."""
    from tikgen.pipeline.builder import build

    name, asked = request(name, param, shape)
    _emit(build(name, arch=arch.value, **asked).eject(arch.value), output, force)


def ir_command(
    name: Name,
    kind: Annotated[
        Kind, typer.Argument(help="What to print; spirv needs vulkan, ptx needs cuda.")
    ],
    param: Params = None,
    arch: Annotated[
        Arch, typer.Option("--arch", metavar="ARCH", help="cpu, cuda or vulkan.")
    ] = Arch.cpu,
    shape: Shape = None,
) -> None:
    """Print a kernel at one stage of its compilation, from Python to machine code."""
    from tikgen.lifecycle.ir import ir_of
    from tikgen.pipeline.builder import build

    name, asked = request(name, param, shape)
    text = ir_of(build(name, arch=arch.value, **asked), kind.value, arch=arch.value)
    if kind is Kind.python:
        print_code(text)
    else:
        sys.stdout.write(text)


def why_command(
    name: Name,
    param: Params = None,
    arch: ScheduleArch = Arch.cpu,
    shape: Shape = None,
    json: Json = False,
) -> None:
    """Explain why a kernel would be built: how it differs from the nearest stored one."""
    from tikgen.lifecycle.cause import why

    name, asked = request(name, param, shape)
    cause = why(name, arch=arch.value, **asked)
    if json:
        print_json({"text": str(cause), "differences": [d._asdict() for d in cause.differences]})
    else:
        say(str(cause))


def _emit(text: str, output: Path | None, force: bool) -> None:
    if output is None:
        print_code(text)
    else:
        write_text(output, text, force)
        say(f"wrote {output}")
