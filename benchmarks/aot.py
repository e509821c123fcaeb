"""Measures bundles: exporting and loading them, their first result, and their launches.

``python benchmarks/aot.py`` runs every part in a process of its own, prints the table and writes
it into docs/performance.md: on the processor, or with TIKGEN_TEST_ARCH=cuda on a GPU.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from page import Row
from parts import run_parts
from timing import compare

PROCESSES = 5
ON_GPU = os.environ.get("TIKGEN_TEST_ARCH") == "cuda"
# Archs of bundles, and what tikgen and Taichi call them.
ARCHS = {"cuda" if ON_GPU else "x64": "cuda" if ON_GPU else "cpu", "vulkan": "vulkan"}
MAIN, MAIN_INIT = next(iter(ARCHS.items()))
# What a small and a large kernel are, and how either is called: shapes of arrays, and numbers.
KERNELS = {
    "stencil": ("stencil_dim3_f32_order2_interior", {"dim": 3}, ((24, 24, 24),) * 2),
    "gemm": ("gemm_nn_f32", {}, (*((32, 32),) * 3, 1.0, 0.0)),
}

# Each prints a line once it has its first result. The peer is the same kernel as plain Taichi.
FROM_BUNDLE = """
import sys
import time
import tikgen.aot
path, arch, name, shapes, numpy_first = sys.argv[1:]
if numpy_first == "yes":
    import numpy
began = time.perf_counter()
runtime = tikgen.aot.load(path, arch)
import numpy as np
values = [np.ones(v, np.float32) if isinstance(v, tuple) else v for v in eval(shapes)]
loaded = time.perf_counter()
runtime.kernels[name](*values)
runtime.sync()
done = time.perf_counter()
print(f"RESULT {done - began} {done - loaded}", flush=True)
"""
FROM_JIT = """
import sys
import numpy as np
import taichi as ti
source, arch, cache, shapes = sys.argv[1:]
import time
began = time.perf_counter()
options = dict(offline_cache=cache != "none", offline_cache_file_path=cache)
ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, **options)
sys.path.insert(0, source)
import same_kernel
values = [np.ones(v, np.float32) if isinstance(v, tuple) else v for v in eval(shapes)]
scratch = [ti.ndarray(getattr(ti, d), s) for d, s in same_kernel.SCRATCH]
same_kernel.kernel(*values, *scratch)
ti.sync()
seconds = time.perf_counter() - began
print(f"RESULT {seconds} {seconds}", flush=True)
"""


def known(template: str, arch: str, **params: object) -> "object":
    """Return a kernel that counts as verified, which is not what is measured here."""
    import tikgen
    from tikgen.pipeline import evidence

    source = tikgen.render(template, arch=arch, **params)
    tally = evidence.Tally({}, passed=True, examples=1, worst=0.0)
    evidence.keep(template, arch, 0, {source.digest: tally})
    return tikgen.build(template, **params)


def fifty(arch: str) -> list[object]:
    """Return fifty variants of six templates, in up to four dtypes."""
    kernels = [
        known("stencil", arch, dim=dim, dtype=dtype, order=order, boundary=boundary)
        for dim in (1, 2, 3)
        for dtype in ("f32", "f64")
        for order in (2, 4)
        for boundary in ("interior", "periodic")
    ]
    kernels += [
        known("map", arch, dim=dim, dtype=dtype, expr=expr)
        for dim in (1, 2)
        for dtype in ("f32", "f64", "i32", "i64")
        for expr in ("z = a*x + y", "z = x*y - x")
    ]
    kernels += [
        known("reduce", arch, op=op, dtype=dtype)
        for op in ("sum", "max")
        for dtype in ("f32", "f64")
    ]
    kernels += [
        known(template, arch, dtype=dtype)
        for template in ("transpose", "scan", "histogram")
        for dtype in ("f32", "f64")
    ]
    return kernels


def exporting() -> Iterable[Row]:
    """Export fifty variants for one arch, then once more, and load the bundle."""
    import tikgen

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fifty"
        kernels = fifty(MAIN_INIT)
        start = time.perf_counter()
        bundle = tikgen.aot.export(kernels, path, [MAIN])
        seconds = time.perf_counter() - start
        assert len(bundle.kernels) == len(kernels) == 50 and bundle.ok, bundle.failures
        yield Row(f"exporting and proving 50 variants, {MAIN}", seconds, most=60.0)
        start = time.perf_counter()
        again = tikgen.aot.export(kernels, path, [MAIN])
        seconds = time.perf_counter() - start
        assert len(again.reused) == 50
        yield Row("exporting them again, nothing changed", seconds)
        script = (
            "import sys, tikgen.aot, numpy, time\n"
            "from tikgen.aot.running import bundle_runtime, loading\n"
            "start = time.perf_counter()\n"
            "found = tikgen.aot.load(*sys.argv[1:])\n"
            "print(f'RESULT {time.perf_counter() - start}', flush=True)\n"
        )
        yield Row(
            "loading the bundle of 50, its runtime starting beside",
            statistics.median(_run(script, str(path), MAIN)[1] for _ in range(PROCESSES)),
            most=0.1,
        )


def first_results() -> Iterable[Row]:
    """Come to a first result in fresh processes: from a bundle, and through Taichi's JIT."""
    import tikgen

    with tempfile.TemporaryDirectory() as folder:
        for arch, ours in ARCHS.items():
            for template, (name, params, shapes) in KERNELS.items():
                path = Path(folder) / f"{template}_{arch}"
                bundle = tikgen.aot.export(known(template, ours, **params), path, [arch])
                assert bundle.ok, bundle.failures
                source = _plain_source(Path(folder), template, ours, params, shapes)
                yield from _first_result(arch, ours, template, name, path, source, repr(shapes))


