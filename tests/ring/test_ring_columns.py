"""Columns: messages become arrays and back, and numbers that do not fit are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tikgen.dtypes import DType
from tikgen.errors import ConversionError, TikgenError
from tikgen.ring.errors import ColumnError
from tikgen.ring.messages import columns as dtypes
from tikgen.ring.messages.base import message
from tikgen.ring.messages.columns import (
    Column,
    check_columns,
    columns_of,
    f16,
    f32,
    f64,
    i32,
    pack,
    u8,
    u64,
    unpack,
    vector,
)


@message
class Particle:
    mass: float
    kind: int
    is_alive: bool
    energy: f64 = 0.0
    position: vector(f32, 3) = (0.0, 0.0, 0.0)
    counts: vector(i32, 2) = (0, 0)


def one_field(annotation: Any) -> type[Any]:
    made = type("One", (), {"__annotations__": {"x": annotation}, "__module__": __name__})
    return message(made)


def packed(annotation: Any, *values: Any) -> np.ndarray[Any, Any]:
    """Return the column of messages with these values."""
    kind = one_field(annotation)
    (column,) = columns_of(kind)
    arrays = {"x": np.zeros(column.shape(len(values)), column.dtype.numpy)}
    pack([kind(value) for value in values], [column], arrays)
    return arrays["x"]


def test_columns_follow_the_annotations():
    assert columns_of(Particle) == (
        Column("mass", DType.f32),
        Column("kind", DType.i32),
        Column("is_alive", DType.u8),
        Column("energy", DType.f64),
        Column("position", DType.f32, 3),
        Column("counts", DType.i32, 2),
    )
    for member in DType:
        assert columns_of(one_field(getattr(dtypes, member.value))) == (Column("x", member),)
        assert columns_of(one_field(vector(member, 1))) == (Column("x", member, 1),)
    assert [c.name for c in columns_of(type("Sub", (Particle,), {"__module__": __name__}))] == [
        c.name for c in columns_of(Particle)
    ]


@pytest.mark.parametrize("annotation", [str, list[float], np.ndarray, float | None, Any, "Nothing"])
def test_fields_without_numbers_have_no_column(annotation):
    with pytest.raises((ColumnError, TypeError), match=r"column 'x' cannot hold|Nothing"):
        columns_of(one_field(annotation))


@pytest.mark.parametrize("wrong", [int, 5, None, "Particle"])
def test_columns_of_takes_message_types_only(wrong):
    with pytest.raises(TypeError, match="columns_of takes a message type; got") as caught:
        columns_of(wrong)
    assert isinstance(caught.value, TikgenError)


@pytest.mark.parametrize("length", [0, -1, 1.5, True, "3"])
def test_vectors_have_a_length(length):
    with pytest.raises(ValueError, match="integer from 1") as caught:
        vector(f32, length)
    assert isinstance(caught.value, TikgenError)
    for dtype in ("f31", []):
        with pytest.raises(ConversionError, match="not one of"):
            vector(dtype, 3)


@pytest.mark.parametrize("count", [1, 7, 64])
def test_messages_survive_their_columns(count, rng):
    given = [
        Particle(
            float(rng.standard_normal()),
            int(rng.integers(-(2**31), 2**31)),
            bool(rng.integers(2)),
            float(rng.standard_normal()),
            rng.standard_normal(3) if rng.integers(2) else tuple(rng.standard_normal(3).tolist()),
            [1, int(rng.integers(100))],
        )
        for _ in range(count)
    ]
    columns = columns_of(Particle)
    arrays = {c.name: np.full(c.shape(count + 5), 9, c.dtype.numpy) for c in columns}
    pack(given, columns, arrays)
    assert all((array[count:] == 9).all() for array in arrays.values())
    ids = [one.message_id for one in given]
    back = unpack(arrays, columns, Particle, 0, count, correlations=ids)
    assert len(back) == count and [one.correlation_id for one in back] == ids
    for before, after in zip(given, back, strict=True):
        assert after.mass == np.float32(before.mass) and after.kind == before.kind
        assert after.is_alive is before.is_alive and after.energy == before.energy
        np.testing.assert_array_equal(after.position, np.float32(before.position))
        np.testing.assert_array_equal(after.counts, before.counts)
    kept = back[0].position.copy()
    arrays["position"][:] = 0  # The columns are reused; the messages keep their numbers.
    np.testing.assert_array_equal(back[0].position, kept)


def test_columns_in_another_order_than_the_fields():
    columns = columns_of(Particle)[:4][::-1]
    arrays = {c.name: np.ones(2, c.dtype.numpy) for c in columns}
    arrays["kind"][:] = [4, 5]
    first, second = unpack(arrays, columns, Particle, 0, 2)
    assert (first.kind, second.kind, first.mass, first.correlation_id) == (4, 5, 1.0, None)
    assert first.counts == (0, 0)
    pack([], columns, arrays)


FITS: list[tuple[Any, list[Any]]] = [
    (float, [1, 1.5, np.float32(2.5), np.float64(3), np.int8(-1), float("inf"), -float("inf")]),
    (f16, [65504.0, 0.5, float("inf")]),
    (f64, [1e300, 2**60]),
    (int, [1, -(2**31), 2**31 - 1, np.int64(5), np.uint8(7)]),
    (dtypes.i8, [-128, 127]),
    (dtypes.i64, [-(2**63), 2**63 - 1]),
    (u64, [0, 2**64 - 1]),
    (bool, [True, False, np.bool_(True)]),
    (u8, [0, 255, True]),
]
MISFITS: list[tuple[Any, Any, str]] = [
    (float, None, "takes f32; got None"),
    (float, "1", "takes f32; got '1'"),
    (float, True, "takes f32; got True"),
    (float, 1e39, "3.40"),
    (float, 10**400, "3.40"),
    (f16, 65536.0, "65504"),
    (f16, -1e6, "65504"),
    (f64, 10**400, "1.79"),
    (int, 2**31, "2147483648"),
    (int, 2**70, "1180591620717411303424"),
    (int, -(2**63) - 1, "-9223372036854775809"),
    (int, 1.0, "takes i32; got 1.0"),
    (int, float("nan"), "nan"),
    (int, "1", "got '1'"),
    (int, None, "got None"),
    (int, True, "got True"),
    (dtypes.i8, 128, "-128 to 127; got 128"),
    (dtypes.u8, -1, "0 to 255; got -1"),
    (u64, -1, "got -1"),
    (u64, 2**64, "18446744073709551616"),
    (dtypes.i64, 2**63, "9223372036854775808"),
    (vector(f32, 2), [1.0], "vectors of 2 numbers; got one of 1"),
    (vector(f32, 2), [1.0, 2.0, 3.0], "vectors of 2 numbers; got one of 3"),
    (vector(f32, 2), np.zeros(3), "vectors of 2 numbers; got one of 3"),
    (vector(f32, 2), np.zeros((2, 1)), "shape"),
    (vector(f32, 2), np.array(1.0), "shape"),
    (vector(f32, 2), "ab", "takes a vector"),
    (vector(f32, 2), None, "takes a vector"),
    (vector(f32, 2), np.ma.masked_array([1.0, 2.0], [1, 0]), "got a masked array"),
    (vector(f32, 2), [1.0, "a"], "got 'a'"),
    (vector(f32, 2), [1.0, 1e39], "3.40"),
    (vector(f32, 2), np.array([1e39, 0]), "3.40"),
    (vector(f32, 2), np.array(["a", "b"]), "'a'"),
    (vector(f32, 2), np.array([1j, 0]), "got"),
    (vector(f32, 2), np.array([True, False]), "True"),
    (vector(i32, 2), np.array([1.0, 2.0]), "takes i32; got"),
    (vector(i32, 2), [1, 2.5], "got 2.5"),
    (vector(i32, 2), np.array([2**31, 0]), "2147483648"),
]


@pytest.mark.parametrize("annotation, values", FITS, ids=[str(one[0]) for one in FITS])
def test_numbers_that_fit_are_packed(annotation, values):
    column = packed(annotation, *values)
    for number, value in zip(column, values, strict=True):
        assert number == column.dtype.type(value)
        assert packed(annotation, value)[0] == number


@pytest.mark.parametrize("annotation, value, why", MISFITS)
def test_numbers_that_do_not_fit_are_refused(annotation, value, why):
    good: Any = [1, 1] if "Vector" in str(annotation) else 1
    for values in ([value], [good, value, good], [good, good, value]):
        with pytest.raises(ColumnError, match="column 'x' takes") as caught:
            packed(annotation, *values)
        assert why in str(caught.value) and caught.value.column == "x"


def test_vectors_of_every_kind_in_one_batch():
    column = packed(vector(f32, 2), np.array([1, 2]), [3, 4.5], (5, np.float32(6)), np.zeros(2))
    np.testing.assert_array_equal(column, np.float32([[1, 2], [3, 4.5], [5, 6], [0, 0]]))
    column = packed(vector(f32, 2), np.array([1, 2]), np.array([0.5, 1], np.float16))
    np.testing.assert_array_equal(column, np.float32([[1, 2], [0.5, 1]]))


# Columns of a caller.

EXPECTED = (Column("x", DType.f32), Column("k", DType.i32), Column("v", DType.f32, 3))


def given(count: int = 5) -> dict[str, Any]:
    return {
        "x": np.arange(count, dtype=np.float32),
        "k": np.arange(count, dtype=np.int32),
        "v": np.ones((count, 3), np.float32),
    }


def test_columns_that_fit_are_not_copied():
    columns = given()
    found, count = check_columns(columns, EXPECTED)
    assert count == 5 and all(found[name] is columns[name] for name in columns)
    assert check_columns({}, ()) == ({}, 0)
    assert check_columns(given(0), EXPECTED)[1] == 0


@pytest.mark.parametrize(
    "name, value",
    [
        ("x", [0, 1, 2, 3, 4]),
        ("x", np.arange(5.0)),
        ("x", np.array([0, 1, 2, 3, np.nan])),
        ("x", np.arange(5, dtype=">f4")),
        ("x", np.arange(10, dtype=np.float32)[::2]),
        ("k", np.arange(5)),
        ("k", np.array([True, False, True, False, True])),
        ("v", np.ones((3, 5), np.float32).T),
        ("v", [[1, 2, 3]] * 5),
    ],
)
def test_columns_are_converted_without_loss(name, value):
    found, count = check_columns(given() | {name: value}, EXPECTED)
    dtype = np.int32 if name == "k" else np.float32
    assert count == 5 and found[name].dtype == dtype and found[name].flags.c_contiguous
    np.testing.assert_array_equal(found[name], np.asarray(value))


def test_unaligned_columns_are_copied():
    raw = np.zeros(21, np.uint8)[1:].view(np.float32)
    found, _ = check_columns(given() | {"x": raw}, EXPECTED)
    assert not raw.flags.aligned and found["x"].flags.aligned


@pytest.mark.parametrize(
    "change, why",
    [
        ({"y": np.zeros(5)}, "column 'y' is not known; known are x, k, v"),
        ({"x": None}, "takes an array of shape"),
        ({"x": np.zeros(4, np.float32)}, "has 5 messages, and column 'x' has 4"),
        ({"x": np.zeros((5, 1), np.float32)}, "takes an array of shape"),
        ({"x": np.float32(1)}, "takes an array of shape"),
        ({"v": np.zeros((5, 2), np.float32)}, r"takes an array of shape \(n, 3\); got \(5, 2\)"),
        ({"v": [[1], [1, 2]]}, "cannot be made an array"),
        ({"k": np.zeros(5)}, "takes i32; got float64"),
        ({"k": np.full(5, 2**31)}, "got 2147483648"),
        ({"k": np.zeros(5, complex)}, "takes i32; got complex128"),
        ({"x": ["a"] * 5}, "takes f32; got <U1"),
        ({"x": [1e39] * 5}, "got 1e"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, why):
    with pytest.raises(ColumnError, match=why):
        check_columns(given() | change, EXPECTED)


def test_missing_and_unknown_columns_are_refused():
    columns = given()
    del columns["k"]
    with pytest.raises(ColumnError, match="column 'k' is missing"):
        check_columns(columns, EXPECTED)
    with pytest.raises(ColumnError, match="needs a dict of arrays"):
        check_columns([1], EXPECTED)  # type: ignore[arg-type]


@pytest.mark.parametrize("annotation", [float, f16, f64, vector(f32, 2)])
def test_nan_is_allowed_in_rows_and_in_columns(annotation: Any) -> None:
    nan = [1.0, np.nan] if "Vector" in str(annotation) else np.nan
    kind = message(type("Kind", (), {"__annotations__": {"x": annotation}}))
    (column,) = columns_of(kind)
    arrays = {"x": np.zeros(column.shape(3), column.dtype.numpy)}
    for value in (nan, np.asarray(nan, column.dtype.numpy)):
        if not column.length and isinstance(value, np.ndarray):
            value = value[()]
        pack([kind(x=nan), kind(x=value), kind(x=nan)], columns_of(kind), arrays)
        given, _ = check_columns({"x": [nan, nan, nan]}, columns_of(kind))
        np.testing.assert_array_equal(arrays["x"], given["x"])
        assert np.isnan(arrays["x"]).any()
