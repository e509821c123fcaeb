"""Measures native bundles: their first result from C and from ctypes, and calls from C.

``python benchmarks/aot_native.py`` prints the table and writes it into docs/performance.md. The
peer of a first result is the same kernel as plain Taichi; see benchmarks/aot.py.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from aot import FROM_BUNDLE, FROM_JIT, KERNELS, _plain_source, _run, known
from page import Row
from parts import run_parts
from timing import compare

PROCESSES = 11
# How a first call looks in C, and with ctypes: for the arguments of aot.KERNELS.
CALLS = {
    "stencil": ("ones(13824), ones(13824), 24, 24, 24", "ones(13824), ones(13824), 24, 24, 24"),
    "gemm": (
        "ones(1024), ones(1024), ones(1024), 1, 0, 32, 32, 32",
        "ones(1024), ones(1024), ones(1024), c_float(1), c_float(0), 32, 32, 32",
    ),
}
FROM_C = """
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
static float *ones(int n) {
  float *made = malloc(n * sizeof *made);
  for (int i = 0; i < n; i++) made[i] = 1;
  return made;
}
int main(void) {
  int status = bench_CALL;
  if (status) return 1;
  puts("RESULT 0 0");
  return 0;
}
"""
FROM_CTYPES = """
import ctypes, sys
from ctypes import c_float
def ones(n):
    return (c_float * n)(*[1.0] * n)
library = ctypes.CDLL(sys.argv[1])
assert library.bench_CALL == 0
print("RESULT 0 0", flush=True)
"""
CALLING = """
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
int main(int count, char **given) {
  int n = atoi(given[1]), calls = atoi(given[2]), rounds = 21;
  float *x = calloc(n, 4), *y = calloc(n, 4), *z = calloc(n, 4);
  for (int i = 0; i < n; i++) x[i] = y[i] = 1;
  for (int round = 0; round < rounds; round++) {
    double began = now();
    for (int i = 0; i < calls; i++)
      if (bench_axpy(2, x, y, z, n)) return 1;
    printf("%.9e\\n", (now() - began) / calls);
  }
  return z[n - 1] != 3;
}
"""


def first_results() -> Iterable[Row]:
    """Come to a first result in fresh processes, in turn: from C, from ctypes, and by JIT."""
    import tikgen

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for template, (_, params, shapes) in KERNELS.items():
            path = folder / template / "bench"
            kernel = known(template, "cpu", **params)
            bundle = tikgen.aot.export({template: kernel}, path, native=True)
            assert bundle.ok, bundle.failures
            in_c, in_python = (f"{template}({call})" for call in CALLS[template])
            program = _compiled(path, FROM_C.replace("CALL", in_c))
            ctypes_script = FROM_CTYPES.replace("CALL", in_python)
            source = _plain_source(folder, template, "cpu", params, shapes)
            cache = str(source / "cache")
            jit = (FROM_JIT, str(source), "cpu")
            loading = (FROM_BUNDLE, str(path), "cpu", template, repr(shapes), "no")
            ways = {
                "from C": lambda program=program: _seconds([program]),
                "from Python, ctypes": lambda script=ctypes_script, path=path: _run(
                    script, str(path / "lib" / "libbench.so")
                )[0],
                "from Python, tikgen.aot.load": lambda way=loading: _run(*way)[0],
                "cold": lambda jit=jit, shapes=shapes: _run(*jit, "none", repr(shapes))[0],
                "warm": lambda jit=jit, shapes=shapes, cache=cache: _run(*jit, cache, repr(shapes))[
                    0
                ],
            }
            ways["warm"]()  # Fills the cache.
            found: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(PROCESSES):
                for way, run in ways.items():
                    found[way].append(run())
            middle = {way: statistics.median(seconds) for way, seconds in found.items()}
            for state in ("cold", "warm"):
                peer = f"ti.init and JIT, {state} cache"
                for way, most in (
                    ("from C", 1 / 20),
                    ("from Python, ctypes", 1 / 5),
                    ("from Python, tikgen.aot.load", None),
                ):
                    what = f"{template}: first result {way}, the whole process"
                    yield Row(what, middle[way], peer, middle[state], None, most)


def calls() -> Iterable[Row]:
    """Call a function from C, and launch the same kernel by the engine direct-cpu and by Taichi."""
    import numpy as np
    import taichi as ti

    import tikgen

    ti.init(arch=ti.cpu, log_level=ti.ERROR)
    kernel = known("map", "cpu", expr="z = a*x + y")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench"
        bundle = tikgen.aot.export({"axpy": kernel}, path, native=True, target_cpu="host")
        assert bundle.ok, bundle.failures
        program = _compiled(path, CALLING)
        runtime = bundle.load()
        for size in (16, 4096, 100_000, 3_000_000):
            x, y, z = (np.ones(size, np.float32) for _ in range(3))
            times = compare(
                {
                    "native": runtime.axpy.bind(2.0, x, y, z),
                    "direct": kernel.with_engine("direct-cpu").bind(2.0, x, y, z),
                    "taichi": kernel.with_engine("taichi").bind(2.0, x, y, z),
                }
            )
            work = f"axpy over {size:,}"
            if size < 10_000:
                said = subprocess.run(
                    [program, str(size), "20000"], stdout=subprocess.PIPE, text=True, check=True
                )
                in_c = statistics.median(map(float, said.stdout.split()))
                yield Row(f"{work}, a call from C", in_c, "Taichi, bound", times["taichi"])
            what = f"{work}, bound in Python"
            yield Row(what, times["native"], "direct-cpu, bound", times["direct"])
            yield Row(what, times["native"], "Taichi, bound", times["taichi"])


def _compiled(bundle: Path, text: str) -> str:
    """Return a program in C that is linked with the library of a bundle."""
    program, source = bundle.parent / "program", bundle.parent / "program.c"
    source.write_text(text)
    library = bundle / "lib"
    command = ["gcc", "-O2", "-I", str(bundle / "include"), str(source), "-o", str(program)]
    command += [str(library / "libbench.so"), f"-Wl,-rpath,{library}"]
    subprocess.run(command, check=True)
    return str(program)


def _seconds(command: Sequence[str]) -> float:
    """Return the seconds from the start of a process to its result."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        if process.stdout.readline().startswith("RESULT"):
            return time.perf_counter() - start
    raise RuntimeError(f"no result from {command}")


if __name__ == "__main__":
    assert sys.platform == "linux", "native bundles are for Linux"
    run_parts("aot-native", ("first_results", "calls"), globals())
