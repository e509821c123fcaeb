"""Errors of buffers, devices and tasks, with the names and attributes of PyDotCompute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tikgen.errors import TikgenError


class RingError(TikgenError):
    """The base of every error of :mod:`tikgen.ring`."""

    @staticmethod
    def _actor(kernel_id: str, state: str = "") -> str:
        """Return the beginning of a message about an actor."""
        return f"Actor {kernel_id!r}{f' ({state})' if state else ''}: "


class RuntimeClosed(RingError):
    """A runtime was used before it was started, or after it was shut down."""

    def __init__(self, operation: str, is_over: bool) -> None:
        state = "was shut down" if is_over else "was not started; use it in `async with`"
        super().__init__(f"Cannot {operation}: the runtime {state}")


class ValidationError(RingError):
    """A setting or a message is invalid."""


class InvalidConfigurationError(ValidationError):
    """A setting is invalid."""

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
    """Host and device cannot be synchronized."""

    def __init__(self, direction: str, cause: Exception | str) -> None:
        self.direction = direction
        self.cause = cause
        super().__init__(f"UnifiedBuffer: {direction}: {cause}")


class PoolExhausted(BufferError):
    """An array would exceed the limit of a pool."""

    def __init__(self, wanted: int, used: int, limit: int) -> None:
        self.wanted, self.used, self.limit = wanted, used, limit
        super().__init__(
            f"MemoryPool: {wanted} bytes beside the {used} in use would exceed the limit of "
            f"{limit} bytes; free buffers, or raise the limit"
        )


class BackendError(RingError):
    """Concerns a device or an arch."""


class BackendNotAvailableError(BackendError):
    """A device or an arch is missing, or does not work."""

    def __init__(self, backend_name: str, reason: str) -> None:
        self.backend_name = backend_name
        self.reason = reason
        super().__init__(f"{backend_name} is not available: {reason}")


class TaskFailed(RingError):
    """Tasks of an orchestrator failed, or were skipped because others failed."""

    def __init__(self, problems: Mapping[str, Any]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{name}: {what}" for name, what in problems.items()))
