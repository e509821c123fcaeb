"""The heart of the host: one thread that shows all persistent kernels that somebody is there."""

from __future__ import annotations

import os
import threading
import time

from tikgen.ring.persistent.words import BEAT, LIMIT, MASK, POLLS, POLLS_A_LOOK

BEAT_SECONDS = 0.05
_MOST_LOOKS = 2**31 - 1
# No kernel polls more often; one that polls less is measured, as long as that can be believed.
_MOST_POLLS_A_SECOND = {"cpu": 2e8, "cuda": 4e6}
_LEAST_SHARE = 1 / 8


class Heart:
    """Beats for one kernel, and tells it how long to wait for the next beat.

    Args:
        words: the control words, unsigned.
        arch: where the kernel runs.
        seconds: how long it waits; 0 for ever.
    """

    def __init__(self, words: memoryview[int], arch: str, seconds: float) -> None:
        self._words = words
        self._seconds = seconds
        self._rate = _MOST_POLLS_A_SECOND[arch] / POLLS_A_LOOK
        self._least = self._rate * _LEAST_SHARE
        self._measured = 0.0
        self._at, self._polls = time.perf_counter(), words[POLLS]
        self._set_limit()

    def beat(self) -> None:
        """Change the heartbeat, and measure how often the kernel polls meanwhile."""
        words, now = self._words, time.perf_counter()
        words[BEAT] = (words[BEAT] + 1) & MASK
        polls = words[POLLS]
        if now - self._at >= BEAT_SECONDS / 2:
            looks = ((polls - self._polls) & MASK) / POLLS_A_LOOK
            rate = looks / (now - self._at)
            self._measured = max(self._measured, rate)
            self._at, self._polls = now, polls
            # Under load it polls less often than it may at once, when nothing comes any more.
            self._rate = max(self._measured, self._least)
            self._set_limit()

    def _set_limit(self) -> None:
        looks = min(self._seconds * self._rate, _MOST_LOOKS)
        self._words[LIMIT] = max(int(looks), 2) if self._seconds else 0


_hearts: set[Heart] = set()
# Garbage collection may end a kernel in the middle of what holds the lock.
_lock = threading.RLock()
_thread: threading.Thread | None = None


def add(heart: Heart) -> None:
    """Beat for a kernel from now on."""
    global _thread
    with _lock:
        _hearts.add(heart)
        if _thread is None:
            _thread = threading.Thread(target=_beat_for_all, name="tikgen-heartbeat", daemon=True)
            _thread.start()


def remove(heart: Heart) -> None:
    """Beat for a kernel no more."""
    with _lock:
        _hearts.discard(heart)


def _beat_for_all() -> None:
    """Beat until there is no kernel any more."""
    global _thread
    while True:
        with _lock:
            if not _hearts:
                _thread = None
                return
            for heart in [*_hearts]:
                heart.beat()
        time.sleep(BEAT_SECONDS)


def _leave_all_to_parent() -> None:
    global _thread, _lock
    _lock = threading.RLock()
    _thread = None
    _hearts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_to_parent)
