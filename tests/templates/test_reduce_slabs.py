"""Reductions along the first axis of arrays with short rows, several rows taken as one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from some_cases import examples
from spread import spread
from test_reduce_strips import reduced, whole
from tikgen.errors import ParameterError

pytestmark = [
    pytest.mark.usefixtures("ti_arch"),
    pytest.mark.skipif(ARCH != "cpu", reason="cpu has real functions for slabs"),
]


@spread(
    "op_and_dtype, slab, chunks",
    [
        *(("sum", "f32"), ("mean", "f16"), ("norm2", "f64"), ("dot", "f32"), ("prod", "i32")),
        *(("max", "f32"), ("min", "f16"), ("max", "i64"), ("any", "i8"), ("all", "f64")),
    ],
    [16, 64],
    [1, 3],
)
def test_slabs_are_reduced_as_numpy_does(
    op_and_dtype: tuple[str, str], slab: int, chunks: int, rng: Any
) -> None:
    op, dtype = op_and_dtype
    for width in random.sample([(1,), (3,), (2, 5)], examples(3, 1)):
        kernel = tikgen.build(
            "reduce", op=op, dtype=dtype, dim=1 + len(width), axis=0, slab=slab, chunks=chunks
        )
        target = kernel.signature.arguments[-1].dtype.numpy
        for rows in (1, 2, slab - 1, slab, 4 * slab + 1, 9 * slab - 3):
            inputs = [whole(dtype, rng, (rows, *width)) for _ in kernel.signature.names[:-1]]
            out = np.full(width, 77, target)
            kernel(*inputs, out)
            expected = reduced(op, 0, *inputs)
            with np.errstate(over="ignore"):
                assert np.allclose(out, expected.astype(target), rtol=1e-3, atol=0)


def test_long_columns_of_floats_lose_little(rng: Any) -> None:
    x = (1 + rng.random((3_000_000, 3))).astype(np.float32)
    out = np.zeros(3, np.float32)
    tikgen.build("reduce", dim=2, axis=0).bind(x, out)()
    # One after the other, NumPy adds them up with an error of 1e-3 or more.
    assert np.allclose(out, x.sum(axis=0, dtype=np.float64), rtol=2e-6, atol=0)


def test_the_default_takes_slabs_where_rows_are_short() -> None:
    template = tikgen.render("reduce").variant.template

    def found(rows: int, width: int, **problem: Any) -> tuple[int, int]:
        p = template.Problem(dim=2, axis=0, **problem)
        sizes = {"n0": rows, "n1": width}
        schedule = template.Schedule(**template.default_schedule(p, "cpu", sizes))
        return schedule.slab, schedule.chunks

    assert found(10**6, 3) == (256, 64)
    assert found(1000, 3) == (64, 1)  # Too few rows for slabs of 256.
    assert found(10**6, 60) == (16, 64)
    assert found(10**6, 200)[0] == found(20, 3)[0] == 0
    assert found(10**6, 3, op="argmax")[0] == found(10**6, 3, accuracy="kahan")[0] == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"axis": 1}, "'slab' must be 0 where axis=1"),
        ({"strip": 256}, "'slab' must be 0 where strip=256"),
        ({"op": "argmax"}, "'slab' needs accuracy='fast', and no op='argmax'"),
        ({"chunks": 1025}, "'chunks' times slab exceeds 65536 rows; got 1025"),
        ({"unroll": 8}, "'unroll' must be . where slab=64"),
    ],
)
def test_what_does_not_fit_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        tikgen.build("reduce", **{"dim": 2, "axis": 0, "slab": 64} | params)
