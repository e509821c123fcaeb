"""How far a sweep is: counts, and a bar on the error stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from tikgen.tuning.job import Measurement


@dataclass
class Progress:
    """Counts the combinations of a sweep.

    Attributes:
        combinations: all of them.
        refused: those that the template does not allow.
        same: those that come to the same kernel as another one.
        earlier: kernels that an earlier run measured.
        measured: kernels that this run measured, failed ones included.
        failed: those of them without a time.
    """

    combinations: int
    refused: int
    same: int
    earlier: int
    measured: int = 0
    failed: int = 0

    def note(self, measurement: Measurement, counts: bool) -> None:
        """Count a measurement, unless it is one of the machine's limits."""
        self.measured += counts
        self.failed += counts and not measurement.ok

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.measured} measured"]
        for count, what in (
            (self.failed, "failed"),
            (self.earlier, "known"),
            (self.same, "the same as another"),
            (self.refused, "refused"),
        ):
            if count:
                parts.append(f"{count} {what}")
        return ", ".join(parts)


@contextlib.contextmanager
def shown_progress(name: str, progress: Progress, tasks: int) -> Iterator[Callable[[], None]]:
    """Show a bar while a sweep runs, on a terminal only; give the function that moves it on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(f"{name}: {progress}", total=tasks)
        yield lambda: bar.update(task, advance=1, description=f"{name}: {progress}")
