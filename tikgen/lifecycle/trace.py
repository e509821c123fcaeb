"""Records the lives of kernels, and shows them as text, table, picture, page or file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tikgen.disk import path_of, whole, why
from tikgen.errors import TraceError
from tikgen.lifecycle import chrome, page
from tikgen.lifecycle.history import Lives, describe
from tikgen.lifecycle.table import table
from tikgen.pipeline import events
from tikgen.pipeline.events import Event, Launches

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from tikgen.pipeline.kernel import Kernel

PICTURES = (".png", ".pdf", ".svg", ".jpg")
PAGES = (".html", ".htm")
COLUMNS = (
    "kernel",
    "origin",
    "file",
    "line",
    "stage",
    "start",
    "seconds",
    "count",
    "thread",
    "signature",
    "cache",
    "device_seconds",
    "error",
    "about",
)


@dataclass(frozen=True)
class _Kept:
    """The life that a kernel keeps of itself."""

    events: tuple[Event, ...]
    launches: tuple[Launches, ...]
    started: float
    stopped: float | None


class Trace(Lives):
    """The lives of kernels, stage by stage, as :func:`tikgen.trace` recorded them.

    Printing it shows :meth:`table`. During a recording it shows the lives so far.

    Attributes:
        kernels: the kernels in order of their first events, each with its events and launches.
        events: every event except launches, in order of time.
        launches: the launches, added up for each kernel.
        started: start of the recording, in seconds of ``time.perf_counter``.
        seconds: duration of the recording so far.
        is_over: whether the recording has ended.
    """

    def table(self, width: int | None = 80) -> str:
        """Return the trace as text: one block for each kernel, one line for each stage.

        Args:
            width: columns after which lines continue further right; None for lines of any length.
        """
        if width is not None and not isinstance(width, int):
            raise TraceError(f"width takes a whole number of columns; got {width!r:.60}")
        return table(self, width)

    def to_pandas(self) -> DataFrame:
        """Return a pandas DataFrame with a row for each event, and one for a kernel's launches.

        Times are in seconds, ``start`` from the beginning of the trace. In a row of launches
        ``seconds`` is the sum over those that were timed.

        Raises:
            TraceError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise TraceError("to_pandas needs pandas: pip install 'tikgen[pandas]'") from None
        return pandas.DataFrame(self.rows(), columns=list(COLUMNS))

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of :meth:`to_pandas` as dicts."""
        found = [
            {
                **_whose(event),
                "stage": event.stage,
                "start": event.start - self.started,
                "seconds": event.seconds,
                "count": 1,
                "thread": event.thread,
                "signature": event.details.get("signature"),
                "cache": event.details.get("cache"),
                "device_seconds": None,
                "error": event.details.get("error"),
                "about": describe(event),
            }
            for event in self.events
        ]
        for each in self.launches:
            first = each.spans[0] if each.spans else None
            found.append(
                dict.fromkeys(COLUMNS)
                | {
                    **_whose(each),
                    "stage": each.stage,
                    "start": first[0] - self.started if first else None,
                    "seconds": each.seconds if each.timed else None,
                    "count": each.count,
                    "thread": first[2] if first else None,
                    "device_seconds": each.device_seconds,
                }
            )
        return found

    def timeline(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw a lane for each kernel, with its stages along the time axis.

        The axis is nonlinear, so that launches of microseconds are visible beside compilations of
        milliseconds: the width of an interval between two events is the cube root of its time.

        Args:
            path: picture to write, such as ``trace.png``.

        Raises:
            TraceError: if the picture cannot be written, or matplotlib is not installed.
        """
        target = None if path is None else check_path(path, PICTURES)
        figure: Figure = timelines().draw(self)
        if target is not None:
            try:
                with whole(target) as new:
                    figure.savefig(new)
            except OSError as error:
                raise TraceError(f"cannot write {target}: {why(error)}") from None
        return figure

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the trace as a self-contained HTML page.

        Args:
            path: file to which the page is written as well, such as ``trace.html``.

        Raises:
            TraceError: if the file cannot be written.
        """
        target = None if path is None else check_path(path, PAGES)
        text = page.render(self)
        if target is not None:
            _write(target, text)
        return text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace in Chrome's trace format, for Perfetto and chrome://tracing.

        Args:
            path: file to write, such as ``trace.json``.

        Raises:
            TraceError: if the file cannot be written.
        """
        _write(check_path(path, (".json",)), chrome.text(self))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        kernels = sum(life.subject.is_kernel for life in self.kernels)
        launches = sum(each.count for each in self.launches if each.subject.is_kernel)
        return f"<Trace: {kernels} kernels, {len(self.events)} events, {launches} launches>"

    def _repr_html_(self) -> str:
        return page.render_short(self)


@contextlib.contextmanager
def trace(*, all_kernels: bool = False) -> Iterator[Trace]:
    """Record each stage and each launch of kernels inside the ``with`` block, in all threads.

    Actors of :mod:`tikgen.ring` are recorded as well: their states and their batches. The trace
    can be used inside the block and after it, even if the block raised. Traces can be nested.

    Args:
        all_kernels: also record kernels that are not tikgen's: those of your own files, and those
            of Taichi itself, for instance in ``to_numpy``.
    """
    with events.recording(all_kernels=all_kernels) as recording:
        yield Trace(recording)


def of_kernel(kernel: Kernel) -> Trace:
    """Return the life of one kernel so far."""
    every, now = [each.loaded.launched for each in kernel.classes], time.perf_counter()
    begun = [event.start for event in kernel.events]
    started = min([*begun, *(span[0] for each in every for span in each.spans)], default=now)
    for launched in every:
        launched.window = now - started
    launches = tuple(launched for launched in every if launched.count)
    return Trace(_Kept(kernel.events, launches, started, now))


def timelines() -> ModuleType:
    """Return the module that draws timelines.

    Raises:
        TraceError: if matplotlib cannot be imported.
    """
    try:
        from tikgen.lifecycle import timeline
    except ImportError:
        raise TraceError("timeline needs matplotlib: pip install 'tikgen[plot]'") from None
    return timeline


def check_path(path: str | os.PathLike[str], endings: Sequence[str]) -> Path:
    """Return a path to which a trace can be written, with one of ``endings``."""
    target = path_of(path, TraceError)
    if target.suffix.lower() not in endings:
        wanted = " or ".join(endings)
        raise TraceError(f"cannot write {target}: name a {wanted} file")
    try:
        if not target.absolute().parent.is_dir():
            raise TraceError(f"cannot write {target}: {target.parent} is not a folder")
        if target.is_dir():
            raise TraceError(f"cannot write {target}: it is a folder")
    except OSError as error:
        raise TraceError(f"cannot write {target}: {why(error)}") from None
    return target


def _write(path: Path, text: str) -> None:
    try:
        with whole(path) as new:
            new.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise TraceError(f"cannot write {path}: {why(error)}") from None


def _whose(of: Event | Launches) -> dict[str, Any]:
    subject = of.subject
    return {
        "kernel": subject.name,
        "origin": subject.origin,
        "file": subject.file,
        "line": subject.line,
    }
