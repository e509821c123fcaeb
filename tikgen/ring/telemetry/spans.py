"""Events of actors for :func:`tikgen.trace`, beside the kernels that they launch."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tikgen.ring.errors import InvalidConfigurationError


def is_on() -> bool:
    """Return whether a trace is being recorded."""
    # The module imports Taichi, which host actors do not need; a trace has imported it.
    events = sys.modules.get("tikgen.pipeline.events")
    return events is not None and bool(events.recordings())


def note(kernel_id: str, stage: str, start: float, seconds: float = 0.0, **details: Any) -> None:
    """Record a stage of an actor; check :func:`is_on` first.

    Batches are counted and thinned out as launches are; every other stage, and a batch that
    failed, is an event.
    """
    from tikgen.pipeline import events

    if stage not in events.ACTOR_STAGES:
        raise InvalidConfigurationError(
            "stage", stage, f"takes one of {', '.join(events.ACTOR_STAGES)}"
        )
    recordings = events.recordings()
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
        if device_seconds := details.get("device_seconds"):
            batches.device_seconds = (batches.device_seconds or 0.0) + device_seconds
            batches.device_count += 1
