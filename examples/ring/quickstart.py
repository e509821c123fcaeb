"""Actors in a minute: two message types, one actor, a request and its reply."""

import asyncio

from tikgen.ring import RingKernelRuntime, message, ring_kernel


@message
class Values:
    values: list[float]


@message
class Total:
    total: float


# The body of the actor, called for each message. Its return value is the reply.
@ring_kernel(kernel_id="adder", input_type=Values, output_type=Total)
async def adder(ctx, request):
    return Total(total=sum(request.values))


async def main():
    async with RingKernelRuntime() as runtime:
        await runtime.launch("adder")
        await runtime.activate("adder")

        # Many requests at once: each gets its own reply.
        lists = [[0.5 * k, 1.0, 2.0 * n] for n in range(10) for k in range(10)]
        requests = [runtime.send_and_receive("adder", Values(values)) for values in lists]
        replies = await asyncio.gather(*requests)

        error = max(
            abs(reply.total - sum(values)) for values, reply in zip(lists, replies, strict=True)
        )
        print(f"{len(replies)} replies, largest error {error:.1e}")
        print(runtime.get_telemetry("adder"))
        assert error == 0


asyncio.run(main())
