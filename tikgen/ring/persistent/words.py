"""The control words shared by a persistent kernel and its host; also in `_shared/ring.j2`."""

from __future__ import annotations

# The index of each word, on a cache line of its own. The previous state follows STATE.
WORDS = 128
COMMAND, TAIL, DONE, STATE, BEAT, LIMIT, POLLS = range(0, WORDS - 16, 16)

# Commands of the host.
RUN, PAUSE, DRAIN, END = range(4)

# States of the kernel; the last two are written by the host only.
NOT_BEGUN, RUNNING, PAUSED, STOPPED, DRAINED, ABANDONED, FAILED, OF_PARENT = range(8)
STATE_NAMES = (
    "not started",
    "running",
    "paused",
    "stopped",
    "drained",
    "ended by its watchdog",
    "failed",
    "of the parent process",
)

# Polls between two checks of the heartbeat.
POLLS_A_LOOK = 1024

# Counters of messages wrap around.
MODULO = 1 << 32
MASK = MODULO - 1
