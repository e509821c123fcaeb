"""The process that runs jobs on one arch, and is replaced when it dies."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tikgen.children.process import ChildProcess, Died
from tikgen.errors import TemplateChanged


class JobProcess(ChildProcess):
    """Runs jobs on one arch in a process of its own, which is started again after it died.

    The process answers each line with the fields of an outcome. Before, it may report stages,
    as ``{"stage": name, "note": text}``: ``"built"``, with the digest of the kernel;
    ``"broken"``, where its device no longer answers; and ``"spent"``, where it can do no more jobs.
    After either of the last two another process takes its place.

    Args:
        module: the module to run.
        arch: the arch, which is its first argument.
        arguments: its further arguments.
        timeout: seconds that a job may take.
        launcher: command that starts it, as of :class:`ChildProcess`.
    """

    # What a process does after each stage, for the message about a timeout.
    activities: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        module: str,
        arch: str,
        *arguments: str,
        timeout: float,
        launcher: Sequence[str] = (),
    ) -> None:
        super().__init__(module, arch, *arguments, launcher=launcher)
        self.arch = arch
        self.timeout = timeout

    def answer(
        self, line: str, timeout: float, limits: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """Return the fields of the outcome of a job; a crash and a timeout are outcomes as well.

        Raises TemplateChanged where the process reads other files of the template.

        Args:
            line: the job.
            timeout: seconds that it may take.
            limits: seconds that it may take from a stage on.
        """
        if not self.is_running:
            problem = self.start()
            if problem:
                return {"kind": "error", "message": f"{self.arch} does not work here: {problem}"}
        digest = doing = ""
        is_last, until = False, time.monotonic() + timeout
        try:
            self.send(line)
            while "stage" in (reply := self.reply(until - time.monotonic())):
                stage = reply["stage"]
                doing = self.activities.get(stage, doing)
                digest = reply["note"] if stage == "built" else digest
                is_last = is_last or stage in ("broken", "spent")
                if limits is not None and stage in limits:
                    timeout = limits[stage]
                    until = time.monotonic() + timeout
        except TimeoutError:
            self.stop()
            message = f"the process did not answer within {timeout:g} s{doing and f' {doing}'}"
            return {"kind": "timeout", "message": message, "digest": digest}
        except Died as death:
            # The system kills a process that takes too much memory.
            why = "; probably out of memory" if str(death).startswith("SIGKILL") else ""
            message = f"the process died: {death}{why}"
            return {"kind": "crash", "message": message, "digest": digest}
        except KeyboardInterrupt:
            self.stop()  # The next job would get the answer to this one.
            raise
        if is_last:
            self.stop()
        if reply["kind"] == "changed":
            raise TemplateChanged(reply["message"])
        return reply
