"""Parametrizes tests over a spread of combinations; the others run in ``make verify``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

Combination = tuple[Any, ...]


def spread(names: str, *axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize over all combinations, and mark as slow those that a spread can do without.

    The spread holds every value of two parameters, every pair of values of three, and so on: with
    any one parameter left out, every combination of the others. On an arch beside cpu it holds
    every value, and marks the rest of the spread with ``once``.

    Args:
        names: names of the parameters, separated by commas.
        axes: the values of each.
    """
    everything = list(itertools.product(*axes))
    kept = _covering(everything, _parts)
    everywhere = _covering(kept, enumerate)

    def mark(each: Combination) -> Sequence[pytest.MarkDecorator]:
        if each not in kept:
            return [pytest.mark.slow]
        return [] if each in everywhere else [pytest.mark.once]

    return pytest.mark.parametrize(
        names, [pytest.param(*each, marks=mark(each)) for each in everything]
    )


def _covering(
    combinations: Sequence[Combination], parts: Callable[[Combination], Iterable[Any]]
) -> list[Combination]:
    """Return some of the combinations that have every part which any of them has."""
    missing = {part for each in combinations for part in parts(each)}
    kept: list[Combination] = []
    while missing:
        best = max(combinations, key=lambda each: len(missing.intersection(parts(each))))
        missing.difference_update(parts(best))
        kept.append(best)
    return kept


def _parts(combination: Combination) -> Iterator[tuple[int, Combination]]:
    """Yield what is left of a combination without each of its values."""
    for place in range(len(combination)):
        yield place, combination[:place] + combination[place + 1 :]
