"""Exchanges by messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tikgen.grid.boxes import Message
from tikgen.grid.memory import Memory
from tikgen.grid.transports import Carrier
from tikgen.program.team import Job


def by_messages(
    carrier: Carrier, memory: Memory, stages: Sequence[Sequence[Message]], arrays: Sequence[Any]
) -> tuple[Job, Job]:
    """Return the begin of an exchange and its end, which Python does.

    Args:
        carrier: what carries the messages.
        memory: where the arrays lie.
        stages: the messages of this process, those of one stage after the other.
        arrays: the arrays whose boxes they hold.
    """
    made = [_Stage(carrier, memory, stage, arrays) for stage in stages]
    # Nothing of the host waits for what a carrier does within streams.
    is_recordable = carrier.follows_streams

    def end() -> None:
        for number, stage in enumerate(made):
            if number:
                stage.begin()
            stage.end()

    if is_recordable:  # What a library does at first only, no graph may record.
        made[0].begin()
        end()
    return Job(made[0].begin, is_recordable=is_recordable), Job(end, is_recordable=is_recordable)


class _Stage:
    """Messages that are on their way at once.

    Args:
        carrier: what carries them.
        memory: where the arrays lie.
        messages: the messages.
        arrays: the arrays whose boxes they hold.
    """

    def __init__(
        self, carrier: Carrier, memory: Memory, messages: Sequence[Message], arrays: Any
    ) -> None:
        parcels = [memory.parcel(each, arrays, carrier.takes_device) for each in messages]
        pairs = [(parcel.message, parcel.buffer) for parcel in parcels]
        self._requests = carrier.requests(pairs)
        self._sent = [parcel for parcel in parcels if parcel.message.is_sent]
        self._received = [parcel for parcel in parcels if not parcel.message.is_sent]
        # Where the device still packs, something else may be launched before this process waits.
        self._mark = None if carrier.follows_streams else memory.mark()

    def begin(self) -> None:
        """Pack what is sent; start the messages, unless a device has to finish first."""
        for parcel in self._sent:
            parcel.pack()
        if self._mark is None:
            self._requests.start()
        else:
            self._mark.set()

    def end(self) -> None:
        """Wait for the messages, and unpack what was received."""
        if self._mark is not None:
            self._mark.wait()
            self._requests.start()
        self._requests.wait()
        for parcel in self._received:
            parcel.unpack()


def in_turn(*jobs: Job) -> Job:
    """Return the job that does some jobs one after the other."""
    native: tuple[tuple[int, int], ...] | None = ()
    for job in jobs:
        native = None if native is None or job.native is None else (*native, *job.native)

    def run() -> None:
        for job in jobs:
            job.run()

    return Job(run, native, jobs, all(job.is_recordable for job in jobs))
