"""What actors do, told to :func:`tikgen.trace` beside the kernels that they launch."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tikgen.ring.errors import InvalidConfigurationError


def is_on() -> bool:
    """Tell whether a recording goes on."""
    # The module imports Taichi, which actors on the host do without; who records has imported it.
    events = sys.modules.get("tikgen.pipeline.events")
    return events is not None and bool(events.recordings())


def note(kernel_id: str, stage: str, start: float, seconds: float = 0.0, **details: Any) -> None:
    """Tell whoever records that an actor went through a stage; ask :func:`is_on` first.

    Batches are counted and thinned out as launches are, so that a recording of millions stays
    small; every other stage, and a batch that failed, is kept as an event.

    Args:
        kernel_id: the actor.
        stage: one of :data:`tikgen.pipeline.events.ACTOR_STAGES`.
        start: when it began, in seconds of ``time.perf_counter``.
        seconds: how long it took.
        details: what there is to know about it. Of a batch: ``messages``, how many there were, and
            ``device_seconds``, where that was measured; ``error`` if it failed.

    Raises:
        InvalidConfigurationError: if there is no such stage.
    """
    from tikgen.pipeline import events

    if stage not in events.ACTOR_STAGES:
        raise InvalidConfigurationError(
            "stage", stage, f"takes one of {', '.join(events.ACTOR_STAGES)}"
        )
    recordings = events.recordings()
    if not recordings:
        return
    subject = events.Subject(kernel_id, "", 0, "actor")
    thread = threading.get_ident()
    if stage != "batch" or "error" in details:
        event = events.Event(stage, subject, start, seconds, thread, details)
        for recording in recordings:
            recording.take(event)
        return
    for recording in recordings:
        batches = recording.tally(subject)
        batches.add(1, [(start, start + seconds, thread)])
        batches.messages += details.get("messages", 0)
        if device_seconds := details.get("device_seconds"):  # None or 0: it was not measured.
            batches.device_seconds = (batches.device_seconds or 0.0) + device_seconds
            batches.device_count += 1
