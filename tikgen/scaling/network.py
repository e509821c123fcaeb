"""What messages cost: a line through what was measured between two ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tikgen.errors import GridError
from tikgen.scaling.given import real, shown


@dataclass(frozen=True)
class Messages:
    """What a rank sends at once, and receives as much of.

    Attributes:
        count: how many messages.
        size: bytes in all of them.
        runs: how many pieces of memory they consist of.
    """

    count: int
    size: int
    runs: int


@dataclass(frozen=True)
class Network:
    """What the exchange of messages between ranks costs.

    Attributes:
        latency: seconds that an exchange takes however little is sent.
        bandwidth: bytes a second that a rank sends while it receives as many.
        message: seconds that each message after the first takes the host.
        run: seconds to pack and unpack each piece of memory of a message.
        join: seconds that a join of reductions takes each rank, beside its messages.

    Raises:
        GridError: if a number is negative or beyond those of a float, or the bandwidth not above 0.
            The bandwidth alone may be infinite.
    """

    latency: float
    bandwidth: float
    message: float = 0.0
    run: float = 0.0
    join: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency", "bandwidth", "message", "run", "join"):
            value = getattr(self, name)
            found = real(value)
            is_rate = name == "bandwidth"
            if not (found > 0 if is_rate else found < math.inf):
                least = "greater than 0" if is_rate else "of 0 or more, but infinity"
                raise GridError(f"{name} of a network takes a number {least}; got {shown(value)}")
            object.__setattr__(self, name, found)

    def seconds(self, messages: Messages) -> float:
        """Return how long an exchange takes."""
        if not messages.count:
            return 0.0
        posted = self.message * (messages.count - 1)
        return self.latency + posted + messages.size / self.bandwidth + self.run * messages.runs

    def joined(self, ranks: int, size: int) -> float:
        """Return how long all ranks take to tell each other some bytes.

        In each of the rounds they know twice as much, until each has what all others had.
        """
        rounds = math.ceil(math.log2(ranks))
        return self.join + rounds * self.latency + (ranks - 1) * size / self.bandwidth


def fitted(measured: Sequence[tuple[Messages, float]]) -> Network:
    """Return the network that fits some exchanges and their seconds with the least relative errors.

    A cost that would be negative is taken as none.
    """
    rows = np.array([[1, m.count - 1, m.size, m.runs] for m, _ in measured], float)
    seconds = np.array([seconds for _, seconds in measured])
    rows /= seconds[:, None]
    used = [0, 1, 2, 3]
    while True:
        scale = np.abs(rows[:, used]).max(0)
        scale[scale == 0] = 1
        found = np.linalg.lstsq(rows[:, used] / scale, np.ones(len(rows)), rcond=None)[0] / scale
        if (found >= 0).all():
            break
        del used[int(np.argmin(found * scale))]
    costs = np.zeros(4)
    costs[used] = found
    latency, message, each, run = map(float, costs)
    return Network(latency, 1 / each if each > 0 else math.inf, message, run)
