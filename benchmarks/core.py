"""Measures what the core must reach, each number beside that of a peer in the same run.

``python benchmarks/core.py`` runs every part in a process of its own, prints the table and
writes it into docs/performance.md.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from page import Row, write_page
from timing import compare

HERE = Path(__file__).parent
PROCESSES = 7
VARIANTS = 2000


def main() -> None:
    """Run every part, each in a process of its own; print and write the table."""
    rows = []
    for part in PARTS:
        print(f"measuring {part} ...", file=sys.stderr, flush=True)
        rows += [Row(**row) for row in _in_process(part)]
    write_page(HERE.parent / "docs" / "performance.md", "core", rows)
    sys.exit(not all(row.met for row in rows))


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
    names = _in_process("templates")
    with tempfile.TemporaryDirectory() as store:
        for state in ("empty", "filled"):
            medians = _in_process("new_variants", store=store)
            yield Row(
                f"`build` of a new variant, store {state}, {_over(names, medians)}",
                statistics.median(medians),
                most=3e-3,
            )
    medians = [
        statistics.median(_in_process("first_build", name)[0] for _ in range(3)) for name in names
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
        # Vulkan copies host arrays to the device and back at each launch, whoever launches.
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
    alone, after = zip(*(_in_process("imports") for _ in range(PROCESSES)), strict=True)
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


def _in_process(part: str, *arguments: str, store: str | None = None) -> list[Any]:
    """Return what a part yields in a process of its own, with a store of its own."""
    command = [sys.executable, __file__, part, *arguments]
    with tempfile.TemporaryDirectory() as fresh:
        environment = os.environ | {"TIKGEN_CACHE_DIR": store or fresh}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, env=environment, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])  # Taichi prints its name above.


PARTS = ("memo_hit", "cold_build", "rendering", "launch_cpu", "launch_vulkan", "import_time")

if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        found = globals()[sys.argv[1]](*sys.argv[2:])
        print(json.dumps([asdict(item) if isinstance(item, Row) else item for item in found]))
