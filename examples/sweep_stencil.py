"""A sweep: the same stencil in every precision, order and schedule, verified and timed.

It writes sweep.csv, sweep.png and roofline.png, and sweep.jsonl, which holds each measurement: run
it again and nothing is measured twice.
"""

import tikgen

result = tikgen.sweep(
    "stencil",
    dim=3,
    dtype=["f32", "f64"],  # A list is an axis of the sweep,
    order=[2, 4],
    loop="rows",
    row_buffer=[0, 32],
    unroll=1,  # and anything else is one value.
    shape=[32, 64],  # As many points along each axis.
    rounds=3,
    results="sweep.jsonl",
)
print(result)

best = result.best("gb_per_s", dtype="f32")
print(
    f"best in f32: row_buffer={best['row_buffer']}, order={best['order']}, {best['shape']} points"
)
print(
    f"  {best['gb_per_s']:.1f} GB/s, where a copy of as many bytes reaches "
    f"{best['limit_gb_per_s']:.1f} GB/s"
)

result.save("sweep.csv")
result.plot("shape", "gb_per_s", "row_buffer", path="sweep.png")
result.roofline("roofline.png")

worst = max(row["worst"] for row in result.timed)
print(f"worst error: {worst:.0%} of what the tolerance allows")

assert len(result.timed) == 16
assert worst <= 1
