"""What makes an actor work: the interface of engines, and the one that runs Python on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tikgen.ring.errors import InvalidConfigurationError, ReplyError, TypeValidationError
from tikgen.ring.messages.blocks import Columns

if TYPE_CHECKING:
    from tikgen.ring.actors.context import KernelContext


# Instead of a reply: the message has to go through the queue.
NOT_NOW = object()


class Engine:
    """The part of an actor that differs from engine to engine.

    Attributes:
        name: what it is called.
        is_direct: whether :meth:`answer_now` is worth asking.
    """

    name = ""
    is_direct = False

    def answer_now(self, message: Any) -> Any:
        """Return the reply to a message, or a future of it; ``NOT_NOW`` if it has to queue."""
        return NOT_NOW

    @property
    def is_stopped(self) -> bool:
        """Tell whether nothing of it runs any more, once it was closed."""
        return True

    async def prepare(self) -> None:
        """Get what it needs: memory, kernels. The first phase of a launch."""

    async def run(self, ctx: KernelContext) -> None:
        """Handle messages until ``ctx`` says that it is over."""
        raise NotImplementedError

    def pause(self) -> None:
        """Take note that no message is to be handled for now."""

    def resume(self) -> None:
        """Take note that messages are to be handled again."""

    async def close(self) -> None:
        """Give back what it has."""

    def block(self, messages: Any) -> tuple[Sequence[Any] | Any, int]:
        """Return messages as a block that the engine takes, and how many they are."""
        if isinstance(messages, Columns):  # Of an engine of kernels that is connected.
            made = messages.messages()
        elif isinstance(messages, Mapping):
            raise TypeValidationError(
                "a list of messages", "columns, which engines of kernels take", "send_many"
            )
        else:
            made = list(messages)
        return made, len(made)


class HostEngine(Engine):
    """Runs a Python function on the event loop of the runtime.

    Args:
        function: takes a context, and runs until it is told to end; or takes a context and a
            message, and returns the reply.
    """

    name = "host"

    def __init__(self, kernel_id: str, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_handler = _takes(kernel_id, function) == 2

    async def run(self, ctx: KernelContext) -> None:
        """Run the function."""
        if not self._is_handler:
            made = self._function(ctx)
            if inspect.isawaitable(made):
                await made
            return
        while True:
            await self._handle(ctx, await ctx.receive())

    async def _handle(self, ctx: KernelContext, message: Any) -> None:
        is_request = ctx.is_request(message)
        reply = self._function(ctx, message)
        if inspect.isawaitable(reply):
            reply = await reply
        if reply is not None:
            await ctx.send(reply, to=message)
        elif is_request and ctx.is_request(message):
            ctx.decline(message)


def _takes(kernel_id: str, function: Callable[..., Any]) -> int:
    """Return the number of arguments by position of a body: one or two."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in places and p.default is p.empty]
    if any(p.kind == p.VAR_POSITIONAL for p in parameters) and not needed:
        return 1
    if len(needed) not in (1, 2):
        raise InvalidConfigurationError(
            "kernel_func",
            function,
            f"the body of actor {kernel_id!r} takes (ctx), or (ctx, message)",
        )
    return len(needed)


def unanswered(kernel_id: str) -> ReplyError:
    """Return the error of a request that an actor did not answer."""
    return ReplyError(kernel_id, "did not answer the request")
