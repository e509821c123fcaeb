"""Reductions along an axis that is not the last, row after row, by strips of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from spread import spread
from tikgen.errors import ParameterError

pytestmark = [
    pytest.mark.usefixtures("ti_arch"),
    pytest.mark.skipif(ARCH != "cpu", reason="cpu has real functions for strips"),
]
STEP = {"strip": 256, "columns": 0}


def whole(dtype: str, rng: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return data whose sums and products are exact in any order."""
    if dtype in ("f16", "f32", "f64"):
        return rng.integers(-4, 5, shape).astype(tikgen.DType.parse(dtype).numpy)
    return rng.choice((0, 1, 1, 3), shape).astype(tikgen.DType.parse(dtype).numpy)


def reduced(op: str, axis: int, x: np.ndarray, *other: np.ndarray) -> np.ndarray:
    """Return the reduction as NumPy computes it."""
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    if op == "dot":
        return np.sum(wide * other[0], axis=axis)
    if op == "norm2":
        return np.sqrt(np.sum(wide * wide, axis=axis))
    return np.asarray(getattr(np, op)(wide, axis=axis))


@spread(
    "op_and_dtype, dim_and_axis, unroll",
    [
        *(("sum", "f32"), ("mean", "f16"), ("norm2", "f64"), ("dot", "f32"), ("prod", "i32")),
        *(("max", "f32"), ("min", "f16"), ("max", "i64"), ("any", "i8"), ("all", "f64")),
    ],
    [(2, 0), (3, 0), (3, 1)],
    [1, 4],
)
def test_rows_are_joined_as_numpy_does(
    op_and_dtype: tuple[str, str], dim_and_axis: tuple[int, int], unroll: int, rng: Any
) -> None:
    (op, dtype), (dim, axis) = op_and_dtype, dim_and_axis
    kernel = tikgen.build(
        "reduce", op=op, dtype=dtype, dim=dim, axis=axis, unroll=unroll, spread=8, **STEP
    )
    target = kernel.signature.arguments[-1].dtype.numpy
    kept = ((1,), (7,), (257,), (771,)) if dim == 2 else ((1, 1), (3, 5), (1, 513), (2, 600))
    for rows, beside in zip((1, 2, 6, 11), kept, strict=True):
        shape = (*beside[:axis], rows, *beside[axis:])
        inputs = [whole(dtype, rng, shape) for _ in kernel.signature.names[:-1]]
        out = np.full(beside, 77, target)
        kernel(*inputs, out)
        expected = reduced(op, axis, *inputs)
        assert np.allclose(out, expected, rtol=1e-6, atol=1e-6), (shape, out, expected)


@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_wins_whatever_row_holds_it(op: str, rng: Any) -> None:
    kernel = tikgen.build("reduce", op=op, dim=2, axis=0, unroll=4, **STEP)
    for row in range(7):
        x = rng.normal(size=(7, 300)).astype(np.float32)
        x[row, ::3] = np.nan
        x[3, 1::3] = rng.choice((-np.inf, np.inf))
        out = np.full(300, 77, np.float32)
        kernel(x, out)
        assert np.array_equal(out, getattr(np, op)(x, axis=0), equal_nan=True)


def taken(op: str, axis: int, *shape: int, **problem: Any) -> dict[str, Any]:
    """Return part of the default schedule for a shape."""
    schedule = tikgen.build("reduce", op=op, dim=len(shape), axis=axis, shape=shape, **problem)
    names = ("strip", "columns", "unroll", "spread", "serial")
    return {name: schedule.params[name] for name in names if schedule.params[name]}


def test_the_default_follows_from_the_sizes(by_taichi: None) -> None:
    assert taken("sum", 0, 300, 100_000) == {"strip": 4096, "unroll": 4, "spread": 512}
    assert taken("sum", 0, 1237, 861) == {"strip": 256, "unroll": 4, "spread": 512}
    assert taken("max", 1, 105, 37, 171) == {"strip": 4096, "unroll": 4, "spread": 64}
    assert taken("max", 1, 200, 200, 200) == {"strip": 4096, "unroll": 1, "spread": 64}
    assert taken("any", 0, 150, 64, 64) == {"strip": 1024, "unroll": 4, "spread": 512}
    # One thread does few of them, and fewer where each takes long.
    assert taken("sum", 0, 50, 50) == {"strip": 256, "unroll": 4, "spread": 1, "serial": True}
    assert taken("max", 1, 105, 27, 171)["serial"]
    assert taken("sum", 0, 200, 300, accuracy="kahan")["serial"]
    assert taken("sum", 1, 100_000, 30) == {"unroll": 1, "spread": 1}
    # What an element of the result cannot hold is held by columns, or one by one.
    assert taken("argmax", 1, 105, 37, 171) == {"columns": 32, "unroll": 1, "spread": 64}
    assert taken("sum", 0, 400, 900, accuracy="kahan") == {"unroll": 1, "spread": 64}


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"op": "argmax"}, "needs accuracy='fast', and no op='argmax'"),
        ({"op": "prod"}, "no op='prod' on f32"),
        ({"accuracy": "kahan"}, "needs accuracy='fast'"),
        ({"columns": 32}, "must be 0 where"),
        ({"axis": 1}, "must be 0 where"),
        ({"strip": 100}, "0, 256, 1024 or 4096"),
    ],
)
def test_strips_that_do_not_fit_are_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match="strip") as caught:
        tikgen.build("reduce", **({"dim": 2, "axis": 0, "strip": 256, "columns": 0} | params))
    assert problem in str(caught.value)
