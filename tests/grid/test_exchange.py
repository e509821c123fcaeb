"""What a message over a side holds: which points, and which bytes of an array these are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikgen.dtypes import DType
from tikgen.grid import mailboxes
from tikgen.grid.boxes import Layers, Message, in_bytes, layer_at
from tikgen.grid.folds import FOLDS
from tikgen.grid.parcels import HostParcel
from tikgen.grid.totals import joined


@given(st.data())
def test_a_message_holds_the_bytes_of_its_points(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    dtype = data.draw(st.sampled_from([np.uint8, np.float16, np.float32, np.float64]))
    ranges = []
    for extent in shape:
        start = data.draw(st.integers(0, extent - 1))
        ranges.append((start, data.draw(st.integers(start + 1, extent))))
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    sizes, counts, starts = in_bytes(array, ranges)
    held = np.frombuffer(array.tobytes(), np.uint8).reshape(sizes)
    pairs = zip(starts, counts, strict=True)
    part = held[tuple(slice(start, start + count) for start, count in pairs)]
    wanted = array[tuple(slice(*each) for each in ranges)]
    assert part.tobytes() == wanted.tobytes()


def test_planes_that_lie_together_are_one_run() -> None:
    sizes, counts, starts = in_bytes(np.zeros((10, 4, 5), np.float32), [(2, 4), (0, 4), (0, 5)])
    assert (sizes, counts, starts) == ([800], [160], [160])


@pytest.mark.parametrize(
    ("is_upper", "is_ghost", "along"),
    [
        (False, True, (1, 3)),  # Two layers below, which the lower neighbour sends.
        (True, False, (8, 10)),
        (True, True, (10, 11)),  # One layer above.
        (False, False, (3, 4)),
    ],
)
@pytest.mark.parametrize("is_diagonal", [False, True])
def test_layers_are_as_wide_as_a_kernel_reads(
    is_upper: bool, is_ghost: bool, along: tuple[int, int], is_diagonal: bool
) -> None:
    layers = Layers(0, ((2, 3), (2, 1)), is_diagonal)
    inner, ghosts = [(3, 20), (3, 10)], [(3, 0), (3, 3)]
    found = layer_at(inner, ghosts, layers, 1, is_upper, is_ghost)
    # With corners, ghost points of the axis before belong to it, where there are any.
    assert found == [(1, 20) if is_diagonal else (3, 20), along]


@given(st.data())
def test_a_parcel_brings_its_boxes_to_other_arrays(data: st.DataObject) -> None:
    arrays, pieces = [], []
    for number, dtype in enumerate([np.float32, np.uint8, np.float64]):
        shape = data.draw(st.lists(st.integers(1, 5), min_size=3, max_size=3))
        starts = [data.draw(st.integers(0, extent - 1)) for extent in shape]
        box = [(a, data.draw(st.integers(a + 1, n))) for a, n in zip(starts, shape, strict=True)]
        arrays.append(np.arange(np.prod(shape)).astype(dtype).reshape(shape))
        pieces.append((number, box))
    chosen = tuple(data.draw(st.lists(st.sampled_from(pieces), min_size=1, unique_by=str)))
    others = [np.full_like(array, 77) for array in arrays]
    sent = HostParcel(Message(1, 0, True, chosen), arrays)
    received = HostParcel(Message(0, 0, False, chosen), others)
    sent.pack()
    received.buffer[...] = sent.buffer
    received.unpack()
    for number, (array, other) in enumerate(zip(arrays, others, strict=True)):
        wanted = np.full_like(array, 77)
        for place in (tuple(slice(*each) for each in box) for n, box in chosen if n == number):
            wanted[place] = array[place]
        np.testing.assert_array_equal(other, wanted)
        np.testing.assert_array_equal(array.ravel(), np.arange(array.size).astype(array.dtype))


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u32", "u64"])
@pytest.mark.parametrize("operation", ["sum", "max", "min"])
def test_native_code_joins_as_numpy_does(
    operation: str, dtype: str, rng: np.random.Generator
) -> None:
    kind = np.float64 if dtype[0] == "f" else np.int64  # Unsigned ones wrap around.
    numbers = (rng.normal(size=7) * 1e8).astype(kind).astype(DType.parse(dtype).numpy)
    for nan_at in (None, 0, 3):
        values = numbers.copy()
        if nan_at is not None and dtype[0] == "f":
            values[nan_at] = np.nan
        arrays = [values[n : n + 1].copy() for n in range(7)]
        mailboxes.fold(operation, arrays, arrays[2]).run()
        np.testing.assert_array_equal(arrays[2], joined(operation, values))
    assert f"@{operation}_{dtype}" in FOLDS
