"""What becomes of an actor that raises."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from tikgen.ring.errors import InvalidConfigurationError

POLICIES = ("restart", "escalate", "stop")
# Beyond this, twice as long is longer than any machine runs.
_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class Supervision:
    """What is done when an actor raises; the message in hand is lost to it, and its sender told.

    Attributes:
        policy: ``"restart"`` begins its body anew, with the messages that are queued;
            ``"stop"`` ends it; ``"escalate"`` ends the runtime, whose ``async with`` raises.
        max_restarts: so many restarts ``within`` so many seconds; one more, and it is ended.
        within: seconds.
        backoff: seconds before the first restart; each further one waits twice as long.
        max_backoff: seconds that a restart waits at most.
    """

    policy: str = "restart"
    max_restarts: int = 5
    within: float = 60.0
    backoff: float = 0.01
    max_backoff: float = 5.0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InvalidConfigurationError(
                "supervision", self.policy, f"takes one of {', '.join(POLICIES)}"
            )
        for name in ("max_restarts", "within", "backoff", "max_backoff"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise InvalidConfigurationError(name, value, "takes a number that is not negative")


class Restarts:
    """Counts the restarts of one actor."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._times: deque[float] = deque()

    def next_delay(self) -> float | None:
        """Return how long the next restart waits, in seconds; None if there were too many."""
        told, now = self._supervision, time.monotonic()
        while self._times and now - self._times[0] > told.within:
            self._times.popleft()
        if told.policy != "restart" or len(self._times) >= told.max_restarts:
            return None
        doublings = min(len(self._times), _MOST_DOUBLINGS)
        self._times.append(now)
        return min(told.backoff * 2.0**doublings, told.max_backoff)
