"""A progress bar on the error stream, on a terminal alone."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator

from tikgen.consoles import make_console


@contextlib.contextmanager
def bar(what: str, total: float, *, counts: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar; give the function that takes its ``description``, ``completed`` and ``total``.

    Args:
        what: what is done, in front of the bar.
        total: how much there is to do.
        counts: whether to show the numbers as well, which then are whole.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = make_console(stderr=True)
    numbers = [MofNCompleteColumn()] if counts else []
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *numbers,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield functools.partial(progress.update, progress.add_task(what, total=total))


@contextlib.contextmanager
def rates(total: int, bytes_a_step: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar of steps with their rate and the time left; give what takes the steps done.

    Args:
        total: how many steps there are.
        bytes_a_step: the bytes that a step moves, None if that is not known.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = make_console(stderr=True)
    with Progress(
        "steps",
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("steps", total=total, rate="")
        began = time.perf_counter()

        def show(done: int) -> None:
            rate = done / max(time.perf_counter() - began, 1e-9)
            progress.update(task, completed=done, rate=rate_of(rate, bytes_a_step))

        yield show


def rate_of(steps_a_second: float, bytes_a_step: int | None) -> str:
    """Return a rate in words, such as ``1,234 steps/s, 12.3 GB/s``."""
    steps = f"{steps_a_second:,.{0 if steps_a_second >= 10 else 2}f} steps/s"
    if bytes_a_step is None:
        return steps
    return f"{steps}, {steps_a_second * bytes_a_step / 1e9:.3g} GB/s"
