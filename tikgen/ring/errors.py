"""Errors of actors and their messages, with the names and attributes of PyDotCompute."""

from __future__ import annotations

from collections.abc import Iterable

from tikgen.buffers.errors import BackendError as BackendError
from tikgen.buffers.errors import BackendNotAvailableError as BackendNotAvailableError
from tikgen.buffers.errors import BufferError as BufferError
from tikgen.buffers.errors import BufferNotAllocatedError as BufferNotAllocatedError
from tikgen.buffers.errors import BufferSyncError as BufferSyncError
from tikgen.buffers.errors import InvalidConfigurationError as InvalidConfigurationError
from tikgen.buffers.errors import PoolExhausted as PoolExhausted
from tikgen.buffers.errors import RingError as RingError
from tikgen.buffers.errors import RuntimeClosed as RuntimeClosed
from tikgen.buffers.errors import TaskFailed as TaskFailed
from tikgen.buffers.errors import ValidationError as ValidationError
from tikgen.errors import KernelCompileError, TikgenError, near


class KernelError(RingError):
    """Concerns one actor: its ``kernel_id``, and its ``state`` at that time."""

    def __init__(self, kernel_id: str, problem: str, state: str = "") -> None:
        self.kernel_id = kernel_id
        self.state = state
        super().__init__(self._actor(kernel_id, state) + problem)


class KernelNotFoundError(KernelError):
    """An actor was not launched, or not defined."""

    def __init__(
        self, kernel_id: str, available: Iterable[str] = (), verb: str = "launched"
    ) -> None:
        self.available = sorted(available)
        hint = near(kernel_id, self.available) if isinstance(kernel_id, str) else ""
        listed = ", ".join(self.available) or "none"
        super().__init__(kernel_id, f"was not {verb}.{hint} {verb.capitalize()}: {listed}")


class KernelAlreadyExistsError(KernelError):
    """An actor was launched under a name that is taken."""

    def __init__(self, kernel_id: str, state: str) -> None:
        super().__init__(kernel_id, "is launched already; terminate it first", state)


class KernelStateError(KernelError):
    """The state of an actor does not allow an operation."""

    def __init__(self, kernel_id: str, current_state: str, operation: str, hint: str = "") -> None:
        self.current_state = current_state
        self.operation = operation
        super().__init__(
            kernel_id, f"cannot {operation}{'; ' if hint else ''}{hint}", current_state
        )


class KernelFailed(KernelError):
    """An actor raised; ``__cause__`` is what it raised."""


class KernelTerminated(KernelError):
    """An actor ended before it answered or took a message."""


class WrongLoop(RingError):
    """A runtime was used from another event loop or thread than the one that started it."""

    def __init__(self, kernel_id: str, operation: str) -> None:
        self.kernel_id = kernel_id
        begin = f"{self._actor(kernel_id)}cannot" if kernel_id else "Cannot"
        super().__init__(
            f"{begin} {operation} from another event loop or thread than that of the runtime; use "
            "asyncio.run_coroutine_threadsafe(..., runtime.loop), or "
            "runtime.loop.call_soon_threadsafe(...) for a plain method"
        )


class ReplyError(KernelError):
    """An actor's reply cannot be matched with a request."""


class MessageError(RingError):
    """A message is of the wrong type, does not fit, or cannot be read."""


class TypeValidationError(MessageError, ValidationError):
    """A message, or one of its fields, is of another type than the actor takes."""

    def __init__(
        self, expected: str, actual: str, context: str, kernel_id: str = "", state: str = ""
    ) -> None:
        self.expected = expected
        self.actual = actual
        self.context = context
        self.kernel_id = kernel_id
        self.state = state
        actor = self._actor(kernel_id, state) if kernel_id else ""
        super().__init__(f"{actor}{context} takes {expected}; got {actual}")


class MessageTypeError(MessageError, TypeError):
    """A class cannot be a message, or something is no message type."""


class MessageValueError(MessageError, ValueError):
    """A number that describes messages is out of range."""


class MessageSerializationError(MessageError):
    """A message cannot be written as MessagePack."""

    def __init__(self, message_type: type, cause: Exception | str) -> None:
        self.message_type = message_type
        self.cause = cause
        super().__init__(f"{message_type.__name__} cannot be written as MessagePack: {cause}")


class MessageDeserializationError(MessageError):
    """Bytes hold no message, or one of another type."""

    def __init__(self, message_type: type, cause: Exception | str) -> None:
        self.message_type = message_type
        self.cause = cause
        super().__init__(f"The bytes hold no {message_type.__name__}: {cause}")


class ColumnError(MessageError):
    """A message does not fit the columns of a kernel."""

    def __init__(self, column: str, problem: str, kernel_id: str = "") -> None:
        self.column = column
        self.problem = problem
        self.kernel_id = kernel_id
        actor = self._actor(kernel_id) if kernel_id else ""
        super().__init__(f"{actor}column {column!r} {problem}")

    def of(self, kernel_id: str) -> ColumnError:
        """Return the same error, about an actor."""
        return ColumnError(self.column, self.problem, kernel_id)


class QueueError(RingError):
    """Concerns the queue of an actor."""


class QueueFullError(QueueError):
    """A queue is full, and its policy is ``reject``, or its own actor would wait for room."""

    def __init__(
        self, kernel_id: str, queue_size: int, state: str = "", *, by_itself: bool = False
    ) -> None:
        self.kernel_id = kernel_id
        self.queue_size = queue_size
        self.state = state
        why = "; it sends to itself, and would wait forever" if by_itself else ""
        full = f"its input queue is full with {queue_size} messages"
        super().__init__(f"{self._actor(kernel_id, state)}{full}{why}")


class QueueTimeoutError(QueueError, TimeoutError):
    """A queue or a reply took longer than the time-out."""

    def __init__(self, kernel_id: str, timeout: float, operation: str, state: str = "") -> None:
        self.kernel_id = kernel_id
        self.timeout = timeout
        self.operation = operation
        self.state = state
        actor = self._actor(kernel_id, state)
        super().__init__(f"{actor}{operation} took longer than {timeout:g} s")


class DeadlineExceeded(QueueTimeoutError):
    """A message was not handled before its deadline."""


class MessageDropped(QueueError):
    """A request was dropped by a full queue, or when its actor ended."""

    def __init__(self, kernel_id: str, reason: str) -> None:
        self.kernel_id = kernel_id
        self.reason = reason
        super().__init__(f"{self._actor(kernel_id)}the request was dropped: {reason}")


class BarrierBroken(RingError):
    """A barrier is broken: an actor stopped waiting, timed out or ended."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"Barrier {name!r} is broken: {reason}")


# Names of PyDotCompute for one error of tikgen.
PyDotComputeError = TikgenError
CUDAError = MetalError = BackendError
CompilationError = KernelCompilationError = MSLCompilationError = KernelCompileError
