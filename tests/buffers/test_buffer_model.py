"""Buffers against a model: random operations, checked for content, state and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from conftest import init_taichi
from some_cases import examples
from tikgen.buffers.buffer_state import BufferState
from tikgen.buffers.memory_pool import MemoryPool
from tikgen.buffers.unified_buffer import UnifiedBuffer
from tikgen.ring.errors import BufferNotAllocatedError, BufferSyncError

SIZE = 3
VALUES = st.integers(0, 99)
# Each side holds a value, None if it does not exist.
STATES = {
    (True, False, False): BufferState.HOST_ONLY,
    (False, True, False): BufferState.DEVICE_ONLY,
    (True, True, False): BufferState.SYNCHRONIZED,
    (True, False, True): BufferState.HOST_DIRTY,
    (False, True, True): BufferState.DEVICE_DIRTY,
}


class Model:
    """Predicts which sides are up to date, their content, and the number of copies."""

    def __init__(self) -> None:
        self.is_allocated = self.was_freed = False
        self.host = self.device = False  # Whether the side is up to date.
        self.is_dirty = False
        self.has_device = self.has_host = False  # Whether the side is allocated.
        self.is_lost = False
        self.value = 0
        self.to_host = self.to_device = 0

    def state(self) -> BufferState:
        if not self.is_allocated:
            return BufferState.UNINITIALIZED
        return STATES[self.host, self.device, self.is_dirty]

    def read(self, side: str) -> str:
        """Return why a side cannot be read, or bring it up to date."""
        if not self.is_allocated:
            return "allocated"
        if side == "host":
            if self.is_lost:
                return "lost"
            if not self.host:
                self.to_host += self.has_device
                self.host, self.is_dirty = True, False
            self.has_host = True
            return ""
        if self.is_lost:
            return "lost"
        if not self.has_device:
            self.to_device += self.host and self.has_host
        elif not self.device:
            self.to_device += 1
        self.has_device = True
        if self.host:
            self.is_dirty = False
        self.device = True
        return ""

    def write(self, side: str, value: int) -> None:
        self.value, self.is_dirty = value, True
        self.host, self.device = side == "host", side == "device"

    def begin(self, host: bool) -> None:
        transfers = self.to_host, self.to_device
        self.__init__()  # type: ignore[misc]
        self.to_host, self.to_device = transfers
        self.is_allocated, self.host, self.device = True, host, not host


class Buffers(RuleBasedStateMachine):
    """Runs one buffer and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = MemoryPool()
        self.buffer = UnifiedBuffer(SIZE, np.int32, pool=self.pool)
        self.model = Model()

    def expect(self, problem: str, action: Callable[[], Any]) -> Any:
        errors = {"allocated": BufferNotAllocatedError, "lost": BufferSyncError}
        if problem:
            with pytest.raises(errors.get(problem, BufferSyncError)):
                action()
            return None
        return action()

    @rule(host=st.booleans())
    def allocate(self, host: bool) -> None:
        self.buffer.allocate(host=host)
        if not self.model.is_allocated:
            self.model.begin(host)

    @rule()
    def free(self) -> None:
        self.buffer.free()
        self.model.was_freed |= self.model.is_allocated
        self.model.is_allocated = False
        assert self.pool.get_stats().used_bytes == 0

    @rule()
    def read_host(self) -> None:
        problem = self.model.read("host")
        found = self.expect(problem, lambda: self.buffer.host)
        if not problem:
            assert (found == self.model.value).all()

    @rule()
    def read_device(self) -> None:
        problem = self.model.read("device")
        found = self.expect(problem, lambda: self.buffer.device)
        if not problem:
            assert (found.to_numpy() == self.model.value).all()

    @rule(side=st.sampled_from(["host", "device"]), value=VALUES, fails=st.booleans())
    def write_in_block(self, side: str, value: int, fails: bool) -> None:
        problem = self.model.read(side)

        def write() -> None:
            with pytest.raises(KeyError), getattr(self.buffer, f"on_{side}")() as array:
                array.fill(value)
                raise KeyError
            if not fails:
                with getattr(self.buffer, f"on_{side}")() as array:
                    array.fill(value)

        self.expect(problem, write)
        if not problem:
            self.model.write(side, value)

    @rule(side=st.sampled_from(["host", "device"]))
    def read_in_block(self, side: str) -> None:
        problem = self.model.read(side)

        def read() -> Any:
            with getattr(self.buffer, f"on_{side}")(read_only=True) as array:
                return array if side == "host" else array.to_numpy()

        found = self.expect(problem, read)
        if not problem:
            assert (found == self.model.value).all()

    @rule(side=st.sampled_from(["host", "device"]), value=VALUES)
    def write_and_mark(self, side: str, value: int) -> None:
        problem = self.model.read(side)

        def write() -> None:
            getattr(self.buffer, side).fill(value)
            getattr(self.buffer, f"mark_{side}_dirty")()

        self.expect(problem, write)
        if not problem:
            self.model.write(side, value)

    @rule(side=st.sampled_from(["host", "device"]))
    def mark(self, side: str) -> None:
        mark = getattr(self.buffer, f"mark_{side}_dirty")
        if not self.model.is_allocated:
            self.expect("allocated", mark)
        elif not getattr(self.model, side):
            self.expect("both sides would be dirty", mark)
        else:
            mark()
            if side == "host":
                self.model.has_host = True
            self.model.write(side, self.model.value)

    @rule(value=VALUES, how=st.sampled_from(["fill", "copy_from"]))
    def replace(self, value: int, how: str) -> None:
        problem = "allocated" if self.model.was_freed and not self.model.is_allocated else ""
        argument: Any = value if how == "fill" else np.full(SIZE, value, np.int32)
        self.expect(problem, lambda: getattr(self.buffer, how)(argument))
        if not problem:
            if not self.model.is_allocated:
                self.model.begin(host=True)
            if self.model.is_lost:
                self.model.is_lost = self.model.has_device = False
            self.model.has_host = True
            self.model.write("host", value)

    @rule(value=VALUES, index=st.integers(0, SIZE - 1))
    def set_item(self, value: int, index: int) -> None:
        problem = self.model.read("host")
        self.expect(problem, lambda: self.buffer.__setitem__(slice(None), value))
        if not problem:
            self.model.write("host", value)

    @rule()
    def synchronize(self) -> None:
        problem = "" if self.model.is_allocated else "allocated"
        if self.model.is_dirty and not problem:
            problem = self.model.read("host" if self.model.device else "device")
        self.expect(problem, self.buffer.synchronize)

    @rule(is_due=st.sampled_from([True, False]))
    def init_taichi_again(self, is_due: bool) -> None:
        if not is_due:
            return
        init_taichi()
        if self.model.has_device and self.model.is_allocated:
            if self.model.host:
                self.model.device = self.model.has_device = False
            else:
                self.model.is_lost = True

    @invariant()
    def agree(self) -> None:
        assert self.buffer.state is self.model.state()
        transfers = self.buffer.transfers
        assert (transfers.to_host, transfers.to_device) == (
            self.model.to_host,
            self.model.to_device,
        )
        assert transfers.bytes_to_host == transfers.to_host * SIZE * 4
        stats = self.pool.get_stats()
        holds = self.model.is_allocated and self.model.has_device and not self.model.is_lost
        assert stats.used_bytes == (SIZE * 4 if holds else 0)


def test_buffers_agree_with_their_model(ti_arch: str) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Buffers,
        settings=settings(
            max_examples=examples(15, 3), stateful_step_count=30, deadline=None, database=None
        ),
    )
