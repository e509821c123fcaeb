"""Commands about tuning: tune, and tuned show, export, import, clear."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli import shell_completion
from tikgen.cli.common import (
    Arch,
    Force,
    Json,
    Name,
    Params,
    Picture,
    RunArch,
    check_picture,
    one_or_all,
    request,
    template_name,
    write_text,
)
from tikgen.cli.exit_codes import FAILED, INTERRUPTED, MISUSED
from tikgen.cli.output import print_json, print_result, say, say_error
from tikgen.errors import TikgenError, UnknownTemplate
from tikgen.template.catalogue import find_template

_NOT_KEPT = "not kept: the store cannot be written; the records end with this process"

Shape = Annotated[
    str,
    typer.Option(
        metavar="SIZES",
        help="Sizes of the arrays, as 200,200,200 or m=512,k=64,n=512, or one number for all.",
    ),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", metavar="BUDGET", help="quick (a minute), full (all schedules), or seconds."
    ),
]
OneTemplate = Annotated[
    str | None,
    typer.Argument(
        help="Name of a template; by default all.", autocompletion=shell_completion.templates
    ),
]
File = Annotated[Path, typer.Argument(help="A TOML file.")]


def tune_command(
    name: Name,
    shape: Shape,
    param: Params = None,
    budget: Budget = "quick",
    arch: RunArch = Arch.cpu,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="exhaustive, halving, optuna, or auto.")
    ] = "auto",
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed, to repeat a search.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what was measured before.")
    ] = False,
    plot: Picture = None,
    json: Json = False,
) -> None:
    """Find the fastest schedule of a problem on this machine; `build` uses it from then on."""
    from tikgen.tuning.exchange import are_on_disk
    from tikgen.tuning.run import tune

    name, problem = request(name, param)
    check_picture(plot)
    result = tune(
        name,
        shape=one_or_all(name, shape),
        budget=parse_budget(budget),
        arch=arch.value,
        strategy=strategy,
        seed=seed,
        fresh=fresh,
        **problem,
    )
    if plot is not None:
        result.plot(plot)
    print_result(result, json)
    is_kept = are_on_disk()
    if not is_kept:
        print(_NOT_KEPT, file=sys.stderr)
    if result.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if not is_kept:
        raise typer.Exit(FAILED)


def show_command(name: OneTemplate = None, json: Json = False) -> None:
    """Show the best record of each problem, shape and device."""
    from dataclasses import asdict

    from tikgen import engines
    from tikgen.pipeline import records
    from tikgen.template.shapes import shown
    from tikgen.tuning.exchange import best_of_each, is_current, not_found

    name = _named(name)
    every = [r for r in records.all_records() if name is None or r.template == name]
    if name is not None and not every:
        template_name(name)  # It may be a mistake.
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
        by = "" if record.engine == engines.TAICHI else f" by {record.engine}"
        say(f"{head}; {record.arch}{by}: {record.device}", hang=4)
        data = "your own" if record.workload == records.OWN else record.workload
        told = [f"{1e3 * record.seconds:.4g} ms on {data} data"] * (record.kind == records.TIMED)
        say(f"  {', '.join([*told, *filter(None, [record.gain])])}", hang=4)
        say("  " + ", ".join(f"{k}={v}" for k, v in record.schedule.items()), hang=4)
    absent = sorted({r.template for r in best if _is_absent(r)})
    if absent:
        one = f"tikgen tuned show ./{absent[0]}"
        say(f"{', '.join(absent)}: {not_found(absent)}, or ask by the folder, as in {one}.")
    say(_count(len(every)))


def export_command(
    file: File,
    name: OneTemplate = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Export every candidate, not only the best.")
    ] = False,
    force: Force = False,
) -> None:
    """Write tuning records to a TOML file that can be read, edited and checked in."""
    from tikgen.tuning.exchange import exported

    text, count = exported(_named(name), everything)
    write_text(file, text, force)
    say(f"wrote {_count(count)} to {file}")


def import_command(file: File) -> None:
    """Import the tuning records of a TOML file; report and skip those that do not fit."""
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
    removed = records.forget(lambda r: name is None or r.template == name)
    if name is not None and not removed:
        template_name(name)  # It may be a mistake.
    say(f"removed {_count(removed)}")


def parse_budget(text: str) -> str | float:
    """Return a budget from a text: seconds as a number, anything else as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def _count(number: int) -> str:
    return f"{number} record{'s' if number != 1 else ''}"


def _named(name: str | None) -> str | None:
    """Return the name of a template that is given by name or folder and need not exist."""
    return template_name(name) if name is not None and "/" in name.replace(os.sep, "/") else name


def _why_not_current(record: Any) -> str:
    return "template not found here" if _is_absent(record) else "of another version"


def _is_absent(record: Any) -> bool:
    try:
        find_template(record.template)
    except UnknownTemplate:
        return True
    except TikgenError:  # It cannot be used.
        return False
    return False


def _changed(record: Any) -> str:
    """Return the problem parameters that differ from their defaults."""
    try:
        defaults = {info.name: info.default for info in find_template(record.template).parameters}
    except TikgenError:
        defaults = {}
    changed = {k: v for k, v in record.problem.items() if v != defaults.get(k)}
    return ", ".join(f"{name}={value}" for name, value in changed.items()) or "defaults"
