"""Kernels that choose their schedule by the sizes of a call."""

from __future__ import annotations

import functools
import gc
import threading
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import tikgen
from conftest import ARCH, init_taichi
from tikgen import engines
from tikgen.errors import ArgumentError
from tikgen.live.rebuilding import rebuild
from tikgen.machine.devices import device_name
from tikgen.pipeline import records, sized
from tikgen.template.base import BUILTIN_FOLDER
from tikgen.template.catalogue import load_template
from tikgen.verification.check import Trial
from tikgen.verification.strategies import trials

TEMPLATES = sorted(path.parent.name for path in BUILTIN_FOLDER.glob("*/kernel.py.j2"))
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="schedules of cpu")
# Every element gets the number of the schedule that was taken.
TEXT = """import taichi as ti


@ti.kernel
def {{ name }}(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = {{ s.way }}.0
"""
CODE = '''from tikgen import Array, DType, ScheduleModel, Template, parameter


class Which(Template):
    """Writes the number of its schedule, which no other template may do."""

    class Schedule(ScheduleModel):
        way: int = parameter("which one", 0, ge=0)

    def arguments(self, p):
        return (Array("x", DType.f32, ("n",), role="out"),)

    def default_schedule(self, p, arch, sizes):
        return {"way": sizes["n"] // 10} if sizes else {}
'''


@pytest.fixture
def which(tmp_path: Path) -> Iterator[Any]:
    folder = tmp_path / f"which_{np.random.default_rng().integers(1 << 40)}"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    yield tikgen.load_template(folder)
    tikgen.clear()


def taken(launch: Any, count: int) -> int:
    """Return the schedule that a launch over so many elements took."""
    x = np.full(count, np.nan, np.float32)
    launch(x)
    assert len(set(x)) == 1
    return int(x[0])


def launched(kernel: tikgen.Kernel, values: Any) -> None:
    kernel(*values)


def axpy(count: int) -> list[Any]:
    rng = np.random.default_rng(count)
    return [2.0, *(rng.random(count, np.float32) for _ in range(3))]


@on_cpu
def test_small_arrays_are_done_by_one_thread(ti_arch: str) -> None:
    kernel = tikgen.build("map", expr="z = a*x + y + 3", dtype="f32")
    for count, serial in ((1, True), (1000, True), (3_000_000, False)):
        a, x, y, z = axpy(count)
        kernel(a, x, y, z)
        assert np.allclose(z, a * x + y + 3)
        assert kernel.schedule.serial is serial
        assert kernel.source is kernel.bind(a, x, y, z).kernel.source
    assert len(kernel.sources) == len(kernel.classes) == 2
    assert kernel.launches == 3
    assert "for sizes such as n0=1" in kernel.classes[0].schedule_origin
    assert "2 schedules so far" in repr(kernel)
    assert "2 schedules" in str(tikgen.why(kernel))
    assert "2 schedules" in kernel._repr_html_()
    assert {life.launches.count for life in kernel.lifecycle.kernels} == {1, 2}


