"""A child process that exchanges lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, Any, TypeVar

from tikgen.children import safe_path

# Loading Taichi and a driver takes long on a busy machine.
START_SECONDS = 180.0
_STDERR_SHOWN = 400
# In which what a launcher started ends.
_END_SECONDS = 10.0
_LINES_SHOWN = 3


Self = TypeVar("Self", bound="ChildProcess")


class Died(Exception):
    """The process has ended; the message has its exit status and its last output."""


class ChildProcess:
    """Runs ``python -P -m MODULE ARGUMENTS`` and exchanges lines of JSON with it.

    It is a plain subprocess: it needs no ``__main__`` guard, and shares nothing with the Taichi of
    this process. Its first line is ``{"absent": why}``, with an empty string if it is ready. Its
    side is in :mod:`tikgen.children.work`.

    Args:
        module: the module to run.
        arguments: its arguments.
        launcher: command that starts the process, or several of them of which the first answers,
            and ends them when it is ended.
    """

    def __init__(self, module: str, *arguments: str, launcher: Sequence[str] = ()) -> None:
        self._command, self._launcher = (module, *arguments), tuple(launcher)
        self._process: subprocess.Popen[str] | None = None
        self._parent = os.getpid()
        self._replies: queue.Queue[str | None] = queue.Queue()
        self._errors: IO[bytes] | None = None
        # The length of its error output before the current line.
        self._said_before = 0

    @property
    def is_running(self) -> bool:
        """Return whether the process was started and not stopped since."""
        return self._process is not None

    def start(self) -> str:
        """Start the process; return why it cannot work, or an empty string."""
        self.stop()
        self._parent, self._said_before = os.getpid(), 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process.
        self._process = subprocess.Popen(
            [*self._launcher, *safe_path.command(*self._command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=safe_path.environment(),
            # Ctrl-C is for this process; a launcher would end what it started.
            start_new_session=bool(self._launcher),
        )
        self._replies = queue.Queue()
        threading.Thread(
            target=_read,
            args=(self._process.stdout, self._replies, self._errors if self._launcher else None),
            daemon=True,
        ).start()
        try:
            return str(self.reply(START_SECONDS)["absent"])
        except TimeoutError:
            self.stop()
            return f"the process did not start within {START_SECONDS:g} s"
        except Died as death:
            return f"the process died while it started: {death}"

    def send(self, line: str) -> None:
        """Send a line to the process; raise :class:`Died` if it has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._errors is not None
        self._said_before = self._errors.seek(0, os.SEEK_END)
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def reply(self, seconds: float) -> dict[str, Any]:
        """Return the next reply.

        Raises:
            TimeoutError: if there is none within ``seconds``.
            Died: if the process has ended.
        """
        try:
            line = self._replies.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            raise self._died()
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        """End the process, if it is running; a fork of this one leaves it to its parent."""
        process, errors = self._process, self._errors
        self._process = self._errors = None
        if process is not None and self._parent == os.getpid():
            if self._launcher:
                _end(process)
            process.kill()
            with contextlib.suppress(OSError, ValueError):  # The input may be closed.
                process.communicate()
        if errors is not None:
            errors.close()

    def close(self) -> None:
        """End the process, which has answered; what a launcher started ends by itself."""
        process = self._process
        if process is not None and self._launcher and self._parent == os.getpid():
            assert process.stdin is not None
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()
                process.wait(_END_SECONDS)
        self.stop()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _died(self) -> Died:
        """Stop what is left of the process; return its exit status and last output."""
        assert self._process is not None
        assert self._errors is not None
        status = self._process.wait()
        how = f"exit status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        self._errors.seek(self._said_before)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = " ".join(lines[-_LINES_SHOWN:])[:_STDERR_SHOWN]
        self.stop()
        return Died(f"{how}; its output: {said}" if said else how)


def _read(
    output: IO[str], replies: queue.Queue[str | None], others: IO[bytes] | None = None
) -> None:
    """Forward the replies; drop all other output, or write it into a file."""
    with contextlib.suppress(ValueError, OSError):  # stop() closed it.
        for line in output:
            if line.startswith("{"):
                replies.put(line)
            elif others is not None:
                os.write(others.fileno(), line.encode())
    replies.put(None)


def _end(launcher: subprocess.Popen[str]) -> None:
    """Have a launcher end what it started, then end what is left of its group."""
    launcher.terminate()
    try:
        launcher.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(launcher.pid, signal.SIGKILL)
