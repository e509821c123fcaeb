"""Supervision: what follows when an actor raises."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from tikgen.ring.errors import InvalidConfigurationError

POLICIES = ("restart", "escalate", "stop")
# More doublings exceed any useful pause.
_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class Supervision:
    """What follows when an actor raises; its message in hand is lost, and the caller gets an error.

    Attributes:
        policy: ``"restart"`` restarts its body, with the queued messages; ``"stop"`` ends it;
            ``"escalate"`` ends the runtime, whose ``async with`` raises.
        max_restarts: greatest number of restarts ``within`` so many seconds.
        within: seconds.
        backoff: seconds before the first restart; the pause doubles each time.
        max_backoff: greatest pause in seconds.
    """

    policy: str = "restart"
    max_restarts: int = 5
    within: float = 60.0
    backoff: float = 0.01
    max_backoff: float = 5.0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            problem = f"takes one of {', '.join(POLICIES)}"
            raise InvalidConfigurationError("supervision", self.policy, problem)
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
        """Return the pause before the next restart in seconds; None if it is not restarted."""
        policy, now = self._supervision, time.monotonic()
        while self._times and now - self._times[0] > policy.within:
            self._times.popleft()
        if policy.policy != "restart" or len(self._times) >= policy.max_restarts:
            return None
        doublings = min(len(self._times), _MOST_DOUBLINGS)
        self._times.append(now)
        return min(policy.backoff * 2.0**doublings, policy.max_backoff)