def test_each_size_takes_its_schedule(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    assert kernel.schedule.way == 0
    for count in (30, 31, 12, 39, 12):
        assert taken(kernel, count) == kernel.schedule.way == count // 10
    bound = kernel.bind(np.zeros(25, np.float32))
    assert bound.kernel.schedule.way == 2
    bound.rebind(x=(x := np.zeros(47, np.float32)))
    bound()
    assert set(x) == {4.0}
    assert taken(lambda x: kernel(x=x), 18) == 1
    assert [each.schedule.way for each in kernel.classes] == [3, 1, 2, 4]
    assert tikgen.build(which) is kernel
    assert [kernel.is_compiled(np.zeros(count, np.float32)) for count in (25, 85)] == [True, False]
    of_sizes = kernel.with_record(None, {"n": 30})
    assert (of_sizes.schedule.way, kernel.schedule.way) == (0, 8)
    assert not hasattr(type(kernel).__new__(type(kernel)), "schedule")  # As copy.copy makes one.


def test_only_so_many_shapes_are_remembered(
    ti_arch: str, which: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sized, "_MOST_SHAPES", 2)
    kernel = tikgen.build(which)
    for count in (30, 31, 12, 39, 30):
        assert taken(kernel, count) == count // 10
        assert len(kernel._by_shape) <= 2


def test_a_given_schedule_or_shape_is_the_only_one(ti_arch: str, which: Any) -> None:
    for params in ({"way": 7}, {"schedule": {"way": 7}}, {"schedule": {}}):
        kernel = tikgen.build(which, **params)
        way = kernel.schedule.way
        assert [taken(kernel, count) for count in (30, 12)] == [way, way]
        assert kernel.sources == (kernel.source,)
    baked = tikgen.build(which, shape=30)
    assert taken(baked, 30) == 3
    with pytest.raises(ArgumentError, match="takes shape"):
        taken(baked, 12)


def test_beyond_the_most_classes_the_nearest_is_taken(
    ti_arch: str, which: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4
    monkeypatch.setattr(sized, "MOST_CLASSES", most)
    kernel = tikgen.build(which)
    first = [10 * 2**number for number in range(most)]
    assert [taken(kernel, count) for count in first] == [count // 10 for count in first]
    assert taken(kernel, 25) == 2
    assert taken(kernel, 10_000) == first[-1] // 10
    assert len(kernel.classes) == most


def test_wrong_arguments_are_refused_as_ever(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    good = np.zeros(9, np.float32)
    for args, match in (((), "missing"), ((good, good), "takes 1"), ((3,), "NumPy array"),
                        ((good.astype("f8"),), "dtype"), ((good[::2],), "contiguous"),
                        ((np.zeros((3, 3), np.float32),), "takes 1 axis")):  # fmt: skip
        for call in (kernel, kernel.bind):
            with pytest.raises(ArgumentError, match=match):
                call(*args)


def test_a_schedule_that_cannot_be_chosen_is_told_of(
    ti_arch: str, which: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = tikgen.build(which)
    for chosen, why in (({"way": -1}, "way"), ({"no": 1}, "no"), (None, "returned None; it must")):
        way = {"default_schedule": lambda *_, chosen=chosen: chosen}
        monkeypatch.setattr(type(which), "default_schedule", way["default_schedule"])
        with pytest.warns(UserWarning, match=why):
            assert taken(kernel, 70 + len(why)) == 0


def test_records_near_the_sizes_come_first(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    assert taken(kernel, 64) == 6
    record = records.Record(
        template=which.name,
        fingerprint=which.fingerprint,
        problem=records.problem_text(kernel.problem),
        arch=ti_arch,
        device=device_name(ti_arch),
        taichi=records.taichi_version(),
        tikgen=tikgen.__version__,
        sizes={"n": 64},
        schedule={"way": 99},
        kind="timed",
        seconds=1.0,
        ratio=0.5,
        engine=engines.timed_by(engines.DEFAULT, ti_arch),
    )
    records.keep_all([record, replace(record, sizes={"n": 1000}, schedule={"way": 98})])
    assert taken(kernel, 64) == taken(kernel, 50) == 99
    assert kernel.schedule_origin.startswith("tuned for n=64")
    assert taken(kernel, 1100) == 98
    assert taken(kernel, 100_000) == 10_000  # Too far from both.
    assert taken(tikgen.build(which, schedule="tuned"), 100_000) == 98


def test_new_files_change_every_class(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    assert [taken(kernel, count) for count in (10, 20)] == [1, 2]
    bound = kernel.bind(x := np.zeros(20, np.float32))
    text = which.folder / "kernel.py.j2"

    def changed(name: Path, old: str, new: str) -> Any:
        name.write_text(name.read_text().replace(old, new))
        return rebuild(which.folder, (name,), told.append)

    told: list[Any] = []
    assert changed(text, "{{ s.way }}.0", "{{ s.way }}.0 + 1000").rebuilt == (kernel,)
    assert [taken(kernel, count) for count in (10, 20, 30)] == [1001, 1002, 1003]
    bound()
    assert set(x) == {1002}
    changed(which.folder / "template.py", "// 10", "// 5")
    assert [taken(kernel, count) for count in (10, 20, 30)] == [1002, 1004, 1006]
    changed(text, "+ 1000", "+ nowhere")
    assert [taken(kernel, count) for count in (10, 20, 30)] == [1002, 1004, 1006]
    assert told


def test_a_new_ti_init_keeps_the_choice(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    assert taken(kernel, 20) == 2
    init_taichi()
    assert taken(kernel, 20) == 2
    assert taken(kernel, 30) == 3
    kernel.unload()
    for count in (20, 30, 40):
        with pytest.raises(ArgumentError, match="unloaded"):
            taken(kernel, count)


def test_threads_with_other_sizes_do_not_meet(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    barrier, wrong = threading.Barrier(3), []

    def run(count: int) -> None:
        barrier.wait()
        wrong.extend(found for _ in range(50) if (found := taken(kernel, count)) != count // 10)

    taken(kernel, 5)  # In the thread of ti.init.
    threads = [threading.Thread(target=run, args=(count,)) for count in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert {each.schedule.way for each in kernel.classes} == {0, 1, 2, 3}


@on_cpu
def test_each_class_has_its_machine_code(ti_arch: str) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    kernel = tikgen.build("map", expr="z = a*x + y + 5", dtype="f32", engine="direct-cpu")
    for count in (10, 3_000_000, 10):
        a, x, y, z = axpy(count)
        kernel(a, x, y, z)
        assert np.allclose(z, a * x + y + 5)
    assert kernel.engine == "direct-cpu"
    assert [each.engine for each in kernel.classes] == ["direct-cpu"] * 2
    assert tikgen.build("map", expr="z = a*x + y + 5", dtype="f32").launches == 3


def test_clear_frees_every_class(ti_arch: str, which: Any) -> None:
    kernel = tikgen.build(which)
    assert [taken(kernel, count) for count in (10, 20)] == [1, 2]
    gone = [weakref.ref(kernel), *(weakref.ref(each) for each in kernel.classes)]
    del kernel
    tikgen.clear()
    gc.collect()
    assert not any(ref() for ref in gone)


@pytest.mark.once
@pytest.mark.parametrize("name", TEMPLATES)
def test_plain_calls_agree_with_the_reference(ti_arch: str, name: str) -> None:
    if name == "ring" and ti_arch == "vulkan":
        pytest.skip("a kernel that stays on the device is for cpu and cuda")
    template = load_template(BUILTIN_FOLDER / name)

    @settings(
        max_examples=1,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(trials(template, ARCH, {}, lambda _: None, lambda _: None))
    def check(cases: Any) -> None:
        for case in cases:
            problem = {n: v for n, v in case.params.items() if n in template.Problem.model_fields}
            kernel = tikgen.build(template, **problem)
            call = functools.partial(launched, kernel)
            trial = Trial(template, case.params, kernel=kernel, launch=call, **case.trial)
            outcome = trial.run()
            assert outcome.ok, f"{case}: {outcome.message}"

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # Of a default that cannot be used.
        check()