def _plain_source(
    folder: Path, template: str, arch: str, params: dict[str, object], shapes: object
) -> Path:
    """Write the kernel as a module of plain Taichi, with the workspace that it needs."""
    import tikgen
    from tikgen.template.arguments import concrete_shape

    source = tikgen.render(template, arch=arch, **params)
    sizes = {"n": 32, "m": 32, "k": 32}
    scratch = [(a.dtype.value, concrete_shape(a, sizes)) for a in source.variant.workspace]
    made = folder / f"source_{template}_{arch}"
    made.mkdir()
    text = f"{source.text}\n\nSCRATCH = {scratch!r}\nkernel = {template}\n"
    (made / "same_kernel.py").write_text(text)
    return made


def _first_result(
    arch: str, ours: str, template: str, kernel: str, path: Path, source: Path, shapes: str
) -> Iterable[Row]:
    cache = str(source / "cache")
    jit = (FROM_JIT, str(source), ours)
    bundle = (FROM_BUNDLE, str(path), arch, kernel, shapes)
    _run(*jit, cache, shapes)  # Fills the cache.
    found: dict[str, list[tuple[float, ...]]] = {"bundle": [], "numpy": [], "cold": [], "warm": []}
    for _ in range(PROCESSES):
        found["bundle"].append(_run(*bundle, "no"))
        found["numpy"].append(_run(*bundle, "yes"))
        found["cold"].append(_run(*jit, "none", shapes))
        found["warm"].append(_run(*jit, cache, shapes))
    seconds = {
        name: [statistics.median(column) for column in zip(*runs, strict=True)]
        for name, runs in found.items()
    }
    for state, ratio in (("cold", 1 / 5), ("warm", 1 / 2)):
        what, peer = f"{template}, {arch}: first result", f"ti.init and JIT, {state} cache"
        whole, after_imports, _ = seconds[state]
        yield Row(f"{what}, the whole process", seconds["bundle"][0], peer, whole, None, ratio)
        yield Row(f"{what}, imports left out", seconds["numpy"][1], peer, after_imports)
        yield Row(f"{what}, once it is loaded", seconds["numpy"][2], peer, after_imports)


def _run(script: str, *arguments: str) -> tuple[float, ...]:
    """Return the seconds from the start of a process to its result, and those that it tells."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"ENABLE_TAICHI_HEADER_PRINT": "0"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("RESULT"):
                return time.perf_counter() - start, *map(float, line.split()[1:])
    raise RuntimeError(f"no result from {script}")


def launches() -> Iterable[Row]:
    """Launch small kernels through the runtime, and as plain Taichi kernels."""
    import numpy as np
    import taichi as ti

    import tikgen

    ti.init(arch=getattr(ti, MAIN_INIT), log_level=ti.ERROR)
    array = ti.types.ndarray(dtype=ti.f32, ndim=1)

    @ti.kernel
    def serial(a: ti.f32, x: array, y: array, z: array):
        z[0] = a * x[0] + y[0]

    axpy = known("map", MAIN_INIT, expr="z = a*x + y")
    kernels = {"without a loop": serial, "with a parallel loop": axpy.function}
    with tempfile.TemporaryDirectory() as folder:
        named = {"serial": serial, "axpy": axpy}
        bundle = tikgen.aot.export(named, Path(folder) / "two", [MAIN])
        with bundle.load(MAIN) as runtime:
            for (what, plain), ours in zip(
                kernels.items(), (runtime.serial, runtime.axpy), strict=True
            ):
                yield from _launch_rows(what, ours, plain, runtime, np, ti)


def _launch_rows(
    what: str, ours: object, plain: object, runtime: object, np: object, ti: object
) -> Iterable[Row]:
    """Time one kernel on 16 numbers: arrays on the device, bound, and NumPy's."""
    x, y, z = (np.ones(16, np.float32) for _ in range(3))
    held = [runtime.array(array) for array in (x, y, z)]
    theirs = [ti.ndarray(ti.f32, 16) for _ in range(3)]
    times = compare(
        {
            "ours": lambda: ours(2.0, *held),
            "bound": ours.bind(2.0, *held),
            "theirs": lambda: plain(2.0, *theirs),
            "numpy": lambda: ours(2.0, x, y, z),
            "plain numpy": lambda: plain(2.0, x, y, z),
        }
    )
    name = f"launch {what}, {MAIN}"
    peer = "plain Taichi, ti.ndarray"
    yield Row(f"{name}, arrays on the device", times["ours"], peer, times["theirs"], None, 0.5)
    yield Row(f"{name}, bound", times["bound"], peer, times["theirs"])
    peer = "plain Taichi, NumPy arrays"
    yield Row(f"{name}, NumPy arrays", times["numpy"], peer, times["plain numpy"], None, 0.5)


if __name__ == "__main__":
    run_parts("aot-gpu" if ON_GPU else "aot", ("exporting", "first_results", "launches"), globals())
