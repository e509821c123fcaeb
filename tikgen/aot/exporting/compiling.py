"""Has the modules of an arch compiled by a process of its own."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikgen.aot.exporting.plan import ModulePlan
from tikgen.aot.exporting.template_kernels import core_arch
from tikgen.aot.exporting.waiting import reply_of
from tikgen.aot.running.devices import problem_with
from tikgen.children.process import ChildProcess, Died

_WORKER = "tikgen.aot.exporting.export_child"
_MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Compiled:
    """What came of a module.

    Attributes:
        capabilities: what the device must have.
        problem: what is wrong.
        kernel: the kernel in which that is wrong, if it is one alone.
    """

    capabilities: tuple[str, ...] = ()
    problem: str = ""
    kernel: str = ""


def compile_modules(
    arch: str,
    modules: Sequence[ModulePlan],
    folder: Path,
    tell: Callable[[ModulePlan, Compiled], None],
    stop: threading.Event,
) -> None:
    """Compile each module into its folder below ``folder``.

    Args:
        arch: Taichi's name for the arch.
        modules: what to compile.
        folder: folder of the bundle.
        tell: takes each module with what came of it.
        stop: is set once nobody waits for them.

    Raises:
        OSError: if the disk is full.
        Stopped: if ``stop`` is set meanwhile.
    """
    if not modules:
        return
    if absent := problem_with(arch):
        for module in modules:
            tell(module, Compiled(problem=f"it cannot be compiled and proved here: {absent}"))
        return
    with ChildProcess(_WORKER, core_arch(arch)) as process:
        absent = process.start()
        for module in modules:
            if not process.is_running and not absent:
                absent = process.start()
            tell(
                module, Compiled(problem=absent) if absent else _one(process, module, folder, stop)
            )


def _one(
    process: ChildProcess, module: ModulePlan, folder: Path, stop: threading.Event
) -> Compiled:
    target = folder / module.folder
    shutil.rmtree(target, ignore_errors=True)  # Of an attempt with a kernel that was refused.
    target.mkdir(parents=True)
    try:
        process.send(module.job(str(target)))
        reply = reply_of(process, _MOST_SECONDS, stop)
    except Died as death:
        return Compiled(problem=f"the process that compiled it died: {death}")
    except TimeoutError:
        process.stop()
        return Compiled(problem=f"compiling it took longer than {_MOST_SECONDS:g} s")
    if "full" in reply:
        raise OSError(reply["full"], os.strerror(reply["full"]))
    if "refused" in reply:
        problem = f"Taichi cannot compile it: {reply['refused']}"
        return Compiled(problem=problem, kernel=reply["kernel"])
    return Compiled(capabilities=tuple(reply["capabilities"]))
