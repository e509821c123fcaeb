"""A synchronous client of a kernel that stays on the device and polls a ring in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tikgen.ring.actors.waiting import seconds_of
from tikgen.ring.errors import (
    InvalidConfigurationError,
    KernelStateError,
    QueueFullError,
    QueueTimeoutError,
)
from tikgen.ring.persistent.launch import wait_for
from tikgen.ring.persistent.lifetime import RingLifecycle
from tikgen.ring.persistent.words import DONE, MASK, NOT_BEGUN, PAUSED, RUNNING, STATE, TAIL

# About 100 us; then other threads may need the processor.
_SPINS = range(2000)


class PersistentRing(RingLifecycle):
    """A kernel that stays on the device and answers messages until it is stopped.

    On cpu it keeps one core busy, also while it is idle. Threads may share it: each method takes
    its lock, :meth:`call` until the reply is there. A forked process needs a ring of its own.

    Args:
        kernel_id: its name.
        inputs: columns of a message, numbers only: a sequence of ``Column``, or a dict of dtypes.
        outputs: columns of a reply, likewise; without any there are no replies.
        handler: assignments such as ``"y = 2*x; total = total + x"``, ``Assignments``, or a
            :class:`RingBody`.
        state: initial values of variables that last from message to message.
        capacity: slots of the ring, a power of two.
        arch: ``"cpu"`` or ``"cuda"``.
        device: number of the device.
        watchdog: seconds without a heartbeat of this process after which the kernel ends, 0 for
            never. The heartbeat stops while other code holds the interpreter lock, such as a
            Taichi kernel on cpu.
        dtype: of the computation and the state; None for one that holds every column.

    Raises:
        ColumnError: if a column does not suit a persistent kernel.
        InvalidConfigurationError: if a setting is invalid.
    """

    def call(self, *values: Any) -> Any:
        """Send a message and return its reply, within a few microseconds.

        Args:
            values: one number for each input, in order.

        Returns:
            The value of the output; a tuple for several outputs, None for none.

        Raises:
            ColumnError: if a value does not fit its column.
            KernelStateError: if the kernel is paused or not started, or there are replies to take.
            KernelTerminated: if the kernel has ended, or ends meanwhile.
        """
        with self._lock:
            tail = self._tail
            if tail != self._taken or not self._is_open:
                self._prepare_call()
            slot = tail & self._mask
            try:
                inputs = self._inputs
                for view, value, limit in zip(inputs.views, values, inputs.limits, strict=True):
                    if not -limit <= value <= limit:
                        raise OverflowError
                    view[slot] = value
            except (TypeError, ValueError, OverflowError):
                self._inputs.write(slot, values)
            words, tail = self._words, tail + 1
            try:
                self._tail = tail
                words[TAIL] = awaited = tail & MASK
                for _ in _SPINS:
                    if words[DONE] == awaited:
                        break
                else:
                    self._wait_for_all("call", None)
            except BaseException:  # The reply may still come, and is discarded.
                self._is_open = False
                raise
            finally:
                self._taken = tail
            return self._outputs.read(slot) if self._reply is None else self._reply[slot]

    def try_call(self, *values: Any) -> tuple[bool, Any] | None:
        """Send a message if the ring is empty, and wait about 100 us for its reply.

        Args:
            values: one number for each input, in order.

        Returns:
            True and the reply, as of :meth:`call`; False and None if it is not there yet, and is
            for :meth:`take`; None if nothing was sent: the kernel is paused, or not idle.

        Raises:
            ColumnError: if a value does not fit its column.
            KernelTerminated: if the kernel has ended.
        """
        with self._lock:
            words, tail = self._words, self._tail
            is_empty = tail == self._taken and words[DONE] == tail & MASK
            if not is_empty or words[STATE] != RUNNING:
                self._require("call")
                return None
            slot = tail & self._mask
            self._inputs.write(slot, values)
            self._tail = tail + 1
            words[TAIL] = awaited = (tail + 1) & MASK
            try:
                for _ in _SPINS:
                    if words[DONE] == awaited:
                        self._taken = tail + 1
                        return True, self._outputs.read(slot)
            except BaseException:  # The reply may still come, and is discarded.
                self._taken = tail + 1
                raise
            return False, None

    def push(self, *values: Any) -> int:
        """Queue a message and return its number, from 0; its reply is for :meth:`take`.

        Args:
            values: one number for each input, in order.

        Raises:
            ColumnError: if a value does not fit its column.
            KernelTerminated: if the kernel has ended.
            QueueFullError: if no slot is free until replies are taken.
        """
        with self._lock:
            self._require("push")
            if self._free() == 0:
                raise QueueFullError(self.kernel_id, self.capacity, self.status)
            tail = self._tail
            self._inputs.write(tail & self._mask, values)
            self._tail = tail + 1
            self._words[TAIL] = self._tail & MASK
            return tail - self._first

    def push_columns(self, columns: Mapping[str, Any]) -> int:
        """Queue as many messages as there is room for, without waiting; return how many.

        Args:
            columns: for each input an array of one number a message.

        Raises:
            ColumnError: if a column is missing, unknown, or does not fit.
            KernelTerminated: if the kernel has ended.
        """
        with self._lock:
            self._require("push")
            arrays, wanted = self._inputs.checked(columns)
            count = min(wanted, self._free())
            if count:
                self._inputs.write_many(self._tail & self._mask, arrays, count)
                self._tail += count
                self._words[TAIL] = self._tail & MASK
            return count

    def take(self, most: int | None = None) -> dict[str, Any]:
        """Return available replies, in the order of their messages, and free their slots.

        Args:
            most: greatest number of replies; None for all.

        Returns:
            For each output a new array of one number a reply, which may be empty.

        Raises:
            KernelTerminated: if the kernel has ended and every reply was taken.
        """
        if most is not None and (type(most) is not int or most < 0):
            raise InvalidConfigurationError("most", most, "takes a number of replies, or None")
        with self._lock:
            ready = self._ready()
            if not ready and self._words[STATE] not in (RUNNING, PAUSED):
                ready = self._ready()  # It may have ended just now.
                if not ready:
                    self._refuse("take")
            count = ready if most is None else min(ready, most)
            found = self._outputs.read_many(self._taken & self._mask, count)
            self._taken += count
            return found

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every queued message is handled.

        Raises:
            KernelTerminated: if the kernel ends before.
            QueueTimeoutError: if that takes longer.
        """
        timeout = seconds_of(timeout)
        with self._lock:
            if not self._is_handled() or self._words[STATE] == NOT_BEGUN:
                self._require("flush")
                self._wait_for_all("flush", timeout)

    @property
    def done(self) -> int:
        """Return the number of messages handled."""
        with self._lock:
            return self._look() - self._first

    @property
    def pending(self) -> int:
        """Return the number of queued messages that are not handled yet."""
        with self._lock:
            return self._tail - self._look()

    @property
    def ready(self) -> int:
        """Return the number of replies to take."""
        with self._lock:
            return self._ready()

    @property
    def free(self) -> int:
        """Return the number of messages that can be queued."""
        with self._lock:
            return self._free()

    def _is_handled(self) -> bool:
        return bool(self._words[DONE] == self._tail & MASK)

    def _ready(self) -> int:
        done = self._look()
        if not self._layout.outputs:
            self._taken = done
        return max(done - self._taken, 0)

    def _free(self) -> int:
        # The slot of an interrupted call counts as taken, and may not be handled yet.
        self._ready()
        return self.capacity - (self._tail - min(self._taken, self._done))

    def _prepare_call(self) -> None:
        """Raise if a call is not possible; wait for the message of an interrupted call."""
        self._require("call")
        if self._words[STATE] == PAUSED:
            raise KernelStateError(self.kernel_id, self.status, "call", "resume() it first")
        if self._layout.outputs and self._tail > self._taken:
            hint = "take() the replies of what was pushed first"
            raise KernelStateError(self.kernel_id, self.status, "call", hint)
        self._wait_for_all("call", None)
        self._is_open = True

    def _wait_for_all(self, operation: str, timeout: float | None) -> None:
        """Wait until every message is handled."""

        def check() -> None:
            if self._words[STATE] not in (RUNNING, PAUSED) and not self._is_handled():
                self._refuse(operation)

        if not wait_for(self._is_handled, timeout, check):
            raise QueueTimeoutError(self.kernel_id, timeout or 0, operation, self.status)
