"""Measures reloading, watching and tracing, each number beside that of a peer in the same run.

``python benchmarks/live.py`` runs every part in a process of its own, prints the table and
writes it into docs/performance.md.
"""

import os
import shutil
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
RELOADS = 40
LAUNCHES = 10_000
ROUNDS = 24
SAVES = 25

TEXT = """
@ti.kernel
def step(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        y[i] = x[i] * 1.0
"""


def identical_reload() -> Iterable[Row]:
    """Load the text that is loaded already, alone and with the launch that follows."""
    import numpy as np
    import taichi as ti
    import taichi_meta

    from tikgen.live import Loader

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    ours, theirs = Loader(), taichi_meta.MetaKernelLoader()
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)

    def our_result() -> None:
        ours.load(TEXT, "ours").step(x, y)

    def their_result() -> None:
        theirs.compile_and_load(TEXT, "step")
        theirs["step"].step(x, y)

    our_result()
    times = compare(
        {
            "ours": lambda: ours.load(TEXT, "ours"),
            "theirs": lambda: theirs.compile_and_load(TEXT, "step"),
        }
    )
    peer = "taichi-meta 0.1.1"
    yield Row("identical text reloaded", times["ours"], peer, times["theirs"], most_ratio=1 / 50)
    times = compare({"ours": our_result, "theirs": their_result}, most_calls=50)
    yield Row("identical text reloaded and launched", times["ours"], peer, times["theirs"])


def changed_reload() -> Iterable[Row]:
    """Load a text that never was there before, up to the first result, in turns."""
    import numpy as np
    import taichi as ti
    import taichi_meta

    from tikgen.live import Loader

    ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
    ours, theirs = Loader(), taichi_meta.MetaKernelLoader()
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(2 * RELOADS):
        text = TEXT.replace("1.0", f"{number + 2}.0")
        name = "ours" if number % 2 else "theirs"
        start = time.perf_counter()
        if name == "ours":
            ours.load(text, "ours").step(x, y)
        else:
            theirs.compile_and_load(text, "step")
            theirs["step"].step(x, y)
        seconds[name].append(time.perf_counter() - start)
        assert y[0] == number + 2
    yield Row(
        "changed text to first result, cpu",
        statistics.median(seconds["ours"][1:]),
        "taichi-meta 0.1.1",
        statistics.median(seconds["theirs"][1:]),
        most_more=2e-3,
    )


def watch_reaction() -> Iterable[Row]:
    """Save a template's text and a macro file that it imports, until the kernels are rebuilt."""
    import numpy as np
    import taichi as ti

    import tikgen

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        template = Path(shutil.copytree(HERE / "templates" / "axpy", Path(folder) / "axpy"))
        macros = template / "numbers.j2"
        macros.write_text("{% macro number() %}{% endmacro %}\n")
        text = '#% from "axpy/numbers.j2" import number\n' + (template / "kernel.py.j2").read_text()
        (template / "kernel.py.j2").write_text(text)
        kernel = tikgen.build(tikgen.load_template(template))
        x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
        kernel(x, y, 1.0, 2.0)
        for file, what in ((template / "kernel.py.j2", "the text"), (macros, "a macro file")):
            reactions = []
            with tikgen.live.watch(kernel, on_change=lambda _: None) as watcher:
                original = file.read_text()
                for number in range(SAVES):
                    time.sleep(0.3)
                    start = time.perf_counter()
                    file.write_text(f"{original}\n{{# {number} #}}\n")
                    change = watcher.wait(10)
                    assert change is not None and change.ok, change
                    reactions.append(time.perf_counter() - start)
            yield Row(
                f"from saving {what} of a template to its kernels rebuilt, Taichi's compiler aside",
                statistics.median(reactions),
                most=0.2,
            )


