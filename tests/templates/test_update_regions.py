"""Equations that differ from region to region, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from spread import spread
from test_template_update import launched
from tikgen.errors import ParameterError

SCHEDULES: dict[str, dict[str, Any]] = {
    "points": {"loop": "points"},
    "function": {"loop": "function", "row_buffer": 8},
}
SHAPES = {1: (131,), 2: (5, 67), 3: (3, 4, 41)}


def laplacian(u: np.ndarray) -> np.ndarray:
    """Return the sum of the neighbours of periodic values, less what they replace."""
    sides = [np.roll(u, step, axis) for axis in range(u.ndim) for step in (1, -1)]
    return sum(sides) - 2 * u.ndim * u


def kernel_of(text: str, loop: str, ti_arch: str, **params: Any) -> tikgen.Kernel:
    if loop == "function" and ti_arch != "cpu":
        pytest.skip("real functions are for cpu")
    return tikgen.update(text, schedule=SCHEDULES[loop], boundary="periodic", **params)


@spread("loop,dim,dtype", ("points", "function"), (1, 2, 3), ("f32", "i64"))
def test_each_region_has_its_own_equation(
    loop: str, dim: int, dtype: str, ti_arch: str, rng: np.random.Generator
) -> None:
    kernel = kernel_of(
        """
        u' = u + lap(u)
        where source:
            r = 2*q
            u' = u' + r
            w = r - u
        elsewhere solid == 1:
            u' = 0
        where i < 2: v = v + u
        """,
        *(loop, ti_arch),
        dim=dim,
        dtype=dtype,
        where={"source": "i >= 1 and u > q"},
        types={"solid": "u8"},
    )
    u, q, v, w = (
        rng.integers(-9, 9, SHAPES[dim]).astype(kernel.problem.dtype.numpy) for _ in range(4)
    )
    solid = rng.integers(0, 2, SHAPES[dim]).astype(np.uint8)
    i = np.indices(SHAPES[dim])[0]
    is_source = (i >= 1) & (u > q)
    new = u + laplacian(u)
    new = np.where(is_source, new + 2 * q, np.where(solid == 1, 0, new))
    found = launched(kernel, u=u, q=q, v=v, w=w, solid=solid)
    names = [a.name for a in kernel.signature.arguments if getattr(a, "written", False)]
    expected = {
        "u_next": new,
        "v": np.where(i < 2, v + u, v),
        "w": np.where(is_source, 2 * q - u, w),
    }
    assert set(names) == {*expected}
    for name, value in zip(names, found, strict=True):
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize("loop", ["points", "function"])
def test_choices_read_what_was_there_before(
    loop: str, ti_arch: str, rng: np.random.Generator
) -> None:
    text = """
    where h > m:
        h = h - m
        m = m + h
    elsewhere:
        m = m - h
        h = 2*m
    """
    kernel = kernel_of(text, loop, ti_arch, dim=2)
    h, m = rng.integers(-9, 9, (2, 6, 37)).astype(np.float32)
    is_more = h > m
    one, other = h - m, m - h
    expected = {
        "h": np.where(is_more, one, 2 * other),
        "m": np.where(is_more, m + one, other),
    }
    names = [a.name for a in kernel.signature.arguments if getattr(a, "written", False)]
    for name, value in zip(names, launched(kernel, h=h, m=m), strict=True):
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_regions_of_a_reduction_and_of_a_vector(ti_arch: str, rng: np.random.Generator) -> None:
    kernel = tikgen.update(
        """
        each q in 3:
            where f.q > 0:
                f'.q = 2*f.q
        total = sum(where(right, f'.0, 0))
        """,
        dim=1,
        vectors={"f": 3},
        where={"right": "i > 4"},
    )
    f = rng.integers(-9, 9, (3, 50)).astype(np.float32)
    new, total = launched(kernel, f=f, total=np.zeros(1, np.float32))
    np.testing.assert_array_equal(new, np.where(f > 0, 2 * f, f))
    assert total[0] == new[0, 5:].sum()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"h": "x +"}, "parameter 'where' cannot be used: Expression 'x \\+': is not arithmetic"),
        ({"u": "x < 1"}, "parameter 'where' names u, which has a meaning already"),
        ({"a": "x < 1"}, "parameter 'where' names a, which has a meaning already"),
        ({"h": "x < 1", "g": "x > 1"}, "parameter 'where' names g, which nothing reads"),
        ({"h": "h > 1"}, "'h' is a condition that reads itself"),
        ({"class": "x > 1"}, "class"),
        ("x < 1", "where"),
    ],
)
def test_conditions_that_cannot_be_used_are_refused(where: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.update("u' = a*u\nwhere h: u' = 1", dim=1, scalars="a", where=where)


@pytest.mark.parametrize("loop", ["points", "function"])
@pytest.mark.parametrize(
    "text", ["v = v + u\nwhere inside:\n    v = v + u", "v = v + u; v = 2*v; q = v"]
)
def test_a_field_in_place_is_damped_once(
    text: str, loop: str, ti_arch: str, rng: np.random.Generator
) -> None:
    if loop == "function" and ti_arch != "cpu":
        pytest.skip("real functions are for cpu")
    kernel = tikgen.update(
        text,
        dim=1,
        boundary=tikgen.absorbing(8, 0.5, order=2),
        where={"inside": "u > w"} if "inside" in text else None,
        schedule=SCHEDULES[loop],
    )
    # Compared with the reference, which damps the last value.
    launched(kernel, **{name: rng.random(60).astype(np.float32) for name in "uvw"})


def test_numbers_of_32_bits_are_compared_in_64(ti_arch: str) -> None:
    # Mesa takes a comparison of a cast with a constant for true.
    kernel = tikgen.update(
        "w = where(i >= 2, 1, 0) + where(h < 3, 10, 0); q = h - i",
        dim=1,
        dtype="i64",
        types={"h": "i32"},
    )
    i, h = np.arange(9), np.array([-(2**31), 2**31 - 1, -5, 3, 2, 4, 0, -1, 7], np.int32)
    w, q = np.zeros((2, 9), np.int64)
    kernel(h=h, w=w, q=q)
    np.testing.assert_array_equal(w, np.where(i >= 2, 1, 0) + np.where(h < 3, 10, 0))
    np.testing.assert_array_equal(q, h.astype(np.int64) - i)
