"""A persistent kernel for several tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import ARCH
from tikgen.ring.persistent.ring import PersistentRing

# One handler for most tests, since each takes some seconds to make.
HANDLER = "y = 2*x + 1; total = total + x"
# A limit for what should never come to it, also on a machine that is busy.
SECONDS = 300.0

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")


def make_ring(kernel_id: str = "sum", **settings: Any) -> PersistentRing:
    """Return a ring of the handler that most tests use, not started."""
    settings = {"capacity": 8, "state": {"total": 0}, "arch": ARCH} | settings
    return PersistentRing(kernel_id, {"x": "i32"}, {"y": "i32"}, HANDLER, **settings)


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)
