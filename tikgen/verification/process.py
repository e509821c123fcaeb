"""A process that runs the cases of one arch, and what its death means."""

from __future__ import annotations

import tempfile
import time

from tikgen.children.process import ChildProcess, Died
from tikgen.verification.case import Case, Outcome

_WORKER = "tikgen.verification.worker"


class ArchProcess(ChildProcess):
    """Runs cases on one arch in a process of its own, which is started anew when it dies.

    Args:
        arch: the arch.
        timeout: seconds that a case may take.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        # Not the process's own: it may be killed at any time.
        self._cache = tempfile.TemporaryDirectory(
            prefix="tikgen-verify-", ignore_cleanup_errors=True
        )
        super().__init__(_WORKER, arch, self._cache.name)
        self.arch = arch
        self.timeout = timeout

    def run(self, case: Case, timeout: float | None = None) -> Outcome:
        """Return what came of ``case``; a crash and a time-out are outcomes as well.

        Args:
            case: what to run.
            timeout: seconds that it may take, where that is not the usual time.
        """
        timeout = self.timeout if timeout is None else timeout
        if not self.is_running:
            problem = self.start()
            if problem:
                return Outcome("error", f"{self.arch} worked before, and does not now: {problem}")
        digest, until = "", time.monotonic() + timeout
        try:
            self.send(case.line)
            reply = self.reply(timeout)
            if "built" in reply:
                digest = reply["built"]
                reply = self.reply(until - time.monotonic())
        except TimeoutError:
            self.stop()
            message = f"the process did not answer within {timeout:g} s"
            return Outcome("timeout", message, digest)
        except Died as death:
            return Outcome("crash", f"the process died: {death}", digest)
        return Outcome(**reply)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._cache.cleanup()
