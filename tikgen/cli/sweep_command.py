"""The command sweep: measures every combination of a template's parameters."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import shell_completion
from tikgen.cli.common import (
    Arch,
    Json,
    Name,
    Picture,
    RunArchs,
    Seed,
    check_picture,
    one_or_all,
    template_name,
)
from tikgen.cli.exit_codes import FAILED, INTERRUPTED
from tikgen.cli.output import print_result, say
from tikgen.errors import ParameterError, TemplateError, TikgenError
from tikgen.template.base import Template
from tikgen.template.catalogue import find_template
from tikgen.template.literals import parse_params

Axes = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        help="A parameter, or an axis in brackets: -p dim=3 -p 'dtype=[f32,f64]'. Repeatable.",
        autocompletion=shell_completion.parameters,
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="N,N,...",
        help="Sizes of the arrays, as 200,200 or rows=9,cols=7, or one number for all. Repeatable.",
    ),
]


def sweep_command(
    name: Name,
    param: Axes = None,
    shape: Shapes = None,
    arch: RunArchs = None,
    baked: Annotated[bool, typer.Option(help="Bake the sizes into the kernels.")] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of JSON lines to extend; what it holds is not measured again.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Table to write: .csv, .json or .parquet."
        ),
    ] = None,
    plot: Picture = None,
    x: Annotated[
        str | None, typer.Option("--x", metavar="COLUMN", help="Column on the horizontal axis.")
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", metavar="COLUMN", help="Column on the vertical axis.")
    ] = None,
    hue: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column shown by colour.")
    ] = None,
    roofline: Picture = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask scheduler, such as tcp://host:8786."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of timed rounds.")] = 5,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Most seconds for each kernel.")
    ] = 60.0,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="Measure on a grid that N processes of MPI share. Repeatable."
        ),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="What starts ranks, as 'srun --mpi=pmix'; -n N is added."
        ),
    ] = None,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Verify and time a template for every combination of parameter values."""
    from tikgen.tuning.sweeps.formats import check_path
    from tikgen.tuning.sweeps.sweep import sweep

    name = template_name(name)
    params = parse_axes(name, param)
    if output is not None:  # Now, not after the measurements.
        check_path(output)
    columns = [column for column in (x, y, hue) if column is not None]
    _check_columns(name, params, columns, bool(ranks))
    for picture in (plot, roofline):
        check_picture(picture)
    if roofline is not None:
        _check_operations(name)
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
        ranks=ranks or None,
        launcher=launcher,
        seed=seed,
        **params,
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
    """Return parameters from texts such as ``dim=3`` and ``dtype=[f32,f64]``, which is an axis."""
    params = parse_params(template, given)
    for name, value in params.items():
        if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
            parts = split_values(value[1:-1])
            params[name] = [parse_params(template, [f"{name}={part}"])[name] for part in parts]
    return params


def combinations(params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of parameters of which lists are axes."""
    axes = [value if isinstance(value, list) else [value] for value in params.values()]
    for values in itertools.product(*axes):
        yield dict(zip(params, values, strict=True))


def _check_operations(name: str) -> None:
    """Raise TemplateError for a template of whose kernels no operations are known."""
    template = find_template(name)
    own = type(template)
    if own.flops is Template.flops and own.cost is Template.cost:
        problem = "a roofline needs the operations of a launch; declare flops(p, sizes)"
        raise TemplateError(template.name, problem)


def _check_columns(
    name: str, params: Mapping[str, Any], columns: Sequence[str], has_ranks: bool
) -> None:
    """Raise ParameterError for a column that the sweep will not have."""
    from tikgen.pipeline.builder import resolve
    from tikgen.tuning.sweeps.combinations import COLUMNS, RANKS, SIZE
    from tikgen.tuning.sweeps.rows import METRICS, OUTCOME

    template = find_template(name)
    known = [*COLUMNS, *(info.name for info in template.parameters), *OUTCOME, *METRICS]
    known += [RANKS] if has_ranks else []
    if any(column.startswith(SIZE) for column in columns):
        for combination in combinations(params):
            with contextlib.suppress(TikgenError):  # It becomes a row that says why.
                problem = resolve(template, **combination).problem
                known += [f"{SIZE}{symbol}" for symbol in template.size_symbols(problem)]
    for column in columns:
        if column not in known:
            raise ParameterError.unknown("sweep", column, list(dict.fromkeys(known)))


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
