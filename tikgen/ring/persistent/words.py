"""The words through which a persistent kernel and its host talk; `_shared/ring.j2` has them too."""

from __future__ import annotations

# Where each word stands: on a cache line of its own. Behind STATE is the state before it.
WORDS = 128
COMMAND, TAIL, DONE, STATE, BEAT, LIMIT, POLLS = range(0, WORDS - 16, 16)

# What the host commands.
RUN, PAUSE, DRAIN, END = range(4)

# What the kernel says of itself; the last two are written by the host alone.
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

# How often a kernel polls before it looks at its heartbeat.
POLLS_A_LOOK = 1024

# Counters of messages wrap around.
MODULO = 1 << 32
MASK = MODULO - 1
