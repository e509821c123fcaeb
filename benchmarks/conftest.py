"""Initialises Taichi once, on the arch in TIKGEN_TEST_ARCH; says what the run ran on."""

from __future__ import annotations

import os
from typing import Any

import pytest
import taichi as ti

import machine


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tikgen")
    group.addoption(
        "--machine",
        choices=["cpu", "gpu", "lavapipe"],
        help="whose sizes are measured (default: those of the device that Taichi runs on)",
    )
    group.addoption(
        "--tune-seconds",
        type=float,
        default=10.0,
        help="time to tune each work for, 0 for none (default: 10)",
    )


@pytest.fixture(scope="session", autouse=True)
def ti_arch() -> str:
    arch = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
    try:
        ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, enable_fallback=False)
    except RuntimeError as error:
        pytest.skip(f"{arch} does not work on this machine: {error}")
    return arch


def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    machine_info["tikgen"] = machine.description(os.environ.get("TIKGEN_TEST_ARCH", "cpu"))
