"""A program of plain Taichi kernels does the same with and without tikgen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, traceback
{before}
import numpy as np
import taichi as ti


@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1), a: ti.f32):
    for i in range(x.shape[0]):
        x[i] += a


{after}


@ti.func
def double(v):
    return v * 2


@ti.kernel
def doubled(v: ti.f32) -> ti.f32:
    return double(v)


@ti.kernel
def nested() -> ti.f32:
    return doubled(3.0)


@ti.kernel
def broken(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = nothing + 1


@ti.data_oriented
class Counter:
    def __init__(self, n):
        self.n, self.f = n, ti.field(ti.f32, n)

    @ti.kernel
    def fill(self, v: ti.f32):
        for i in self.f:
            self.f[i] = v + self.n

    @staticmethod
    @ti.kernel
    def next(v: ti.i32) -> ti.i32:
        return v + 1


def show(action):
    try:
        print(action())
    except BaseException:
        traceback.print_exc(file=sys.stdout)


def init():
    ti.init(arch=ti.{arch}, log_level=ti.WARN, enable_fallback=False, offline_cache=False)


init()
x = np.zeros(4, np.float32)
show(lambda: (add(x=x, a=2.0), x))
show(lambda: add(x))
show(lambda: add(x, b=1.0))
show(lambda: add(np.zeros(4), 1.0))
show(lambda: add(x, "text"))
show(lambda: add(x[::2], 1.0))
show(lambda: broken(x))
show(lambda: broken(x))
show(nested)
show(lambda: doubled(3.0))
show(lambda: ti.kernel(lambda x: x))
for n in (3, 4):
    counter = Counter(n)
    show(lambda: (counter.fill(2.0), counter.f.to_numpy(), Counter.next(3)))
if "{arch}" == "cpu":
    @ti.experimental.real_func
    def triple(v: ti.f32) -> ti.f32:
        return v * 3

    @ti.kernel
    def tripled(v: ti.f32) -> ti.f32:
        return triple(v)

    show(lambda: tripled(2.0))
a, loss = ti.field(ti.f32, (), needs_grad=True), ti.field(ti.f32, (), needs_grad=True)


@ti.kernel
def square():
    loss[None] += a[None] ** 2


a[None] = 3.0
with ti.ad.Tape(loss):
    square()
show(lambda: a.grad[None])
a.grad[None], loss.grad[None] = 0.0, 1.0
square.grad()
show(lambda: a.grad[None])
totals = []


def work(n):
    y = np.zeros(3, np.float32)
    for _ in range(10):
        add(y, float(n))
    totals.append(float(y[0]))


threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(totals))
init()
show(lambda: (add(x, 1.0), x))
ti.reset()
show(lambda: add(x, 1.0))
init()
show(lambda: (add(x, 1.0), x))
print(add.__name__, len(ti.lang.impl.pytaichi.kernels))
"""


def told_by(folder: Path, arch: str, before: str = "pass", after: str = "pass") -> str:
    """Return what the program prints, less addresses and the frames of tikgen's own hooks."""
    file = folder / "program.py"
    program = PROGRAM.replace("{arch}", arch).replace("{before}", before).replace("{after}", after)
    file.write_text(program)
    # Another process may hold the lock of the usual cache, which Taichi tells of.
    environment = {**os.environ, "TI_OFFLINE_CACHE_FILE_PATH": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    told = re.sub(r"^\[Taichi\] version.*\n", "", done.stdout, flags=re.MULTILINE)
    hooks = r'  File ".*tikgen/taichi/\w+.py".*\n(    .*\n)*'
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(hooks, "", told) + done.stderr)


@pytest.mark.parametrize("place", ["after", pytest.param("before", marks=pytest.mark.slow)])
def test_plain_kernels_do_what_they_do_without_tikgen(
    place: str, ti_arch: str, tmp_path: Path
) -> None:
    plain = told_by(tmp_path, ti_arch)
    assert "Traceback" in plain
    assert 'Name "nothing" is not defined' in plain
    assert told_by(tmp_path, ti_arch, **{place: "import tikgen; tikgen.build"}) == plain
