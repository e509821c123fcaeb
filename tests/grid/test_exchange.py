"""What a message over a side holds: which points, and which bytes of an array these are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tikgen.grid.exchange import Layers, in_bytes, layer_at


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
