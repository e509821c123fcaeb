"""Strategies: in which order the schedules of a space are tried, and for how many rounds.

A strategy takes the space, a function that tries a point, and random numbers, and ends when
nothing is left to try or the function raises. The function returns the time of a point over that
of the default, infinite where it has none; to try a point again costs nothing.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable

from tikgen.errors import ParameterError, TikgenError
from tikgen.tuning.space import Point, Space

Try = Callable[[Point, int], float]
Strategy = Callable[[Space, Try, random.Random], None]

# Rounds of timing on each rung of halving; the best third of a rung climbs to the next.
RUNGS = (3, 7, 15)
ROUNDS = 7
# Spaces of up to this many points are tried completely, also where time is limited.
SMALL_SPACE = 40
_BATCH = 12
_OPTUNA_STALLS = 100


def exhaustive(space: Space, attempt: Try, rng: random.Random) -> None:
    """Try every point, in random order: a search that is cut short has seen all regions."""
    for point in rng.sample(space.points, len(space.points)):
        attempt(point, ROUNDS)


def halving(space: Space, attempt: Try, rng: random.Random) -> None:
    """Try random points briefly, the better ones longer, then the neighbours of the best one.

    Successive halving (Jamieson and Talwalkar 2016) with thirds and a climb from each winner,
    repeated with further random points until none is left.
    """
    rest = rng.sample(space.points, len(space.points))
    _climb(space, attempt, space.default)
    while rest:
        batch, rest = rest[:_BATCH], rest[_BATCH:]
        for rounds in RUNGS:
            scores = {point: attempt(point, rounds) for point in batch}
            batch = sorted(batch, key=scores.__getitem__)[: -(-len(batch) // 3)]
        _climb(space, attempt, batch[0])


def _climb(space: Space, attempt: Try, point: Point) -> None:
    """Move to the best neighbour until none is better."""
    while True:
        around = space.neighbours(point)
        scores = {other: attempt(other, RUNGS[0]) for other in around}
        best = min(around, key=scores.__getitem__, default=point)
        if best == point or attempt(best, RUNGS[1]) >= attempt(point, RUNGS[1]):
            return
        point = best


def optuna(space: Space, attempt: Try, rng: random.Random) -> None:
    """Let optuna's tree-structured Parzen estimator choose (Bergstra et al. 2011)."""
    import optuna as package

    package.logging.set_verbosity(package.logging.ERROR)
    sampler = package.samplers.TPESampler(seed=rng.randrange(2**32), multivariate=True)
    study = package.create_study(sampler=sampler)
    names = list(space.schedule(space.default))
    searched = [name for name, values in space.axes.items() if len(values) > 1]
    values = {name: _in_order(space.axes[name]) for name in searched}
    tried: set[Point] = set()
    stalled = 0
    study.enqueue_trial({n: values[n].index(space.default[names.index(n)]) for n in searched})
    while len(tried) < len(space.points) and stalled < _OPTUNA_STALLS:
        trial = study.ask()
        chosen = {n: values[n][trial.suggest_int(n, 0, len(values[n]) - 1)] for n in searched}
        point = tuple((space.schedule(space.default) | chosen).values())
        stalled = stalled + 1 if point in tried or point not in space else 0
        if point not in space:
            study.tell(trial, state=package.trial.TrialState.PRUNED)
            continue
        tried.add(point)
        score = attempt(point, ROUNDS)
        if score == float("inf"):
            study.tell(trial, state=package.trial.TrialState.PRUNED)
        else:
            study.tell(trial, score)


def _in_order(values: tuple[object, ...]) -> list[object]:
    """Return numbers in ascending order, anything else as it is."""
    if all(type(v) in (int, float) for v in values):
        return sorted(values)  # type: ignore[type-var]
    return list(values)


STRATEGIES: dict[str, Strategy] = {
    "exhaustive": exhaustive,
    "halving": halving,
    "optuna": optuna,
}


def choose(template: str, strategy: str, space: Space, is_unlimited: bool) -> str:
    """Return the name of the strategy that ``strategy``, possibly ``"auto"``, means.

    Raises:
        ParameterError: if there is no such strategy.
        TikgenError: if it needs a package that is not installed.
    """
    if not isinstance(strategy, str) or strategy not in ("auto", *STRATEGIES):
        takes = ", ".join(("auto", *STRATEGIES))
        raise ParameterError(template, {"strategy": f"takes one of {takes}; got {strategy!r}"})
    if strategy == "auto":
        complete = is_unlimited or len(space.points) <= SMALL_SPACE
        return "exhaustive" if complete else "halving"
    if strategy == "optuna" and importlib.util.find_spec("optuna") is None:
        raise TikgenError("The strategy 'optuna' needs optuna: pip install 'tikgen[optuna]'.")
    return strategy
