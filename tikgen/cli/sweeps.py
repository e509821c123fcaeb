"""The command sweep: measures every combination of a template's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import completion
from tikgen.cli.exit_codes import FAILED, INTERRUPTED
from tikgen.cli.options import (
    Arch,
    Json,
    Name,
    check_picture,
    one_or_all,
    template_name,
)
from tikgen.cli.output import print_result, say
from tikgen.template.literals import parse_params

Axes = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter, or an axis in brackets: -p dim=3 -p 'dtype=[f32,f64]'.",
        autocompletion=completion.parameters,
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="N,N,...",
        help="Sizes of the arrays, as 200,200 or rows=9,cols=7, or one number for all; "
        "give it once for each.",
    ),
]
Picture = Annotated[Path | None, typer.Option(help="Picture to write.")]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("sweep")(sweep_command)


def sweep_command(
    name: Name,
    param: Axes = None,
    shape: Shapes = None,
    arch: Annotated[
        list[Arch] | None, typer.Option(help="Arch to run on; give it once for each.")
    ] = None,
    baked: Annotated[bool, typer.Option(help="Bake the sizes into the kernels.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="File of JSON lines to add to; what it holds is not measured again."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Table to write: .csv, .json or .parquet."),
    ] = None,
    plot: Picture = None,
    x: Annotated[str | None, typer.Option("--x", help="Column along the picture.")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Column up the picture.")] = None,
    hue: Annotated[str | None, typer.Option(help="Column that gives the colour.")] = None,
    roofline: Picture = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler, such as tcp://host:8786."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 5,
    timeout: Annotated[float, typer.Option(help="Seconds that a kernel may take.")] = 60.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random data.")] = None,
    json: Json = False,
) -> None:
    """Verify and time a template for every combination of the values given."""
    from tikgen.tuning.sweeps.formats import check_path
    from tikgen.tuning.sweeps.sweep import sweep

    name = template_name(name)
    if output is not None:  # Told now, not after the measurements.
        check_path(output)
    for picture in (plot, roofline):
        check_picture(picture)
    shapes = [one_or_all(name, text) for text in shape or ()]
    result = sweep(
        name,
        shape=shapes or None,
        archs=tuple(a.value for a in arch or (Arch.cpu,)),
        baked=baked,
        results=results,
        scheduler=scheduler,
        rounds=rounds,
        timeout=timeout,
        seed=seed,
        **parse_axes(name, param),
    )
    if output is not None:
        result.save(output)
    print_result(result, json)
    if result.timed:
        if plot is not None:
            result.plot(x, y, hue, path=plot)
        if roofline is not None:
            result.roofline(roofline)
    if not json:
        for written in (output, plot, roofline):
            if written is not None and written.exists():
                say(f"wrote {written}")
    if not result.about["complete"]:
        raise typer.Exit(INTERRUPTED)
    if result.failed or not result.timed:
        raise typer.Exit(FAILED)


def parse_axes(template: str, given: Sequence[str] | None) -> dict[str, Any]:
    """Return parameters from texts such as ``dim=3`` and ``dtype=[f32,f64]``, which is an axis.

    Raises:
        ParameterError: as :func:`tikgen.template.literals.parse_params` does.
    """
    params = parse_params(template, given)
    for name, value in params.items():
        if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
            parts = split_values(value[1:-1])
            params[name] = [parse_params(template, [f"{name}={part}"])[name] for part in parts]
    return params


def split_values(text: str) -> list[str]:
    """Return the parts of a list that is no Python literal, such as ``f32, f64``."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
