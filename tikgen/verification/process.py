"""The process that runs the cases of one arch."""

from __future__ import annotations

from tikgen.children.job_process import JobProcess
from tikgen.disk import TemporaryFolder
from tikgen.verification.case import Case, Outcome


class ArchProcess(JobProcess):
    """Runs cases on one arch in a process of its own, which is started again after it died.

    Args:
        arch: the arch.
        timeout: seconds that a case may take.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        # Not the process's own: it may be killed at any time.
        self._cache = TemporaryFolder("tikgen-verify-")
        super().__init__("tikgen.verification.worker", arch, str(self._cache.path), timeout=timeout)

    def run(self, case: Case, timeout: float | None = None) -> Outcome:
        """Return the outcome of a case; ``timeout`` is in seconds, the usual one where None."""
        answer = self.answer(case.line, self.timeout if timeout is None else timeout)
        if answer["kind"] == "crash" and case.container == "fenced":
            answer["message"] += (
                "; the kernel reads or writes outside an array or a workspace, or changes an input"
            )
        return Outcome(**answer)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._cache.remove()
