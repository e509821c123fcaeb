"""A persistent kernel, and helpers of its tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import ARCH
from tikgen.ring.persistent import making
from tikgen.ring.persistent.ring import PersistentRing

# One handler for most tests, because making one takes some seconds.
HANDLER = "y = 2*x + 1; total = total + x"
# A limit that is never reached, also on a busy machine.
SECONDS = 300.0

stays = pytest.mark.skipif(ARCH == "vulkan", reason="no kernel stays on vulkan")
two_stay = pytest.mark.skipif(ARCH == "cuda", reason="one kernel of a process stays on a GPU")


def make_ring(kernel_id: str = "sum", **settings: Any) -> PersistentRing:
    """Return a ring of that handler, not started."""
    settings = {"capacity": 8, "state": {"total": 0}, "arch": ARCH} | settings
    return PersistentRing(kernel_id, {"x": "i32"}, {"y": "i32"}, HANDLER, **settings)


@pytest.fixture(autouse=True)
def _brief_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the verification, which test_template_ring.py does."""
    monkeypatch.setattr(making, "PROOFS", 5)


@pytest.fixture
def ring() -> Iterator[PersistentRing]:
    """Yield a running ring of eight slots."""
    with make_ring() as made:
        yield made


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)
