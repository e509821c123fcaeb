"""Events of kernels: stages, launches, and the life that each kernel keeps."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen.pipeline import events
from tikgen.taichi import hooks

# The stages are Taichi's.
pytestmark = pytest.mark.usefixtures("by_taichi")

TEXT = """
import taichi as ti


@ti.kernel
def scale(a: ti.f32, x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = a * x[i] + {{ n }}
"""


def stages_of(found, subject: events.Subject) -> list[str]:
    return [e.stage for e in sorted(found, key=lambda e: e.start) if e.subject == subject]


def new_text() -> str:
    """Return a text that nobody built before."""
    return TEXT.replace("{{ n }}", str(np.random.default_rng().integers(1 << 20)))


def test_a_kernel_keeps_its_life_without_a_trace(ti_arch, rng) -> None:
    kernel = tikgen.build("map", expr=f"x + {rng.integers(1 << 20)}")
    before = ["resolve", "render", "hash", "dedup", "load", "register"]
    assert [e.stage for e in kernel.events] == before
    x, y = rng.random(7).astype("f4"), np.full(7, np.nan, "f4")
    assert not kernel.is_compiled()
    kernel(x, y)
    assert [e.stage for e in kernel.events] == [*before, "instantiate", "ast", "compile"]
    compiled = kernel.events[-1].details
    assert compiled["cache"] in ("compiled", "disk")
    assert compiled["arch"] == ti_arch
    assert compiled["signature"].startswith("x: f32[1d]")
    kernel(x, y)
    assert len(kernel.events) == 9
    assert kernel.launches == 2


def test_a_build_records_its_stages(rng) -> None:
    expr = f"x * {rng.integers(1 << 20)}"
    with events.recording() as found:
        kernel = tikgen.build("map", expr=expr)
        again = tikgen.build("map", expr=expr)
    assert again is kernel
    by_stage = {e.stage: e.details for e in found.events if not e.details.get("memo")}
    assert expr.replace(" ", "") in by_stage["resolve"]["params"]["expr"].replace(" ", "")
    assert by_stage["render"]["lines"] == kernel.source.text.count("\n")
    assert by_stage["hash"]["digest"] == kernel.digest
    assert by_stage["dedup"]["same_as"] is None
    assert [e.stage for e in found.events if e.details.get("memo")] == ["resolve"]


def test_a_failed_stage_is_recorded_with_its_error(ti_arch) -> None:
    kernel = tikgen.from_string(new_text().replace("a * x[i]", "a * unknown"))
    with events.recording() as found, pytest.raises(tikgen.errors.KernelCompileError):
        kernel(1.0, np.ones(3, "f4"))
    failed = [e for e in found.events if "error" in e.details]
    assert [e.stage for e in failed] == ["ast"]
    assert "unknown" in failed[0].details["error"]
    with events.recording() as found, pytest.raises(tikgen.TikgenError):
        tikgen.build("map", expr="x +")
    assert [e.stage for e in found.events if "error" in e.details] == ["resolve"]


def test_launches_are_counted_and_timed_while_recording(ti_arch) -> None:
    kernel, x = tikgen.from_string(new_text()), np.ones(5, "f4")
    kernel(1.0, x)
    with events.recording() as found:
        for _ in range(10):
            kernel(1.0, x)
        assert [launches.count for launches in found.launches] == [10]
        kernel(1.0, x)
    kernel(1.0, x)
    (launches,) = found.launches
    assert (launches.count, launches.timed, len(launches.spans)) == (11, 11, 11)
    assert 0 < launches.shortest <= launches.seconds / 11 <= launches.longest
    assert kernel.launches == 13


def test_bound_launches_are_all_counted_and_some_timed(ti_arch) -> None:
    kernel, x = tikgen.from_string(new_text()), ti.ndarray(ti.f32, 5)
    bound = kernel.bind(1.0, x)
    bound()
    with events.recording() as found:
        for _ in range(200):
            bound()
    bound()
    (launches,) = found.launches
    assert launches.count == 200
    assert 1 <= launches.timed <= 10
    assert kernel.launches == 202


def test_recordings_may_be_nested_with_different_kernels(ti_arch) -> None:
    @ti.kernel
    def raw(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in range(x.shape[0]):
            x[i] += 1.0

    kernel, x = tikgen.from_string(new_text()), ti.ndarray(ti.f32, 5)
    with events.recording() as outer:
        kernel(1.0, x)
        with events.recording(all_kernels=True) as inner:
            raw(x)
            kernel(1.0, x)
        kernel(1.0, x)
    assert {(la.subject.name, la.count) for la in outer.launches} == {("scale", 3)}
    assert {(la.subject.name, la.count) for la in inner.launches} == {("scale", 1), ("raw", 1)}
    assert stages_of(inner.events, inner.launches[0].subject) == ["instantiate", "ast", "compile"]
    assert not events.is_on()


def test_threads_lose_no_launch(ti_arch) -> None:
    kernel, x = tikgen.from_string(new_text()), ti.ndarray(ti.f32, 5)
    bound = kernel.bind(1.0, x)
    kernel(1.0, x)

    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        for _ in range(300):
            kernel(1.0, x)
        together.wait()  # So that no thread gets the identity of one that ended.

    with events.recording() as found:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(100):
            bound()
        for thread in threads:
            thread.join()
    (launches,) = found.launches
    assert launches.count == 1300
    assert len({thread for _, _, thread in launches.spans}) == 5


def test_the_cache_status_is_what_taichi_did(ti_arch) -> None:
    init_taichi()  # An earlier test may have left Taichi without an offline cache.
    text = new_text()
    first = tikgen.from_string(text)
    first(1.0, np.ones(3, "f4"))
    assert first.events[-1].details["cache"] == "compiled"
    second = tikgen.from_string(text + "\n\n@ti.func\ndef other():\n    return 1\n")
    assert second is not first
    second(1.0, np.ones(3, "f4"))
    assert second.events[-1].details["cache"] == "memory"
    init_taichi()  # Taichi writes its cache to the disk then.
    first(1.0, np.ones(3, "f4"))
    last = first.events[-1].details
    assert last["cache"] == "disk"
    assert last["init"] == second.events[-1].details["init"] + 1


def test_output_of_others_while_a_kernel_compiles_is_not_lost(ti_arch, capfd) -> None:
    details: dict = {}
    with hooks._cache_status(details):
        os.write(2, b"a warning of somebody else\n")
    assert details == {"cache": "unknown"}
    tikgen.from_string(new_text())(1.0, np.ones(3, "f4"))
    assert capfd.readouterr().err == "a warning of somebody else\n"


def test_the_error_stream_survives_compilations_in_several_threads(ti_arch, capfd) -> None:
    level = [ti.is_logging_effective(name) for name in ("debug", "warn", "error")]
    found = [tikgen.from_string(new_text()) for _ in range(8)]
    found[0](1.0, np.ones(3, "f4"))
    kernels = [ti.kernel(k.function.__wrapped__) for k in found]  # Which share no lock.
    together = threading.Barrier(8)

    def work(kernel) -> None:
        together.wait()
        details: dict = {}
        with hooks._cache_status(details):
            os.write(2, b"mine\n")
        kernel(1.0, np.ones(3, "f4"))

    with events.recording(all_kernels=True) as recorded:
        for kernel in kernels:  # Taichi's AST transform allows one thread at a time.
            kernel._primal.ensure_compiled(1.0, np.ones(3, "f4"))
        threads = [threading.Thread(target=work, args=(k,)) for k in kernels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.write(2, b"the end\n")
    assert capfd.readouterr().err == "mine\n" * 8 + "the end\n"
    assert [ti.is_logging_effective(name) for name in ("debug", "warn", "error")] == level
    statuses = [e.details["cache"] for e in recorded.events if e.stage == "compile"]
    assert len(statuses) == 8
    assert "unknown" not in statuses


@pytest.mark.once
@pytest.mark.parametrize("harm", ["os.close(2)", "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)"])
def test_a_kernel_compiles_without_an_error_stream(ti_arch, harm: str) -> None:
    program = (
        "import os, numpy as np, taichi as ti, tikgen\n"
        f"ti.init(arch=ti.{ti_arch}, offline_cache=False, log_level=ti.WARN)\n"
        f"{harm}\n"
        "kernel = tikgen.build('map', expr='x + 7')\n"
        "x, y = np.arange(3, dtype='f4'), np.zeros(3, 'f4')\n"
        "kernel(x, y)\n"
        "print(y, kernel.events[-1].details['cache'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[7. 8. 9.] compiled"


def test_a_finished_recording_keeps_no_kernel_alive(ti_arch) -> None:
    kernel, x = tikgen.from_string(new_text()), ti.ndarray(ti.f32, 5)
    bound = kernel.bind(1.0, x)
    with events.recording() as found:
        bound()
    assert [launches.count for launches in found.launches] == [1]
    gone = weakref.ref(kernel.loaded)
    tikgen.clear()
    del kernel, bound
    gc.collect()
    assert gone() is None


def test_compile_does_not_launch(ti_arch, rng) -> None:
    kernel, x = tikgen.from_string(new_text()), rng.random(9).astype("f4")
    before = x.copy()
    kernel.compile(3.0, x)
    assert kernel.is_compiled(3.0, x)
    np.testing.assert_array_equal(x, before)
    assert kernel.launches == 0
    with events.recording() as found:
        kernel(3.0, x)
    assert not found.events


@pytest.mark.parametrize("name", ["reduce", "scan", "gemm", "transpose", "histogram", "spmv"])
def test_compile_uses_example_arguments_of_the_declared_types(ti_arch, name: str) -> None:
    kernel = tikgen.build(name)
    kernel.compile()
    assert kernel.is_compiled()


def test_compile_names_an_argument_without_a_declared_type(ti_arch) -> None:
    kernel = tikgen.build("stencil", storage="field")
    with pytest.raises(tikgen.errors.ArgumentError, match="pass the arguments to compile for"):
        kernel.compile()
    assert not kernel.is_compiled()


def test_is_compiled_follows_the_kinds_of_arguments(ti_arch) -> None:
    kernel = tikgen.from_string(
        "import taichi as ti\n@ti.kernel\ndef one(x: ti.types.ndarray()):\n"
        f"    for i in range(x.shape[0]):\n        x[i] += {np.random.default_rng().integers(99)}\n"
    )
    kernel(np.ones(3, "f4"))
    assert kernel.is_compiled(np.ones(5, "f4"))
    assert not kernel.is_compiled(np.ones(3, "i4"))
    init_taichi()
    assert not kernel.is_compiled()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_taichis_coloured_log_does_not_reach_a_terminal(ti_arch) -> None:
    program = f"""
import numpy as np, taichi as ti, tikgen
ti.init(ti.{ti_arch}, log_level=ti.ERROR, enable_fallback=False, offline_cache=False)
kernel = tikgen.elementwise("x + 1", dtype="f32")
kernel(np.ones(3, "f4"), np.empty(3, "f4"))
print([e.details["cache"] for e in kernel.events if e.stage == "compile"])
"""
    ours, theirs = os.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, timeout=100
    )
    os.write(theirs, b"the end\n")
    told = b""
    while b"the end" not in told:
        told += os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, told.decode()
    assert told.strip() == b"the end"
    assert b"['compiled']" in done.stdout
