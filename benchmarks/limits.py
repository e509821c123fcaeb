"""What the machine can do at best: move memory in a copy, multiply and add in registers."""

from collections.abc import Mapping
from dataclasses import dataclass

import taichi as ti

from peers import Peer
from peers.peer import Call
from works import WORKS, Work

# Whose copy is taken for the limit: the first of these that is there.
COPIERS = {"cpu": ("c", "numpy"), "gpu": ("torch", "default"), "lavapipe": ("numpy",)}
CHAINS = 8
STEPS = {"cpu": 200_000, "gpu": 4096, "lavapipe": 1024}
THREADS = {"gpu": 2**20, "lavapipe": 2**10}


@dataclass(frozen=True)
class Limit:
    """A call, and the bytes or operations that it gets done."""

    key: str
    call: Call
    finish: Call
    amount: float


def limit_of(work: Work, peers: Mapping[str, Peer | str]) -> Limit:
    """Return the limit that bounds a work."""
    return fma(work, peers) if work.limit == "fma" else copy(work, peers)


def copy(work: Work, peers: Mapping[str, Peer | str]) -> Limit:
    """Copy what no cache holds, with the peer that does nothing but that."""
    found = (peers[key] for key in COPIERS[work.machine] if isinstance(peers.get(key), Peer))
    peer: Peer = next(found)
    machine = "gpu" if work.machine == "gpu" else "cpu"
    task = next(w for w in WORKS if w.kind == "copy" and w.machine == machine)
    placed = {name: peer.place(array) for name, array in task.arguments().items()}
    return Limit("copy", peer.prepare(task, placed), peer.finish, task.cost.bytes)


def fma(work: Work, peers: Mapping[str, Peer | str]) -> Limit:
    """Multiply and add in registers, in chains that do not wait for each other."""
    steps = STEPS[work.machine]
    if work.machine == "cpu":
        from peers.c_openmp import fma_of

        call, operations = fma_of(steps)
        return Limit("fma", call, lambda: None, operations)
    threads = THREADS[work.machine]
    out = ti.ndarray(ti.f32, threads)
    return Limit("fma", lambda: chains(out, steps), ti.sync, 2.0 * CHAINS * steps * threads)


@ti.kernel
def chains(out: ti.types.ndarray(dtype=ti.f32, ndim=1), steps: ti.i32):
    for i in range(out.shape[0]):
        v = ti.Vector([0.1 * (n + i % 8) for n in range(CHAINS)])
        for _ in range(steps):
            v = v * v - 1.0  # Stays bounded, and two steps cannot be made one.
        out[i] = v.sum()
