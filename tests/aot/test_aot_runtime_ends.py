"""Runtimes of bundles: threads, closing, memory, archs, and how processes end."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import tikgen
from aot_samples import LACKED
from conftest import ARCH
from runtime_samples import BUNDLE_ARCH, ON_HOST, poison, values
from runtime_samples import bundle as bundle
from runtime_samples import runtime as runtime
from tikgen.aot.manifest import encode
from tikgen.aot.manifest_reading import decode
from tikgen.aot.running import frame, launchable
from tikgen.errors import (
    ArgumentError,
    BundleError,
    LibraryError,
    UnsupportedOnArch,
)
from tikgen.machine.devices import host_arch, problem_with

pytestmark = pytest.mark.arch


def test_arrays_that_are_closed_or_of_another_runtime(runtime: Any, bundle: Path) -> None:
    mine, closed = runtime.zeros(4, "f32"), runtime.zeros(4, "f32")
    closed.close()
    closed.close()
    with tikgen.aot.load(bundle, ARCH) as other:
        theirs = other.zeros(4, "f32")
        with pytest.raises(ArgumentError, match="'x' is a DeviceArray of another runtime"):
            runtime.axpy_f32(1.0, theirs, mine)
    for array, problem in ((closed, "that was closed"), (theirs, "of a runtime that was closed")):
        with pytest.raises(ArgumentError, match=f"'y' is a DeviceArray {problem}"):
            runtime.axpy_f32(1.0, mine, array)
        for use in (array.to_numpy, lambda a=array: a.from_numpy(np.zeros(4, "f4"))):
            with pytest.raises(ArgumentError, match=problem):
                use()
        assert "closed" in repr(array)


def test_more_arrays_and_kinds_than_are_remembered(
    runtime: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame, "_MOST_PACKED", 2)
    monkeypatch.setattr(launchable, "_MOST_CHOSEN", 2)
    family = next(f for f in runtime.families.values() if f.name == "axpy")
    for count in range(3, 9):
        x, y = values(rng, count), np.zeros(count, "f4")
        family(1.0, x, y)
        np.testing.assert_array_equal(x, y)
    assert len(family._chosen) <= 2


def test_calls_after_close(bundle: Path) -> None:
    runtime = tikgen.aot.load(bundle, ARCH)
    x, y = runtime.zeros(4, "f32"), runtime.zeros(4, "f32")
    kernel, field, graph = runtime.axpy_f32, runtime.fields["heat"], runtime.twice
    bound = kernel.bind(1.0, x, y)
    bound()
    short = kernel.bind(1.0, z := runtime.zeros(4, "f32"), y)
    z.close()
    with pytest.raises(ArgumentError, match="DeviceArray that was closed"):
        short()
    runtime.close()
    runtime.close()
    assert runtime.is_closed
    uses: list[Callable[[], Any]] = [
        bound,
        lambda: kernel(1.0, np.zeros(4, "f4"), np.zeros(4, "f4")),
        lambda: kernel(1.0, x, y),
        lambda: graph(1.0, x, y),
        lambda: runtime.halve(x, y),
        field.to_numpy,
        runtime.sync,
        runtime.prepare,
        lambda: runtime.zeros(4, "f32"),
        lambda: runtime.capabilities,
    ]
    for use in uses:
        with pytest.raises(BundleError, match="is closed; load it again"):
            use()
    assert "closed" in repr(runtime)


def test_a_kernel_outlives_the_name_of_its_runtime(bundle: Path, rng: np.random.Generator) -> None:
    kernel = tikgen.aot.load(bundle, ARCH).axpy_f32
    gc.collect()
    x, y = values(rng, 7), np.zeros(7, "f4")
    kernel(1.0, x, y)
    np.testing.assert_array_equal(y, x)
    closing = kernel._engine.close
    del kernel
    gc.collect()
    assert not closing.alive  # Nothing refers to the library's runtime, and it is gone.


@pytest.mark.skipif(ON_HOST, reason="the memory of arrays on the processor is NumPy's")
def test_memory_is_given_back(bundle: Path) -> None:
    with tikgen.aot.load(bundle, ARCH) as runtime:
        held = runtime._engine._made.memories
        for _ in range(20):
            runtime.empty(1 << 20, "f32")
        assert len(held) <= 2
        kept = runtime.empty(5, "f32")
        runtime.sync()
        assert len(held) == 1
        kept.close()
        runtime.sync()
        assert not held


def test_calls_from_several_threads(runtime: Any, rng: np.random.Generator) -> None:
    problems: list[str] = []

    def work(seed: int) -> None:
        mine = np.random.default_rng(seed)
        for count in mine.integers(1, 40, 12 if ON_HOST else 4):
            x, y = values(mine, count), values(mine, count)
            expected, out = y + 2 * x, poison(1)
            device = runtime.array(y)
            runtime.axpy_f32(2.0, x, y)
            runtime.axpy_f32(2.0, runtime.array(x), device)
            runtime.total(x, out)
            for found in (y, device.to_numpy()):
                if not np.allclose(found, expected, rtol=1e-5, atol=1e-5):
                    problems.append(f"{found} for {expected}")
            if not np.allclose(out[0], x.sum(), rtol=1e-4, atol=1e-4):
                problems.append(f"{out} for the sum of {x}")

    threads = [
        threading.Thread(target=work, args=(int(seed),)) for seed in rng.integers(2**32, size=4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_closing_while_other_threads_launch(bundle: Path) -> None:
    runtime = tikgen.aot.load(bundle, ARCH)
    x, y = runtime.zeros(64, "f32"), runtime.zeros(64, "f32")
    runtime.axpy_f32(1.0, x, y)
    ends: list[str] = []

    def launch() -> None:
        try:
            while True:
                runtime.axpy_f32(1.0, x, y)
        except (BundleError, ArgumentError) as error:
            ends.append(str(error))

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    runtime.close()
    for thread in threads:
        thread.join()
    assert len(ends) == 3
    assert all("closed" in end for end in ends)


def test_what_a_device_lacks_is_named(runtime: Any) -> None:
    if runtime.capabilities.get(LACKED):
        pytest.skip(f"this device has {LACKED}")
    with pytest.raises(UnsupportedOnArch, match=f"lacking is not supported.*lacks {LACKED}"):
        runtime.lacking(np.zeros(3, "f4"))


def test_an_error_of_the_library_is_told_and_forgotten(runtime: Any) -> None:
    for _ in range(2):
        with pytest.raises(LibraryError, match="getting the kernel missing") as caught:
            runtime.missing(np.zeros(3, "f4"))
        assert caught.value.code < 0 or "gives no reason" in str(caught.value)
    x = np.ones(3, "f4")
    runtime.clear(x)
    assert (x == 0).all()


def with_manifest(bundle: Path, folder: Path, **changes: Any) -> Path:
    shutil.copytree(bundle, folder)
    manifest = decode((folder / "manifest.json").read_bytes(), folder)
    changed = encode(msgspec.structs.replace(manifest, **changes))
    (folder / "manifest.json").write_bytes(changed)
    return folder


def test_another_version_of_taichi_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = tikgen.aot.load(with_manifest(bundle, tmp_path / "other", taichi="1.6.0"), ARCH)
    with pytest.raises(BundleError, match=re.escape("Taichi 1.6.0, and the library here is of")):
        other.axpy_f32(1.0, np.zeros(3, "f4"), np.zeros(3, "f4"))
    other.close()


def test_the_arch_is_the_first_that_works_here(bundle: Path, tmp_path: Path) -> None:
    several = with_manifest(bundle, tmp_path / "several", archs=("metal_", BUNDLE_ARCH)[1:])
    with tikgen.aot.load(several) as runtime:
        assert runtime.arch == BUNDLE_ARCH
    strange = next(arch for arch in ("arm64", "x64") if arch != host_arch())
    with pytest.raises(UnsupportedOnArch, match="the processor of this machine is of the arch"):
        tikgen.aot.load(bundle, strange)
    with pytest.raises(UnsupportedOnArch, match="there is no such arch"):
        tikgen.aot.load(bundle, "abacus")
    with pytest.raises(UnsupportedOnArch, match="number 99"):
        tikgen.aot.load(bundle, ARCH, device=99)
    with pytest.raises(UnsupportedOnArch, match="0 or more; got -1"):
        tikgen.aot.load(bundle, ARCH, device=-1)
    absent = "vulkan" if ON_HOST else "cpu"
    if not problem_with("vulkan"):
        with pytest.raises(BundleError, match=f"has nothing for {absent}; it has {BUNDLE_ARCH}"):
            tikgen.aot.load(bundle, absent)


def test_an_archive_is_unpacked_for_as_long_as_it_is_used(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    archive = shutil.make_archive(str(tmp_path / "sample"), "zip", bundle)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "unpacked"))
    (tmp_path / "unpacked").mkdir()
    with tikgen.aot.load(archive, ARCH) as runtime:
        assert not list((tmp_path / "unpacked").iterdir())
        x, y = values(rng, 7), np.zeros(7, "f4")
        runtime.axpy_f32(1.0, x, y)
        np.testing.assert_array_equal(y, x)
        [folder] = (tmp_path / "unpacked").iterdir()
        assert sorted(p.name for p in (folder / BUNDLE_ARCH).iterdir()) == ["axpy_f32", "fields"]
    assert not list((tmp_path / "unpacked").iterdir())


FRESH = """
import sys
import numpy as np
import tikgen
with tikgen.aot.load(sys.argv[1], sys.argv[2]) as runtime:
    x, y = np.arange(5, dtype="f4"), np.zeros(5, "f4")
    runtime.axpy_f32(2.0, x, y)
    assert (y == 2 * x).all(), y
    runtime.families["axpy"](2.0, runtime.array(x), runtime.array(y))
