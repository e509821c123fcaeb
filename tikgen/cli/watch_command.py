"""The command watch: verifies a template at every save."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tikgen.cli.common import Arch, Name, Params, RunArchs, request
from tikgen.cli.output import say
from tikgen.errors import ParameterError, TemplateChanged, TikgenError
from tikgen.template import catalogue
from tikgen.units import duration

_STYLES = {"passed": "green", "failed": "bold red"} | dict.fromkeys(
    ("skipped", "absent", "changed"), "yellow"
)


def watch_command(
    name: Name,
    param: Params = None,
    arch: RunArchs = None,
    max_examples: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Number of variants to try on each arch at each save."
        ),
    ] = 20,
) -> None:
    """Verify a template now and whenever one of its files is saved, until Ctrl-C."""
    name, params = request(name, param)
    archs = [a.value for a in arch or (Arch.cpu,)]
    folder = catalogue.find_template(name).folder
    is_first = True
    try:
        for _ in _saves(folder):
            try:
                _verify(folder, archs, max_examples, params)
            except ParameterError as error:
                if is_first:  # A mistake on the command line, not in the template.
                    raise
                _print("failed", f"{name}: {error}")
            is_first = False
            say("waiting for a save; Ctrl-C ends")
            sys.stdout.flush()
    except KeyboardInterrupt:
        say("stopped")


def _saves(folder: Path) -> Iterator[None]:
    """Yield at once, then whenever the files of the template in ``folder`` have changed."""
    from tikgen.live.watching import folders_behind, wakes
    from tikgen.template.base import files_of

    known = ""
    for _ in wakes(lambda: folders_behind([folder]), threading.Event()):
        fingerprint = files_of(folder).fingerprint
        if fingerprint != known:
            known = fingerprint
            yield


def _verify(folder: Path, archs: Sequence[str], max_examples: int, params: dict[str, Any]) -> None:
    """Verify the template as it is now and print the outcome."""
    from tikgen.verification import verify

    began = time.perf_counter()
    try:
        template = catalogue.reload_template(folder)
        report = verify(template, archs=archs, max_examples=max_examples, **params)
    except ParameterError:
        raise
    except TemplateChanged:
        _print("changed", f"{folder.name} while it was verified")
        return
    except TikgenError as error:
        _print("failed", f"{folder.name} in {duration(time.perf_counter() - began)}\n{error}")
        return
    for found in report.archs:
        _print(found.status, f"{folder.name} on {found.arch}: {found.summary}")
        for reason, count in found.skipped.items():
            say(f"  {count} skipped: {reason}")


def _print(status: str, text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')} {status:<7} {text}", style=_STYLES[status])
