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
from tikgen.machine.devices import core_arch, host_arch, problem_with

_WORKER = "tikgen.aot.exporting.export_child"
_MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Compiled:
    """The outcome of compiling a module."""

    capabilities: tuple[str, ...] = ()  # Of the device, which it needs.
    problem: str = ""
    kernel: str = ""  # The kernel with the problem, if it is a single one.


def compile_modules(
    arch: str,
    modules: Sequence[ModulePlan],
    folder: Path,
    report: Callable[[ModulePlan, Compiled], None],
    stop: threading.Event,
) -> None:
    """Compile each module into the bundle in ``folder``, and report its outcome."""
    is_native = any(module.target is not None for module in modules)
    if absent := problem_with(host_arch() if is_native else arch):
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
