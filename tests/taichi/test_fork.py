"""Forked processes: refused if forked after ``ti.init``, and working if forked before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, threading
import numpy as np
import tikgen


def told(action):
    try:
        action()
        print("done", flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).partition(":")[0], flush=True)


def in_child(action):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        action()
        sys.exit(0)  # As a program ends that knows nothing of Taichi's threads.
    assert os.waitpid(pid, 0)[1] == 0


def init():
    import taichi as ti
    ti.init(getattr(ti, "{arch}"), log_level=ti.ERROR, enable_fallback=False, offline_cache=False)


x = np.ones(9, np.float32)
TEXT = '''
@ti.kernel
def live(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] += 1
'''


def work():
    init()
    kernel = tikgen.elementwise("x + 1", dtype="f32")
    kernel(x, np.empty_like(x))
    print("worked", flush=True)


def use():
    import tikgen
    told(lambda: kernel(x, y))
    told(bound)
    told(lambda: bound.rebind(x=y))
    told(lambda: kernel.bind(x, y))
    told(lambda: program.run(2))
    told(lambda: kernel.compile())
    told(lambda: kernel(held, held))
    told(lambda: tikgen.elementwise("x + 3", dtype="f32")(x, y))
    told(lambda: tikgen.live.Loader().load(TEXT).live(x))
    told(lambda: module.live(x))
    told(init)
    told(lambda: kernel.source.text)
    told(lambda: kernel.reference(x))
    thread = threading.Thread(target=lambda: told(bound))
    thread.start()
    thread.join()


in_child(work)
init()
import taichi as ti
kernel = tikgen.elementwise("x + 2", dtype="f32")
y, held = np.empty_like(x), ti.ndarray(ti.f32, 9)
bound = kernel.bind(x, y)
program = tikgen.Program([bound])
loader = tikgen.live.Loader()
module = loader.load(TEXT)
module.live(x)
bound()
print("parent", y[0], flush=True)
in_child(use)
in_child(lambda: in_child(lambda: told(bound)))
bound()
kernel(x, y)
print("parent", y[0])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.once
def test_a_launch_after_a_fork_is_refused(ti_arch: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.replace("{arch}", ti_arch))
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("[Taichi]")]
    refused = "ForkedProcess {} cannot run in this process"
    assert lines == [
        "worked",
        "parent 4.0",
        *[refused.format("map")] * 4,
        refused.format("the program"),
        *[refused.format("map")] * 3,
        *[refused.format("live")] * 2,
        refused.format("ti.init"),
        "done",
        "done",
        refused.format("map"),
        refused.format("map"),
        "parent 4.0",
    ]
