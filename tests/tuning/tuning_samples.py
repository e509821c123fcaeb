"""Templates to tune, and settings for a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tikgen import Template
from tikgen.pipeline import records
from tikgen.tuning.run import tune
from tuning_templates import SCALED_CODE, SCALED_TEXT, TWICE_CODE, TWICE_TEXT, Simulated, make

ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
SIZES = {"n": 4096}


def restricted(template: Template, *ways: str) -> Template:
    """Let the space hold these ways only."""
    template.schedule_space = lambda p, arch, sizes: {"way": ways, "idle": (1, 2)}  # type: ignore[method-assign]
    return template


def tuned(template: Template, **settings):
    defaults = {"shape": SIZES, "arch": ARCH, "budget": "full", "seed": 3, "timeout": 300.0}
    return tune(template, **(defaults | settings))


@pytest.fixture(autouse=True)
def no_records() -> Iterator[None]:
    records.forget(lambda record: True)
    yield
    records.forget(lambda record: True)


@pytest.fixture
def twice(tmp_path: Path) -> Template:
    return make(tmp_path, "twice", TWICE_TEXT, TWICE_CODE)


@pytest.fixture
def scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    """Give a template with 24 schedules whose times are simulated."""
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    return make(tmp_path, "scaled", SCALED_TEXT, SCALED_CODE)
