"""Writes the script of a Slurm job, and hands it to sbatch where that is asked for."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tikgen.errors import SubmissionError, Terminated
from tikgen.slurm.job import Job

# The exit status of a sweep that was interrupted and goes on.
INTERRUPTED = 130
# Where a rank dies, the others end too.
_LAUNCHER = "srun --kill-on-bad-exit=1 "


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # What the shell reads passes the filter "words".
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["words"] = shlex.join
    return environment


def script_of(job: Job) -> str:
    """Return the script of a job."""
    name = "sweep.sh.j2" if job.is_sweep else "program.sh.j2"
    status = INTERRUPTED if job.is_sweep else Terminated.STATUS
    mpi = f"--mpi={job.mpi} " if job.mpi else ""
    launcher = ""
    if "--launcher" not in job.given:
        launcher = f" --launcher {shlex.quote((_LAUNCHER + mpi).strip())}"
    made = _environment().get_template(name)
    return made.render(job=job, status=status, mpi=mpi, launcher=launcher)


def submit(script: str) -> str:
    """Give a script to sbatch; return what it says.

    Raises:
        SubmissionError: if there is no sbatch here, or it refuses the script.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise SubmissionError("there is no sbatch here; write the script and run it where Slurm is")
    done = subprocess.run([sbatch], input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise SubmissionError(f"sbatch refuses the script: {told}")
    return done.stdout.strip()
