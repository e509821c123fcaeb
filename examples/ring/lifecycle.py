"""The lifecycle of an actor: launched, activated, paused, resumed, ended, without losses."""

import asyncio

from tikgen.ring import KernelState, RingKernelRuntime, message, ring_kernel


@message
class Sample:
    value: float


# This body receives and sends until the actor ends. If no message comes for 0.1 s, receive raises,
# and the body is restarted.
@ring_kernel(kernel_id="processor", queue_size=4096)
async def processor(ctx):
    while not ctx.should_terminate:
        sample = await ctx.receive(timeout=0.1)
        await ctx.send(Sample(value=sample.value**2))


async def main():
    values = [0.5 * number for number in range(100)]
    async with RingKernelRuntime() as runtime:
        await runtime.launch("processor")  # Allocates what it needs; takes no messages yet.
        await runtime.activate("processor")
        await runtime.send_many("processor", [Sample(value) for value in values[:50]])
        squares = [(await runtime.receive("processor")).value for _ in range(50)]

        await runtime.deactivate("processor")  # Messages are queued, and none is handled.
        await runtime.send_many("processor", [Sample(value) for value in values[50:]])
        await asyncio.sleep(0.05)
        waiting = runtime.get_telemetry("processor").queue_depth
        print(f"{runtime.get_kernel_state('processor').name}, {waiting} messages wait")
        assert runtime.get_kernel_state("processor") is KernelState.DEACTIVATED and waiting == 50

        await runtime.reactivate("processor")
        end = await runtime.terminate("processor")  # Handles queued messages first.
        squares += [reply.value for reply in end.unreceived]
        print(f"{end.reason}: {end.processed} processed, {len(end.dropped)} dropped")

    error = max(abs(found - value**2) for found, value in zip(squares, values, strict=True))
    print(f"{len(squares)} replies, largest error {error:.1e}")
    assert error == 0


asyncio.run(main())
