"""The dashboard: a live table of all actors in a terminal."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tikgen.consoles import make_console
from tikgen.ring.errors import InvalidConfigurationError
from tikgen.ring.telemetry.gpu_monitor import GPUInfo
from tikgen.ring.telemetry.snapshot import KernelRow, Snapshot
from tikgen.units import counted, duration

_STATES = {
    "active": "green",
    "created": "cyan",
    "launched": "cyan",
    "deactivated": "yellow",
    "terminating": "yellow",
    "terminated": "dim",
    "failed": "bold red",
}
_RATE_SECONDS = 2.0
_LEAST_NAME, _MOST_NAME = 12, 48
_BETWEEN = 2
_MOST_ERRORS = 3
# Lines of the screen besides the actors: heading, totals, errors, prompt.
_OTHER_LINES = 9


@dataclass(frozen=True)
class _Column:
    """A column of the table; in a narrow terminal those of the highest rank are left out first."""

    title: str
    rank: int
    text: Callable[[KernelRow], str]
    style: Callable[[KernelRow], str] = lambda row: ""
    justify: str = "right"


def _columns(rates: Mapping[str, float]) -> list[_Column]:
    return [
        _Column("engine", 7, lambda r: _clean(r.engine), justify="left"),
        _Column("state", 1, lambda r: _clean(r.state).lower(), _style_of_state, justify="left"),
        _Column("queue", 2, lambda r: number(r.queue_depth)),
        _Column("received", 9, lambda r: number(r.messages_received)),
        _Column("done", 3, lambda r: number(r.messages_processed)),
        _Column("per s", 3, lambda r: number(rates[r.kernel_id])),
        _Column("p50", 5, lambda r: _latency(r.p50_ns)),
        _Column("p99", 4, lambda r: _latency(r.p99_ns)),
        _Column("dropped", 2, lambda r: number(r.messages_dropped), _warns("messages_dropped")),
        _Column("errors", 2, lambda r: number(r.error_count), _warns("error_count")),
        _Column("restarts", 8, lambda r: number(r.restarts), _warns("restarts")),
        _Column("batch", 6, lambda r: "-" if r.batch_size is None else number(r.batch_size)),
        _Column("device", 6, lambda r: duration(r.device_seconds) if r.device_seconds else "-"),
    ]


class _View:
    """Draws a snapshot in the width of the console."""

    def __init__(self, snapshot: Snapshot, earlier: Snapshot | None, fits_screen: bool) -> None:
        self._snapshot = snapshot
        self._rates = snapshot.rates_since(earlier)
        self._fits_screen = fits_screen

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = list(self._snapshot.kernels)
        others = _OTHER_LINES + len(self._snapshot.gpus)
        most = max(1, console.size.height - others) if self._fits_screen else len(rows)
        if len(rows) > most:  # The most important ones, in their order.
            kept = sorted(range(len(rows)), key=lambda i: self._weight(rows[i]), reverse=True)
            rows = [rows[number] for number in sorted(kept[:most])]
        hidden = len(self._snapshot.kernels) - len(rows)
        yield self._table(rows, options.max_width)
        if hidden:
            yield Text(f"  and {counted(hidden, 'actor')} more, with less to do", style="dim")
        yield from _footer(self._snapshot, self._rates)

    def _weight(self, row: KernelRow) -> tuple[bool, float, int]:
        return row.error_count > 0, self._rates[row.kernel_id], row.queue_depth

    def _table(self, rows: Sequence[KernelRow], width: int) -> RenderableType:
        if not rows:
            return Text("No actor is launched.", style="dim")
        columns = _columns(self._rates)
        needed = {
            each.title: max(cell_len(each.title), *(cell_len(each.text(row)) for row in rows))
            for each in columns
        }
        longest = max(cell_len(_clean(row.kernel_id)) for row in rows)
        name = min(max(longest, len("actor")), _LEAST_NAME)
        while columns and name + sum(needed[c.title] + _BETWEEN for c in columns) > width:
            columns.remove(max(columns, key=lambda column: column.rank))
        used = sum(needed[c.title] + _BETWEEN for c in columns)
        name = max(1, min(longest, width - used, _MOST_NAME))
        table = Table(box=None, padding=(0, _BETWEEN, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("actor", width=max(name, 5), no_wrap=True, overflow="ellipsis")
        for each in columns:
            table.add_column(each.title, justify=each.justify, no_wrap=True)  # type: ignore[arg-type]
        for row in rows:
            cells = (Text(each.text(row), style=each.style(row)) for each in columns)
            table.add_row(Text(_clean(row.kernel_id)), *cells)
        return table


def renderable(
    snapshot: Snapshot, earlier: Snapshot | None = None, *, fits_screen: bool = False
) -> RenderableType:
    """Return a table of the actors, with totals and GPUs below, for a rich console."""
    return _View(snapshot, earlier, fits_screen)


async def show(
    snapshot: Callable[[], Snapshot],
    refresh: float = 0.5,
    until: Callable[[], bool] = lambda: False,
    console: Console | None = None,
) -> None:
    """Show the actors until ``until`` returns True; the last view stays in the terminal.

    If the output is no terminal, a line is printed for each actor that changed.
    """
    if not (isinstance(refresh, int | float) and 0 < refresh < math.inf):
        raise InvalidConfigurationError("refresh", refresh, "takes a positive number of seconds")
    console = console or make_console()
    if not console.is_terminal:
        await _print_lines(snapshot, refresh, until, console)
        return
    history: deque[Snapshot] = deque(maxlen=max(1, round(_RATE_SECONDS / refresh)))
    with Live(console=console, auto_refresh=False) as live:
        while True:
            now = snapshot()
            if history and not now.kernels and until():
                return  # All actors have ended: the last view stays.
            earlier = history[0] if history else None
            live.update(renderable(now, earlier, fits_screen=True), refresh=True)
            history.append(now)
            if until():
                return
            await asyncio.sleep(refresh)


async def _print_lines(
    snapshot: Callable[[], Snapshot], refresh: float, until: Callable[[], bool], console: Console
) -> None:
    earlier: Snapshot | None = None
    known: dict[str, KernelRow] = {}
    while True:
        now = snapshot()
        rates = now.rates_since(earlier)
        for row in now.kernels:
            if _changes(row) != _changes(known.get(row.kernel_id)):
                text = line(row, rates[row.kernel_id], now.seconds)
                console.print(text, markup=False, highlight=False, soft_wrap=True)
        known = {row.kernel_id: row for row in now.kernels}
        earlier = now
        if until():
            return
        await asyncio.sleep(refresh)


def line(row: KernelRow, rate: float, seconds: float) -> str:
    """Return the state of an actor as one line of plain text."""
    parts = [
        f"{seconds:9.1f} s  {_clean(row.kernel_id)}",
        _clean(row.state).lower(),
        f"queue {row.queue_depth}",
        f"done {row.messages_processed}",
        f"{number(rate)}/s",
        f"p50 {_latency(row.p50_ns)}",
        f"p99 {_latency(row.p99_ns)}",
        f"dropped {row.messages_dropped}",
        f"errors {row.error_count}",
        f"restarts {row.restarts}",
    ]
    if row.last_error is not None:
        parts.append(_clean(row.last_error))
    return "  ".join(filter(None, parts))


def _changes(row: KernelRow | None) -> tuple[object, ...]:
    """Return the figures whose change is worth a new line."""
    if row is None:
        return ()
    counts = (row.messages_processed, row.messages_dropped, row.error_count, row.restarts)
    return row.state, row.queue_depth, *counts


def _footer(snapshot: Snapshot, rates: Mapping[str, float]) -> RenderResult:
    rows = snapshot.kernels
    active = sum(row.state.lower() == "active" for row in rows)
    totals = [
        f"up {_uptime(snapshot.seconds)}",
        f"{counted(len(rows), 'actor')}, {active:,} active",
        f"{sum(row.messages_processed for row in rows):,} done",
        f"{number(sum(rates.values()))}/s",
        f"{sum(row.queue_depth for row in rows):,} waiting",
        f"{sum(row.messages_dropped for row in rows):,} dropped",
        counted(sum(row.error_count for row in rows), "error"),
    ]
    yield Text()
    yield Text("; ".join(totals), style="bold")
    for gpu in snapshot.gpus:
        yield Text(gpu_line(gpu), no_wrap=True, overflow="ellipsis")
    failed = [row for row in rows if row.last_error is not None]
    for row in failed[-_MOST_ERRORS:]:
        text = f"{_clean(row.kernel_id)}: {_clean(row.last_error or '')}"
        yield Text(text, style="red", no_wrap=True, overflow="ellipsis")


def gpu_line(gpu: GPUInfo) -> str:
    """Return the state of a GPU in one line, without figures that it does not report."""
    parts = [f"GPU {gpu.index}"]
    if gpu.utilization_gpu is not None:
        parts.append(f"load {gpu.utilization_gpu:.0%}")
    if gpu.memory_total:
        parts.append(f"memory {gpu.memory_used / 1e9:.1f} of {gpu.memory_total / 1e9:.1f} GB")
    if gpu.temperature is not None:
        parts.append(f"{gpu.temperature:.0f} °C")
    if gpu.power_usage is not None:
        limit = f" of {gpu.power_limit:.0f}" if gpu.power_limit else ""
        parts.append(f"{gpu.power_usage:.0f}{limit} W")
    return "  ".join([*parts, _clean(gpu.name)])


def number(value: float) -> str:
    """Return a number in at most seven characters, such as ``12,345`` or ``1.23 M``."""
    if value < 10 and value != int(value):
        return f"{value:.2g}"
    if value < 99_999.5:
        return f"{value:,.0f}"
    return f"{value / 1e6:.3g} M" if value < 999.5e6 else f"{value / 1e9:.3g} G"


def _latency(nanoseconds: float | None) -> str:
    return "-" if nanoseconds is None else duration(nanoseconds * 1e-9)


def _uptime(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _clean(text: str) -> str:
    """Return a text on one line, without control characters of the terminal."""
    spaced = "".join(" " if c.isspace() else c for c in text)
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in spaced)


def _style_of_state(row: KernelRow) -> str:
    return _STATES.get(row.state.lower(), "")


def _warns(attribute: str) -> Callable[[KernelRow], str]:
    return lambda row: "red" if getattr(row, attribute) else ""
