"""Values for the tests of runtimes."""

from __future__ import annotations

from typing import Any

import numpy as np

from conftest import ARCH
from tikgen.dtypes import DType
from tikgen.machine.devices import host_arch

BUNDLE_ARCH = host_arch() if ARCH == "cpu" else ARCH
ON_HOST = BUNDLE_ARCH in ("x64", "arm64")


def values(rng: np.random.Generator, shape: Any, dtype: str = "f32") -> np.ndarray[Any, Any]:
    kind = DType(dtype)
    if kind.is_float:
        return rng.uniform(-4, 4, shape).astype(kind.numpy)
    return rng.integers(0, 9, shape).astype(kind.numpy)


def poison(shape: Any) -> np.ndarray[Any, Any]:
    return np.full(shape, np.nan, np.float32)
