"""The process that measures candidates on one arch: ``python -m tikgen.tuning.worker ARCH``.

It reads a job and its baseline from each line, a JSON list, and answers with the stages that it
reaches and with one measurement.
"""

from __future__ import annotations

import json
import sys

from tikgen.children.work import Tell, device_answers, is_spent, serve
from tikgen.pipeline.builder import clear
from tikgen.tuning.job import Job
from tikgen.tuning.measuring import measure

JOBS_PER_INIT = 100


def main() -> None:
    """Serve the arch named on the command line until the input ends."""
    serve(sys.argv[1], _answer, lines_per_init=JOBS_PER_INIT, forget=clear)


def _answer(line: str, tell: Tell) -> str:
    jobs = [Job.from_line(text) for text in json.loads(line)]
    found = measure(*jobs, on_stage=lambda name, note: tell({"stage": name, "note": note}))
    if not found.ok and not device_answers():
        tell({"stage": "broken", "note": ""})
    if is_spent():
        tell({"stage": "spent", "note": ""})
    return found.line


if __name__ == "__main__":
    main()
