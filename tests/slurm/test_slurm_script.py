"""Scripts for Slurm: what they ask for, what they run, and what is refused."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ranks
from tikgen.cli import app
from tikgen.errors import SubmissionError
from tikgen.slurm.job import Job, seconds_of
from tikgen.slurm.script import script_of

NASTY = ["a b", "$(touch hacked)", "`touch hacked`", "'; touch hacked; '", "two\nlines", "-n", ""]
# Says how it was started, runs the command, and takes what sbatch gives.
FAKES = {
    "srun": 'echo "$@" >srun.words\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"',
    "scontrol": 'echo "$@" >scontrol.words',
    "sbatch": 'cat >sbatch.text\necho "Submitted batch job 7"',
}


def directives(script: str) -> dict[str, str]:
    """Return the options of sbatch in a script."""
    found = re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", script, re.MULTILINE)
    assert len(found) == script.count("#SBATCH")
    return dict(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with commands of Slurm in front of all others."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name, text in FAKES.items():
        (commands / name).write_text(f"#!/bin/sh\n{text}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(commands), os.environ["PATH"]]))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submit(*words: str) -> Any:
    return CliRunner().invoke(app, ["submit", *words])


def test_a_script_asks_for_what_is_said(folder: Path) -> None:
    (folder / "heat.py").touch()
    words = "--ranks 10 --ranks-per-node 4 --time 2:00:00 --partition gpu,long --account me "
    words += "--gpus-per-rank 1 --cpus-per-rank 6 --stop-before 2.5 --sbatch --exclusive "
    words += "--sbatch --mem=20G --mpi pmix heat.py --ranks 3"
    done = submit(*words.split())
    assert done.exit_code == 0, done.output
    assert directives(done.stdout) == {
        "job-name": "heat",
        "output": "%x-%j.log",
        "open-mode": "append",
        "nodes": "3",
        "ntasks": "10",
        "ntasks-per-node": "4",
        "cpus-per-task": "6",
        "gpus-per-task": "1",
        "time": "2:00:00",
        "partition": "gpu,long",
        "account": "me",
        "signal": "TERM@150",
        "requeue": "",
        "exclusive": "",
        "mem": "20G",
    }
    python = shlex.quote(sys.executable)
    assert f"\n    srun --wait=60 --mpi=pmix {python} heat.py --ranks 3\n" in done.stdout
    assert "\nexport TI_CPU_MAX_NUM_THREADS=6\n" in done.stdout


def test_what_is_not_said_is_left_to_slurm() -> None:
    made = script_of(Job(("heat.py",), stop_before=0, requeue=False))
    found = directives(made)
    assert {"ntasks", "cpus-per-task", "no-requeue"} <= set(found)
    assert not {"nodes", "ntasks-per-node", "gpus-per-task", "time", "partition"} & set(found)
    assert "signal" not in found
    assert "scontrol" not in made


@pytest.mark.parametrize(
    "job",
    [
        Job(("heat.py", *NASTY), setup=("module load mpich", "ulimit -c 0"), python="/a b/python"),
        Job(("map", "-p", "expr=z = a*x", "--results", "a b"), is_sweep=True, mpi="pmi2"),
        Job(("map", *NASTY), is_sweep=True, requeue=False, stop_before=0),
        Job(("map", *NASTY, "--ranks", "1"), is_sweep=True, requeue=False, mpi="pmix"),
    ],
)
def test_bash_reads_the_script(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(script_of(job))
    done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text().startswith("#!/bin/bash\n")


@pytest.mark.parametrize("status", [0, 3, 75])
def test_the_script_runs_the_program_and_goes_back_into_the_queue(
    status: int, folder: Path
) -> None:
    script = folder / "it's mine.py"
    script.write_text(
        "import sys\nopen('said', 'w').write(repr(sys.argv[1:]))\nsys.exit(int(sys.argv[1]))"
    )
    setup = ["--setup", "echo first >setup"]
    done = submit("-o", "job.sh", "--ranks", "2", *setup, str(script), str(status), *NASTY)
    assert (done.exit_code, done.output) == (0, "wrote job.sh\n")
    ran = subprocess.run(["bash", "job.sh"], capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stderr
    assert (folder / "said").read_text() == repr([str(status), *NASTY])
    assert (folder / "setup").read_text() == "first\n"
    assert (folder / "scontrol.words").exists() == (status == 75)
    if status == 75:
        assert (folder / "scontrol.words").read_text() == "requeue 7\n"
    assert not (folder / "hacked").exists()


def test_bash_waits_where_sigterm_comes_to_it_too(folder: Path) -> None:
    script = folder / "slow.py"
    script.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "pathlib.Path('started').touch()\ntime.sleep(60)\n"
    )
    (folder / "job.sh").write_text(script_of(Job((str(script),), python=sys.executable)))
    job = subprocess.Popen(["bash", "job.sh"], start_new_session=True)
    until_there_is(folder / "started", job)
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(60) == 75
    assert (folder / "scontrol.words").read_text() == "requeue 7\n"


# Says that it runs; it listens to no port, and only the sweep ends by itself.
STANDS_FOR_PYTHON = """#!/bin/sh
touch "ran-${2##*.}"
[ "$2" = tikgen ] || exec sleep 600
"""


def until_there_is(path: Path, job: subprocess.Popen[bytes]) -> None:
    """Wait until a job has made a file."""
    while not path.exists():
        assert job.poll() is None
        time.sleep(0.01)


SWEEP = ("map", "--results", "a")
SETUP = ("touch setup", "while [ ! -e go ]; do sleep 0.01; done")


@pytest.mark.parametrize(
    ("words", "setup", "begun", "status"),
    [
        (("-m", "tikgen"), SETUP, "setup", 75),
        (SWEEP, SETUP, "setup", 130),
        ((*SWEEP, "--ranks", "1"), SETUP, "setup", 130),
        (SWEEP, (), "ran-dask_worker", 130),
    ],
)
def test_sigterm_before_the_work_has_started_is_not_lost(
    words: tuple[str, ...], setup: tuple[str, ...], begun: str, status: int, folder: Path
) -> None:
    (folder / "python").write_text(STANDS_FOR_PYTHON)
    (folder / "python").chmod(0o755)
    job = Job(words, is_sweep=status == 130, python="./python", setup=setup)
    (folder / "job.sh").write_text(script_of(job))
    running = subprocess.Popen(["bash", "job.sh"], stdout=subprocess.DEVNULL)
    until_there_is(folder / begun, running)
    running.send_signal(signal.SIGTERM)
    (folder / "go").touch()
    assert running.wait(30) == status
    assert not (folder / "ran-tikgen").exists()
    assert (folder / "scontrol.words").read_text() == "requeue 7\n"


def test_nothing_is_submitted_unless_it_is_said(folder: Path) -> None:
    (folder / "heat.py").touch()
    printed = submit("heat.py").stdout
    assert submit("-o", "job.sh", "heat.py").exit_code == 0
    assert (folder / "job.sh").read_text() == printed
    assert not (folder / "sbatch.text").exists()
    assert submit("--run", "heat.py").stdout == "Submitted batch job 7\n"
    assert (folder / "sbatch.text").read_text() == printed


def test_what_sbatch_says_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "heat.py").touch()
    (folder / "commands" / "sbatch").write_text("#!/bin/sh\necho no such partition >&2\nexit 1\n")
    done = submit("--run", "heat.py")
    assert (done.exit_code, done.stderr.strip()) == (
        2,
        "error: sbatch refuses the script: no such partition",
    )
    monkeypatch.setenv("PATH", str(folder))
    done = submit("--run", "heat.py")
    assert done.exit_code == 2
    assert "there is no sbatch here" in done.stderr


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("cannot run no.py: there is no such file", "no.py"),
        ("cannot run .: it is a folder", "."),
        ("--ranks takes 1 or more; got 0", "--ranks 0 heat.py"),
        ("--ranks-per-node takes 1 or more; got -1", "--ranks-per-node -1 heat.py"),
        ("--gpus-per-rank takes 0 or more", "--gpus-per-rank -1 heat.py"),
        ("--cpus-per-rank takes 1 or more", "--cpus-per-rank 0 heat.py"),
        ("2 ranks do not need 3 nodes", "--ranks 2 --nodes 3 heat.py"),
        ("room for 6 ranks, not for 8", "--ranks 8 --nodes 3 --ranks-per-node 2 heat.py"),
        ("--partition takes letters, digits", "--partition a;b heat.py"),
        ("--account takes letters, digits", "--account $(me) heat.py"),
        ("--name takes letters, digits", "--name 'x heat.py"),
        ("--log takes letters, digits", "--log a>b heat.py"),
        ("--mpi takes letters, digits", "--mpi a|b heat.py"),
        ("--sbatch takes an option as --name", "--sbatch exclusive heat.py"),
        ("--time takes minutes, as 90,", "--time soon heat.py"),
        ("--time takes minutes, as 90,", "--time 0 heat.py"),
        (
            "minutes and seconds up to 59 after a colon, or UNLIMITED; got '12:99:00'",
            "--time 12:99:00 heat.py",
        ),
        ("with hours up to 23 after days", "--time 2-24 heat.py"),
        ("minutes and seconds up to 59", "--time 90:60 heat.py"),
        ("cannot be stopped 5 minutes before its end", "--time 5 heat.py"),
        ("--stop-before takes minutes from 0 to 1092", "--stop-before 2000 heat.py"),
        ("goes on with what --results FILE holds", "sweep map"),
        ("a scheduler of its own", "sweep map --results a --scheduler=tcp://a:1"),
        ("takes a template, as tikgen sweep does", "sweep"),
        ("say --ranks 8 before sweep", "--ranks 4 sweep map --results a --ranks 2 --ranks=8"),
    ],
)
def test_what_does_not_fit_is_refused(told: str, words: str, folder: Path) -> None:
    (folder / "heat.py").touch()
    done = submit(*words.split())
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
    assert not done.stdout


def test_a_setup_is_a_line() -> None:
    for line in ("", "a\nb"):
        with pytest.raises(SubmissionError, match="on one line"):
            Job(("heat.py",), setup=(line,))


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("1:30:15", 5415),
        ("2-12", 216000),
        ("2-12:30", 217800),
        ("2-0:0:7", 172807),
        ("UNLIMITED", math.inf),
        ("infinite", math.inf),
    ],
)
def test_times_are_those_of_slurm(time: str, seconds: float) -> None:
    assert seconds_of(time) == seconds
    assert directives(script_of(Job(("heat.py",), time=time)))["time"] == time


def test_a_signal_comes_a_second_before_the_end_at_least() -> None:
    for minutes, told in ((0.001, "TERM@1"), (0.026, "TERM@2"), (2.5, "TERM@150")):
        assert directives(script_of(Job(("heat.py",), stop_before=minutes)))["signal"] == told


def test_the_name_of_a_script_may_begin_with_a_dash(folder: Path) -> None:
    (folder / "-dash.py").write_text("import sys\nprint(sys.argv[1:])")
    done = submit("-o", "job.sh", "--", "-dash.py", "-x")
    assert done.exit_code == 0, done.output
    ran = subprocess.run(["bash", "job.sh"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "['-x']\n"), ran.stderr
    assert directives((folder / "job.sh").read_text())["job-name"] == "dash"


@pytest.mark.slow
def test_a_sweep_runs_on_workers_of_its_own(folder: Path) -> None:
    pytest.importorskip("distributed")
    words = "-p dim=2 -p order=[2,4] --shape 24 --rounds 1 --results a.jsonl -o a.csv"
    done = submit("-o", "job.sh", "sweep", "stencil", *words.split())
    assert done.exit_code == 0, done.output
    ran = subprocess.run(["bash", "job.sh"], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert len((folder / "a.csv").read_text().splitlines()) == 3
    assert "--nthreads" in (folder / "srun.words").read_text()
    assert not (folder / "scontrol.words").exists()


def test_a_sweep_on_ranks_starts_them_by_srun(folder: Path) -> None:
    words = "--no-requeue --ranks 4 --mpi pmix sweep map --ranks 1 --ranks 4"
    script = submit(*words.split(), "--param", "expr=y = 2*x").stdout
    launcher = "--launcher 'srun --kill-on-bad-exit=1 --mpi=pmix'"
    command = f"sweep map --ranks 1 --ranks 4 --param 'expr=y = 2*x' {launcher} &\n"
    assert command in script
    assert "distributed" not in script
    assert directives(script)["ntasks"] == "4"
    own = submit(*words.split(), "--launcher", "mpiexec").stdout
    assert "--launcher mpiexec &\n" in own and "srun" not in own


@pytest.mark.slow
def test_a_sweep_on_ranks_runs_as_a_job(folder: Path) -> None:
    mpiexec = ranks.mpiexec()
    (folder / "commands" / "srun").write_text(
        f'#!/bin/sh\nwhile [ "$1" != -n ]; do shift; done\nexec {shlex.quote(mpiexec)} "$@"\n'
    )
    words = "--param dim=1 --param scalars=dt --shape 64 --rounds 1 --results a.jsonl -o a.csv"
    words = f"--ranks 2 sweep update --ranks 1 --ranks 2 {words}"
    done = submit("-o", "job.sh", *words.split(), "--param", "equations=u' = u + dt*lap(u)")
    assert done.exit_code == 0, done.output
    ran = subprocess.run(["bash", "job.sh"], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert len((folder / "a.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_a_sweep_is_interrupted_by_sigterm_and_queued_again(folder: Path) -> None:
    pytest.importorskip("distributed")
    words = "-p dim=3 -p order=[2,4,6,8] -p unroll=[1,2,4] --shape 64 --results a.jsonl"
    assert submit("-o", "job.sh", "sweep", "stencil", *words.split()).exit_code == 0
    job = subprocess.Popen(["bash", "job.sh"], stdout=subprocess.DEVNULL)
    results = folder / "a.jsonl"
    while not (results.exists() and results.read_text().count("\n")):
        assert job.poll() is None
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    assert job.wait(120) == 130
    assert (folder / "scontrol.words").read_text() == "requeue 7\n"
