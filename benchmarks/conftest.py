"""Initialises Taichi once, on the arch in TIKGEN_TEST_ARCH."""

from __future__ import annotations

import os

import pytest
import taichi as ti


@pytest.fixture(scope="session", autouse=True)
def ti_arch() -> str:
    arch = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
    try:
        ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, enable_fallback=False)
    except RuntimeError as error:
        pytest.skip(f"{arch} does not work on this machine: {error}")
    return arch
