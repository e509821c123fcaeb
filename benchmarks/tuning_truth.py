"""Tune works drawn at random, and measure anew whether each claim is true.

    python benchmarks/tuning_truth.py --tunings 10 --seed 7

Each work is a template with parameters and a shape that nobody chose. It is tuned with an empty
store; then the schedule that won and the default one meet again in fresh processes, in turn, on
data of another seed. A claim is true where it is within 10 % of what is found then, and the
schedule takes at most 1/0.97 of the default's time on every kind of typical data. The exit status
is 1 where a claim is not true. Without ``--seed`` a new one is taken, and printed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tikgen
from tikgen.errors import TikgenError
from tikgen.pipeline.builder import resolve
from tikgen.pipeline.rendering import Variant
from tikgen.template.shapes import shown
from tikgen.tuning import final
from tikgen.tuning.job import Job, Measurement
from tikgen.tuning.process import MeasuringProcess
from tikgen.tuning.result import TuneResult

NEAR = 0.10
LEAST = 0.97
# Elements of the largest array, and operations of a launch: cpu takes some milliseconds for them.
ELEMENTS = (2**12, 2**22)
MOST_FLOPS = 2**31
FLOATS = ("f32", "f64")
NUMBERS = (*FLOATS, "i32", "i64")
EXPRESSIONS = (
    "z = a*x + y",
    "y = x*x - y/(1 + x*x)",
    "z = where(x > y, x - y, y*y)",
    "z = sqrt(x*x + y*y); w = x/(z + 1)",
    "y = exp(-x*x)*sin(3*x)",
    "u = (x + y + z)/3; v = max(x, y, z) - min(x, y, z)",
    "y = 1 + x*(1 + x*(0.5 + x*(0.1666 + x*0.041666)))",
)
# What is drawn of each template; what is not named stays at its default.
WORKS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "map": {"expr": EXPRESSIONS, "dtype": FLOATS, "dim": (1, 2, 3)},
    "stencil": {
        "dim": (1, 2, 3),
        "order": (2, 4, 6, 8),
        "dtype": FLOATS,
        "boundary": ("interior", "zero", "clamp", "periodic"),
        "update": (False, True),
    },
    "reduce": {
        "op": ("sum", "min", "max", "mean", "argmax", "norm2", "dot", "any"),
        "dtype": NUMBERS,
        "dim": (1, 2, 3),
        "axis": (None, 0, 1, 2),
    },
    "scan": {"op": ("sum", "max", "prod"), "dtype": NUMBERS},
    "histogram": {
        "bins": (10, 64, 257, 1024, 4096),
        "dtype": (*NUMBERS, "u8"),
        "weighted": (False, True),
    },
    "gemm": {"dtype": FLOATS, "layout": ("nn", "nt", "tn"), "epilogue": (None, "max(v, 0)")},
    "spmv": {"dtype": FLOATS, "format": ("csr", "ell"), "index_dtype": ("i32", "i64")},
    "transpose": {"perm": ((1, 0), (0, 2, 1), (2, 0, 1), (2, 1, 0)), "dtype": NUMBERS},
}


@dataclass(frozen=True)
class Work:
    """A problem and its sizes."""

    template: str
    params: Mapping[str, Any]
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.template} {params}; {shown(self.sizes)}"

    def variant(self, arch: str, **more: Any) -> Variant:
        """Return its variant; without a schedule in ``more`` that of the arch's default."""
        return resolve(self.template, arch=arch, **self.params, **more)


def drawn(rng: random.Random, arch: str) -> Work:
    """Return a work that the arch can run."""
    while True:
        name = rng.choice(sorted(WORKS))
        params = {key: rng.choice(values) for key, values in WORKS[name].items()}
        try:
            variant = resolve(name, arch=arch, schedule={}, **params)
        except TikgenError:  # Some do not go together.
            continue
        if variant.template.unsupported(variant.problem, arch):
            continue
        template, problem = variant.template, variant.problem
        axes = max(len(getattr(a, "shape", ())) for a in template.arguments(problem))
        low, high = ELEMENTS
        side = (low * (high / low) ** rng.random()) ** (1 / axes)
        sizes = {
            s: max(2, int(side * 2 ** rng.uniform(-1, 1))) for s in template.size_symbols(problem)
        }
        if template.cost(problem, sizes).flops <= MOST_FLOPS:
            return Work(name, params, sizes)


def measured_again(
    work: Work, result: TuneResult, processes: int, arch: str, seed: int
) -> final.Verdict:
    """Return how the schedule that won compares with the default in fresh processes.

    As in tuning, more than ``processes`` are taken where they differ.
    """
    default = dict(result.default.schedule)
    best = dict(result.best.schedule)
    jobs = [
        Job.of(
            work.variant(arch, schedule=schedule),
            arch,
            work.sizes,
            seed=seed,
            rounds=2 * final.ROUNDS,
            least=final.LEAST_ROUNDS,
            is_verified=True,
        )
        for schedule in (best, default)
    ]
    found: list[Measurement] = []
    while len(found) < processes or (
        len(found) < final.MOST_PROCESSES and final.judge(found).is_wide
    ):
        with MeasuringProcess(arch, timeout=300) as process:
            found.append(process.run(*jobs))
        if not found[-1].ok:
            raise SystemExit(f"{work}: {found[-1].kind}: {found[-1].message}")
    return final.judge(found)


def main() -> None:
    """Tune, measure again, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tunings", type=int, default=10, help="how many works to tune")
    parser.add_argument("--seed", type=int, help="seed of all that is drawn")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each tuning")
    parser.add_argument("--processes", type=int, default=3, help="how often to measure again")
    parser.add_argument("--arch", default="cpu", choices=("cpu", "cuda", "vulkan"))
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    rng = random.Random(seed)
    print(f"seed {seed}, {given.arch}; how many times as fast as the default:")
    wrong = 0
    with tempfile.TemporaryDirectory() as store:
        os.environ["TIKGEN_CACHE_DIR"] = store  # Nobody tuned any of them before.
        for number in range(given.tunings):
            work = drawn(rng, given.arch)
            tune_seed, other_seed = rng.randrange(2**31), rng.randrange(2**31)
            result = tikgen.tune(
                work.template,
                shape=work.sizes,
                arch=given.arch,
                budget=given.budget,
                seed=tune_seed,
                **work.params,
            )
            print(f"{number + 1:3} {work}", flush=True)
            if result.best == result.default:
                print("    claims nothing: the default is kept", flush=True)
                continue
            claim, (low, high) = result.speedup or 0.0, result.interval or (0.0, 0.0)
            again = measured_again(work, result, given.processes, given.arch, other_seed)
            found = 1 / again.ratio
            is_true = abs(claim / found - 1) <= NEAR and 1 / again.worst >= LEAST
            wrong += not is_true
            print(
                f"    claim {claim:.3f} ({low:.3f} to {high:.3f}); again {found:.3f} "
                f"({1 / again.high:.3f} to {1 / again.low:.3f}), {1 / again.worst:.3f} at worst: "
                f"{'true' if is_true else 'NOT TRUE'}",
                flush=True,
            )
    print(f"{given.tunings - wrong} of {given.tunings} are true")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
