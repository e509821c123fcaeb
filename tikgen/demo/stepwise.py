"""Walks the pipeline one stage at a time and reports what each did and took."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import taichi as ti

from tikgen.errors import UnsupportedOnArch
from tikgen.pipeline.builder import choose
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import check_arch, load_source
from tikgen.pipeline.rendering import render_variant
from tikgen.taichi import runtime
from tikgen.template.base import Template
from tikgen.verification import Outcome, Trial

ARCHS = ("cpu", "cuda", "vulkan")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage:
    """One stage that was passed: its name, the seconds it took and what came of it."""

    name: str
    seconds: float
    result: str


Report = Callable[[Stage], None]


def start_taichi(arch: str, what: str) -> None:
    """Initialise Taichi on ``arch``, and on no other.

    Raises:
        UnsupportedOnArch: if the arch does not work on this machine; ``what`` needs it.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # Taichi prints there which arch it is on.
            ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, enable_fallback=False)
    except Exception as error:
        ti.reset()
        raise UnsupportedOnArch(
            what, arch, f"Taichi cannot start there ({error}); `tikgen doctor` tells what works"
        ) from None
    if runtime.current_arch() != arch:
        raise UnsupportedOnArch(
            what, arch, f"the variable TI_ARCH makes Taichi start on {runtime.current_arch()}"
        )


def build_in_stages(name: str | Template, report: Report, *, arch: str, **params: Any) -> Kernel:
    """Return a kernel as ``build`` does, past every memo, so that each stage really happens.

    Args:
        name: name of a template, or the template itself.
        report: is called after each stage.
        arch: arch whose default schedule is taken.
        params: problem and schedule parameters, and ``schedule`` and ``shape`` as ``build`` takes.

    Raises:
        TikgenError: as ``build`` does.
    """
    schedule, shape = params.pop("schedule", None), params.pop("shape", None)
    variant, record = timed(
        "resolve",
        report,
        lambda: choose(name, schedule, shape, arch, params),
        lambda chosen: f"{chosen[0].label}, {len(chosen[0].params)} parameters fixed",
    )
    check_arch(variant, arch)
    source = timed(
        "render",
        report,
        lambda: render_variant(variant),
        lambda source: f"{len(source.text.splitlines())} lines, digest {source.digest[:16]}",
    )
    return timed(
        "load",
        report,
        lambda: Kernel(load_source(source)).with_record(record),
        lambda kernel: f"{source.filename} takes {kernel.signature}; {_origin(kernel)}",
    )


def _origin(kernel: Kernel) -> str:
    return f"its schedule is {kernel.schedule_origin}"


def launch_in_stages(kernel: Kernel, report: Report, seed: int) -> Outcome:
    """Launch a kernel twice on small random arguments; return how it compares with its reference.

    Taichi must be initialised.

    Raises:
        KernelCompileError: if Taichi refuses the kernel.
    """
    template = kernel.template
    baked = dict(kernel.variant.sizes)
    sizes = baked or template.middle_sizes(kernel.problem)
    trial = Trial(
        template, kernel.params, sizes=sizes, seed=seed, data="uniform", baked=bool(baked)
    )
    shown = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    timed("compile", report, trial.run, lambda _: f"first launch, {shown or 'fixed shapes'}")
    return timed(
        "launch",
        report,
        trial.run,
        lambda outcome: (
            outcome.message
            or f"worst error is {outcome.worst:.1%} of what the tolerance model allows"
        ),
    )


def timed(
    name: str, report: Report, action: Callable[[], Result], describe: Callable[[Result], str]
) -> Result:
    """Return what ``action`` returns, and report how long it took as the stage ``name``."""
    start = time.perf_counter()
    result = action()
    report(Stage(name, time.perf_counter() - start, describe(result)))
    return result
