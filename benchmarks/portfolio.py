"""Times works that are drawn at random against every peer, so that nothing can be tuned to them.

``python benchmarks/portfolio.py --arch cpu --seconds 600`` draws from a new seed, ``--seed N`` from
that one. Each result is checked, all peers take turns, and a ratio is the time of the best peer
over that of tikgen's bound kernel. ``--keep NAME`` keeps the run in
``benchmarks/results/portfolio-NAME.json`` beside the two before it, and writes
``docs/portfolio.md`` anew; ``--page`` only writes the page.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import random
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drawn import drawn_works, form_for
from drawn.summary import LABELS, Run, summary, write_page
from peers.checking import Wrong, checked_call
from peers.peer import Absent, Call, Peer
from timing import Turns
from works.work import Arguments, Machine, Work

RESULTS = Path(__file__).parent / "results"
ROUNDS, SECONDS_EACH = 7, 0.6
OURS = {"cpu": ("taichi", "direct-cpu"), "cuda": ("taichi", "direct-cuda"), "vulkan": ("taichi",)}
PEERS: dict[Machine, tuple[str, ...]] = {
    "cpu": ("numpy", "numba", "torch"),
    "gpu": ("torch", "torch_compile"),
    "lavapipe": ("numpy",),
}
RUNS_KEPT = 3


def competitors(arch: str, machine: Machine) -> dict[str, Peer | str]:
    """Return tikgen with each engine and the peers, or why one is absent."""
    from peers.tikgen_kernels import PLACES

    found: dict[str, Peer | str] = {
        engine: Peer(engine, engine, partial(own_call, engine), **PLACES[machine == "cpu"])
        for engine in OURS[arch]
    }
    for key in PEERS[machine]:
        prepare = partial(form_for, key)
        if not key.startswith("torch"):
            found[key] = Peer(key, LABELS[key], prepare)
            continue
        try:
            from peers.torch_calls import on_device

            found[key] = on_device(key, LABELS[key], prepare, machine)
        except (Absent, ImportError) as error:
            found[key] = str(error)
    return found


def own_call(engine: str, work: Work, arguments: Arguments) -> Call:
    """Return a bound kernel of tikgen's, with the defaults for the sizes of its arguments."""
    import tikgen

    kernel = tikgen.build(work.template, engine=engine, **work.problem)
    bound: Call = kernel.bind(**arguments)
    return bound


def measured(work: Work, arch: str, peers: Mapping[str, Peer | str]) -> dict[str, Any]:
    """Return the seconds of a call of each competitor, and why others have none."""
    host = work.arguments()
    expected = work.expected(host)
    calls: dict[str, Call] = {}
    finishes: dict[str, Call] = {}
    absent: dict[str, str] = {}
    for key, peer in peers.items():
        try:
            if not isinstance(peer, Peer):
                raise RuntimeError(peer)
            calls[key], _ = checked_call(peer, work, host, expected, key in OURS[arch])
            finishes[key] = peer.finish
        except Absent:
            continue
        except Wrong as reason:
            absent[key] = f"WRONG: {reason}"
        except Exception as error:  # A competitor that fails is a result, and not the end.
            first = (str(error).strip() or repr(error)).splitlines()[0]
            absent[key] = f"{type(error).__name__}: {first[:160]}"
    seconds = {}
    if "taichi" in calls and calls.keys() & PEERS[work.machine]:
        turns = Turns(
            calls,
            finishes,
            rounds=ROUNDS,
            seconds_each=SECONDS_EACH,
            # To wait for a GPU takes long against a short call.
            seconds_a_round=0.03 if work.machine == "gpu" else 0.01,
        )
        for _ in range(ROUNDS):
            turns.begin_round("taichi")
            turns.time("taichi")
        seconds = {key: timing.median for key, timing in turns.timings().items()}
    return {
        "template": work.template,
        "work": work.name,
        "bytes": sum(value.nbytes for value in host.values() if isinstance(value, np.ndarray)),
        "seconds": {key: float(f"{value:.4g}") for key, value in seconds.items()},
        "absent": absent,
    }


def run(arch: str, seed: int, budget: float, count: int) -> Run:
    """Draw and measure works until the time is over."""
    import taichi as ti

    from machine import description, kind

    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR)
    machine = kind(arch)
    peers = competitors(arch, machine)
    end = time.monotonic() + budget
    rows = []
    for number, work in enumerate(itertools.islice(drawn_works(seed, machine), count)):
        if time.monotonic() > end:
            break
        rows.append(measured(work, arch, peers))
        best = ", ".join(f"{key} {value:.3g}" for key, value in rows[-1]["seconds"].items())
        print(f"{number:4} {work.name}: {best} {rows[-1]['absent'] or ''}", flush=True)
        gc.collect()
    return Run(arch, seed, description(arch), rows)


def keep(name: str, found: Run) -> None:
    """Keep a run beside the last ones of the same name."""
    path = RESULTS / f"portfolio-{name}.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    runs = [*runs, vars(found)][-RUNS_KEPT:]
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", choices=list(OURS), default="cpu")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long works are drawn")
    parser.add_argument("--works", type=int, default=10**6, help="how many at most")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", metavar="NAME", help="keep the run, and write the page")
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    if not given.page:
        found = run(given.arch, given.seed, given.seconds, given.works)
        print("\n".join(summary([found])))
        if given.keep:
            keep(given.keep, found)
    if given.page or given.keep:
        write_page(RESULTS)


if __name__ == "__main__":
    main()
