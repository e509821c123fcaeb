"""Views: their strides, what they span, and whether two of them share elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

import tikgen
from tikgen.live.rebuilding import _followed
from tikgen.template.views import MOST_LAST, flat, share_elements, span_of, strides_of, views_of

NDArray = npt.NDArray[Any]


@st.composite
def arrays(draw: st.DrawFn) -> NDArray:
    """Draw an array of bytes or 16 bits over some memory, of any strides, negative ones as well."""
    size = draw(st.sampled_from((1, 2)))
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    strides = draw(st.lists(st.integers(-9, 24), min_size=len(shape), max_size=len(shape)))
    if draw(st.booleans()):
        strides[-1] = size
    memory = np.arange(400, dtype=np.uint8)
    start = memory[130 + draw(st.integers(0, 40)) :][:size].view(f"u{size}")
    return np.lib.stride_tricks.as_strided(start, shape, strides)


def bytes_of(array: NDArray) -> list[int]:
    """Return the address of each byte of each element."""
    indices = np.indices(array.shape).reshape(array.ndim, -1)
    first = array.ctypes.data + np.tensordot(array.strides, indices, 1)
    return [int(at) + byte for at in np.atleast_1d(first) for byte in range(array.itemsize)]


@given(array=arrays())
def test_strides_of_views_lead_to_every_element_once(array: NDArray) -> None:
    strides = strides_of(array)
    places = bytes_of(array)
    if strides is None:
        steps = [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
        is_regular = array.shape[-1] == 1 or array.strides[-1] <= MOST_LAST * array.itemsize
        # What is refused has wide gaps in its rows, parts of elements, or is wound into itself.
        assert (
            not is_regular
            or any(s < 0 or s % array.itemsize for s in steps)
            or len(set(places)) < len(places)
            or len(steps) > 1
        )
        return
    assert len(set(places)) == len(places)
    assert strides == strides_of(array, may_overlap=True)
    run = flat(array)
    assert run.shape == (1,) * (array.ndim - 1) + (span_of(array),)
    assert run.flags.c_contiguous
    indices = np.indices(array.shape).reshape(array.ndim, -1)
    np.testing.assert_array_equal(run.ravel()[np.tensordot(strides, indices, 1)], array.ravel())
    assert max(places) - min(places) + 1 == span_of(array) * array.itemsize


@given(one=arrays(), other=arrays())
def test_shared_elements_are_found(one: NDArray, other: NDArray) -> None:
    shift = other.ctypes.data - one.ctypes.data
    near = np.lib.stride_tricks.as_strided(one, other.shape, other.strides)  # From the same byte.
    assert share_elements(one, near)
    shared = not set(bytes_of(one)).isdisjoint(bytes_of(other))
    assert share_elements(one, other) is shared, shift


def test_groups_have_equal_strides() -> None:
    x, y = np.zeros((9, 12)), np.zeros((4, 7, 8))
    views = views_of({"a": x[1:, 1:], "b": y, "c": x[:, :-2], "d": x[:, :-2].copy(), "e": y + 0})
    assert views.groups == (("a", 0), ("b", 1), ("c", 0), ("d", 2), ("e", 1))
    views = views_of({"a": x[:, ::2], "b": x[:, :6], "c": x[1:, 1::2], "d": x[:, ::12]})
    assert views.groups == (("a", 0), ("b", 1), ("c", 0), ("d", 1))
    assert views.last == (2, 1)


def test_new_code_of_a_kernel_for_views_is_for_views() -> None:
    heat = tikgen.update("u' = u + lap(u)", dim=2)
    x = np.zeros((2, 9, 12), np.float32)
    kernel = heat.for_arguments((x[0, 1:, 1:], x[1, 1:, 1:]), {})
    followed = _followed(kernel.variant, kernel.template)
    assert followed.views == kernel.variant.views
    assert followed.key == kernel.variant.key != heat.variant.key
