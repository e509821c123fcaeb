"""A rank that measures kernels: ``python -m tikgen.tuning.ranks.worker ARCH RANKS``.

Rank 0 reads a job and its baseline from each line, a JSON list, and answers as
:mod:`tikgen.tuning.worker` does; the others do what it reads. A rank that fails by itself answers
instead of rank 0, and all of them are started again.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

from tikgen.children.job import described
from tikgen.children.work import MOST_SECONDS, device_answers, start
from tikgen.errors import GridError, one_line
from tikgen.grid.gpus import choose_gpu
from tikgen.grid.processes import Processes, processes_of
from tikgen.pipeline.builder import clear
from tikgen.taichi import error_stream
from tikgen.tuning.job import Measurement, RanksJob
from tikgen.tuning.ranks.measuring import forget, measure
from tikgen.tuning.worker import JOBS_PER_INIT

# In which the process that asked ends all ranks.
_END_SECONDS = 60.0


def main() -> None:
    """Serve the arch named on the command line until the input of rank 0 ends."""
    arch, ranks = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    error_stream.may_redirect = False
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        processes = processes_of(None)
    except GridError as error:
        _tell(replies, {"absent": str(error)})
        return
    if processes.size != ranks:
        told = f"{ranks} processes were to be started, and MPI says that there are {processes.size}"
        _tell(replies, {"absent": f"{told}: the launcher is not that of the MPI of mpi4py"})
        return
    problem = _problem_of_start(arch)
    found = next(filter(None, processes.all(problem)), "")
    if processes.rank == 0:
        _tell(replies, {"absent": found})
    if not found:
        for number, line in enumerate(_lines(processes), 1):
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
            _answer(processes, replies, line)
            faulthandler.cancel_dump_traceback_later()
            if number % JOBS_PER_INIT == 0:
                forget()
                clear()
                _start(arch)


def _start(arch: str) -> None:
    # One thread for each rank, unless the environment says how many.
    start(arch, **{} if "TI_CPU_MAX_NUM_THREADS" in os.environ else {"cpu_max_num_threads": 1})


def _problem_of_start(arch: str) -> str:
    """Initialise Taichi; return why it cannot work, or an empty string."""
    try:
        if arch == "cuda":
            choose_gpu()
        _start(arch)
    except Exception as error:
        return one_line(error)
    return ""


def _lines(processes: Processes) -> Iterator[str]:
    """Yield the lines that rank 0 reads, on all ranks."""
    while True:
        line = sys.stdin.readline() if processes.rank == 0 else ""
        # What waits for this leaves the cores to others.
        if not processes.greatest([len(line)])[0]:
            return
        yield processes.shared(line)


def _answer(processes: Processes, replies: IO[str], line: str) -> None:
    def on_stage(name: str, note: str) -> None:
        if processes.rank == 0:
            _tell(replies, {"stage": name, "note": note})

    try:
        jobs = [RanksJob.from_line(text) for text in json.loads(line)]
        found = measure(processes, *jobs, on_stage=on_stage)
        broken = not found.ok and not all(processes.all(device_answers()))
    except Exception as error:
        # The others may wait for this rank, which nobody can end but the process that asked.
        failed = Measurement("error", f"rank {processes.rank}: {described(error)}")
        _tell(replies, {"stage": "broken", "note": ""})
        print(failed.line, file=replies, flush=True)
        time.sleep(_END_SECONDS)
        processes.end()
        return
    if processes.rank == 0:
        if broken:
            _tell(replies, {"stage": "broken", "note": ""})
        print(found.line, file=replies, flush=True)


def _tell(replies: IO[str], message: dict[str, Any]) -> None:
    print(json.dumps(message), file=replies, flush=True)


if __name__ == "__main__":
    main()
