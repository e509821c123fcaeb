"""Hot reload from many threads: no thread sees a mixed, incomplete or foreign module."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import taichi as ti

from tikgen import errors
from tikgen.live import Loader

TEXT = """
number = {n}

@ti.func
def value():
    return {n}

@ti.kernel
def fill(x: ti.types.ndarray(ndim=1)):
    for i in range(x.shape[0]):
        x[i] = value()

def told():
    return {n}
"""


def filled(module: object) -> int:
    x = np.full(3, -1, np.int32)
    module.fill(x)  # type: ignore[attr-defined]
    assert len(set(x)) == 1
    return int(x[0])


def hammer(loader: Loader, rounds: int) -> list[BaseException]:
    """Reload and launch one id from 8 threads, each so often; return what went wrong."""
    numbers, problems = itertools.count(1), []
    together = threading.Barrier(8)

    def work() -> None:
        try:
            together.wait()
            for _ in range(rounds):
                mine = next(numbers)
                module = loader.load(TEXT.format(n=mine), "k")
                assert (module.number, module.told(), filled(module)) == (mine, mine, mine)
                seen = loader["k"]
                assert seen.told() == seen.number == filled(seen)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(20, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_threads_that_reload_one_id_see_whole_modules(ti_arch: str, rounds: int) -> None:
    loader = Loader()
    filled(loader.load(TEXT.format(n=0), "k"))
    assert not hammer(loader, rounds)
    # The text that was submitted last is current, even if another was ready later.
    assert loader.history("k")[-1].state == "current"
    assert loader["k"].number == filled(loader["k"])


def test_a_kernel_that_is_running_is_reloaded_by_another_thread(ti_arch: str) -> None:
    loader = Loader()
    filled(loader.load(TEXT.format(n=1), "k"))
    seen, stop = [], threading.Event()

    def run() -> None:
        while not stop.is_set():
            seen.append(filled(loader["k"]))

    thread = threading.Thread(target=run)
    thread.start()
    for n in range(2, 8):
        filled(loader.load(TEXT.format(n=n), "k"))
    while seen[-1:] != [7] and thread.is_alive():
        time.sleep(0.001)
    stop.set()
    thread.join()
    assert seen[-1] == 7
    assert seen == sorted(seen)


def test_threads_without_an_id_get_different_ids() -> None:
    loader = Loader()
    found: list[tuple[str, int]] = []

    def work(n: int) -> None:
        module = loader.load(f"number = {n}")
        found.append((str(module.__file__).split(":")[1], n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(loader) == sorted(id for id, _ in found)
    assert all(loader[id].number == n for id, n in found)
    assert len(loader) == 8


def test_a_kernel_that_fails_while_another_thread_compiles_does_not_block() -> None:
    """Two loaders, each of which falls back while it holds what the other one may want."""
    code = (
        "import threading, numpy as np, taichi as ti\n"
        "from tikgen.live import Loader\n"
        "ti.init(arch=ti.cpu, log_level=ti.ERROR)\n"
        "text = '@ti.kernel\\ndef k(x: ti.i32):\\n    y = x + {}\\n'\n"
        "loaders = [Loader(), Loader()]\n"
        "for loader in loaders:\n    loader.load(text.format(0), 'k').k(1)\n"
        "def work(mine, other):\n"
        "    for n in range(1, 15):\n"
        "        def check(module):\n"
        "            try:\n                other.load(text.format('no'), 'k').k(1)\n"
        "            except Exception as error:\n                assert 'compile' in str(error)\n"
        "        mine.load(text.format(n), 'k', check=check).k(1)\n"
        "ts = [threading.Thread(target=work, args=p) for p in (loaders, loaders[::-1])]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "[loader['k'].k(1) for loader in loaders if 'no' not in loader.history('k')[-1].text]\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip().endswith("done"), done.stderr


def test_the_first_launch_belongs_to_the_thread_that_called_ti_init(ti_arch: str) -> None:
    if ti_arch != "cpu":
        pytest.skip("only archs that run through LLVM have this limit")
    loader = Loader()
    filled(loader.load(TEXT.format(n=1), "k"))
    field = ti.field(ti.i32, 3)  # To be laid out by the next launch that compiles.
    module = loader.load(TEXT.format(n=2), "k")
    told: list[object] = []

    def work() -> None:
        try:
            told.append(filled(module))
        except errors.WrongThread as error:
            told.append(error)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert filled(module) == 2
        assert field.shape == (3,)
    assert isinstance(told[0], errors.WrongThread)
    assert told[1] == 2
