"""A process that runs the cases of one arch, and what its death means."""

from __future__ import annotations

import time

from tikgen.child_process import ChildProcess, Died
from tikgen.verification.case import Case, Outcome

_WORKER = "tikgen.verification.worker"


class ArchProcess(ChildProcess):
    """Runs cases on one arch in a process of its own, which is started anew when it dies.

    Args:
        arch: the arch.
        timeout: seconds that a case may take.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        super().__init__(_WORKER, arch)
        self.arch = arch
        self.timeout = timeout

    def run(self, case: Case) -> Outcome:
        """Return what came of ``case``; a crash and a time-out are outcomes as well."""
        if not self.is_running:
            problem = self.start()
            if problem:
                return Outcome("error", f"{self.arch} worked before, and does not now: {problem}")
        digest, until = "", time.monotonic() + self.timeout
        try:
            self.send(case.line)
            reply = self.reply(self.timeout)
            if "built" in reply:
                digest = reply["built"]
                reply = self.reply(until - time.monotonic())
        except TimeoutError:
            self.stop()
            message = f"the process did not answer within {self.timeout:g} s"
            return Outcome("timeout", message, digest)
        except Died as death:
            return Outcome("crash", f"the process died: {death}", digest)
        return Outcome(**reply)
