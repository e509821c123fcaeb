"""Has the modules of an arch compiled by a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tikgen.aot.making.plan import ModulePlan
from tikgen.aot.making.template_kernels import core_arch
from tikgen.child_process import ChildProcess, Died

_WORKER = "tikgen.aot.making.export_child"
_MOST_SECONDS = 600.0


@dataclass(frozen=True)
class Compiled:
    """What came of a module: what the device must have, or what is wrong."""

    capabilities: tuple[str, ...] = ()
    problem: str = ""


def compile_modules(
    arch: str,
    modules: Sequence[ModulePlan],
    folder: Path,
    tell: Callable[[ModulePlan, Compiled], None],
) -> None:
    """Compile each module into its folder below ``folder``.

    Args:
        arch: Taichi's name for the arch.
        modules: what to compile.
        folder: folder of the bundle.
        tell: takes each module with what came of it.
    """
    if not modules:
        return
    with ChildProcess(_WORKER, core_arch(arch)) as process:
        absent = process.start()
        for module in modules:
            if not process.is_running and not absent:
                absent = process.start()
            tell(module, Compiled(problem=absent) if absent else _one(process, module, folder))


def _one(process: ChildProcess, module: ModulePlan, folder: Path) -> Compiled:
    target = folder / module.folder
    target.mkdir(parents=True)
    try:
        process.send(module.job(str(target)))
        reply = process.reply(_MOST_SECONDS)
    except Died as death:
        return Compiled(problem=f"the process that compiled it died: {death}")
    except TimeoutError:
        process.stop()
        return Compiled(problem=f"compiling it took longer than {_MOST_SECONDS:g} s")
    if "refused" in reply:
        return Compiled(problem=f"Taichi cannot compile it: {reply['refused']}")
    return Compiled(capabilities=tuple(reply["capabilities"]))
