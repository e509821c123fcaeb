"""Compiles the modules of an arch in a separate process."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikgen.aot.exporting.export_plan import ModulePlan
from tikgen.aot.exporting.worker_process import WorkerProcess
from tikgen.machine.devices import core_arch, problem_with

_WORKER = "tikgen.aot.exporting.export_child"
_MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Compiled:
    """The outcome of compiling a module.

    Attributes:
        capabilities: what the device must have.
        problem: what is wrong, if anything.
        kernel: the only kernel in which that is wrong, if it is one.
    """

    capabilities: tuple[str, ...] = ()
    problem: str = ""
    kernel: str = ""


def compile_modules(
    arch: str,
    modules: Sequence[ModulePlan],
    folder: Path,
    report: Callable[[ModulePlan, Compiled], None],
    stop: threading.Event,
) -> None:
    """Compile each module into the bundle in ``folder``, and report its outcome.

    Raises:
        OSError: if the disk is full.
        Stopped: if ``stop`` is set meanwhile.
    """
    if absent := problem_with(arch):
        for module in modules:
            report(module, Compiled(problem=f"it cannot be compiled and proved here: {absent}"))
        return
    with WorkerProcess(
        _WORKER, core_arch(arch), doing="compilation", seconds=_MOST_SECONDS, stop=stop
    ) as process:
        for module in modules:
            target = folder / module.folder
            shutil.rmtree(target, ignore_errors=True)  # Of an attempt with a refused kernel.
            target.mkdir(parents=True)
            reply = process.answer(module.job(str(target)))
            if "full" in reply:
                raise OSError(reply["full"], os.strerror(reply["full"]))
            reply["capabilities"] = tuple(reply.get("capabilities", ()))
            report(module, Compiled(**reply))
