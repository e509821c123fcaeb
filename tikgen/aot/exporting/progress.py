"""Shows how far an export is, on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tikgen.aot.exporting.plan import Plan

if TYPE_CHECKING:
    from rich.progress import TaskID


class Progress(Protocol):
    """Takes notice of what is done."""

    def advance(self, stage: str) -> None:
        """Count one more artefact that is compiled or proved."""


class _Shown:
    def __init__(self, bars: object, tasks: dict[str, TaskID]) -> None:
        self._bars, self._tasks = bars, tasks

    def advance(self, stage: str) -> None:
        """Count one more artefact that is compiled or proved."""
        self._bars.advance(self._tasks[stage])  # type: ignore[attr-defined]


@contextlib.contextmanager
def showing(plan: Plan) -> Iterator[Progress]:
    """Show bars on the error stream, where that is a terminal, while a plan is exported."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    modules = [module for arch in plan.archs for module in plan.modules(arch)]
    totals = {"compile": len(modules), "prove": sum(len(module.entries) for module in modules)}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Shown(
            bars, {stage: bars.add_task(stage, total=total) for stage, total in totals.items()}
        )
