"""The child's side of a conversation: one arch, one reply a line.

Output of Taichi goes to the error stream, so that the standard output has replies only.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import taichi as ti

from tikgen.errors import one_line
from tikgen.taichi import error_stream, runtime

Tell = Callable[[dict[str, Any]], None]

# Above every limit of a parent.
MOST_SECONDS = 3600
_SIGNALS = ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGILL", "SIGBUS")
# NVIDIA's Vulkan driver ends a process by SIGSEGV when Taichi is initialised there the 30th time.
_INITS_ON_VULKAN = 16
_inits: list[str] = []


def serve(
    arch: str | None,
    answer: Callable[[str, Tell], str],
    *,
    lines_per_init: int = sys.maxsize,
    forget: Callable[[], None] = lambda: None,
    **options: Any,
) -> None:
    """Answer each line of the standard input until it ends.

    Args:
        arch: arch on which Taichi is initialised with ``options``; None if it is not.
        answer: returns the reply to a line; the function that it takes sends messages before.
        lines_per_init: number of lines after which Taichi is initialised anew, to free kernels.
        forget: called before Taichi is initialised anew.
    """
    # The parent decides what an interruption at the keyboard means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    error_stream.may_redirect = False
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=replies, flush=True)

    try:
        if arch is not None:
            start(arch, **options)
    except Exception as error:
        tell({"absent": one_line(error)})
        return
    tell({"absent": ""})
    for number, line in enumerate(sys.stdin, 1):
        # A hung kernel notices neither the end of the input nor that of the parent.
        faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
        print(answer(line, tell), file=replies, flush=True)
        faulthandler.cancel_dump_traceback_later()
        if number % lines_per_init == 0 and arch is not None:
            forget()
            start(arch, **options)


def start(arch: str, **options: Any) -> None:
    """Initialise Taichi on ``arch``, or raise; later crashes end the process by a signal."""
    if not hasattr(ti, arch):
        raise ValueError(f"Taichi knows no arch {arch!r}")
    ti.init(
        **{
            "arch": getattr(ti, arch),
            "enable_fallback": False,
            "offline_cache": False,
            "log_level": ti.ERROR,
            **options,
        }
    )
    _inits.append(arch)
    # Taichi turns these signals into exit status 255.
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def device_answers() -> bool:
    """Return whether the device still works; after an illegal access every launch fails."""
    try:
        runtime.sync()
    except Exception:
        return False
    return True


def is_spent() -> bool:
    """Return whether this process should do no more jobs, as its driver stands few inits."""
    return _inits.count("vulkan") >= _INITS_ON_VULKAN
