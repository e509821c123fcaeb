"""A process that runs the cases of one arch, and what its death means."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from tikgen.verification.case import Case, Outcome

# Loading Taichi and a driver takes long on a busy machine.
START_SECONDS = 180.0
_STDERR_SHOWN = 400


class ArchProcess:
    """Runs cases on one arch in a process of its own, which is started anew when it dies.

    It is a plain subprocess: it needs no ``__main__`` guard, and shares nothing with a Taichi
    that is initialised here.

    Args:
        arch: the arch.
        timeout: seconds that a case may take.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        self.arch = arch
        self.timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._replies: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None

    def start(self) -> str:
        """Start the process; return why the arch does not work here, or an empty string."""
        self.stop()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tikgen.verification.worker", self.arch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=_environment(),
        )
        self._replies = queue.Queue()
        threading.Thread(
            target=_read, args=(self._process.stdout, self._replies), daemon=True
        ).start()
        try:
            reply = self._reply(START_SECONDS)
        except TimeoutError:
            self.stop()
            return f"the process did not start within {START_SECONDS:g} s"
        if reply is None:
            reason = f"the process died while it started: {self._death()}"
            self.stop()
            return reason
        return str(json.loads(reply)["absent"])

    def run(self, case: Case) -> Outcome:
        """Return what came of ``case``; a crash and a time-out are outcomes as well."""
        if self._process is None:
            problem = self.start()
            if problem:
                return Outcome("error", f"{self.arch} worked before, and does not now: {problem}")
        assert self._process is not None
        assert self._process.stdin is not None
        digest, until = "", time.monotonic() + self.timeout
        try:
            self._process.stdin.write(case.line + "\n")
            self._process.stdin.flush()
            reply = self._reply(self.timeout)
            if reply is not None and "built" in (found := json.loads(reply)):
                digest = found["built"]
                reply = self._reply(max(0.0, until - time.monotonic()))
        except TimeoutError:
            self.stop()
            message = f"the process did not answer within {self.timeout:g} s"
            return Outcome("timeout", message, digest)
        except OSError:  # It died between two cases.
            reply = None
        if reply is None:
            message = f"the process died: {self._death()}"
            self.stop()
            return Outcome("crash", message, digest)
        return Outcome.from_line(reply)

    def stop(self) -> None:
        """End the process, if it runs."""
        process, errors = self._process, self._errors
        self._process = self._errors = None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()
        if errors is not None:
            errors.close()

    def __enter__(self) -> ArchProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _reply(self, seconds: float) -> str | None:
        """Return the next reply, or None at the end of the output."""
        try:
            return self._replies.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None

    def _death(self) -> str:
        """Return in words how the process ended, with the last that it said."""
        assert self._process is not None
        assert self._errors is not None
        status = self._process.wait()
        how = f"exit status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()[-_STDERR_SHOWN:]
        return f"{how}; it said: {said}" if said else how


def _environment() -> dict[str, str]:
    """Return an environment in which the same modules are found, from any working directory."""
    package = str(Path(__file__).parents[2])
    found = [package, *(str(Path(p).absolute()) for p in sys.path if p)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(found)),
        "ENABLE_TAICHI_HEADER_PRINT": "0",
    }


def _read(output: IO[str], replies: queue.Queue[str | None]) -> None:
    """Pass on the replies; what was printed before the process took its output is dropped."""
    with contextlib.suppress(ValueError, OSError):  # Closed under our hands by stop().
        for line in output:
            if line.startswith("{"):
                replies.put(line)
    replies.put(None)
