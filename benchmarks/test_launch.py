"""Times one launch of a small serial kernel: plain, checked and bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen

AXPY = Path(__file__).parent / "templates" / "axpy"
FEW = {"rounds": 101, "iterations": 20, "warmup_rounds": 2}  # A device's queue never fills.


@pytest.fixture(params=["numpy", "ndarray"])
def arrays(request: Any) -> tuple[Any, Any]:
    if request.param == "numpy":
        return np.ones(64, np.float32), np.zeros(64, np.float32)
    return ti.ndarray(ti.f32, 64), ti.ndarray(ti.f32, 64)


@pytest.fixture
def kernel() -> tikgen.Kernel:
    return tikgen.build(tikgen.load_template(AXPY))


def test_plain_taichi_call(benchmark: Any, kernel: tikgen.Kernel, arrays: Any) -> None:
    benchmark.pedantic(kernel.function, (*arrays, 1.0, 2.0), **FEW)


def test_checked_call(benchmark: Any, kernel: tikgen.Kernel, arrays: Any) -> None:
    benchmark.pedantic(kernel, (*arrays, 1.0, 2.0), **FEW)


def test_bound_call(benchmark: Any, kernel: tikgen.Kernel, arrays: Any) -> None:
    benchmark.pedantic(kernel.bind(*arrays, a=1.0, b=2.0), **FEW)


def test_bound_call_with_new_scalars(benchmark: Any, kernel: tikgen.Kernel, arrays: Any) -> None:
    bound = kernel.bind(*arrays, a=1.0, b=2.0)
    benchmark.pedantic(bound, kwargs={"a": 2.0, "b": 3.0}, **FEW)


def test_argument_checks(benchmark: Any, kernel: tikgen.Kernel, arrays: Any) -> None:
    benchmark.pedantic(kernel.signature.check, ((*arrays, 1.0, 2.0),), **FEW)