slow = {"taichi", "pydantic", "jinja2", "typer", "rich", "tikgen.taichi.patches"}
print(sorted(slow & sys.modules.keys()))
"""


def test_nothing_slow_is_imported(bundle: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRESH, bundle, ARCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[-2] == "[]", done.stdout


def test_a_program_may_end_without_closing_anything(bundle: Path) -> None:
    script = FRESH.replace("with tikgen", "runtime = tikgen").replace(" as runtime:", "\nif True:")
    done = subprocess.run(
        [sys.executable, "-c", script, bundle, ARCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


FORK = """
import os, sys
import numpy as np
import tikgen
runtime = tikgen.aot.load(sys.argv[1], sys.argv[2])
x, y = np.arange(3001, dtype="f4"), np.zeros(3001, "f4")
runtime.axpy_f32(2.0, x, y)
sys.stdout.flush()
if os.fork() == 0:
    for use in (lambda: runtime.axpy_f32(2.0, x, y), runtime.sync, runtime.prepare):
        try:
            use()
        except tikgen.errors.BundleError as error:
            print(error)
    runtime.close()
    if sys.argv[2] == "vulkan":  # Where a child exits, NVIDIA's driver ends its parent's device.
        sys.stdout.flush()
        os._exit(7)
    sys.exit(7)
_, status = os.wait()
runtime.halve(x.reshape(-1, 1), y.reshape(-1, 1))  # Which has not been loaded yet.
assert (y[1:] == x[1:] / 2).all()
runtime.close()
print("the fork gave", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_leaves_the_runtime_to_its_parent(bundle: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "sample"), "zip", bundle)
    done = subprocess.run(
        [sys.executable, "-c", FORK, archive, ARCH], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    problem = "was loaded before this process was forked; load it again."
    assert done.stdout.count(problem) == 3
    assert done.stdout.splitlines()[-1] == "the fork gave 7"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_an_interrupt_during_launches_leaves_the_runtime_whole(
    runtime: Any, rng: np.random.Generator
) -> None:
    x, y = (runtime.zeros(50_021, "f32") for _ in range(2))
    # Shells start what runs in the background with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    is_launching = threading.Event()

    def interrupt() -> None:
        is_launching.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            while True:  # Until the interrupt comes.
                runtime.axpy_f32(1.0, x, y)
                runtime.sync()
                is_launching.set()
    finally:
        signal.signal(signal.SIGINT, before)
    x, y = values(rng, 7), np.zeros(7, "f4")
    runtime.axpy_f32(1.0, x, y)
    np.testing.assert_array_equal(y, x)
