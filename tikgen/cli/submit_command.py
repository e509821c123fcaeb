"""The command submit: writes the script of a Slurm job, and submits it where that is asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tikgen.cli.common import Output, write_text
from tikgen.cli.output import say
from tikgen.errors import SubmissionError


def submit_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT.py",
            help="Script to run; or sweep, with arguments of `tikgen sweep`.",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the script.")
    ] = None,
    ranks: Annotated[int, typer.Option(metavar="N", help="Processes; for a sweep, workers.")] = 1,
    ranks_per_node: Annotated[
        int | None, typer.Option(metavar="N", help="Most processes on a node.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Nodes.")] = None,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time limit, as 90, 12:30:00 or 2-12.")
    ] = None,
    partition: Annotated[str | None, typer.Option(metavar="NAME", help="Partition.")] = None,
    account: Annotated[str | None, typer.Option(metavar="NAME", help="Account.")] = None,
    gpus_per_rank: Annotated[int, typer.Option(metavar="N", help="GPUs of each process.")] = 0,
    cpus_per_rank: Annotated[int, typer.Option(metavar="N", help="Cores of each process.")] = 1,
    stop_before: Annotated[
        float,
        typer.Option(
            metavar="MINUTES",
            help="Minutes before the time limit at which SIGTERM is sent; 0 for never.",
        ),
    ] = 5,
    requeue: Annotated[bool, typer.Option(help="Requeue the job after a checkpoint.")] = True,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job.")] = None,
    log: Annotated[
        str, typer.Option(metavar="FILE", help="Output file (%x job name, %j job number).")
    ] = "%x-%j.log",
    mpi: Annotated[
        str | None, typer.Option(metavar="TYPE", help="For srun --mpi, as pmix or pmi2.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="FILE", help="Python of the ranks; by default this one.")
    ] = None,
    setup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="Command to run before the script, as 'module load mpich'. Repeatable.",
        ),
    ] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="Another sbatch option, as --exclusive. Repeatable."),
    ] = None,
    output: Output = None,
    run: Annotated[bool, typer.Option("--run", help="Submit the job by sbatch.")] = False,
) -> None:
    """Write a Slurm script that runs a script on many processes, or a sweep on many workers.

    Options come before the script; what follows it goes to the script. Nothing is submitted
    without --run.
    """
    from tikgen.slurm.job import SWEEP, Job
    from tikgen.slurm.script import script_of, submit

    is_sweep = what == SWEEP
    if not is_sweep and not Path(what).is_file():
        told = "it is a folder" if Path(what).is_dir() else "there is no such file"
        raise SubmissionError(f"cannot run {what}: {told}")
    # Python takes what begins with a dash for an option.
    script = f"./{what}" if what.startswith("-") else what
    job = Job(
        words=(*([] if is_sweep else [script]), *(arguments or ())),
        is_sweep=is_sweep,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        nodes=nodes,
        time=time,
        partition=partition,
        account=account,
        gpus_per_rank=gpus_per_rank,
        cpus_per_rank=cpus_per_rank,
        stop_before=stop_before,
        requeue=requeue,
        name=name,
        log=log,
        mpi=mpi,
        python=python or sys.executable or "python",
        setup=tuple(setup or ()),
        further=tuple(sbatch or ()),
    )
    text = script_of(job)
    if output is not None:
        write_text(output, text)
        say(f"wrote {output}")
    elif not run:
        sys.stdout.write(text)
    if run:
        say(submit(text))
