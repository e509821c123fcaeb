"""Heartbeats: one thread that shows all persistent kernels that their process is alive."""

from __future__ import annotations

import os
import threading
import time

from tikgen.ring.persistent.words import BEAT, LIMIT, MASK, POLLS, POLLS_A_LOOK

BEAT_SECONDS = 0.05
_MOST_LOOKS = 2**31 - 1
# Upper bounds of the polling rate; lower measured rates are used down to a share of these.
_MOST_POLLS_A_SECOND = {"cpu": 2e8, "cuda": 4e6}
_LEAST_SHARE = 1 / 8


class Heartbeat:
    """The heartbeat of one kernel, with the number of polls that it waits for the next one."""

    def __init__(self, words: memoryview[int], arch: str, seconds: float) -> None:
        self._words = words
        self._seconds = seconds
        self._rate = _MOST_POLLS_A_SECOND[arch] / POLLS_A_LOOK
        self._least = self._rate * _LEAST_SHARE
        self._measured = 0.0
        self._at, self._polls = time.perf_counter(), words[POLLS]
        self._set_limit()

    def beat(self) -> None:
        """Increment the heartbeat, and measure the polling rate of the kernel."""
        words, now = self._words, time.perf_counter()
        words[BEAT] = (words[BEAT] + 1) & MASK
        polls = words[POLLS]
        if now - self._at >= BEAT_SECONDS / 2:
            looks = ((polls - self._polls) & MASK) / POLLS_A_LOOK
            rate = looks / (now - self._at)
            self._measured = max(self._measured, rate)
            self._at, self._polls = now, polls
            # Under load it polls less often than when it is idle.
            self._rate = max(self._measured, self._least)
            self._set_limit()

    def _set_limit(self) -> None:
        looks = min(self._seconds * self._rate, _MOST_LOOKS)
        self._words[LIMIT] = max(int(looks), 2) if self._seconds else 0


_heartbeats: set[Heartbeat] = set()
# Reentrant: garbage collection may end a kernel while the lock is held.
_lock = threading.RLock()
_thread: threading.Thread | None = None


def add(heartbeat: Heartbeat) -> None:
    """Start the heartbeat of a kernel."""
    global _thread
    with _lock:
        _heartbeats.add(heartbeat)
        if _thread is None:
            _thread = threading.Thread(target=_beat_for_all, name="tikgen-heartbeat", daemon=True)
            _thread.start()


def remove(heartbeat: Heartbeat) -> None:
    """Stop the heartbeat of a kernel."""
    with _lock:
        _heartbeats.discard(heartbeat)


def _beat_for_all() -> None:
    """Beat until no kernel is left."""
    global _thread
    while True:
        with _lock:
            if not _heartbeats:
                _thread = None
                return
            for heartbeat in [*_heartbeats]:
                heartbeat.beat()
        time.sleep(BEAT_SECONDS)


def _discard_in_child() -> None:
    global _thread, _lock
    _lock = threading.RLock()
    _thread = None
    _heartbeats.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_in_child)
