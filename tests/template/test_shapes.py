"""Tests of shapes: baked into kernels, and as users name them."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from tikgen.errors import ArgumentError, ParameterError
from tikgen.template import shapes

pytestmark = pytest.mark.once


def test_a_baked_shape_stands_in_the_text_and_in_the_signature(ti_arch, rng) -> None:
    sizes = tuple(int(n) for n in rng.integers(3, 40, 2))
    kernel = tikgen.build("stencil", dim=2, boundary="periodic", shape=sizes)
    # Parallel loops of few turns keep theirs.
    lines = kernel.source.text.splitlines()
    assert not [each for each in lines if ".shape[" in each and not each.startswith("    for ")]
    assert f"# shape: n0={sizes[0]}, n1={sizes[1]}" in kernel.source.text
    assert kernel.name.endswith(f"{sizes[0]}x{sizes[1]}")
    x = rng.random(sizes, np.float32)
    y = np.full_like(x, np.nan)
    kernel(x, y)
    assert np.allclose(y, kernel.reference(x, y), atol=1e-5)
    with pytest.raises(ArgumentError, match="'x' takes shape"):
        kernel(np.ones((sizes[0] + 1, sizes[1]), np.float32), y)


def test_a_shape_by_symbol_is_the_shape_in_order() -> None:
    by_name = tikgen.build("gemm", shape={"k": 5, "m": 3, "n": 4})
    symbols = by_name.template.size_symbols(by_name.problem)
    in_order = tuple({"k": 5, "m": 3, "n": 4}[name] for name in symbols)
    assert tikgen.build("gemm", shape=in_order) is by_name
    assert tikgen.build("gemm") is not by_name


def test_a_workspace_and_a_reference_know_a_baked_shape(ti_arch, rng) -> None:
    kernel = tikgen.build("scan", shape=1009)
    x = rng.integers(-5, 5, 1009).astype(np.float32)
    out = np.full_like(x, np.nan)
    kernel(x, out)
    assert np.array_equal(out, kernel.reference(x))


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((4, 5), "takes n0, n1, n2: sizes in that order, or by name; got (4, 5)"),
        (7, "got 7"),
        ("abc", "got 'abc'"),
        ({"n0": 4, "n1": 5, "m": 6}, "takes n0, n1, n2"),
        ((4, 5, 0), "takes a positive integer for n2; got 0"),
        ((4, 5.5, 3), "takes a positive integer for n1; got 5.5"),
        ((True, 5, 3), "takes a positive integer for n0; got True"),
        ((4096, 4096, 4096), "more than the 2013265920 elements"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(shape, problem) -> None:
    with pytest.raises(ParameterError) as caught:
        tikgen.build("stencil", shape=shape)
    assert problem in str(caught.value)
    assert caught.value.parameter == "shape"


def test_an_array_that_indices_do_not_reach_around_is_refused() -> None:
    element = np.zeros(1, np.uint8)

    def of(size: int) -> np.ndarray:
        """Return an array that says it has so many elements, of which there is one."""
        return np.lib.stride_tricks.as_strided(element, (size,), (1,))

    takes = tikgen.build("scan", dtype="u8").signature
    small = np.zeros(5, np.uint8)
    for size in (shapes.MOST_ELEMENTS + 1, 2**31 - 1):
        with pytest.raises(ArgumentError, match="'x' has over 2013265920 elements"):
            takes.check((of(size), small))
    with pytest.raises(ArgumentError, match="'out' takes shape"):  # The array before it is taken.
        takes.check((of(shapes.MOST_ELEMENTS), small))
    # The most that lies between an array's end and the end of a step of all blocks: spmv.
    assert shapes.MOST_ELEMENTS + 8448 * 1024 * 11 < 2**31


def test_a_bucket_holds_sizes_that_are_alike() -> None:
    assert shapes.bucket({"n": 200, "m": 100}) == {"n": 192, "m": 96}
    assert shapes.bucket({"n": 1, "m": 1_000_000}) == {"n": 1, "m": 1048576}
    for n in range(1, 5000, 7):
        (rounded,) = shapes.bucket({"n": n}).values()
        assert 0.8 < rounded / n < 1.25


def test_the_distance_of_shapes_counts_octaves() -> None:
    assert shapes.distance({"n": 8}, {"n": 8}) == 0
    assert shapes.distance({"n": 8}, {"n": 32}) == pytest.approx(2)
    assert shapes.distance({"n": 8}, {"m": 8}) == float("inf")
