"""The interface of engines, and the engine that runs a Python function on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tikgen.ring.actors.context import KernelContext
from tikgen.ring.errors import InvalidConfigurationError, TypeValidationError
from tikgen.ring.messages.columns import Columns

# Returned in place of a reply: the message has to go through the queue.
NOT_NOW = object()


class Engine:
    """The part of an actor that differs from engine to engine.

    Attributes:
        name: its name.
        is_direct: whether :meth:`answer_now` may answer.
    """

    name = ""
    is_direct = False

    def answer_now(self, message: Any) -> Any:
        """Return the reply to a message, or a future of it; ``NOT_NOW`` if it has to be queued."""

    @property
    def is_stopped(self) -> bool:
        """Return whether nothing of it runs any more, after :meth:`close`."""
        return True

    async def prepare(self) -> None:
        """Allocate memory and compile kernels: the first phase of a launch."""

    async def run(self, ctx: KernelContext) -> None:
        """Handle messages until ``ctx`` ends it."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop handling messages for now."""

    def resume(self) -> None:
        """Handle messages again."""

    async def close(self) -> None:
        """Release memory and kernels."""

    def block(self, messages: Any) -> tuple[Sequence[Any] | Any, int]:
        """Return messages as a block that the engine takes, and their number."""
        if isinstance(messages, Columns):  # From an engine of kernels.
            made = messages.messages()
        elif isinstance(messages, Mapping):
            raise TypeValidationError(
                "a list of messages", "columns, which engines of kernels take", "send_many"
            )
        else:
            made = list(messages)
        return made, len(made)


class HostEngine(Engine):
    """Runs a Python function on the event loop of the runtime."""

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
    """Return the number of positional arguments of a body: one or two."""
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
