"""Commands about tuning: tune, and tuned show, export, import, clear."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import completion
from tikgen.cli.exit_codes import FAILED, INTERRUPTED, MISUSED
from tikgen.cli.options import (
    Arch,
    Json,
    Name,
    Params,
    check_picture,
    one_or_all,
    template_name,
)
from tikgen.cli.output import print_json, print_result, say, say_error
from tikgen.template.literals import parse_params

_NOT_KEPT = "not kept: the store cannot be written; what was found goes with this process"

Shape = Annotated[
    str,
    typer.Option(
        metavar="SIZES",
        help="Sizes of the arrays: 200,200,200, or by symbol: m=512,k=64,n=512, or one number "
        "for all.",
    ),
]
Budget = Annotated[str, typer.Option(help="quick (a minute), full (everything), or seconds.")]
OneTemplate = Annotated[
    str | None,
    typer.Argument(help="Name of a template; all without it.", autocompletion=completion.templates),
]
File = Annotated[Path, typer.Argument(help="A TOML file.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("tune")(tune_command)
    tuned = typer.Typer(no_args_is_help=True, help="Look at and move what tuning found.")
    tuned.command("show")(show_command)
    tuned.command("export")(export_command)
    tuned.command("import")(import_command)
    tuned.command("clear")(clear_command)
    app.add_typer(tuned, name="tuned")


def tune_command(
    name: Name,
    shape: Shape,
    param: Params = None,
    budget: Budget = "quick",
    arch: Annotated[Arch, typer.Option(help="Arch to tune on.")] = Arch.cpu,
    strategy: Annotated[
        str, typer.Option(help="exhaustive, halving, optuna, or auto to choose one.")
    ] = "auto",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed, to repeat a search.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what was measured before.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Picture of the search to write.")] = None,
    json: Json = False,
) -> None:
    """Find the fastest schedule of a problem on this machine; `build` takes it from then on."""
    from tikgen.tuning.exchange import are_on_disk
    from tikgen.tuning.run import tune

    name = template_name(name)
    check_picture(plot)
    result = tune(
        name,
        shape=one_or_all(name, shape),
        budget=parse_budget(budget),
        arch=arch.value,
        strategy=strategy,
        seed=seed,
        fresh=fresh,
        **parse_params(name, param),
    )
    if plot is not None:
        result.plot(plot)
    print_result(result, json)
    if not are_on_disk():
        print(_NOT_KEPT, file=sys.stderr)
    if result.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)


def show_command(name: OneTemplate = None, json: Json = False) -> None:
    """Show the best record of each problem, shape and device."""
    from dataclasses import asdict

    from tikgen.pipeline import records
    from tikgen.template.shapes import shown
    from tikgen.tuning.exchange import best_of_each, is_current

    name = _named(name)
    every = [r for r in records.all_records() if name is None or r.template == name]
    if name is not None and not every:
        template_name(name)  # There is none of a template that exists, or it is a mistake.
    best = best_of_each(every)
    if json:
        print_json([asdict(r) | {"current": is_current(r)} for r in best])
        return
    if not best:
        say(f"Nothing is tuned{f' of {name}' if name else ''}: tikgen tune NAME --shape SIZES")
        return
    for record in sorted(best, key=lambda r: (r.template, r.arch, str(r.sizes))):
        note = "" if is_current(record) else f" ({_why_not_current(record)})"
        head = (
            f"{record.template}{note}: {_changed(record)}; {shown(record.sizes) or 'fixed shapes'}"
        )
        say(f"{head}; {record.arch}: {record.device}", hang=4)
        gain = f", {record.gain}" if record.gain else ""
        data = "your own" if record.workload == records.OWN else record.workload
        say(f"  {1e3 * record.seconds:.4g} ms on {data} data{gain}", hang=4)
        say("  " + ", ".join(f"{k}={v}" for k, v in record.schedule.items()), hang=4)
    say(_count(len(every)))


def export_command(
    file: File,
    name: OneTemplate = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every candidate, not just the best ones.")
    ] = False,
) -> None:
    """Write tuning records to a TOML file that can be read, edited and checked in."""
    from tikgen.tuning.exchange import export_records

    say(f"wrote {_count(export_records(file, _named(name), everything=everything))} to {file}")


def import_command(file: File) -> None:
    """Take up the tuning records of a TOML file; what does not fit is told and left out."""
    from tikgen.tuning.exchange import are_on_disk, import_records

    found = import_records(file)
    for line in found.ignored:
        say_error(line, "ignored")
    if found.kept and not are_on_disk():
        print(_NOT_KEPT, file=sys.stderr)
        raise typer.Exit(FAILED)
    say(f"imported {_count(found.kept)} from {file}")
    if found.ignored and not found.kept:
        raise typer.Exit(MISUSED)


def clear_command(name: OneTemplate = None) -> None:
    """Remove tuning records from the store."""
    from tikgen.pipeline import records

    name = _named(name)
    say(f"removed {_count(records.forget(lambda r: name is None or r.template == name))}")


def parse_budget(text: str) -> str | float:
    """Return a budget from a text: seconds as a number, anything else as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def _count(number: int) -> str:
    return f"{number} record{'s' if number != 1 else ''}"


def _named(name: str | None) -> str | None:
    """Return the name of a template, also where a folder is given; it may be gone by now."""
    return template_name(name) if name is not None and "/" in name.replace(os.sep, "/") else name


def _why_not_current(record: Any) -> str:
    from tikgen.errors import TikgenError
    from tikgen.template.catalogue import find_template

    try:
        find_template(record.template)
    except TikgenError:
        return "template not found here"
    return "of another version"


def _changed(record: Any) -> str:
    """Return the problem parameters that are not at their defaults."""
    from tikgen.errors import TikgenError
    from tikgen.template.catalogue import find_template

    try:
        defaults = {info.name: info.default for info in find_template(record.template).parameters}
    except TikgenError:
        defaults = {}
    changed = {k: v for k, v in record.problem.items() if v != defaults.get(k)}
    return ", ".join(f"{name}={value}" for name, value in changed.items()) or "defaults"
