"""What goes wrong with buffers, devices and tasks: one class each, one message each.

The names are those of PyDotCompute, and so are the attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tikgen.errors import TikgenError


class RingError(TikgenError):
    """Is the base of every error of :mod:`tikgen.ring`."""

    @staticmethod
    def _actor(kernel_id: str, state: str = "") -> str:
        """Return what a message about an actor begins with."""
        return f"Actor {kernel_id!r}{f' ({state})' if state else ''}: "


class RuntimeClosed(RingError):
    """A runtime was used before it was started, or after it was shut down."""

    def __init__(self, operation: str, is_over: bool) -> None:
        state = "was shut down" if is_over else "was not started; use it in `async with`"
        super().__init__(f"Cannot {operation}: the runtime {state}")


class ValidationError(RingError):
    """A setting or a message is not what it should be."""


class InvalidConfigurationError(ValidationError):
    """A setting is of no use."""

    def __init__(self, parameter: str, value: object, reason: str) -> None:
        self.parameter = parameter
        self.value = value
        self.reason = reason
        super().__init__(f"{parameter}={value!r:.60}: {reason}")


class BufferError(RingError):
    """Concerns a buffer."""


class BufferNotAllocatedError(BufferError):
    """A buffer was used before ``allocate`` or after ``free``."""

    def __init__(self, was_freed: bool = False) -> None:
        problem = "was freed" if was_freed else "is not allocated; call allocate() first"
        super().__init__(f"UnifiedBuffer: the buffer {problem}")


class BufferSyncError(BufferError):
    """Host and device cannot be brought together."""

    def __init__(self, direction: str, cause: Exception | str) -> None:
        self.direction = direction
        self.cause = cause
        super().__init__(f"UnifiedBuffer: {direction}: {cause}")


class PoolExhausted(BufferError):
    """A pool cannot give memory without passing its limit."""

    def __init__(self, wanted: int, used: int, limit: int) -> None:
        self.wanted, self.used, self.limit = wanted, used, limit
        super().__init__(
            f"MemoryPool: {wanted} bytes more than the {used} in use would pass the limit of "
            f"{limit} bytes; free buffers, or raise the limit"
        )


class BackendError(RingError):
    """Concerns a device or an arch."""


class BackendNotAvailableError(BackendError):
    """A device or an arch is not there, does not work, or vanished."""

    def __init__(self, backend_name: str, reason: str) -> None:
        self.backend_name = backend_name
        self.reason = reason
        super().__init__(f"{backend_name} is not available: {reason}")


class TaskFailed(RingError):
    """A task of an orchestrator failed, or was not run because another one had failed."""

    def __init__(self, problems: Mapping[str, Any]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{name}: {what}" for name, what in problems.items()))
