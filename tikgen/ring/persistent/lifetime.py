"""The lifecycle of a persistent kernel: start, pauses, end, and the reason of its end."""

from __future__ import annotations

import functools
import math
import os
import threading
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import LibraryError
from tikgen.ring.actors.waiting import seconds_of
from tikgen.ring.errors import (
    BackendNotAvailableError,
    InvalidConfigurationError,
    KernelStateError,
    KernelTerminated,
    QueueTimeoutError,
)
from tikgen.ring.persistent.handler import RingBody
from tikgen.ring.persistent.heartbeat import Heartbeat
from tikgen.ring.persistent.launch import Launch, wait_for
from tikgen.ring.persistent.layout import layout_of
from tikgen.ring.persistent.making import load_ring
from tikgen.ring.persistent.slots import SharedMemory, Slots
from tikgen.ring.persistent.words import (
    ABANDONED,
    COMMAND,
    DONE,
    DRAIN,
    END,
    FAILED,
    MASK,
    NOT_BEGUN,
    OF_PARENT,
    PAUSE,
    PAUSED,
    RUN,
    RUNNING,
    STATE,
    STATE_NAMES,
    STOPPED,
    TAIL,
    WORDS,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from tikgen.aot import Runtime

_MOST_SLOTS = 1 << 24
_MOST_WATCHDOG = 3600
_START_SECONDS = 60.0
# The first value of the counters of messages.
_FIRST = 0


class RingLifecycle:
    """A kernel that stays on the device, without its messages."""

    def __init__(
        self,
        kernel_id: str,
        inputs: Any,
        outputs: Any,
        handler: Any,
        *,
        state: Mapping[str, int | float] | None = None,
        capacity: int = 1024,
        arch: str = "cpu",
        device: int = 0,
        watchdog: float = 30.0,
        dtype: object = None,
    ) -> None:
        if not isinstance(kernel_id, str) or not kernel_id:
            raise InvalidConfigurationError("kernel_id", kernel_id, "takes a name")
        _check_capacity(capacity)
        if not isinstance(watchdog, int | float) or not 0 <= watchdog <= _MOST_WATCHDOG:
            problem = f"takes seconds up to {_MOST_WATCHDOG}, 0 for no watchdog"
            raise InvalidConfigurationError("watchdog", watchdog, problem)
        # Of another type are Assignments, which are slow to import.
        if not isinstance(handler, str | RingBody) and not hasattr(handler, "assignments"):
            problem = "takes assignments such as 'y = 2*x', or a RingBody"
            raise InvalidConfigurationError("handler", handler, problem)
        self.kernel_id = kernel_id
        self.capacity = capacity
        self.arch = arch
        self._device = device
        self._watchdog = float(watchdog)
        self._handler = handler
        self._layout = layout_of(kernel_id, inputs, outputs, state or {}, dtype)
        self._mask = capacity - 1
        self._lock = threading.Lock()
        self._launch: Launch | None = None
        self._words = _words_of(np.zeros(WORDS, np.uint32))
        # Whether a call needs no preparation, and whether the end was requested.
        self._is_open = self._is_ending = False
        # Messages pushed, messages handled, replies taken: unbounded, unlike the words.
        self._first = self._tail = self._done = self._taken = _FIRST
        _rings.add(self)

    def start(self) -> None:
        """Start the kernel; the first time, it is compiled and proved.

        Raises:
            BackendNotAvailableError: if the machine lacks the arch, or its memory.
            ExportError: if the kernel fails its proof.
            KernelStateError: if it was started before.
            ParameterError: if handler and columns do not match.
            UnsupportedOnArch: if no kernel can stay on the arch.
        """
        with self._lock:
            if self._launch is not None or self._words[STATE] != NOT_BEGUN:
                raise KernelStateError(self.kernel_id, self.status, "start", "make another ring")
            self._check_alone()
            runtime = load_ring(self._handler, self._layout, self.arch, self._device)
            try:
                self._launch = self._launched(runtime)
            except BaseException:
                runtime.close()
                raise
        if not wait_for(lambda: self._words[STATE] != NOT_BEGUN, _START_SECONDS):
            self._launch.close()
            raise QueueTimeoutError(self.kernel_id, _START_SECONDS, "start")
        if self._words[STATE] == FAILED:
            self._refuse("start")

    def _check_alone(self) -> None:
        """Raise if another kernel of this process stays on the GPU: CUDA would wait for its end."""
        for ring in list(_rings):
            if self.arch == ring.arch == "cuda" and ring is not self and ring.is_alive:
                problem = (
                    f"the kernel of {ring.kernel_id!r} stays there and blocks this process; stop "
                    "it first, use another process, or use engine='batch' for both"
                )
                raise BackendNotAvailableError("cuda", problem)

    def _launched(self, runtime: Runtime) -> Launch:
        layout = self._layout
        self._memory = memory = SharedMemory(runtime)
        control, first = memory.allocate(DType.i32, WORDS)
        handles = [first]
        found = []
        for columns in (layout.inputs, layout.outputs):
            made = {n: memory.allocate(d, self.capacity) for n, d in sorted(columns.items())}
            handles += [handle for _, handle in made.values()]
            found.append(Slots(self.kernel_id, columns, [made[name][0] for name in columns]))
        self._inputs, self._outputs = found
        self._reply = self._outputs.only
        held = {name: memory.allocate(layout.dtype, 1) for name in layout.state}
        handles += [handle for _, handle in held.values()]
        self._state = {name: array for name, (array, _) in held.items()}
        for name, value in layout.state.items():
            self._state[name][0] = value
        self._words = words = _words_of(control)
        words[TAIL] = words[DONE] = self._tail & MASK
        start = runtime.kernels["ring"].bind(*handles)
        heartbeat = Heartbeat(words, self.arch, self._watchdog)
        return Launch(runtime, start, words, heartbeat, f"tikgen-ring-{self.kernel_id}")

    def pause(self, timeout: float | None = 5.0) -> None:
        """Pause the kernel, and wait until it takes no further message.

        Raises:
            KernelStateError: if it was not started.
            KernelTerminated: if it has ended.
            QueueTimeoutError: if the kernel was busy for longer.
        """
        self._command(PAUSE, PAUSED, "pause", timeout)

    def resume(self, timeout: float | None = 5.0) -> None:
        """Resume the kernel; raises as :meth:`pause`."""
        self._command(RUN, RUNNING, "resume", timeout)

    def stop(self, timeout: float | None = 5.0) -> tuple[int, int]:
        """End the kernel after the messages that it has taken.

        Returns:
            The number of messages handled, and of those queued and not handled.

        Raises:
            QueueTimeoutError: if it takes longer.
        """
        return self._end(END, "stop", timeout)

    def drain(self, timeout: float | None = None) -> tuple[int, int]:
        """End the kernel after all queued messages; returns and raises as :meth:`stop`.

        Replies can still be taken.
        """
        return self._end(DRAIN, "drain", timeout)

    @property
    def status(self) -> str:
        """Return the state of the kernel as text: ``"running"``, ``"paused"`` and so on."""
        return STATE_NAMES[self._words[STATE]]

    @property
    def is_alive(self) -> bool:
        """Return whether the kernel is running or paused."""
        return self._words[STATE] in (RUNNING, PAUSED)

    @property
    def is_over(self) -> bool:
        """Return whether the kernel has ended, or was never started."""
        return self._launch is None or self._launch.is_over

    @property
    def state(self) -> dict[str, int | float]:
        """Return the state variables after some recent message; exact while it is paused."""
        if self._launch is None:
            return dict(self._layout.state)
        return {name: array[0].item() for name, array in self._state.items()}

    @property
    def error(self) -> BaseException | None:
        """Return the error that ended the kernel; None while it is alive, or if it was stopped."""
        return self._end_error() if self._words[STATE] >= ABANDONED else None

    def _command(self, command: int, awaited: int, operation: str, timeout: float | None) -> None:
        """Give a command, and wait until the kernel confirms it."""
        timeout = seconds_of(timeout)
        self._require(operation)
        words = self._words
        self._is_open = False
        words[COMMAND] = command
        check = functools.partial(self._require, operation)
        if not wait_for(lambda: words[STATE] == awaited, timeout, check):
            raise QueueTimeoutError(self.kernel_id, timeout or 0, operation, self.status)

    def _end(self, command: int, operation: str, timeout: float | None) -> tuple[int, int]:
        timeout = seconds_of(timeout)
        launch = self._launch
        if launch is None:
            if self._words[STATE] == NOT_BEGUN:
                self._words[STATE] = STOPPED
            return 0, 0
        if self._words[STATE] == OF_PARENT:
            raise self._end_error()
        self._is_open, self._is_ending = False, True
        self._words[COMMAND] = command
        is_over = launch.join(timeout)
        if not is_over or not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            raise QueueTimeoutError(self.kernel_id, timeout or 0, operation, self.status)
        try:
            handled = self._look()
            if launch.close.alive:
                self._keep_all()
                launch.close()
            return handled - self._first, self._tail - handled
        finally:
            self._lock.release()

    def _keep_all(self) -> None:
        """Keep the content of arrays and words when the runtime frees its memory."""
        own = self._memory.own
        self._outputs.move_to([own(array) for array in self._outputs.arrays])
        self._inputs.move_to([own(array) for array in self._inputs.arrays])
        self._state = {name: own(array) for name, array in self._state.items()}
        self._words = _words_of(np.array(self._words))

    def _look(self) -> int:
        """Return the number of messages handled, from the first value of the counter."""
        self._done += (self._words[DONE] - self._done) & MASK
        return self._done

    def _require(self, operation: str) -> None:
        """Raise unless the kernel is alive, and no end was requested."""
        if self._words[STATE] not in (RUNNING, PAUSED) or self._is_ending:
            self._refuse(operation)

    def _refuse(self, operation: str) -> NoReturn:
        """Raise the reason why the kernel is not alive."""
        if self._words[STATE] == NOT_BEGUN:
            raise KernelStateError(self.kernel_id, self.status, operation, "start() it first")
        raise self._end_error()

    def _end_error(self) -> Exception:
        state = self._words[STATE]
        cause = self._launch.error if self._launch is not None else None
        if state == FAILED and isinstance(cause, LibraryError) and self.arch != "cpu":
            return BackendNotAvailableError(self.arch, str(cause))
        problem = {
            RUNNING: "is being stopped",
            PAUSED: "is being stopped",
            ABANDONED: f"saw no heartbeat of this process for {self._watchdog:g} s",
            FAILED: f"failed: {cause}" if cause else "ended for an unknown reason",
            OF_PARENT: "belongs to the process from which this one was forked; make another ring",
        }.get(state, "was stopped")
        error = KernelTerminated(self.kernel_id, problem, self.status)
        error.__cause__ = cause
        return error

    def _leave_to_parent(self) -> None:
        """Leave the kernel to the parent of this forked process."""
        self._lock = threading.Lock()
        if self._launch is not None:
            self._launch.detach()
            # Not the memory itself: a fork has none of the GPU.
            self._words = _words_of(np.zeros(WORDS, np.uint32))
            self._words[STATE] = OF_PARENT
            self._words[DONE] = self._tail & MASK

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._words[STATE] != OF_PARENT:
            self.stop()

    def __repr__(self) -> str:
        layout = self._layout
        takes, gives = (
            ", ".join(f"{n}: {d}" for n, d in c.items()) for c in (layout.inputs, layout.outputs)
        )
        where = f"on {self.arch}, {self.status}"
        return f"<{type(self).__name__} {self.kernel_id!r} ({takes}) -> ({gives}) {where}>"


def _words_of(control: Any) -> memoryview[int]:
    """Return control words as a view of unsigned numbers, faster than NumPy."""
    found: memoryview[int] = memoryview(control.view(np.uint32))
    return found


def _check_capacity(capacity: int) -> None:
    if type(capacity) is int and 1 <= capacity <= _MOST_SLOTS and not capacity & (capacity - 1):
        return
    near = ""
    if type(capacity) is int and 1 < capacity < _MOST_SLOTS:
        near = f", such as {1 << math.ceil(math.log2(capacity))}"
    raise InvalidConfigurationError(
        "capacity", capacity, f"takes a power of two up to {_MOST_SLOTS}{near}"
    )


_rings: weakref.WeakSet[RingLifecycle] = weakref.WeakSet()


def _discard_in_child() -> None:
    for ring in [*_rings]:
        ring._leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_discard_in_child)
