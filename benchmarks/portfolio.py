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
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drawn import drawn_works, form_for
from drawn.summary import Run, summary, write_page
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
Call = Callable[[], object]


class Place:
    """Where a competitor has its arrays."""

    def __init__(self, key: str, machine: Machine) -> None:
        self.key, self._machine = key, machine

    def put(self, arguments: Arguments) -> Arguments:
        """Return arrays of its own with the same contents."""
        return {n: self._put(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}

    def _put(self, array: np.ndarray) -> Any:
        if self.key.startswith("torch"):
            import torch

            tensor = torch.from_numpy(array.copy())
            return tensor.cuda() if self._machine == "gpu" else tensor
        if self.key in ("numpy", "numba") or self._machine == "cpu":
            return array.copy()
        import taichi as ti

        kind = array.dtype.kind + str(8 * array.dtype.itemsize)
        device = ti.ndarray(getattr(ti, kind), array.shape)
        device.from_numpy(array)
        return device

    def get(self, array: Any) -> np.ndarray:
        """Return the host array with what one of its arrays holds."""
        if isinstance(array, np.ndarray):
            return array
        if self.key.startswith("torch"):
            return np.asarray(array.cpu())
        return np.asarray(array.to_numpy())

    def finish(self) -> None:
        """Wait until its device has done everything."""
        if self._machine == "cpu" or self.key in ("numpy", "numba"):
            return
        if self.key.startswith("torch"):
            import torch

            torch.cuda.synchronize()
        else:
            import taichi as ti

            ti.sync()


def call_of(key: str, work: Work, arguments: Arguments) -> Call | None:
    """Return a competitor's call, or None if it has no form for the work."""
    if key != "taichi" and not key.startswith("direct"):
        return form_for(key, work, arguments)
    import tikgen

    kernel = tikgen.build(work.template, **work.problem)
    if key != "taichi":
        kernel = kernel.with_engine(key)
    bound: Call = kernel.bind(**arguments)
    return bound


def measured(work: Work, arch: str) -> dict[str, Any]:
    """Return the seconds of a call of each competitor, and why others have none."""
    from timing import Turns

    host = work.arguments()
    expected = work.expected(host)
    calls: dict[str, Call] = {}
    places: dict[str, Place] = {}
    absent: dict[str, str] = {}
    for key in (*OURS[arch], *PEERS[work.machine]):
        place = Place(key, work.machine)
        try:
            arrays = place.put(host)
            call = call_of(key, work, arrays)
            if call is None:
                continue
            call()
            place.finish()
            # What a call returns is an array of its own where it wrote none of the arguments.
            rtol = work.rtol if key in OURS[arch] else work.peers_rtol
            for name, values in expected.items():
                error = work.error(place.get(arrays[name]), values)
                if not error <= (rtol or 0.0):
                    raise ValueError(f"WRONG: {name} is off by {error:.3g} of the greatest value")
            calls[key], places[key] = call, place
        except Exception as error:  # A competitor that fails is a result, and not the end.
            first = (str(error).strip() or repr(error)).splitlines()[0]
            absent[key] = f"{type(error).__name__}: {first[:160]}"
            if key in OURS[arch] and not key.startswith("direct"):
                traceback.print_exc()
    seconds = {}
    if "taichi" in calls and calls.keys() & PEERS[work.machine]:
        turns = Turns(
            calls,
            {key: place.finish for key, place in places.items()},
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
    end = time.monotonic() + budget
    rows = []
    for number, work in enumerate(itertools.islice(drawn_works(seed, machine), count)):
        if time.monotonic() > end:
            break
        rows.append(measured(work, arch))
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
