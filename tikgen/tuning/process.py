"""The process that measures candidates on one arch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from tikgen.children.job_process import JobProcess
from tikgen.tuning.job import Job, Measurement

# Making data for large arrays and running their reference, once for a problem.
PREPARE_SECONDS = 300.0


class MeasuringProcess(JobProcess):
    """Measures on one arch in a process of its own, which is started again after it died.

    Args:
        arch: the arch.
        timeout: seconds that a candidate may take to compile, to be verified and to be timed.
        module: what the process runs.
        arguments: its arguments, behind the arch.
        launcher: command that starts it, as of :class:`~tikgen.children.process.ChildProcess`.
    """

    activities: ClassVar = {
        "built": "while it made its data",
        "prepared": "while it compiled",
        "compiled": "while it ran",
    }

    def __init__(
        self,
        arch: str,
        timeout: float,
        *,
        module: str = "tikgen.tuning.worker",
        arguments: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        super().__init__(module, arch, *arguments, timeout=timeout, launcher=launcher)

    def run(self, job: Job, baseline: Job | None = None) -> Measurement:
        """Return the :func:`~tikgen.tuning.measuring.measure` of a job in the process."""
        line = json.dumps([j.line for j in (job, baseline) if j is not None])
        limits = {"built": PREPARE_SECONDS, "prepared": self.timeout}
        return Measurement(**self.answer(line, self.timeout, limits))