def tracing() -> Iterable[Row]:
    """Launch ten thousand times under a trace and without."""
    import numpy as np
    import taichi as ti

    import tikgen

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    kernel = tikgen.build(tikgen.load_template(HERE / "templates" / "axpy"))
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    bound = kernel.bind(x, y, 1.0, 2.0)
    raw = kernel.function
    calls: dict[str, tuple[Callable[[], object], bool]] = {
        "`kernel(x, y, 1.0, 2.0)`": (lambda: kernel(x, y, 1.0, 2.0), False),
        "`bound()`": (bound, False),
        "a plain `ti.kernel`, `all_kernels=True`": (lambda: raw(x, y, 1.0, 2.0), True),
    }
    for what, (call, all_kernels) in calls.items():
        _launch_often(call)
        without, under = [], []
        for number in range(ROUNDS):
            for traced in (number % 2 == 0, number % 2 == 1):
                if traced:
                    with tikgen.trace(all_kernels=all_kernels):
                        under.append(_launch_often(call))
                else:
                    without.append(_launch_often(call))
        yield Row(
            f"{LAUNCHES:,} launches of {what} under a trace",
            statistics.median(under),
            "the same without a trace",
            statistics.median(without),
            most_ratio=1.05,
        )


def _launch_often(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    return time.perf_counter() - start


def no_trace() -> Iterable[Row]:
    """Launch plain Taichi kernels where tikgen is imported and where it is not."""
    script = str(Path(__file__))
    times: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(PROCESSES):
        for which, found in times.items():
            found += in_process(script, "plain_launches", which)
    yield Row(
        f"{LAUNCHES:,} launches of a plain `ti.kernel`, tikgen imported and nobody tracing",
        statistics.median(times["with"]),
        "tikgen not imported",
        statistics.median(times["without"]),
    )


def plain_launches(which: str) -> Iterable[float]:
    """Time plain launches in this process; its second thousand of a thousand each."""
    if which == "with":
        import tikgen
        import tikgen.pipeline.events  # Which comes with the first kernel that is built.

        assert tikgen.pipeline.events
    import numpy as np
    import taichi as ti

    ti.init(arch=ti.cpu, log_level=ti.ERROR)

    @ti.kernel
    def fill(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):  # type: ignore[valid-type]
        ti.loop_config(serialize=True)
        for i in range(x.shape[0]):
            x[i] = 1.0

    x = np.ones(64, np.float32)
    _launch_often(lambda: fill(x))
    yield _launch_often(lambda: fill(x))


def memory() -> Iterable[Row]:
    """Reload a module that holds 80 MB, and one whose text changes, with a launch each."""
    yield Row(
        "memory grown by 10 reloads of a module that holds 80 MB",
        in_process(__file__, "large_module")[0],
        most=100.0,
        unit="MB",
    )
    yield Row(
        "memory that Taichi keeps of each reload with a launch, until `ti.init`",
        in_process(__file__, "many_reloads")[0],
        unit="kB",
    )


def large_module() -> Iterable[float]:
    """Return by how many MB this process grows."""
    import psutil
    import taichi as ti

    from tikgen.live import Loader

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    loader, process = Loader(), psutil.Process()
    loader.load(TEXT, "warm")
    before = process.memory_info().rss
    for number in range(10):
        text = f"held = np.full(20_000_000, {number}, np.float32)\n" + TEXT
        loader.load(text, "large")
    yield (process.memory_info().rss - before) / 1e6


def many_reloads() -> Iterable[float]:
    """Return by how many kB this process grows with each reload."""
    import numpy as np
    import psutil
    import taichi as ti

    from tikgen.live import Loader

    ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
    loader, process = Loader(), psutil.Process()
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    grown = []
    for number in range(300):
        if number % 100 == 0:
            grown.append(process.memory_info().rss)
        loader.load(TEXT.replace("1.0", f"{number}.0"), "step").step(x, y)
    grown.append(process.memory_info().rss)
    yield (grown[-1] - grown[1]) / 200 / 1e3


PARTS = (
    "identical_reload",
    "changed_reload",
    "watch_reaction",
    "tracing",
    "no_trace",
    "memory",
)

if __name__ == "__main__":
    os.environ.setdefault("ENABLE_TAICHI_HEADER_PRINT", "False")
    run_parts("live", PARTS, globals())
