"""Values for the tests of runtimes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH
from tikgen.dtypes import DType
from tikgen.machine.devices import host_arch, problem_with

BUNDLE_ARCH = host_arch() if ARCH == "cpu" else ARCH
ON_HOST = BUNDLE_ARCH in ("x64", "arm64")


def values(rng: np.random.Generator, shape: Any, dtype: str = "f32") -> np.ndarray[Any, Any]:
    kind = DType(dtype)
    if kind.is_float:
        return rng.uniform(-4, 4, shape).astype(kind.numpy)
    return rng.integers(0, 9, shape).astype(kind.numpy)


def poison(shape: Any) -> np.ndarray[Any, Any]:
    return np.full(shape, np.nan, np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a bundle for the arch of this process, made by another one."""
    if problem := problem_with(BUNDLE_ARCH):
        if os.environ.get("CI") == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("aot") / "sample"
    script = Path(__file__).with_name("aot_samples.py")
    subprocess.run(
        [sys.executable, script, BUNDLE_ARCH, folder], check=True, timeout=300, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def runtime(bundle: Path) -> Iterator[Any]:
    with tikgen.aot.load(bundle, ARCH) as loaded:
        yield loaded
