"""Machine code that a thread makes."""

from __future__ import annotations

import threading

import pytest

from tikgen.engines.in_thread import InThread


def test_the_result_is_there_once_it_is_made() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def make() -> bytes:
        begun.set()
        assert may_end.wait(60)
        return b"code"

    making = InThread(make)
    assert begun.wait(60)
    assert making.result() is None
    may_end.set()
    making.wait(60)
    assert making.result() == b"code"


def test_asking_for_the_result_raises_the_error() -> None:
    def fail() -> bytes:
        raise ValueError("no such form")

    making = InThread(fail)
    making.wait(60)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such form"):
            making.result()
