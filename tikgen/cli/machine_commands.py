"""Commands about this machine: demo, doctor, cache."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tikgen.cli.common import PICTURES, Arch, Json, RunArch, check_file
from tikgen.cli.exit_codes import FAILED
from tikgen.cli.output import print_json, print_stage, print_table, say
from tikgen.errors import StoreError, near
from tikgen.store import KINDS, default_store
from tikgen.units import size

if TYPE_CHECKING:
    from tikgen.machine.doctor import Diagnosis


class Demo(str, Enum):
    """What the demonstration computes."""

    heat = "heat"
    gray_scott = "gray-scott"


def demo_command(
    what: Annotated[
        Demo, typer.Argument(help="heat, in a cube; or gray-scott, a pattern of two chemicals.")
    ] = Demo.heat,
    arch: RunArch = Arch.cpu,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=8,
            max=512,
            metavar="N",
            help="Grid points along each axis: 128, or 192 in 2D.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Time steps: 400, or 8000 of gray-scott."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Picture to write.")
    ] = Path("tikgen_demo.png"),
) -> None:
    """Solve the 3D heat equation, or compute a pattern, and compare with what is known."""
    from tikgen.demo.demonstration import run_demo
    from tikgen.demo.gray_scott import run_gray_scott

    check_file(output, PICTURES)  # Without matplotlib the rest is shown.
    run, points, most = (run_demo, 128, 400) if what is Demo.heat else (run_gray_scott, 192, 8000)
    result = run(arch.value, n or points, steps or most, output, print_stage, say)
    if not result.ok:
        raise typer.Exit(FAILED)


def doctor_command(json: Json = False) -> None:
    """Show which archs work here, known limits, versions and caches.

    The exit status is 1 where none works.
    """
    from tikgen.machine.doctor import examine

    diagnosis = examine()
    if json:
        print_json(diagnosis.to_dict())
    else:
        _print_diagnosis(diagnosis)
    if not any(arch.works for arch in diagnosis.archs):
        raise typer.Exit(FAILED)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    print_table(("software", "version"), list(diagnosis.versions.items()))
    say("")
    print_table(
        ("arch", "works", "device", "says"),
        [(a.name, "yes" if a.works else "no", a.device, a.message) for a in diagnosis.archs],
    )
    say("")
    print_table(
        ("engine", "works", "says"),
        [(e.name, "yes" if e.works else "no", e.message) for e in diagnosis.engines],
    )
    say("")
    print_table(
        ("cache", "entries", "size", "folder"),
        [(c.name, str(c.entries), size(c.bytes), c.folder) for c in diagnosis.caches],
    )
    say("\nknown limits", style="bold")
    for limit in diagnosis.limits:
        say(f"- {limit}")
    for trouble in diagnosis.troubles:
        say(f"trouble: {trouble}", style="bold yellow")


def cache_show_command(json: Json = False) -> None:
    """Show where the store is and what it contains."""
    store = default_store()
    sizes = store.sizes()
    if json:
        kinds = {kind: {"entries": n, "bytes": b} for kind, (n, b) in sizes.items()}
        print_json({"folder": str(store.folder), "kinds": kinds})
        return
    say(str(store.folder))
    rows = [(kind, str(n), size(b)) for kind, (n, b) in sizes.items()]
    if rows:
        print_table(("kind", "entries", "size"), rows)
    else:
        say("The store is empty.")


def cache_clear_command(
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Delete only this kind, such as evidence.")
    ] = None,
) -> None:
    """Delete the contents of the store."""
    store = default_store()
    known = sorted({*KINDS, *store.sizes()})
    if kind is not None and kind not in known:
        hint = near(kind, known)
        raise StoreError(f"{kind!r} is no kind of entries.{hint} Kinds are {', '.join(known)}.")
    say(f"removed {store.clear(kind)} entries")
