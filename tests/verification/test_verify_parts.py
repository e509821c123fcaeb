"""The parts of verification: strategies, cases, data, comparison."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections import Counter
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from pydantic import Field

from mutants import TEXT
from tikgen import DType, Expression, Identifier, ProblemModel, ScheduleModel, Template, parameter
from tikgen.pipeline import budget
from tikgen.pipeline.builder import resolve
from tikgen.template.catalogue import find_template
from tikgen.verification import Case
from tikgen.verification.compare import compare
from tikgen.verification.data import (
    Guarded,
    differs,
    is_near_the_ends,
    output_poison,
    poison,
    random_values,
    scratch_poison,
)
from tikgen.verification.fences import are_fences_known
from tikgen.verification.strategies import drawn, launches, parameter_strategies
from tikgen.verification.worker import outcome_of


class Everything(Template):
    class Problem(ProblemModel):
        dtype: DType = parameter("", DType.f64, choices=("f16", "f64", "i32"))
        word: Literal["a", "b"] = parameter("", "b")
        flag: bool = parameter("", True)
        count: int = parameter("", 3, ge=1, le=4)
        weight: float = parameter("", 0.5, ge=0, le=1)
        maybe: int | None = parameter("", None, ge=0, le=1)
        free: float = parameter("", 2.0)

    class Schedule(ScheduleModel):
        unroll: Literal[4, 1, 2] = parameter("", 4)


def test_strategies_follow_the_types_simplest_first(tmp_path):
    from hypothesis import find

    (tmp_path / "everything").mkdir()
    (tmp_path / "everything" / TEXT).write_text("")
    drawn = parameter_strategies(Everything(tmp_path / "everything"), fixed={"flag"})
    simplest = {name: find(strategy, lambda value: True) for name, strategy in drawn.items()}
    assert simplest == {
        "dtype": "i32",
        "word": "b",
        "count": 1,
        "weight": 0.0,
        "maybe": None,
        "unroll": 1,
        "free": 0.0,
    }
    assert find(drawn["count"], lambda n: n > 3) == 4
    assert find(drawn["maybe"], lambda n: n == 1) == 1


def test_a_case_is_restored_from_its_line():
    params = {"points": {(0, 1): 0.1, (1, 0): -2.0}, "dtype": "f32", "spacing": (1.0, 0.5)}
    case = Case("stencil", "/t", "cpu", params, {"n0": 3}, 7, "sparse", "ndarray", True)
    again = Case.from_line(case.line)
    assert again.line == case.line
    assert again.params == params
    assert "\n" not in case.line


F32 = DType.f32
BIG = 3.5e38  # More than f32 holds.


@pytest.mark.parametrize(
    ("actual", "expected", "tolerance", "right"),
    [
        (1.0, 1.0, 0, True),
        (0.1, 0.1, 0, True),  # Rounding to f32 is no error.
        (1.0000001, 1.0, 0, False),
        (1.0, 1.0000005, 5e-7, True),
        (1.0, 1.00001, 1e-6, False),
        (np.nan, np.nan, 0, True),
        (np.nan, 1.0, 1e9, False),
        (1.0, np.nan, 1e9, False),
        (np.inf, np.inf, 0, True),
        (np.inf, -np.inf, 1e9, False),
        (np.inf, 1.0, 1e9, False),
        (3.4e38, np.inf, 1e30, False),
        (np.inf, BIG, 0, True),
        (-np.inf, BIG, 0, False),
        (np.inf, 3.4028e38, 1e30, False),
        (np.inf, 3.4028e38, 1e36, True),
        (1.0, 1.0, np.nan, True),
        (1.0, 2.0, np.nan, False),
        (5.0, 1.0, np.inf, True),
        (5.0, np.nan, np.inf, True),
        (np.nan, np.inf, np.inf, True),
    ],
)
def test_floats_are_compared(actual, expected, tolerance, right):
    with np.errstate(all="ignore"):
        verdict = compare(
            "y", np.array([0, actual], np.float32), np.array([0.0, expected]), tolerance
        )
    assert (verdict.message == "") == right, verdict
    assert (verdict.worst <= 1) == right
    if not right:
        assert verdict.message.startswith("y[1] is")


def test_integers_are_compared_as_they_wrap():
    actual = np.array([-128, 5], np.int8)
    assert compare("y", actual, np.array([128, 5]), 0).message == ""
    assert "1 of 2 elements" in compare("y", actual, np.array([127, 5]), 0).message
    assert compare("y", actual, np.array([-127, 5]), 1).message == ""


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_poison_is_no_usual_value_and_random_values_fit(dtype, rng):
    marked = np.full(3, poison(dtype), dtype.numpy)
    assert marked.dtype == dtype.numpy
    assert not dtype.is_float or np.isnan(marked).all()
    for data in ("whole", "uniform", "sparse"):
        values = random_values(dtype, (500,), data, rng)
        assert values.dtype == dtype.numpy
        assert np.abs(values.astype(float)).max() <= 20
        assert (values == 0).any()
        assert differs(values, np.full(500, poison(dtype), dtype.numpy)).all()
    rising = random_values(dtype, (20, 25), "sorted", rng).ravel()
    assert (np.sort(rising) == rising[:: 1 if rising[0] < rising[-1] else -1]).all()
    assert np.abs(rising.astype(float)).max() <= 100
    # Each record exceeds all numbers before it, and there are at most 50.
    x = np.concatenate([random_values(dtype, (500,), "records", rng).astype(float) for _ in "ab"])
    for values in x.reshape(2, 500):
        beyond = values if np.median(values) < values.max() - 5 else -values
        is_record = beyond > np.median(beyond) + 6
        assert 1 <= is_record.sum() < 50
        assert (np.diff(beyond[is_record]) > 0).all()
    # Products and quotients of 64 bits take one large number, or two.
    most = [np.abs(random_values(dtype, (99,), "large", rng).astype(float)).max() for _ in "x" * 60]
    assert min(most) <= 20
    assert (max(most) > 2**32) == (dtype in (DType.i64, DType.u64))
    few = [random_values(dtype, (99,), "few", rng).astype(float) for _ in "x" * 60]
    assert {len(np.unique(values)) for values in few} == {1, 2, 3}
    assert (np.concatenate(few) * (1 + dtype.is_float) % 1 == 0).all()
    assert np.abs(few).max() == 3


@pytest.mark.parametrize("dtype", DType)
def test_wide_data_takes_finite_numbers_of_all_sizes(dtype: DType) -> None:
    drawn = [random_values(dtype, (500,), "wide", np.random.default_rng(seed)) for seed in range(9)]
    values = np.concatenate(drawn)
    assert values.dtype == dtype.numpy
    if dtype.is_float:
        sizes = np.abs(values[values != 0])
        info = np.finfo(dtype.numpy)
        assert np.isfinite(values).all()
        assert info.tiny <= sizes.min() < 0.1
        assert info.max / 2**9 < sizes.max()
    else:
        assert {dtype.lowest, dtype.highest, dtype.highest // 2 + 1} <= set(values.tolist())
    # What overflowed or underflowed on the way may be anything; usual numbers may not.
    if dtype.is_float:
        ends = np.array([np.inf, np.finfo(dtype.numpy).max, np.finfo(dtype.numpy).tiny, np.nan, 0])
        assert is_near_the_ends(ends, dtype).all()
        assert not is_near_the_ends(np.array([1.5, -20, 0.01]), dtype).any()


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_no_update_leaves_the_poison_of_an_output(dtype):
    for size in (1, 12):
        turns = [output_poison(dtype, (size, 1), turn) for turn in range(5)]
        assert all(turn.dtype == dtype.numpy and turn.shape == (size, 1) for turn in turns)
        for one, next_one in itertools.pairwise([*turns, turns[0]]):
            assert ((one != next_one) & ~(np.isnan(one) & np.isnan(next_one))).all()
        value = dtype.numpy.type(3)
        for update in (np.add, np.subtract, np.multiply, np.fmax, np.fmin):
            with np.errstate(over="ignore"):
                found = [differs(update(turn, value), turn).any() for turn in turns]
            assert any(found), update
            assert all(found) or size == 1, update


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_the_poison_of_a_workspace_changes_every_sum(dtype):
    for seed in range(3):
        value = np.full(1, scratch_poison(dtype, seed))
        assert value.dtype == dtype.numpy
        assert value[0] != 0
        with np.errstate(over="ignore"):
            assert (value + value)[0] != 0


def test_writes_outside_a_guarded_array_are_found():
    guarded = Guarded(np.arange(6, dtype=np.float32).reshape(2, 3), F32)
    assert guarded.value.flags.c_contiguous
    assert guarded.writes_outside() == ""
    beyond = np.lib.stride_tricks.as_strided(guarded.value, shape=(9,), strides=(4,))
    assert np.isnan(beyond[6])
    beyond[7] = 0
    assert guarded.writes_outside() == "2 elements behind its last one"


# Each read is done by a fork, which a fence ends.
FENCED = """
import ctypes
import os
import sys
import numpy as np
from tikgen.dtypes import DType
from tikgen.verification.data import Guarded
for size in map(int, sys.argv[1:]):
    for fence, place in ("behind", size - 1), ("before", 0), ("behind", size), ("before", -1):
        guarded = Guarded(np.arange(size, dtype=np.float32), DType.f32, fence=fence)
        assert (guarded.read() == np.arange(size)).all()
        assert guarded.writes_outside() == ""
        fork = os.fork()
        if not fork:
            ctypes.c_float.from_address(guarded.value.ctypes.data + 4 * place).value
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]))
"""


@pytest.mark.skipif(not are_fences_known(), reason="pages cannot be protected here")
def test_memory_next_to_a_fenced_array_cannot_be_read() -> None:
    sizes = (1, 1000, 1024, 5000)
    command = [sys.executable, "-c", FENCED, *map(str, sizes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    one_size = [0, 0, -signal.SIGSEGV, -signal.SIGSEGV]
    assert [int(line) for line in done.stdout.splitlines()] == one_size * len(sizes)


def test_writes_between_an_array_and_the_far_fence_are_found():
    guarded = Guarded(np.zeros(6, np.float32), F32, fence="before")
    beyond = np.lib.stride_tricks.as_strided(guarded.value, shape=(9,), strides=(4,))
    beyond[7] = 0
    assert guarded.writes_outside() == "2 elements behind its last one"


@pytest.mark.parametrize("extreme", [min, max])
@pytest.mark.parametrize("dtype", [d for d in DType if not d.is_float])
def test_a_minimum_or_maximum_written_outside_is_found(dtype: DType, extreme: Any) -> None:
    found = []
    for is_low in (False, True):
        guarded = Guarded(np.full(2, 50, dtype.numpy), dtype, 5, is_low)
        beyond = np.lib.stride_tricks.as_strided(guarded.value, (3,), guarded.value.strides)
        beyond[2] = extreme(beyond[1], beyond[2])
        found.append(guarded.writes_outside())
    assert "1 elements behind its last one" in found


class Numbers(Template):
    class Problem(ProblemModel):
        whole: int = parameter("", 5)
        real: float = parameter("", 0.5)
        count: int = parameter("", 3, ge=1)
        loss: float = parameter("", -1.0, le=0)
        even: Annotated[int, Field(gt=2, multiple_of=2)] = 4
        share: Annotated[float, Field(gt=0, lt=1)] = 0.5
        pair: tuple[int, float] = (1, 2.0)
        some: tuple[Identifier, ...] | None = None
        label: Identifier = parameter("", "a")
        what: Expression = parameter("", "a*b")


@pytest.mark.parametrize("name", Numbers.Problem.model_fields)
def test_every_parameter_is_drawn_within_its_limits(tmp_path, name):
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / TEXT).write_text("")
    strategy = parameter_strategies(Numbers(tmp_path / "numbers"))[name]
    seen = []

    @given(strategy)
    @settings(max_examples=60, database=None, deadline=None)
    def fits(value):
        seen.append(value)
        Numbers.Problem(**{name: value})

    fits()
    assert len(set(map(repr, seen))) > 1
    if name in ("whole", "real"):
        assert {0, 1, -1} <= set(seen)
        assert any(abs(value) > 1000 for value in seen)
    if name == "real":
        assert any(len(repr(value)) > 15 for value in seen)
        assert any(0 < abs(value) < 0.01 for value in seen)


def test_a_kernel_that_would_take_minutes_to_compile_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "MOST_OPERATIONS", 5)
    folder = find_template("map").folder
    case = Case("map", str(folder), "cpu", {"expr": "o = x*x + 41*x"}, {"n0": 3})
    outcome = outcome_of(case, lambda digest: None)
    assert outcome.kind == "skipped" and "take longer than half a minute" in outcome.message


@pytest.mark.parametrize("seed", range(3))
def test_launches_are_of_many_sizes(seed: int) -> None:
    # Beyond some tiles the arrays would be too large: others are taken then, not always the same.
    vectors = {"equations": "each q in 5:\n    o.q = lap(f.q)", "vectors": {"f": 5, "o": 5}}
    variant = resolve("update", arch="cpu", **vectors, dim=1, boundary="wall", loop="points")
    found = drawn(launches(variant.template, variant, "cpu"), 120, seed)
    count = Counter(launch["sizes"]["n0"] for launch in found)
    assert len(count) > 40
    assert max(count.values()) < 30
    assert all(count[size] > 1 for size in (1, 2, 3))
