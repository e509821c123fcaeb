"""The process that runs cases on one arch: ``python -m tikgen.verification.worker ARCH``.

It reads one case a line and answers with one outcome a line. Its first line tells whether the
arch works. Before an outcome comes the digest of the kernel, which thus is known if it kills the
process. What Taichi prints goes to the error stream.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TextIO

import taichi as ti

from tikgen import builder
from tikgen.catalogue import load_template
from tikgen.errors import TikgenError, UnsupportedOnArch
from tikgen.verification.case import Case, Outcome
from tikgen.verification.check import Trial

# Compiled kernels and fields are freed by ti.init only.
CASES_PER_INIT = 50


def main() -> None:
    """Serve the arch named on the command line until the input ends."""
    arch, replies = sys.argv[1], _take_stdout()
    try:
        start(arch)
    except Exception as error:
        print(json.dumps({"absent": _one_line(error)}), file=replies, flush=True)
        return
    print(json.dumps({"absent": ""}), file=replies, flush=True)
    for number, line in enumerate(sys.stdin, 1):
        outcome = outcome_of(
            Case.from_line(line),
            lambda digest: print(json.dumps({"built": digest}), file=replies, flush=True),
        )
        print(outcome.line, file=replies, flush=True)
        if number % CASES_PER_INIT == 0:
            builder.clear()
            start(arch)


def start(arch: str) -> None:
    """Initialise Taichi on ``arch``, or raise; a crash then kills the process by its signal."""
    if not hasattr(ti, arch):
        raise ValueError(f"Taichi knows no arch {arch!r}")
    ti.init(arch=getattr(ti, arch), enable_fallback=False, offline_cache=False, log_level=ti.ERROR)
    # Taichi turns these signals into exit status 255.
    for name in ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGILL", "SIGBUS"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def outcome_of(case: Case, on_built: Callable[[str], None]) -> Outcome:
    """Build the kernel of ``case``, run it once, and return what came of it.

    Args:
        case: what to run.
        on_built: told the digest of the kernel before anything else happens to it.
    """
    digest = ""
    try:
        template = load_template(case.folder)
        digest = builder.build(template, **case.params).digest
        on_built(digest)
        return Trial(template, case.params, **case.trial).run()
    except UnsupportedOnArch as error:
        return Outcome("skipped", str(error))
    except TikgenError as error:
        return Outcome("error", f"{type(error).__name__}: {error}", digest)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119
        return Outcome("error", f"{_one_line(error)} (in {where})", digest)


def _take_stdout() -> TextIO:
    """Return the standard output for replies alone, and send what is printed to the errors."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


if __name__ == "__main__":
    main()
