"""Records of what an orchestrator ran: with which settings, how long, and how it ended."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from tikgen.buffers.errors import InvalidConfigurationError


@dataclass(frozen=True)
class KernelLaunchConfig:
    """How a kernel is to be launched.

    Args:
        grid_size: for kernels that are launched as ``kernel[grid, block](...)``. Taichi chooses
            grids itself: its kernels take none.
        block_size: likewise; with Taichi, it is a schedule parameter or ``ti.loop_config``.
        timeout: seconds that the launch may take, None for any time. What runs in the thread of
            the event loop cannot be interrupted.
        in_thread: whether it runs in a thread: plain functions do, unless this is False.

    Raises:
        InvalidConfigurationError: if a size or the time is not positive.
    """

    grid_size: tuple[int, ...] | int | None = None
    block_size: tuple[int, ...] | int | None = None
    timeout: float | None = None
    in_thread: bool | None = None

    def __post_init__(self) -> None:
        for name in ("grid_size", "block_size"):
            value = getattr(self, name)
            sizes = (value,) if isinstance(value, int) else value
            if sizes is not None:
                if not sizes or not all(type(size) is int and size > 0 for size in sizes):
                    raise InvalidConfigurationError(name, value, "takes positive integers")
                object.__setattr__(self, name, tuple(sizes))
        check_timeout(self.timeout)


def check_timeout(timeout: object) -> None:
    """Refuse what is neither None nor a positive number of seconds.

    Raises:
        InvalidConfigurationError: if it is.
    """
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout > 0):  # type: ignore[operator]
        raise InvalidConfigurationError("timeout", timeout, "takes positive seconds, or None")


@dataclass
class KernelExecution:
    """One run of a kernel or a task.

    Attributes:
        kernel_name: of the kernel or the task.
        config: how it was launched.
        start_time: when it began, in seconds of ``time.perf_counter``.
        end_time: when it ended.
        success: whether it did not fail.
        error: what it raised.
        result: what it returned; not kept in the history.
    """

    kernel_name: str = ""
    config: KernelLaunchConfig = field(default_factory=KernelLaunchConfig)
    start_time: float = 0.0
    end_time: float = 0.0
    success: bool = False
    error: BaseException | None = None
    result: Any = None
    execution_id: UUID = field(default_factory=uuid4)

    @property
    def duration_ms(self) -> float:
        """Return how long it took, in milliseconds; a launch on a GPU returns before it is done."""
        return (self.end_time - self.start_time) * 1000

    def without_result(self) -> KernelExecution:
        """Return the record for a history, which keeps no arrays alive."""
        return dataclasses.replace(self, result=None)
