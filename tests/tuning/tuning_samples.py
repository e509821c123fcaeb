"""Templates to tune, and settings for a test."""

from __future__ import annotations

import os

from tikgen import Template
from tikgen.tuning.run import tune

ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
SIZES = {"n": 4096}


def restricted(template: Template, *ways: str) -> Template:
    """Let the space hold these ways only."""
    template.schedule_space = lambda p, arch, sizes: {"way": ways, "idle": (1, 2)}  # type: ignore[method-assign]
    return template


def tuned(template: Template, **settings):
    defaults = {"shape": SIZES, "arch": ARCH, "budget": "full", "seed": 3, "timeout": 300.0}
    return tune(template, **(defaults | settings))
