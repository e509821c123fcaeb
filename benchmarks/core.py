"""Measures what the core must reach, each number beside that of a peer in the same run.

``python benchmarks/core.py`` runs every part in a process of its own, prints the table and
writes it into docs/performance.md.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from page import Row
from parts import in_process, run_parts
from timing import compare

HERE = Path(__file__).parent
PROCESSES = 7
VARIANTS = 2000


def memo_hit() -> Iterable[Row]:
    """Build what was built before, against taichi-meta loading the identical source."""
    import taichi as ti
    from taichi_meta import MetaKernelLoader

    import tikgen

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    loader = MetaKernelLoader()
    text = tikgen.build("stencil", dim=3, dtype="f32").source.text
    times = compare(
        {
            "tikgen": lambda: tikgen.build("stencil", dim=3, dtype="f32"),
            "peer": lambda: loader.compile_and_load(text, "stencil"),
        }
    )
    yield Row(
        "`build` of a variant built before",
        times["tikgen"],
        "taichi-meta 0.1.1, `compile_and_load` of the same source",
        times["peer"],
        most=3e-6,
        most_ratio=1 / 50,
    )


def cold_build() -> Iterable[Row]:
    """Build variants that were never built, short of the first launch."""
    names = in_process(__file__, "templates")
    with tempfile.TemporaryDirectory() as store:
        for state in ("empty", "filled"):
            medians = in_process(__file__, "new_variants", store=store)
            yield Row(
                f"`build` of a new variant, store {state}, {_over(names, medians)}",
                statistics.median(medians),
                most=3e-3,
            )
    medians = [
        statistics.median(in_process(__file__, "first_build", name)[0] for _ in range(3))
        for name in names
    ]
    yield Row(
        "the first `build` of a process: template module, Jinja2, macros and all, "
        + _over(names, medians),
        statistics.median(medians),
    )


def _over(names: list[str], seconds: list[float]) -> str:
    each = ", ".join(f"{n} {1e3 * s:.3g}" for n, s in zip(names, seconds, strict=True))
    return f"median over {len(names)} templates (ms: {each})"


def templates() -> Iterable[str]:
    """Name the templates."""
    import tikgen

    yield from tikgen.list_templates()


def new_variants() -> Iterable[float]:
    """Time builds of new variants; the median of each template."""
    import tikgen
    from variants import variants

    for name in tikgen.list_templates():
        drawn = variants(name, 26)
        tikgen.build(name, **drawn.pop())
        yield statistics.median(_timed(lambda n=name, p=p: tikgen.build(n, **p)) for p in drawn)


def first_build(name: str) -> Iterable[float]:
    """Time the first build of this process."""
    import tikgen
    from variants import REQUIRED

    yield _timed(lambda: tikgen.build(name, **REQUIRED.get(name, {})))


def rendering() -> Iterable[Row]:
    """Render many variants and keep every source."""
    import psutil

    import tikgen
    from variants import variants

    names = tikgen.list_templates()
    drawn = [(name, p) for name in names for p in variants(name, -(-VARIANTS // len(names)))]
    while len(drawn) < VARIANTS:  # A template with few variants leaves room for the others.
        drawn += drawn[: VARIANTS - len(drawn)]
    process = psutil.Process()
    before = process.memory_info().rss
    sources = []
    seconds = _timed(lambda: sources.extend(tikgen.render(n, **p) for n, p in drawn[:VARIANTS]))
    grown = process.memory_info().rss - before
    yield Row(f"rendering {len(sources)} variants", seconds, most=4.0)
    yield Row("memory grown by then, every source kept", grown / 1e6, most=60.0, unit="MB")


def launch_cpu() -> Iterable[Row]:
    """Launch a small serial kernel on cpu."""
    yield from _launch("cpu", most_ratio=1 / 5)


def launch_vulkan() -> Iterable[Row]:
    """Launch the same kernel on Vulkan."""
    yield from _launch("vulkan", most_ratio=1 / 2)


def _launch(arch: str, most_ratio: float) -> Iterable[Row]:
    import numpy as np
    import taichi as ti

    import tikgen

    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, enable_fallback=False)
    kernel = tikgen.build(tikgen.load_template(HERE / "templates" / "axpy"))
    host = [np.ones(64, np.float32), np.zeros(64, np.float32)]
    device = [ti.ndarray(ti.f32, 64), ti.ndarray(ti.f32, 64)]
    peer = "plain Taichi call"
    for kind, (x, y) in (("NumPy arrays", host), ("`ti.ndarray`s", device)):
        bound = kernel.bind(x, y, a=1.0, b=2.0)
        times = compare(
            {
                "bound": bound,
                "set": lambda bound=bound: bound(a=2.0, b=3.0),
                "call": lambda x=x, y=y: kernel(x, y, 1.0, 2.0),
                "taichi": lambda x=x, y=y: kernel.function(x, y, 1.0, 2.0),
                "check": lambda x=x, y=y: kernel.signature.check((x, y, 1.0, 2.0)),
            },
            rounds=101,
            # A device that works on after the call gets so few that its queue never fills.
            most_calls=1000 if arch == "cpu" else 20,
            between=ti.sync,
        )
        taichi = times["taichi"]
        # Vulkan copies host arrays to the device and back at each launch, also without tikgen.
        copied = arch != "cpu" and x is host[0]
        limit = None if copied else most_ratio
        note = ", copied at each launch" if copied else ""
        where = f"{arch}, 2 {kind}{note}, 2 scalars"
        yield Row(f"`bound()`, {where}", times["bound"], peer, taichi, most_ratio=limit)
        yield Row(f"`bound(a=2.0, b=3.0)`, {where}", times["set"], peer, taichi)
        yield Row(f"`kernel(x, y, 1.0, 2.0)`, {where}", times["call"], peer, taichi)
        if arch == "cpu":  # They happen before Taichi, and cost the same on each arch.
            yield Row(f"argument checks of that call, 2 {kind}", times["check"], most=5e-6)


def import_time() -> Iterable[Row]:
    """Import tikgen where Taichi is imported already."""
    alone, after = zip(*(in_process(__file__, "imports") for _ in range(PROCESSES)), strict=True)
    yield Row(
        f"`import tikgen` after `import taichi`, median of {PROCESSES} processes",
        statistics.median(after),
        "`import taichi`",
        statistics.median(alone),
        most=0.150,
    )


def imports() -> Iterable[float]:
    """Time both imports in this process."""
    start = time.perf_counter()
    import taichi  # noqa: F401

    between = time.perf_counter()
    import tikgen  # noqa: F401

    yield between - start
    yield time.perf_counter() - between


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


PARTS = ("memo_hit", "cold_build", "rendering", "launch_cpu", "launch_vulkan", "import_time")

if __name__ == "__main__":
    run_parts("core", PARTS, globals())
