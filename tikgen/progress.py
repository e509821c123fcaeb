"""A progress bar on the error stream, on a terminal alone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(what: str, total: float, *, counts: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar; give the function that takes its ``description``, ``completed`` and ``total``.

    Args:
        what: what is done, in front of the bar.
        total: how much there is to do.
        counts: whether to show the numbers as well, which then are whole.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    numbers = [MofNCompleteColumn()] if counts else []
    with Progress(
        "{task.description}",
        BarColumn(),
        *numbers,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield functools.partial(progress.update, progress.add_task(what, total=total))
