"""What was recorded of kernels, as data: what every view of it is made from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from tikgen.lifecycle.history import Life, lives
from tikgen.pipeline.events import Event, Launches


class Recorded(Protocol):
    """What a trace is made of; a recording that goes on grows."""

    @property
    def events(self) -> Sequence[Event]:
        """Return the stages that kernels went through."""

    @property
    def launches(self) -> Sequence[Launches]:
        """Return the launches of each kernel."""

    @property
    def started(self) -> float:
        """Return when the recording began, in seconds of ``time.perf_counter``."""

    @property
    def stopped(self) -> float | None:
        """Return when it ended, None while it goes on."""


class Lives:
    """The lives of kernels, stage by stage; a recording that goes on shows what there is so far."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    @property
    def events(self) -> tuple[Event, ...]:
        """Return every stage that a kernel went through, but launches, in order of time."""
        return tuple(sorted(self._recorded.events, key=lambda event: event.start))

    @property
    def launches(self) -> tuple[Launches, ...]:
        """Return the launches, added up for each kernel."""
        return tuple(self._recorded.launches)

    @property
    def kernels(self) -> tuple[Life, ...]:
        """Return the life of each kernel, in order of what happened to it first."""
        return lives(self.events, self.launches)

    @property
    def started(self) -> float:
        """Return when the trace began, in seconds of ``time.perf_counter``."""
        return self._recorded.started

    @property
    def seconds(self) -> float:
        """Return how long was recorded."""
        stopped = self._recorded.stopped
        return (time.perf_counter() if stopped is None else stopped) - self.started

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more will be recorded."""
        return self._recorded.stopped is not None
