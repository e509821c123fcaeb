"""A process that measures candidates on one arch, and is replaced when it dies."""

from __future__ import annotations

import json
import time

from tikgen.children.process import ChildProcess, Died
from tikgen.tuning.job import Job, Measurement

_WORKER = "tikgen.tuning.worker"
# Making data for large arrays and running their reference, once for a problem.
PREPARE_SECONDS = 300.0


class MeasuringProcess(ChildProcess):
    """Measures on one arch in a process of its own, which is started anew when it dies.

    Args:
        arch: the arch.
        timeout: seconds that a candidate may take to compile, to be verified and to be timed.
    """

    def __init__(self, arch: str, timeout: float) -> None:
        super().__init__(_WORKER, arch)
        self.arch = arch
        self.timeout = timeout

    def run(self, job: Job, baseline: Job | None = None) -> Measurement:
        """Return what :func:`~tikgen.tuning.measuring.measure` found in the process.

        A crash and a time-out are outcomes as well; the next job then runs in a new process, and
        so it does where the device no longer answers.
        """
        if not self.is_running:
            problem = self.start()
            if problem:
                return Measurement("error", f"{self.arch} does not work here: {problem}")
        stage, digest, limit, is_broken = "started", "", self.timeout, False
        until = time.monotonic() + limit
        try:
            self.send(json.dumps([j.line for j in (job, baseline) if j is not None]))
            while "stage" in (reply := self.reply(until - time.monotonic())):
                stage = reply["stage"]
                if stage == "built":
                    digest, limit = reply["is"], PREPARE_SECONDS
                    until = time.monotonic() + limit
                elif stage == "prepared":
                    limit = self.timeout
                    until = time.monotonic() + limit
                elif stage == "broken":
                    is_broken = True
        except TimeoutError:
            self.stop()
            doing = {"built": "made its data", "prepared": "compiled"}.get(stage, "ran")
            message = f"the process did not answer within {limit:g} s while it {doing}"
            return Measurement("timeout", message, digest)
        except Died as death:
            killed = str(death).startswith("SIGKILL")
            why = "; probably out of memory" if killed else ""
            return Measurement("crash", f"the process died: {death}{why}", digest)
        except KeyboardInterrupt:
            self.stop()  # Its answer would be taken for that of the next job.
            raise
        if is_broken:
            self.stop()
        return Measurement(**reply)
