"""Runs the pipeline stepwise, and reports the result and duration of each stage."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import taichi as ti

from tikgen.disk import why
from tikgen.errors import UnsupportedOnArch
from tikgen.pipeline.builder import choose
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import check_arch, load_source
from tikgen.pipeline.rendering import render_variant
from tikgen.taichi import runtime
from tikgen.template.base import Template
from tikgen.verification import Outcome, Trial

Result = TypeVar("Result")


@dataclass(frozen=True)
class Stage:
    """A completed stage: its name, duration in seconds and result."""

    name: str
    seconds: float
    result: str


Report = Callable[[Stage], None]


def start_taichi(arch: str, what: str) -> None:
    """Initialise Taichi on ``arch``, or raise UnsupportedOnArch, which names ``what`` needs it."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # Where Taichi prints its arch.
            ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, enable_fallback=False)
    except Exception as error:
        ti.reset()
        raise UnsupportedOnArch(
            what, arch, f"Taichi cannot start there ({error}); `tikgen doctor` shows what works"
        ) from None
    if runtime.current_arch() != arch:
        raise UnsupportedOnArch(
            what, arch, f"the variable TI_ARCH makes Taichi start on {runtime.current_arch()}"
        )


def build_in_stages(name: str | Template, report: Report, /, *, arch: str, **params: Any) -> Kernel:
    """Return a kernel as ``build`` does, but without its memo, and report each stage."""
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
        lambda kernel: (
            f"{source.filename} takes {kernel.signature}; its schedule is {kernel.schedule_origin}"
        ),
    )


def launch_in_stages(kernel: Kernel, report: Report, seed: int) -> Outcome:
    """Launch a kernel twice on small random arguments, and compare it with its reference.

    Taichi must be initialised. KernelCompileError is raised if it refuses the kernel.
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
    """Return the result of ``action``, and report it as the stage ``name``."""
    start = time.perf_counter()
    result = action()
    report(Stage(name, time.perf_counter() - start, describe(result)))
    return result


def drawn(picture: Path, draw: Callable[[], None]) -> str:
    """Draw a picture if matplotlib is installed; return a message."""
    try:
        draw()
    except ModuleNotFoundError:
        return "No picture: matplotlib is missing; pip install 'tikgen[plot]' brings it."
    except OSError as error:
        return f"No picture: cannot write {picture}: {why(error)}."
    return f"wrote {picture}"
