"""How persistent kernels are made, and input that they refuse."""

from __future__ import annotations

import functools
import gc
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from persistent_samples import HANDLER, make_ring, stays, two_stay, wait_until
from persistent_samples import _brief_proofs as _brief_proofs
from persistent_samples import ring as ring
from tikgen.errors import ExportError, ParameterError, UnsupportedOnArch
from tikgen.ring.errors import (
    BackendNotAvailableError,
    ColumnError,
    InvalidConfigurationError,
    KernelStateError,
)
from tikgen.ring.persistent import making, proof, words
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.ring import PersistentRing
from tikgen.store import default_store
from tikgen.template.base import BUILTIN_FOLDER

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

# Invalid input.


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        (
            {"capacity": 1000},
            InvalidConfigurationError,
            "a power of two up to 16777216, such as 1024",
        ),
        ({"capacity": 0}, InvalidConfigurationError, "takes a power of two"),
        ({"watchdog": -1}, InvalidConfigurationError, "takes seconds up to 3600"),
        ({"state": {"total": "0"}}, InvalidConfigurationError, "takes a number"),
        ({"state": {"total": 0.5}}, InvalidConfigurationError, "whole numbers that i32 holds"),
        ({"state": {"total": float("nan")}}, InvalidConfigurationError, "that i32 holds"),
        ({"state": {"total": float("inf")}}, InvalidConfigurationError, "that i32 holds"),
        ({"state": ["total"]}, InvalidConfigurationError, "takes a dict of numbers by name"),
        ({"dtype": "complex"}, InvalidConfigurationError, "complex"),
        ({"kernel_id": ""}, InvalidConfigurationError, "takes a name"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], error: Any, problem: str) -> None:
    with pytest.raises(error, match=problem):
        make_ring(**settings)


def test_invalid_columns_are_refused() -> None:
    class Vector:
        name, dtype, length = "v", tikgen.DType.f32, 3

    class Twice:
        name, dtype, length = "x", tikgen.DType.f32, 0

    for inputs, problem in (
        ([Vector()], "is a vector of 3; a persistent kernel takes numbers"),
        ([Twice(), Twice()], "is twice in inputs"),
        ({"x": "string"}, "has no dtype of a kernel"),
    ):
        with pytest.raises(ColumnError, match=problem):
            PersistentRing("a", inputs, {"y": "f32"}, "y = x")
    with pytest.raises(InvalidConfigurationError, match="handler=5: takes assignments such as"):
        PersistentRing("a", {"x": "f32"}, {"y": "f32"}, 5)
    for inputs in ({}, "x", [1]):
        with pytest.raises(InvalidConfigurationError, match=r"takes (a )?column"):
            PersistentRing("a", inputs, {"y": "f32"}, "y = x")
    with pytest.raises(InvalidConfigurationError, match="no dtype holds all of i64, u64"):
        PersistentRing("a", {"x": "i64"}, {"y": "u64"}, "y = x")


@stays
@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("y = 2*z", "reads z, which is no column of a message and no state"),
        ("w = x", "does not assign y, a column of the reply"),
        ("y = __import__('os')", "handler"),
        ("y = x; ring_slot = 1", "uses 'ring_slot', which the kernel has for itself"),
        (RingBody("y = x", params={"no": 1}), "no"),
    ],
)
def test_invalid_handlers_are_refused(handler: Any, problem: str) -> None:
    ring = PersistentRing("a", {"x": "f32"}, {"y": "f32"}, handler, arch=ARCH)
    with pytest.raises((ParameterError, ExportError), match=problem):
        ring.start()
    assert ring.status == "not started"
    assert ring.stop() == (0, 0)


def test_invalid_bodies_are_refused() -> None:
    with pytest.raises(InvalidConfigurationError, match="a text that is not empty"):
        RingBody("  ")
    with pytest.raises(InvalidConfigurationError, match="takes a function"):
        RingBody("y = x", reference=3)  # type: ignore[arg-type]
    assert repr(RingBody("y = x")) == "RingBody('y = x')"


def test_bodies_differ_where_their_references_do() -> None:
    made: list[Any] = []
    for factor in (2, 3):
        names: dict[str, Any] = {}
        exec(f"def doubled(x):\n    return {{'y': {factor} * x}}", names)
        made.append(RingBody("y = 2*x", reference=names["doubled"]))
    assert made[0].key != made[1].key
    assert made[0].key == RingBody("y = 2*x", reference=made[0].reference).key
    assert "partial" in RingBody("y = x", reference=functools.partial(dict, y=1)).key


def test_a_reference_returns_a_dict_of_the_columns() -> None:
    assert proof._answer(lambda x: {"y": x, "z": 0}, {"x": 3}, ["y"])["y"] == 3
    for answer in (3, {"z": 3}):
        with pytest.raises(InvalidConfigurationError, match="returns a dict of y; got"):
            proof._answer(lambda x, answer=answer: answer, {"x": 3}, ["y"])
    drawn = proof._numbers(tikgen.DType.f64, 20, np.random.default_rng(0))
    assert drawn.dtype == np.float64 and np.all(abs(drawn) < 1) and np.any(drawn % 1)


