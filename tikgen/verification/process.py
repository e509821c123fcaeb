"""A process that runs the cases of one arch, and what its death means."""

from __future__ import annotations

import time
from types import TracebackType

from tikgen.child_process import ChildProcess, Died
from tikgen.verification.case import Case, Outcome

_WORKER = "tikgen.verification.worker"


class ArchProcess:
    """Runs cases on one arch in a process of its own, which is started anew when it dies.

    Args:
        arch: the arch.
        timeout: seconds that a case may take.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        self.arch = arch
        self.timeout = timeout
        self._child = ChildProcess(_WORKER, arch)

    def start(self) -> str:
        """Start the process; return why the arch does not work here, or an empty string."""
        return self._child.start()

    def run(self, case: Case) -> Outcome:
        """Return what came of ``case``; a crash and a time-out are outcomes as well."""
        if not self._child.is_running:
            problem = self.start()
            if problem:
                return Outcome("error", f"{self.arch} worked before, and does not now: {problem}")
        digest, until = "", time.monotonic() + self.timeout
        try:
            self._child.send(case.line)
            reply = self._child.reply(self.timeout)
            if "built" in reply:
                digest = reply["built"]
                reply = self._child.reply(until - time.monotonic())
        except TimeoutError:
            self.stop()
            message = f"the process did not answer within {self.timeout:g} s"
            return Outcome("timeout", message, digest)
        except Died as death:
            return Outcome("crash", f"the process died: {death}", digest)
        return Outcome(**reply)

    def stop(self) -> None:
        """End the process, if it runs."""
        self._child.stop()

    def __enter__(self) -> ArchProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
