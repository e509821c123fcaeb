"""Chooses between steps one by one and blocks of several, by the clock: both give the same bits."""

from __future__ import annotations

from collections.abc import Callable

from tikgen.program.plan import Arrangement
from tikgen.program.temporal_blocking import MOST_STEPS, Block

# Seconds that a program has run before blocks are tried, as their kernels take some to compile.
_WORTH = 1.0
# Ctrl-C takes effect after a block.
_LONGEST = 1.0
# How often each is timed; the shortest counts.
_TRIALS = 3
# Blocks have to win so much.
_GAIN = 0.95

# Returns the block of some steps at most that begins with an arrangement, None without one.
Maker = Callable[[Arrangement, int], Block | None]


class Paces:
    """Says how many steps to do next, and whether as a block.

    Args:
        make: returns a block.
        wanted: whether there are blocks: None where they take less time, True always, False never.

    Attributes:
        together: how many steps a block has, 1 where there are none.
        has_blocks: whether blocks are run, or tried.
    """

    def __init__(self, make: Maker, wanted: bool | None) -> None:
        self._make = make
        self._wanted = wanted
        self._blocks: dict[tuple[Arrangement, int], Block | None] = {}
        self._spent = 0.0
        self._step_seconds = 0.0
        self._most = 0  # Steps of a block, at most; not known yet.
        self._times: dict[bool, list[float]] = {True: [], False: []}
        self.together = 1
        self.has_blocks = False

    @property
    def _is_chosen(self) -> bool:
        """Return whether blocks are run, or tried."""
        return self._wanted is True or (self._wanted is None and self._spent >= _WORTH)

    def next(self, at: Arrangement, left: int) -> tuple[Block | None, int]:
        """Return the block to run, if any, and how many steps.

        Args:
            at: how arrays stand.
            left: how many steps at most.
        """
        if not self._is_chosen:
            return None, left
        if not self._most:
            seconds = self._step_seconds
            self._most = min(MOST_STEPS, max(1, int(_LONGEST / seconds))) if seconds else MOST_STEPS
        block = self._block(at, self._most)
        if block is None:
            return None, left
        if self._wanted is None:
            if left < block.steps:
                return None, left
            is_turn_of_block = len(self._times[True]) <= len(self._times[False])
            return (block, block.steps) if is_turn_of_block else (None, block.steps)
        if left < block.steps:  # A few sizes of blocks are enough.
            block = self._block(at, 2 ** (left.bit_length() - 1))
        if block is None or left < block.steps:
            return None, left
        return block, left // block.steps * block.steps

    def took(self, block: Block | None, steps: int, seconds: float) -> None:
        """Say how long some steps took."""
        if not steps or self._wanted is not None:
            return
        self._spent += seconds
        self._step_seconds = seconds / steps
        if self.has_blocks and steps >= self.together:
            self._times[block is not None].append(seconds / steps)
            # The first block meets its code for the first time.
            if len(self._times[True]) > _TRIALS and len(self._times[False]) >= _TRIALS:
                plain, blocked = min(self._times[False]), min(self._times[True])
                self._wanted = blocked < _GAIN * plain
                self.has_blocks = self._wanted
                self.together = self.together if self._wanted else 1

    def _block(self, at: Arrangement, most: int) -> Block | None:
        if (at, most) not in self._blocks:
            block = self._blocks[at, most] = self._make(at, most)
            if not self.has_blocks and self._wanted is not False:
                self.has_blocks = block is not None
                self.together = 1 if block is None else block.steps
                if block is None:
                    self._wanted = False
        return self._blocks[at, most]