@pytest.mark.parametrize("arch", ["vulkan", "metal"])
def test_an_unsupported_arch_recommends_the_batch_engine(arch: str) -> None:
    with pytest.raises(UnsupportedOnArch, match="engine='batch'"):
        make_ring(arch=arch).start()


@stays
def test_values_that_do_not_fit_are_refused(ring: PersistentRing) -> None:
    for value in ("1", 1.5, 2**31, None, [1], np.float32(2), 1j, float("nan")):
        with pytest.raises(ColumnError, match="column 'x' takes a number that i32 holds"):
            ring.call(value)
        with pytest.raises(ColumnError):
            ring.push(value)
    for values in ((), (1, 2)):
        with pytest.raises(ColumnError, match=f"one of 1 .* got {len(values)} values"):
            ring.call(*values)
    for columns, problem in (
        ({}, "is missing"),
        ({"x": [1], "z": [1]}, "column 'z' is not known"),
        ({"x": 3}, "takes an array of shape"),
        ({"x": [1.5]}, "takes i32; got float64"),
        ({"x": [2**31]}, f"takes i32, .* got {2**31}"),
        ([1], "dict of arrays"),
    ):
        with pytest.raises(ColumnError, match=problem):
            ring.push_columns(columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigurationError, match="a number of replies"):
        ring.take(-1)
    assert ring.done == ring.pending == 0
    assert ring.call(1) == 3


@stays
def test_invalid_time_outs_are_refused(ring: PersistentRing) -> None:
    for wrong in (-1, float("nan"), "1", True):
        for use in (ring.pause, ring.resume, ring.stop, ring.drain, ring.flush):
            with pytest.raises(InvalidConfigurationError, match="takes seconds from 0, or None"):
                use(wrong)
    assert ring.call(1) == 3
    ring.flush(float("inf"))


def test_a_ring_that_was_not_started_raises() -> None:
    ring = make_ring()
    for use in (lambda: ring.call(1), lambda: ring.push(1), ring.take, ring.pause, ring.flush):
        with pytest.raises(KernelStateError, match=r"start\(\) it first"):
            use()
    assert repr(ring) == f"<PersistentRing 'sum' (x: i32) -> (y: i32) on {ARCH}, not started>"
    assert ring.stop() == (0, 0)
    assert (ring.done, ring.pending, ring.ready) == (0, 0, 0)
    assert ring.state == {"total": 0}


# Making the kernel.


@stays
@two_stay
def test_a_second_ring_is_loaded_from_the_store(
    ring: PersistentRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(making, "make", refuse)
    with make_ring(capacity=2, state={"total": 5}) as other:
        assert other.call(1) == 3
        assert other.state == {"total": 6}
    ring = PersistentRing("d", {"x": "i32"}, {"y": "i32"}, HANDLER, state={"total": 0}, dtype="i64")
    with pytest.raises(AssertionError, match="made again"):
        ring.start()


@stays
def test_a_second_ring_on_a_gpu_is_refused(
    ring: PersistentRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PersistentRing("other", {"x": "i32"}, {"y": "i32"}, "y = x", arch="cuda")
    monkeypatch.setattr(ring, "arch", "cuda")  # On cpu any number may stay.
    with pytest.raises(BackendNotAvailableError, match=f"{ring.kernel_id!r} stays there"):
        other.start()
    assert not other.is_alive


@stays
@two_stay
def test_a_damaged_bundle_is_made_again(
    ring: PersistentRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = default_store().folder / "ring"
    made: list[Path] = []

    def copy(handler: object, layout: object, arch: str, path: Path) -> None:
        made.append(path)
        shutil.copytree(good / path.parent.name / path.name, path)

    def use() -> int:
        with make_ring() as other:
            assert other.call(1) == 3
        return len(made)

    monkeypatch.setattr(making, "make", copy)
    monkeypatch.setenv("TIKGEN_CACHE_DIR", str(tmp_path))
    assert [use(), use()] == [1, 1]
    assert made[0].is_relative_to(tmp_path)
    for path in made[0].rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    assert [use(), use()] == [2, 2]


@stays
def test_a_ring_that_is_garbage_collected_ends() -> None:
    ring = make_ring("dropped")
    ring.start()
    assert any(t.name == "tikgen-ring-dropped" for t in threading.enumerate())
    del ring
    gc.collect()
    wait_until(lambda: all(t.name != "tikgen-ring-dropped" for t in threading.enumerate()))


def test_the_control_words_equal_those_of_the_template() -> None:
    template = sys.modules[type(tikgen.load_template(BUILTIN_FOLDER / "ring")).__module__]
    for name in ("WORDS", "COMMAND", "TAIL", "DONE", "STATE", "BEAT", "LIMIT", "POLLS"):
        assert getattr(template, name) == getattr(words, name)
    for name in ("RUN", "PAUSE", "DRAIN", "END", "STOPPED", "DRAINED", "ABANDONED"):
        assert getattr(template, name) == getattr(words, name)
