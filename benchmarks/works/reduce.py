"""Reductions of a vector to one number."""

from functools import partial

from works.work import Target, Work

M = 2**20

# All numbers are positive: a sum that loses some shows. Peers that add in f32 one number after the
# other are off by up to 7e-3; they are timed, and the page says how far off they are.
rtols = {"rtol": 1e-5, "peers_rtol": 1e-2}
total = partial(Work, kind="sum", title="sum", template="reduce", problem={"op": "sum"}, **rtols)
dot = partial(Work, kind="dot", title="dot", template="reduce", problem={"op": "dot"}, **rtols)

on_cpu = (Target("taichi", 3), Target("numpy", 1))

WORKS = (
    total(size="16 M", machine="cpu", sizes={"n0": 16 * M}, targets=on_cpu),
    dot(size="16 M", machine="cpu", sizes={"n0": 16 * M}, targets=on_cpu),
    total(size="128 M", machine="gpu", sizes={"n0": 128 * M}, targets=(Target("torch", 1),)),
    dot(size="128 M", machine="gpu", sizes={"n0": 128 * M}),
    total(size="1 M", machine="lavapipe", sizes={"n0": M}),
    dot(size="1 M", machine="lavapipe", sizes={"n0": M}),
)
